/*
 * test_main.c
 *	  test_engine [--short] [seed]: all engine tests, as TAP.
 */
#include <getopt.h>
#include <time.h>

#include "hjg_test_coupled.h"
#include "hjg_test_engine.h"

int
main(int argc, char **argv)
{
	static const char *const names[] = {"short", NULL};

	short_run = test_options(argc, argv, names) != 0;
	set_test_seed(optind < argc ? strtoull(argv[optind], NULL, 0) : (hjg_u64) time(NULL));
	printf("# seed %llu%s\n", (unsigned long long) test_seed, short_run ? ", short run" : "");
	test_hash();
	test_bloom();
	test_pool();
	test_pack();
	test_stage();
	test_join();
	test_direct();
	test_resume();
	test_shared();
	test_faults();
	test_costs();
	test_sides();
	test_coupled();
	printf("1..%d\n", claims_passed + claims_failed);
	printf("# %d passed, %d failed\n", claims_passed, claims_failed);
	return claims_failed > 0;
}
