/*
 * hjg_test_stub.h
 *	  Variables of the emulated libcuda (stub_libcuda.c) that tests in its process set and read.
 */
#ifndef HJG_TEST_STUB_H
#define HJG_TEST_STUB_H

#include <dlfcn.h>
#include <stddef.h>

typedef struct HjgStub
{
	long		calls;
	long		fail_at;		/* 0: never */
	int			fail_code;
	long		hang_at;
	long		stall_at;
	long		latency_us;		/* least time from an event's record until a query of it succeeds */
	size_t		memory_bytes;
	size_t		used_bytes;
	long		live_objects;	/* streams, events, blocks of device and of pinned memory */
	long		live_regions;
	long		in_flight;		/* operations queued and not known to have ended */
	int			broken;			/* code of a lasting error */
} HjgStub;

/* Find the stub; NULL when a real library is loaded, or none. */
static inline HjgStub *
hjg_stub_find(void)
{
	void	   *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

	return library != NULL ? (HjgStub *) dlsym(library, "hjg_stub") : NULL;
}

#endif							/* HJG_TEST_STUB_H */
