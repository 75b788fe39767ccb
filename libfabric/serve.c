/* What peers do to memory of this domain. */
#include "one_sided.h"

_Static_assert(FI_REMOTE_READ *VSHMEM_REMOTE_WRITE == FI_REMOTE_WRITE * VSHMEM_REMOTE_READ,
	"kinds of access are the same bits elsewhere");

/* What was done: VSHMEM_REMOTE_READ, VSHMEM_REMOTE_WRITE or both. */
static void count(struct vfi_endpoint *ep, const struct vfi_region *region, uint64_t done)
{
	/* A fetching operation is a read, as it is for those that begin it. */
	bool read = done & VSHMEM_REMOTE_READ;
	struct fid_cntr *counter = !region ? NULL : read ? region->read : region->written;
	vfi_count(read ? ep->remote_read_counter : ep->remote_write_counter, false);
	if (counter)
		counter->ops->add(counter, 1);
}

char *vfi_hold(struct vshmem_peers *peers, uint8_t what, uint64_t access, uint64_t key,
	uint64_t address, uint64_t bytes, void **region, int *error)
{
	char *there = NULL;
	(void)what;
	*region = vfi_region_hold(vfi_endpoint_of(peers)->domain->memory, key, address, bytes,
		access * FI_REMOTE_READ, &there, error);
	return *region ? there : NULL;
}

void vfi_let_go(struct vshmem_peers *peers, void *region, uint64_t done)
{
	struct vfi_endpoint *ep = vfi_endpoint_of(peers);
	if (done)
		count(ep, region, done);
	vfi_region_release(ep->domain->memory);
}

void vfi_put_data(struct vshmem_peers *peers, const struct vshmem_incoming *message)
{
	struct vfi_endpoint *ep = vfi_endpoint_of(peers);
	struct fi_cq_tagged_entry entry = { .flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
		.data = message->header.put.cq_data };
	if (ep->rx_cq)
		vfi_cq_add(ep->rx_cq, &entry, vfi_source_addr(ep, message->source));
}

/* A peer has done something by itself, and tells of it. */
static void remote_done(struct vfi_endpoint *ep, const struct vshmem_incoming *message)
{
	const struct vshmem_wire *header = &message->header;
	char *there;
	int error;
	struct vfi_region *region = vfi_region_hold(ep->domain->memory, header->remote.key,
		header->remote.address, 0, 0, &there, &error);
	count(ep, region,
		header->done & VSHMEM_REMOTE_READ ? VSHMEM_REMOTE_READ : VSHMEM_REMOTE_WRITE);
	if (region)
		vfi_region_release(ep->domain->memory);
	if (header->flags & VSHMEM_WIRE_DATA)
		vfi_put_data(&ep->to, message);
}

void vfi_rma_arrived(struct vfi_endpoint *ep, const struct vshmem_incoming *message)
{
	struct vfi_peer *peer;
	if (message->operation == VSHMEM_ANSWER)
		vshmem_answered(&ep->to, message, message->source->port.nonce);
	else if (message->operation == VSHMEM_REMOTE_DONE)
		remote_done(ep, message);
	else if ((peer = vfi_peer_of_source(ep, message->source)) && !peer->base.error)
		vshmem_serve(&ep->to, &peer->base, message);
}
