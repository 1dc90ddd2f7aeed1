/*
 * lab_cuda_bench_names.c
 *	  Benchmark of the resident joins: names of contestants, their settings, and sets of strategies.
 */
#include <stdlib.h>
#include <string.h>

#include "lab/hjg_cuda_bench.h"

/* Sets: every strategy whose name has the prefix. */
static const struct
{
	const char *set;
	const char *prefix;
}			sets[] = {{"nops", "nop_"}, {"bshs", "bsh"}, {"prbcs", "prbc"}, {"all", ""}};

/* Find strategies by name; NULL: there is none. */
static const HjgCudaStrategy *
strategy_of(const char *name, size_t length)
{
	const HjgCudaStrategy *strategy;

	for (int i = 0; (strategy = hjg_cuda_strategy_at(i)) != NULL; i++)
		if (strlen(strategy->name) == length && strncmp(strategy->name, name, length) == 0)
			return strategy;
	return NULL;
}

/* Read one setting. */
static bool
read_setting(const char *text, size_t length, HjgCudaPaperTuning *tuning)
{
	const struct
	{
		const char *name;		/* with = in the end: a number follows */
		hjg_u32    *value;
	}			all[] = {
		{"part=", &tuning->part_rows}, {"bits=", &tuning->bits}, {"page=", &tuning->page_pairs},
		{"bucket=", &tuning->bucket_bits}, {"between=", &tuning->between_bits}, {"full", &tuning->full_blocks},
		{"vt=", &tuning->vt}, {"one_stream", &tuning->one_stream}
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
	{
		const size_t n = strlen(all[i].name);
		const bool	number = all[i].name[n - 1] == '=';

		if (strncmp(text, all[i].name, n) != 0 || (!number && length != n))
			continue;
		*all[i].value = number ? (hjg_u32) strtoul(text + n, NULL, 10) : 1;
		return *all[i].value != 0;
	}
	if (strncmp(text, "uva", 3) != 0)
		return false;
	tuning->moving = length == 8 && strncmp(text, "uva_load", 8) == 0 ? HJG_LAB_BY_UVA_LOAD : HJG_LAB_BY_UVA;
	tuning->rows_on_host = length == 7 && strncmp(text, "uva_all", 7) == 0;
	return length == 3 || tuning->rows_on_host || tuning->moving == HJG_LAB_BY_UVA_LOAD;
}

bool
hjg_bench_entrant_of(const char *name, HjgBenchEntrant *entrant)
{
	const size_t length = strcspn(name, "/");

	*entrant = (HjgBenchEntrant) {.strategy = strategy_of(name, length)};
	entrant->best = length == 4 && strncmp(name, "best", length) == 0;
	entrant->on_cpu = strcmp(name, "cpu") == 0 || strcmp(name, "cpu_nop") == 0;
	entrant->cpu = strcmp(name, "cpu_nop") == 0 ? HJG_CPU_NOP : HJG_CPU_AUTO;
	if (entrant->strategy == NULL && !entrant->best && !entrant->on_cpu)
		return false;
	for (const char *at = name + length; *at == '/'; at += 1 + strcspn(at + 1, "/"))
		if (!read_setting(at + 1, strcspn(at + 1, "/"), &entrant->tuning))
			return false;
	return true;
}

/* Keep a copy of a name of the command line, for the rest of the run. */
static const char *
keep_name(const char *text, size_t length)
{
	char	   *name = malloc(length + 1);

	if (name == NULL)
		return NULL;
	memcpy(name, text, length);
	name[length] = '\0';
	return name;
}

bool
hjg_bench_names_of(const char *text, const char *names[HJG_BENCH_MOST])
{
	int			n = 0;

	while (*text != '\0')
	{
		const size_t length = strcspn(text, ",");
		const char *prefix = NULL;
		const int	before = n;

		for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
			if (strlen(sets[i].set) == length && strncmp(text, sets[i].set, length) == 0)
				prefix = sets[i].prefix;
		for (int i = 0; prefix != NULL && hjg_cuda_strategy_at(i) != NULL && n < HJG_BENCH_MOST - 1; i++)
			if (strncmp(hjg_cuda_strategy_at(i)->name, prefix, strlen(prefix)) == 0)
				names[n++] = hjg_cuda_strategy_at(i)->name;
		if (prefix == NULL && n < HJG_BENCH_MOST - 1)
		{
			const char *name = keep_name(text, length);
			HjgBenchEntrant entrant;

			if (name == NULL || !hjg_bench_entrant_of(name, &entrant))
				return false;
			names[n++] = name;
		}
		if (n == before)
			return false;
		text += length + (text[length] == ',');
	}
	names[n] = NULL;
	return n > 0;
}
