/*
 * hjg_device_id.h
 *	  A device's kind, number and name: cpu, cuda:N, opencl:N.
 *
 * Only this file parses and formats such names.
 */
#ifndef HJG_DEVICE_ID_H
#define HJG_DEVICE_ID_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "layout/hjg_layout.h"

/* KIND(id, name, engine, numbered): name in settings and views, and the engine that joins on the device. */
#define HJG_DEVICE_KINDS(KIND) \
	KIND(ANY, "auto", "none", false)	/* any device */ \
	KIND(CPU, "cpu", "cpu", false) \
	KIND(CUDA, "cuda", "cuda", true) \
	KIND(OPENCL, "opencl", "coupled", true)

typedef enum HjgDeviceKind
{
#define KIND(id, name, engine, numbered) HJG_KIND_##id,
	HJG_DEVICE_KINDS(KIND)
#undef KIND
	HJG_KIND_COUNT
} HjgDeviceKind;

typedef struct HjgDeviceId
{
	hjg_u32		kind;			/* HjgDeviceKind */
	int32_t		number;			/* from 0; HJG_NO_NUMBER: none, or any of the kind */
} HjgDeviceId;

#define HJG_NO_NUMBER (-1)

typedef struct HjgDeviceName
{
	char		text[32];
} HjgDeviceName;

typedef struct HjgDeviceKindFacts
{
	const char *name;
	const char *engine;
	bool		numbered;
} HjgDeviceKindFacts;

/* Return the facts of a kind; those of ANY for an invalid kind. */
static inline const HjgDeviceKindFacts *
hjg_device_kind(hjg_u32 kind)
{
	static const HjgDeviceKindFacts kinds[HJG_KIND_COUNT] = {
#define KIND(id, name, engine, numbered) {name, engine, numbered},
		HJG_DEVICE_KINDS(KIND)
#undef KIND
	};

	return &kinds[kind < HJG_KIND_COUNT ? kind : HJG_KIND_ANY];
}

static inline HjgDeviceName
hjg_device_name(HjgDeviceId id)
{
	HjgDeviceName name;

	if (id.number == HJG_NO_NUMBER)
		snprintf(name.text, sizeof(name.text), "%s", hjg_device_kind(id.kind)->name);
	else
		snprintf(name.text, sizeof(name.text), "%s:%d", hjg_device_kind(id.kind)->name, (int) id.number);
	return name;
}

/* Parse a name, case-insensitively; false if it is not one. */
static inline bool
hjg_device_parse(const char *text, HjgDeviceId *id)
{
	for (hjg_u32 kind = 0; kind < HJG_KIND_COUNT; kind++)
	{
		const HjgDeviceKindFacts *facts = hjg_device_kind(kind);
		const size_t n = strlen(facts->name);
		const char *digits = text + n + 1;
		const size_t ndigits = strncasecmp(text, facts->name, n) == 0 && text[n] == ':' ? strspn(digits, "0123456789") : 0;

		if (!facts->numbered && strcasecmp(text, facts->name) == 0)
		{
			*id = (HjgDeviceId) {.kind = kind, .number = HJG_NO_NUMBER};
			return true;
		}
		if (!facts->numbered || ndigits < 1 || ndigits > 3 || digits[ndigits] != '\0')
			continue;
		*id = (HjgDeviceId) {.kind = kind};
		for (size_t i = 0; i < ndigits; i++)
			id->number = 10 * id->number + (digits[i] - '0');
		return true;
	}
	return false;
}

#endif							/* HJG_DEVICE_ID_H */
