/*
 * device_opencl_regions.c
 *	  Regions of host memory lent to a device: buffers over them, or copies and the side that has the
 *	  valid one.
 *
 * A device that works in place has a buffer over each region.  A device with its own memory has a buffer
 * there, empty at first, and each crossing of bytes is one copy.  Copies to the host have their own queue,
 * so that the CPU's threads wait for the bytes that they are about to read, but not for launches queued
 * behind.  The engine makes sure that the work that writes these bytes has ended.
 */
#include "device/hjg_opencl.h"

#ifdef HJG_HAVE_OPENCL

/* Drop a region.  is_idle: nothing queued uses its buffer, so another join may have it. */
static void
drop_region(HjgClRegions *of, HjgClRegion *region, bool is_idle)
{
	if (region->buffer != NULL && of->copies && is_idle && !of->failed)
		hjg_cl_pool_give(of->device, region->buffer, region->bytes);
	else if (region->buffer != NULL)
		of->device->api->release_mem(region->buffer);
	hjg_cl_spans_free(&region->spans);
	*region = (HjgClRegion) {.base = NULL};
}

/* Find the region that begins at base; NULL when there is none. */
static HjgClRegion *
find_region(HjgClRegions *of, const void *base)
{
	for (int i = 0; i < of->n; i++)
		if (of->regions[i].base == base && base != NULL)
			return &of->regions[i];
	return NULL;
}

/* Find a free entry; an entry with copies is never replaced, because its spans would be lost. */
static HjgClRegion *
free_one(HjgClRegions *of)
{
	HjgClRegion *region;

	for (int i = 0; i < of->n; i++)
		if (of->regions[i].base == NULL)
			return &of->regions[i];
	if (of->n < HJG_CL_MAX_REGIONS)
		return &of->regions[of->n++];
	if (of->copies)
		return NULL;
	region = &of->regions[of->next++ % HJG_CL_MAX_REGIONS];
	drop_region(of, region, false);
	return region;
}

static HjgClRegion *
lend_region(HjgClRegions *of, const HjgMemory *memory)
{
	HjgClRegion *region = find_region(of, memory->base);

	if (region != NULL && region->bytes == memory->bytes)
		return region;
	if (region != NULL)
		drop_region(of, region, false);
	region = free_one(of);
	if (region != NULL)
		*region = (HjgClRegion) {.base = memory->base, .bytes = memory->bytes};
	return region;
}

cl_mem
hjg_cl_region_buffer(HjgClRegions *of, const HjgMemory *memory)
{
	HjgClRegion *region = lend_region(of, memory);
	cl_int		error;

	if (region == NULL || region->buffer != NULL)
		return region == NULL ? NULL : region->buffer;
	if (of->copies)
		region->buffer = hjg_cl_pool_take(of->device, memory->bytes, &error);
	else
		region->buffer = of->device->api->create_buffer(of->device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, memory->bytes,
														memory->base, &error);
	if (error != CL_SUCCESS)
		region->buffer = NULL;
	return region->buffer;
}

/* Copy bytes [begin, end) that only the other side has. */
static cl_int
copy_bytes(HjgClRegions *of, HjgProcessor to, const HjgMemory *memory, cl_mem buffer, hjg_u64 begin, hjg_u64 end, cl_event *first)
{
	const HjgClApi *api = of->device->api;
	cl_event   *event = first != NULL && *first == NULL ? first : NULL;

	of->ncopies[to]++;
	of->crossed_bytes[to] += end - begin;
	return to == HJG_ON_DEVICE ?
		api->enqueue_write(of->queue, buffer, CL_FALSE, begin, end - begin, memory->base + begin, 0, NULL, event) :
		api->enqueue_read(of->back, buffer, CL_FALSE, begin, end - begin, memory->base + begin, 0, NULL, event);
}

cl_int
hjg_cl_cross(HjgClRegions *of, HjgProcessor to, const HjgMemory *memory, const HjgRange *ranges, int nranges, cl_event *first)
{
	const HjgClPlace mine = to == HJG_ON_DEVICE ? HJG_CL_ON_DEVICE : HJG_CL_ON_HOST;
	const HjgClPlace others = to == HJG_ON_DEVICE ? HJG_CL_ON_HOST : HJG_CL_ON_DEVICE;
	HjgClRegion *region = lend_region(of, memory);
	cl_int		error = region == NULL ? CL_OUT_OF_HOST_MEMORY : CL_SUCCESS;

	for (int i = 0; i < nranges && error == CL_SUCCESS; i++)
	{
		const hjg_u64 end = ranges[i].off + ranges[i].bytes;
		hjg_u64		from = ranges[i].off;
		hjg_u64		until;

		while (ranges[i].reads && error == CL_SUCCESS && (until = hjg_cl_spans_next(&region->spans, others, &from, end)) > 0)
		{
			const cl_mem buffer = hjg_cl_region_buffer(of, memory);

			error = buffer == NULL ? CL_MEM_OBJECT_ALLOCATION_FAILURE : copy_bytes(of, to, memory, buffer, from, until, first);
			if (error == CL_SUCCESS && !hjg_cl_spans_set(&region->spans, from, until, HJG_CL_ANYWHERE))
				error = CL_OUT_OF_HOST_MEMORY;
			from = until;
		}
		if (error == CL_SUCCESS && ranges[i].writes && !hjg_cl_spans_set(&region->spans, ranges[i].off, end, mine))
			error = CL_OUT_OF_HOST_MEMORY;
	}
	return error;
}

cl_int
hjg_cl_region_fetch(HjgClRegions *of, const void *base, size_t off, size_t bytes, void *into)
{
	const HjgClRegion *region = find_region(of, base);

	return region == NULL || region->buffer == NULL ? CL_INVALID_MEM_OBJECT :
		of->device->api->enqueue_read(of->back, region->buffer, CL_TRUE, off, bytes, into, 0, NULL, NULL);
}

void
hjg_cl_region_forget(HjgClRegions *of, const void *base)
{
	HjgClRegion *region = find_region(of, base);

	if (region != NULL)
		drop_region(of, region, true);
}

void
hjg_cl_regions_free(HjgClRegions *of)
{
	for (int i = 0; i < of->n; i++)
		drop_region(of, &of->regions[i], true);
	if (of->queue != NULL)
		of->device->api->release_queue(of->queue);
	if (of->back != NULL)
		of->device->api->release_queue(of->back);
	of->queue = of->back = NULL;
}

#endif							/* HJG_HAVE_OPENCL */
