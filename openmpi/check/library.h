/* The library, as far as checks of btl/vshmem without a pool need it. What a lane takes is each
 * check's own. */
#pragma once

#include "btl_vshmem.h"

#include <stdint.h>
#include <stdlib.h>

struct vshmem_btl vshmem_btl;

uint32_t vshmem_lane_most_bytes(const vshmem_lane *lane)
{
	(void)lane;
	return 1 << 20;
}

void vshmem_lane_close(vshmem_lane *lane) { (void)lane; }

void vshmem_say(const char *format, ...) { (void)format; }

void vshmem_abort(const char *format, ...)
{
	(void)format;
	abort();
}

int vshmem_btl_free(struct mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *descriptor)
{
	(void)btl, (void)descriptor;
	abort();
}

int vshmem_post(vshmem_lane *lane, const void *head, uint32_t head_bytes, const void *text,
	uint32_t text_bytes, uint8_t tag)
{
	(void)lane, (void)head, (void)head_bytes, (void)text, (void)text_bytes, (void)tag;
	abort();
}

static inline struct vshmem_wire reply_to(uint8_t tag, const struct vshmem_wire *request)
{ return (struct vshmem_wire) { .answered = tag, .token = request->token }; }

/* The module without memory of a pool. */
static inline bool open_module(void)
{
	vshmem_btl.base = malloc(1);
	vshmem_btl.bytes = 0;
	vshmem_btl.super.btl_max_send_size = 32760;
	OBJ_CONSTRUCT(&vshmem_btl.lock, opal_mutex_t);
	OBJ_CONSTRUCT(&vshmem_btl.endpoints, opal_list_t);
	return vshmem_one_sided_open();
}

static inline void close_module(void)
{
	vshmem_one_sided_close();
	opal_list_item_t *item;
	while ((item = opal_list_remove_first(&vshmem_btl.endpoints)))
		OBJ_RELEASE(item);
	vshmem_memory_close();
}
