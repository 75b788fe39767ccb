/* Opening and closing: the pool, this process's port, the fragments. */
#include "btl_vshmem.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the messages of Open MPI's own shared memory: the protocols switch at the same sizes. */
#define EAGER_BYTES 4096
/* With its header of 8 bytes a fragment fills whole lines, and so many fill a ring: one line more,
 * and an eighth of the ring stays empty, which cost a third of the rate in both directions. */
#define FRAGMENT_BYTES (32 * 1024 - 8)
/* Seconds at the end for what connections have not taken yet. */
#define LINGER 2

static bool lists(size_t eager, size_t largest)
{
	struct {
		opal_free_list_t *list;
		size_t bytes;
		int first;
	} rows[] = {
		{ &vshmem_btl.small, SMALL_BYTES, 32 },
		{ &vshmem_btl.eager, eager, 16 },
		{ &vshmem_btl.large, largest, 4 },
	};
	for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
		OBJ_CONSTRUCT(rows[row].list, opal_free_list_t);
		int rc = opal_free_list_init(rows[row].list, sizeof(vshmem_frag) + rows[row].bytes,
			64, OBJ_CLASS(vshmem_frag), 0, 0, rows[row].first, -1, rows[row].first,
			NULL, 0, NULL, NULL, NULL);
		if (rc != OPAL_SUCCESS)
			return false;
	}
	return true;
}

bool vshmem_btl_join(char *message, size_t bytes)
{
	struct vshmem_btl *btl = &vshmem_btl;
	const char *name = vshmem_parameters.pool && *vshmem_parameters.pool
		? vshmem_parameters.pool
		: NULL;
	vshmem_pool *pool;
	if (vshmem_open(name, &pool, message, bytes) != 0)
		return false;
	/* What is left is for others, and for MPI_Alloc_mem. */
	size_t port_bytes = vshmem_port_bytes(pool, btl->processes, vshmem_parameters.port_bytes);
	int rc = vshmem_port_make(
		pool, btl->processes, port_bytes, vshmem_parameters.lane_bytes, &btl->port);
	if (rc != 0) {
		char called[64] = "";
		uint32_t domain, client;
		vshmem_whoami(pool, called, &domain, &client);
		snprintf(message, bytes,
			"pool %s has no room for the %zu KiB that this process receives in from %u processes (%s). "
			"Make the pool larger, or remove what is left in it",
			called, port_bytes >> 10, btl->processes, strerror(-rc));
		vshmem_close(pool);
		return false;
	}
	/* A leave waits for this process then. */
	vshmem_leave_fd(pool);
	btl->pool = pool;
	struct vshmem_stay *stay = &btl->me.stay;
	vshmem_identify(pool, stay->pool);
	vshmem_port_address(btl->port, &stay->port);
	vshmem_domain(pool, &stay->domain);
	btl->me.here = true;
	btl->me.number++;
	btl->attaches = vshmem_attaches(pool);
	btl->base = vshmem_base(pool);
	btl->bytes = vshmem_bytes(pool);
	btl->backoff.pool = pool;
	memset(btl->got, 0, btl->processes * sizeof(*btl->got));
	return true;
}

bool vshmem_btl_open(uint32_t processes)
{
	struct vshmem_btl *btl = &vshmem_btl;
	char message[512] = "";
	btl->processes = processes;
	btl->got = calloc(processes, sizeof(*btl->got));
	vshmem_backoff_start(&btl->backoff, NULL);
	if (!btl->got || !vshmem_btl_join(message, sizeof(message))) {
		/* No pool was asked for: no reason for a message. */
		if (vshmem_parameters.pool && *vshmem_parameters.pool)
			vshmem_say("%s; messages to other guests go over the network", message);
		free(btl->got);
		btl->got = NULL;
		return false;
	}
	if (!vshmem_over_open())
		vshmem_say("this process cannot accept connections: it will not leave the pool");
	btl->modex.messages[0] = VSHMEM_MESSAGES;
	memcpy(btl->modex.pool, btl->me.stay.pool, sizeof(btl->modex.pool));
	btl->modex.port = btl->me.stay.port;
	btl->modex.domain = btl->me.stay.domain;
	/* Nothing comes within the kernel: then looking here again is quicker than looking
	 * everywhere. */
	btl->looks = vshmem_alone() ? 8 : 1;
	OBJ_CONSTRUCT(&btl->lock, opal_mutex_t);
	OBJ_CONSTRUCT(&btl->endpoints, opal_list_t);

	size_t largest = btl->modex.port.most_bytes < FRAGMENT_BYTES ? btl->modex.port.most_bytes
								     : FRAGMENT_BYTES;
	size_t eager = largest < EAGER_BYTES ? largest : EAGER_BYTES;
	if (btl->super.btl_max_send_size == 0 || btl->super.btl_max_send_size > largest)
		btl->super.btl_max_send_size = largest;
	if (btl->super.btl_eager_limit == 0 || btl->super.btl_eager_limit > eager)
		btl->super.btl_eager_limit = eager;
	btl->super.btl_rndv_eager_limit = btl->super.btl_eager_limit;
	btl->modex.max_send_size = (uint32_t)btl->super.btl_max_send_size;
	return lists(btl->super.btl_eager_limit, btl->super.btl_max_send_size)
	        && vshmem_one_sided_open();
}

void vshmem_btl_limits(void)
{
	mca_btl_base_module_t *module = &vshmem_btl.super;
	module->btl_eager_limit = EAGER_BYTES;
	module->btl_rndv_eager_limit = EAGER_BYTES;
	module->btl_max_send_size = FRAGMENT_BYTES;
	/* The put pipeline of ob1 is never worth while here. */
	module->btl_rdma_pipeline_send_length = EAGER_BYTES;
	module->btl_rdma_pipeline_frag_size = FRAGMENT_BYTES;
	module->btl_min_rdma_pipeline_size = SIZE_MAX;
	/* Between Open MPI's own shared memory (65536) and every network. */
	module->btl_exclusivity = MCA_BTL_EXCLUSIVITY_HIGH - 10;
	/* Not vader's 1: osc/rdma takes the shortest of those that reach all processes of a window,
	 * and of equal ones the first that each process happens to find, which need not be the same
	 * for all. */
	module->btl_latency = 2;
	module->btl_bandwidth = 40000;
	module->btl_registration_handle_size = sizeof(mca_btl_base_registration_handle_t);
	module->btl_get_limit = UINT32_MAX;
	module->btl_put_limit = UINT32_MAX;
	module->btl_get_local_registration_threshold = SIZE_MAX;
	module->btl_put_local_registration_threshold = SIZE_MAX;
	module->btl_flags = MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_SEND_INPLACE | MCA_BTL_FLAGS_RDMA
	        | MCA_BTL_FLAGS_ATOMIC_OPS | MCA_BTL_FLAGS_ATOMIC_FOPS
	        | MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION;
	module->btl_atomic_flags = MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_AND
	        | MCA_BTL_ATOMIC_SUPPORTS_OR | MCA_BTL_ATOMIC_SUPPORTS_XOR
	        | MCA_BTL_ATOMIC_SUPPORTS_SWAP | MCA_BTL_ATOMIC_SUPPORTS_CSWAP
	        | MCA_BTL_ATOMIC_SUPPORTS_32BIT | MCA_BTL_ATOMIC_SUPPORTS_GLOB;
}

/* What is on its way by connections is still sent, if it is read soon; and the counts. */
static void end_streams(uint64_t *sent, uint64_t *received)
{
	vshmem_endpoint *endpoint;
	time_t until = vshmem_seconds() + LINGER;
	for (uint32_t lane = 0; lane < vshmem_btl.processes; lane++)
		*received += vshmem_btl.got[lane];
	OPAL_LIST_FOREACH(endpoint, &vshmem_btl.endpoints, vshmem_endpoint)
	{
		struct vshmem_stream *stream = &endpoint->stream;
		while (stream->state == VSHMEM_OPEN && vshmem_stream_flush(stream) == 0
			&& vshmem_seconds() < until) {
			vshmem_stream_end(stream, VSHMEM_END);
			sched_yield();
		}
		*sent += endpoint->pair.sent;
		*received += endpoint->pair.got;
		vshmem_btl.streamed += endpoint->streamed;
		vshmem_btl.streamed_here += endpoint->streamed_here;
	}
}

int vshmem_btl_finalize(struct mca_btl_base_module_t *module)
{
	(void)module;
	struct vshmem_btl *btl = &vshmem_btl;
	uint64_t sent = 0, received = 0;
	if (!btl->got)
		return OPAL_SUCCESS;
	vshmem_one_sided_close();
	end_streams(&sent, &received);
	opal_list_item_t *item;
	while ((item = opal_list_remove_first(&btl->endpoints)))
		OBJ_RELEASE(item);
	vshmem_over_close();
	vshmem_memory_close();
	if (btl->pool) {
		vshmem_port_close(btl->port);
		vshmem_close(btl->pool);
	}
	btl->port = NULL;
	btl->pool = NULL;
	btl->moving = false;
	free(btl->got);
	btl->got = NULL;
	OBJ_DESTRUCT(&btl->endpoints);
	OBJ_DESTRUCT(&btl->small);
	OBJ_DESTRUCT(&btl->eager);
	OBJ_DESTRUCT(&btl->large);
	OBJ_DESTRUCT(&btl->lock);
	if (vshmem_parameters.verbose && btl->streamed + btl->streamed_here > 0)
		vshmem_say(
			"%llu messages sent by connections, %llu received; the pool left %llu times",
			(unsigned long long)btl->streamed, (unsigned long long)btl->streamed_here,
			(unsigned long long)btl->left);
	/* Last: who reads it knows that the pool is closed. */
	if (vshmem_parameters.verbose)
		vshmem_say("%llu messages sent, %llu received, the CPU given away %llu times",
			(unsigned long long)sent, (unsigned long long)received,
			(unsigned long long)btl->backoff.given_away);
	return OPAL_SUCCESS;
}
