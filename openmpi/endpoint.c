/* Peers: the lane that each is sent to by. */
#include "btl_vshmem.h"

#include <errno.h>

static void construct(vshmem_endpoint *endpoint)
{
	OBJ_CONSTRUCT(&endpoint->lock, opal_mutex_t);
	OBJ_CONSTRUCT(&endpoint->waiting, opal_list_t);
	endpoint->peer = (struct vshmem_peer) { 0 };
	endpoint->for_replies = false;
}

static void destruct(vshmem_endpoint *endpoint)
{
	vshmem_lane_close(endpoint->peer.lane);
	opal_list_item_t *item;
	while ((item = opal_list_remove_first(&endpoint->waiting)))
		vshmem_btl_free(&vshmem_btl.super, (mca_btl_base_descriptor_t *)item);
	OBJ_DESTRUCT(&endpoint->waiting);
	OBJ_DESTRUCT(&endpoint->lock);
}

OBJ_CLASS_INSTANCE(vshmem_endpoint, opal_list_item_t, construct, destruct);

void vshmem_btl_tell_once(const char *why)
{
	if (!vshmem_btl.warned)
		vshmem_say(
			"a peer cannot be reached through the pool, and goes over the network: %s",
			why);
	vshmem_btl.warned = true;
}

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

static vshmem_endpoint *make(const struct vshmem_address *port, bool for_replies)
{
	vshmem_lane *lane;
	int rc = vshmem_lane_claim(vshmem_btl.pool, port, vshmem_btl.port, 0, &lane);
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
	endpoint->peer.most = (uint32_t)vshmem_btl.super.btl_max_send_size;
	endpoint->for_replies = for_replies;
	opal_list_append(&vshmem_btl.endpoints, &endpoint->super);
	return endpoint;
}

vshmem_endpoint *vshmem_endpoint_open(const struct vshmem_address *port)
{
	OPAL_THREAD_LOCK(&vshmem_btl.lock);
	vshmem_endpoint *endpoint = find(port->nonce);
	if (endpoint)
		endpoint->for_replies = false;
	else
		endpoint = make(port, false);
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
	if (!endpoint)
		endpoint = make(&sender.port, true);
	OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
	return endpoint;
}
