/* Peers: the lane or the connection that each is sent to by. */
#include "btl_vshmem.h"

#include <errno.h>

static void construct(vshmem_endpoint *endpoint)
{
	OBJ_CONSTRUCT(&endpoint->lock, opal_mutex_t);
	OBJ_CONSTRUCT(&endpoint->waiting, opal_list_t);
	endpoint->peer = (struct vshmem_peer) { 0 };
	endpoint->for_replies = false;
	endpoint->pair = (struct vshmem_pair) { 0 };
	endpoint->stream = (struct vshmem_stream) { .fd = -1 };
	endpoint->source = (struct vshmem_source) { .fd = -1 };
	endpoint->streamed = endpoint->streamed_here = 0;
	endpoint->reads = 0;
	endpoint->indirect = endpoint->met = endpoint->meets = endpoint->gone = false;
	endpoint->why = 0;
}

static void destruct(vshmem_endpoint *endpoint)
{
	vshmem_stream_close(&endpoint->stream);
	vshmem_source_close(&endpoint->source);
	if (endpoint->peer.lane)
		vshmem_lane_close(endpoint->peer.lane);
	opal_list_item_t *item;
	while ((item = opal_list_remove_first(&endpoint->waiting)))
		opal_free_list_return(((vshmem_frag *)item)->home, (opal_free_list_item_t *)item);
	OBJ_DESTRUCT(&endpoint->waiting);
	OBJ_DESTRUCT(&endpoint->lock);
}

OBJ_CLASS_INSTANCE(vshmem_endpoint, opal_list_item_t, construct, destruct);

static vshmem_endpoint *find(uint64_t nonce)
{
	vshmem_endpoint *endpoint;
	OPAL_LIST_FOREACH(endpoint, &vshmem_btl.endpoints, vshmem_endpoint)
	{
		if (endpoint->peer.nonce == nonce)
			return endpoint;
	}
	return NULL;
}

vshmem_endpoint *vshmem_endpoint_of_rank(uint32_t rank)
{
	vshmem_endpoint *endpoint;
	OPAL_LIST_FOREACH(endpoint, &vshmem_btl.endpoints, vshmem_endpoint)
	{
		if (endpoint->rank == rank)
			return endpoint;
	}
	return NULL;
}

static vshmem_endpoint *make(uint32_t rank, const struct vshmem_modex *modex, bool for_replies)
{
	const struct vshmem_address *port = &modex->port;
	vshmem_lane *lane;
	/* All that one could be made for were made before the pool was left. */
	if (!vshmem_btl.port)
		return NULL;
	int rc = vshmem_lane_claim(
		vshmem_btl.pool, port, vshmem_btl.port, vshmem_btl.me.rank, &lane);
	if (rc == 0 && vshmem_lane_most_bytes(lane) < vshmem_btl.super.btl_max_send_size) {
		vshmem_lane_close(lane);
		rc = -EPROTO;
	}
	if (rc == -ENOENT) {
		vshmem_btl_tell_once("its port is gone");
		return NULL;
	}
	if (rc != 0) {
		/* The peer may have found its way here: it must not be answered another way. */
		vshmem_abort("cannot claim a lane of a peer's port: %s",
			rc == -EAGAIN ? "others than its job's processes have taken them"
				: rc == -ENOMEM
				? "the pool's table of attaches is full: make the pool with a larger --limit attaches=N"
				: "what the pool says is invalid");
		return NULL;
	}
	vshmem_endpoint *endpoint = OBJ_NEW(vshmem_endpoint);
	if (!endpoint) {
		vshmem_lane_close(lane);
		return NULL;
	}
	endpoint->peer.lane = lane;
	endpoint->peer.nonce = port->nonce;
	endpoint->rank = rank;
	endpoint->place = modex->place;
	endpoint->pair.they = (struct vshmem_stay) { .port = *port, .domain = modex->domain };
	memcpy(endpoint->pair.they.pool, modex->pool, sizeof(modex->pool));
	endpoint->pair.told = vshmem_btl.me.number;
	/* Whatever the size of fragments was set to. */
	uint32_t most = vshmem_lane_most_bytes(lane);
	endpoint->peer.most = most < VSHMEM_LONGEST ? most : VSHMEM_LONGEST;
	endpoint->for_replies = for_replies;
	opal_list_append(&vshmem_btl.endpoints, &endpoint->super);
	return endpoint;
}

vshmem_endpoint *vshmem_endpoint_open(uint32_t rank, const struct vshmem_modex *modex)
{
	OPAL_THREAD_LOCK(&vshmem_btl.lock);
	vshmem_endpoint *endpoint = vshmem_endpoint_of_rank(rank);
	if (endpoint)
		endpoint->for_replies = false;
	else
		endpoint = make(rank, modex, false);
	OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
	return endpoint;
}

void vshmem_endpoint_close(vshmem_endpoint *endpoint)
{
	/* The peer may still ask for something, and is answered, until all is closed. */
	OPAL_THREAD_LOCK(&vshmem_btl.lock);
	endpoint->for_replies = true;
	OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
}

vshmem_endpoint *vshmem_endpoint_of_lane(uint32_t lane)
{
	struct vshmem_sender sender;
	if (vshmem_sender(vshmem_btl.port, lane, &sender) != 0 || sender.port.id == 0)
		return NULL;
	OPAL_THREAD_LOCK(&vshmem_btl.lock);
	vshmem_endpoint *endpoint = find(sender.port.nonce);
	OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
	if (endpoint)
		return endpoint;
	/* The process of the job that has published this port. */
	struct vshmem_modex modex;
	if (sender.mark >= UINT32_MAX || !vshmem_modex_known((uint32_t)sender.mark, &modex)
		|| modex.port.nonce != sender.port.nonce)
		return NULL;
	OPAL_THREAD_LOCK(&vshmem_btl.lock);
	endpoint = vshmem_endpoint_of_rank((uint32_t)sender.mark);
	if (!endpoint)
		endpoint = make((uint32_t)sender.mark, &modex, true);
	OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
	return endpoint;
}

int vshmem_endpoint_send(
	vshmem_endpoint *endpoint, const struct iovec *parts, int count, uint8_t tag)
{
	int rc = -EAGAIN;
	if (OPAL_LIKELY(endpoint->pair.out == BY_LANE)) {
		rc = vshmem_send(endpoint->peer.lane, parts, count, tag);
		endpoint->pair.sent += rc == 0;
	} else if (endpoint->gone) {
		rc = -EPIPE;
	} else if (endpoint->pair.out == BY_SOCKET) {
		rc = vshmem_stream_put(&endpoint->stream, VSHMEM_TEXT, tag, parts, count);
		endpoint->streamed += rc == 0;
		/* What is wrong with it is seen where progress is made. */
		if (rc == 0)
			vshmem_stream_flush(&endpoint->stream);
	}
	return rc;
}
