/* What checks of btl/vshmem need beside a pool's stand-in (../../transport/check/pool.h). */
#pragma once

#include "../../transport/check/pool.h"
#include "btl_vshmem.h"

struct vshmem_btl vshmem_btl;

void vshmem_say(const char *format, ...) { (void)format; }

bool vshmem_modex_known(uint32_t rank, struct vshmem_modex *modex)
{
	*modex = (struct vshmem_modex) { .port = { .nonce = rank + 1, .id = rank + 1 } };
	return rank < PEERS;
}

void vshmem_abort(const char *format, ...)
{
	(void)format;
	abort();
}

void vshmem_btl_tell_once(const char *why) { (void)why; }

/* The module without memory of a pool, and endpoints for its peers. */
static inline void open_module(vshmem_endpoint *endpoints[PEERS])
{
	static char port;
	vshmem_btl.port = (vshmem_port *)&port;
	vshmem_btl.base = malloc(1);
	vshmem_btl.bytes = 0;
	vshmem_btl.super.btl_max_send_size = MOST_BYTES;
	OBJ_CONSTRUCT(&vshmem_btl.lock, opal_mutex_t);
	OBJ_CONSTRUCT(&vshmem_btl.endpoints, opal_list_t);
	must(vshmem_one_sided_open());
	for (uint32_t peer = 0; peer < PEERS; peer++) {
		peers[peer].nonce = peer + 1;
		struct vshmem_modex modex;
		vshmem_modex_known(peer, &modex);
		endpoints[peer] = vshmem_endpoint_open(peer, &modex);
		must(endpoints[peer]);
	}
}

static inline void close_module(void)
{
	vshmem_one_sided_close();
	opal_list_item_t *item;
	while ((item = opal_list_remove_first(&vshmem_btl.endpoints)))
		OBJ_RELEASE(item);
	vshmem_memory_close();
}
