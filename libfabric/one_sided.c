/* Operations that this process begins: done here, where the memory can be reached, or asked for. */
#include "one_sided.h"

#include <errno.h>

static uint64_t completion_flags(const struct vshmem_request *request)
{
	if (request->silent)
		return 0;
	if (request->what == VSHMEM_PUT)
		return FI_RMA | FI_WRITE;
	if (request->what == VSHMEM_GET)
		return FI_RMA | FI_READ;
	return FI_ATOMIC | (vshmem_fetches(request) ? FI_READ : FI_WRITE);
}

static bool is_wanted(const struct vfi_endpoint *ep, const struct vshmem_request *request)
{
	return !ep->tx_selective || (request->flags & FI_COMPLETION);
}

static struct vfi_counter *counter_of(
	const struct vfi_endpoint *ep, const struct vshmem_request *request)
{
	bool reads = request->what == VSHMEM_GET
		|| (request->what == VSHMEM_ATOMIC && vshmem_fetches(request));
	return reads ? ep->read_counter : ep->write_counter;
}

static void done(struct vfi_endpoint *ep, const struct vshmem_request *request)
{
	bool wanted = !request->silent && is_wanted(ep, request);
	vfi_tx_done(
		ep, counter_of(ep, request), request->context, completion_flags(request), wanted);
}

static ssize_t failed(
	struct vfi_endpoint *ep, const struct vshmem_request *request, int error, int prov_errno)
{
	vfi_tx_failed(ep, counter_of(ep, request), request->context, completion_flags(request),
		error, prov_errno);
	return request->silent ? -error : 0;
}

/* With the memory at hand. Stores of one operation are seen before those of a later one. */
static void apply(const struct vshmem_request *request, char *there)
{
	__atomic_thread_fence(__ATOMIC_ACQ_REL);
	if (request->what == VSHMEM_PUT) {
		if (request->count == 1)
			vshmem_copy(there, request->local->iov_base, request->bytes);
		else
			vshmem_gather(request->local, request->count, 0, there, request->bytes);
	} else if (request->what == VSHMEM_GET) {
		if (request->count == 1)
			vshmem_copy(request->local->iov_base, there, request->bytes);
		else
			vshmem_scatter(request->local, request->count, 0, there, request->bytes);
	} else {
		char fetched[VSHMEM_ATOMIC_BYTES];
		const void *operands = request->count ? request->local->iov_base : NULL;
		bool one = request->result_count == 1;
		vshmem_atomic_apply(there, request->number, request->op, operands, request->compare,
			!request->result ? NULL
				: one    ? request->result->iov_base
					 : fetched,
			request->bytes / vshmem_number_bytes(request->number));
		if (request->result && !one)
			vshmem_scatter(
				request->result, request->result_count, 0, fetched, request->bytes);
	}
	__atomic_thread_fence(__ATOMIC_ACQ_REL);
}

/* Tells the owner of the memory what was done to it. */
static void tell(struct vfi_endpoint *ep, struct vfi_peer *peer,
	const struct vshmem_request *request, uint64_t access)
{
	bool data = request->flags & FI_REMOTE_CQ_DATA;
	struct vshmem_wire header = { .flags = data ? VSHMEM_WIRE_DATA : 0,
		.done = access & VSHMEM_REMOTE_READ ? VSHMEM_REMOTE_READ : VSHMEM_REMOTE_WRITE,
		.remote = { request->address, request->key, request->data } };
	vshmem_peer_answer(&ep->to, &peer->base, VSHMEM_REMOTE_DONE, &header, NULL, 0);
}

/* What the owner of a region of this domain wants to be notified of. */
static uint32_t notifications_wanted(const struct vfi_endpoint *ep, const struct vfi_region *region)
{
	const struct vfi_record *record = ep->domain->memory->record;
	return (record ? __atomic_load_n(&record->notify, __ATOMIC_RELAXED) : 0)
		| (region->read ? VFI_NOTIFY_READ : 0) | (region->written ? VFI_NOTIFY_WRITE : 0);
}

static void say_once(struct vfi_endpoint *ep, const struct vfi_remote *remote)
{
	if (ep->warned_of_attaches || !remote->direct || !vfi_direct_refused(remote->direct))
		return;
	ep->warned_of_attaches = true;
	vfi_say("memory of a peer cannot be attached, and is accessed by messages, which takes "
		"longer: the pool's table of attaches is full. Make the pool with a larger "
		"--limit attaches=N");
}

/* Does an operation by the own CPU. 0: it is complete, or has failed; -FI_EAGAIN; -ENOENT: the
 * memory cannot be reached from here. */
static ssize_t do_here(struct vfi_endpoint *ep, struct vfi_peer *peer, struct vfi_remote *remote,
	const struct vshmem_request *request)
{
	uint64_t access = vshmem_access(request->what, request->op, vshmem_fetches(request));
	struct vfi_region *region = NULL;
	uint32_t notify = 0;
	char *there = NULL;
	int error = 0;
	if (remote->same_domain) {
		region = vfi_region_hold(ep->domain->memory, request->key, request->address,
			request->bytes, access * FI_REMOTE_READ, &there, &error);
		if (!region)
			return failed(ep, request, error, 0);
		notify = notifications_wanted(ep, region);
	} else if (remote->direct) {
		there = vfi_direct_find(remote->direct, request->key, request->address,
			request->bytes, (uint32_t)access, &notify);
	}
	if (!there) {
		say_once(ep, remote);
		return -ENOENT;
	}
	ssize_t rc = 0;
	bool notifying = (request->flags & FI_REMOTE_CQ_DATA)
		|| (notify & (access & VSHMEM_REMOTE_READ ? VFI_NOTIFY_READ : VFI_NOTIFY_WRITE));
	if (request->what == VSHMEM_ATOMIC
		&& (uintptr_t)there % vshmem_number_bytes(request->number) != 0)
		error = FI_EINVAL;
	else if (notifying && peer->base.waiting.first)
		rc = -FI_EAGAIN;
	else
		apply(request, there);
	if (region)
		vfi_region_release(ep->domain->memory);
	if (error)
		return failed(ep, request, error, 0);
	if (rc != 0)
		return rc;
	if (notifying)
		tell(ep, peer, request, access);
	done(ep, request);
	return 0;
}

/* Of a request that was asked for. */
static void ended(
	struct vshmem_peers *peers, const struct vshmem_asked *asked, int error, int prov_errno)
{
	struct vfi_endpoint *ep = vfi_endpoint_of(peers);
	if (error)
		failed(ep, &asked->request, error, prov_errno);
	else
		done(ep, &asked->request);
}

const struct vshmem_calls vfi_calls = { .wake = vfi_wake,
	.gone = vfi_peer_gone,
	.more = vfi_rendezvous_push,
	.ended = ended,
	.hold = vfi_hold,
	.let_go = vfi_let_go,
	.data = vfi_put_data };

/* Looks for a peer's record when the peer is first asked for something. */
static void look(struct vfi_endpoint *ep, struct vfi_remote *remote, const struct vfi_peer *peer,
	fi_addr_t to)
{
	const struct vfi_memory *own = ep->domain->memory;
	struct vfi_address address = peer->address;
	/* Of a peer that was only answered so far no more than its port is known. */
	if (address.record == 0)
		vfi_av_address(ep->av, to, &address);
	remote->looked = true;
	remote->same_domain = address.nonce == ep->address.nonce
		|| (own->record_id > 0 && address.record == (uint32_t)own->record_id
			&& (address.check & ~VFI_CHECK_SLEEPS) == (uint32_t)own->nonce);
	if (!remote->same_domain && address.record > 0 && address.record <= INT32_MAX)
		remote->direct = vfi_direct_open(
			ep->domain->pool, (int)address.record, address.check);
}

/* What is done directly needs nothing of the peer, and so would go well for ever when it is gone.
 * What else is under way with it ends when progress is made. */
static int has_ended(const struct vfi_peer *peer, struct vfi_remote *remote)
{
	uint64_t now = vshmem_ticks();
	if (!remote->direct || now - remote->looked_after < VSHMEM_DOMAINS_INTERVAL)
		return 0;
	bool closed = vshmem_lane_closed(peer->base.lane);
	if (closed || !vshmem_lane_alive(peer->base.lane))
		return closed ? FI_ESHUTDOWN : FI_ECONNRESET;
	remote->looked_after = now;
	return 0;
}

static ssize_t begin(struct vfi_endpoint *ep, const struct vshmem_request *request)
{
	struct vfi_peer *peer;
	int rc = vfi_peer_of(ep, request->to, &peer);
	if (rc != 0)
		return rc;
	if (peer->base.error)
		return failed(ep, request, FI_EHOSTUNREACH, peer->base.prov_errno);
	struct vfi_remote *remote = peer->memory;
	if (!remote && !(remote = vfi_remote_of(ep, peer)))
		return -FI_ENOMEM;
	if (!remote->looked)
		look(ep, remote, peer, request->to);
	if ((rc = has_ended(peer, remote)) != 0)
		return failed(ep, request, rc, EPIPE);
	bool answered = peer->base.asked == 0;
	if ((request->flags & FI_FENCE) && (peer->base.under_way || peer->base.waiting.first))
		return -FI_EAGAIN;
	ssize_t here = answered ? do_here(ep, peer, remote, request) : -ENOENT;
	return here == -ENOENT ? vshmem_ask(&ep->to, &peer->base, request) : here;
}

ssize_t vfi_one_sided(struct vfi_endpoint *ep, struct vshmem_request *request)
{
	if (!ep->enabled)
		return -FI_EOPBADSTATE;
	request->inject = request->flags & FI_INJECT;
	request->tells = request->flags & FI_REMOTE_CQ_DATA;
	vfi_lock(ep->domain, &ep->lock);
	ssize_t rc = begin(ep, request);
	vfi_unlock(ep->domain, &ep->lock);
	return rc;
}
