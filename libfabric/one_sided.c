/* Operations that this process begins: done here, where the memory can be reached, or asked for.
 *
 * A request is in the endpoint's table of tokens until it is answered, and so many are at most: so
 * neither memory nor the time for each grows with their number. A put of many bytes goes in parts,
 * of which the last is answered. One that is refused is answered, too, and no more are sent then.
 */
#include "atomic_apply.h"
#include "one_sided.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool fetches(const struct vfi_request *request)
{ return request->result || request->compare || request->op == FI_ATOMIC_READ; }

static uint64_t completion_flags(const struct vfi_request *request)
{
	if (request->silent)
		return 0;
	if (request->what == VFI_PUT)
		return FI_RMA | FI_WRITE;
	if (request->what == VFI_GET)
		return FI_RMA | FI_READ;
	return FI_ATOMIC | (fetches(request) ? FI_READ : FI_WRITE);
}

static bool is_wanted(const struct vfi_endpoint *ep, const struct vfi_request *request)
{ return !ep->tx_selective || (request->flags & FI_COMPLETION); }

static struct vfi_counter *counter_of(
	const struct vfi_endpoint *ep, const struct vfi_request *request)
{
	bool reads = request->what == VFI_GET || (request->what == VFI_ATOMIC && fetches(request));
	return reads ? ep->read_counter : ep->write_counter;
}

static void done(struct vfi_endpoint *ep, const struct vfi_request *request)
{
	bool wanted = !request->silent && is_wanted(ep, request);
	vfi_tx_done(
		ep, counter_of(ep, request), request->context, completion_flags(request), wanted);
}

static ssize_t failed(
	struct vfi_endpoint *ep, const struct vfi_request *request, int error, int prov_errno)
{
	vfi_tx_failed(ep, counter_of(ep, request), request->context, completion_flags(request),
		error, prov_errno);
	return request->silent ? -error : 0;
}

/* With the memory at hand. Stores of one operation are seen before those of a later one. */
static void apply(const struct vfi_request *request, char *there)
{
	__atomic_thread_fence(__ATOMIC_ACQ_REL);
	if (request->what == VFI_PUT) {
		if (request->count == 1)
			vfi_copy(there, request->local->iov_base, request->bytes);
		else
			vfi_gather(request->local, request->count, 0, there, request->bytes);
	} else if (request->what == VFI_GET) {
		if (request->count == 1)
			vfi_copy(request->local->iov_base, there, request->bytes);
		else
			vfi_scatter(request->local, request->count, 0, there, request->bytes);
	} else {
		char fetched[VFI_ATOMIC_BYTES];
		const void *operands = request->count ? request->local->iov_base : NULL;
		bool one = request->result_count == 1;
		vfi_atomic_apply(there, request->datatype, request->op, operands, request->compare,
			!request->result ? NULL
				: one    ? request->result->iov_base
					 : fetched,
			request->bytes / vfi_number_bytes(request->datatype));
		if (request->result && !one)
			vfi_scatter(
				request->result, request->result_count, 0, fetched, request->bytes);
	}
	__atomic_thread_fence(__ATOMIC_ACQ_REL);
}

/* Tells the owner of the memory what was done to it. */
static void tell(struct vfi_endpoint *ep, struct vfi_peer *peer, const struct vfi_request *request,
	uint64_t access)
{
	bool data = request->flags & FI_REMOTE_CQ_DATA;
	struct vfi_wire header = { .flags = data ? VFI_WIRE_DATA : 0,
		.done = access & FI_REMOTE_READ ? VFI_REMOTE_READ : VFI_REMOTE_WRITE,
		.remote = { request->address, request->key, request->data } };
	vfi_peer_answer(ep, peer, VFI_REMOTE_DONE, &header);
}

/* What the owner of a region of this domain wants to be notified of. */
static uint32_t notifications_wanted(const struct vfi_endpoint *ep, const struct vfi_region *region)
{
	const struct vfi_record *record = ep->domain->memory->record;
	return (record ? __atomic_load_n(&record->notify, __ATOMIC_RELAXED) : 0)
	        | (region->read ? VFI_NOTIFY_READ : 0) | (region->written ? VFI_NOTIFY_WRITE : 0);
}

static void say_once(const struct vfi_endpoint *ep, const struct vfi_remote *remote)
{
	struct vfi_rma *rma = ep->rma;
	if (rma->warned || !remote->direct || !vfi_direct_refused(remote->direct))
		return;
	rma->warned = true;
	vfi_say("memory of a peer cannot be attached, and is accessed by messages, which takes "
		"longer: the pool's table of attaches is full. Make the pool with a larger "
		"--limit attaches=N");
}

/* Does an operation by the own CPU. 0: it is complete, or has failed; -FI_EAGAIN; -ENOENT: the
 * memory cannot be reached from here. */
static ssize_t do_here(struct vfi_endpoint *ep, struct vfi_peer *peer, struct vfi_remote *remote,
	const struct vfi_request *request)
{
	uint64_t access = vfi_access(request->what, request->op, fetches(request));
	struct vfi_region *region = NULL;
	uint32_t notify = 0;
	char *there = NULL;
	int error = 0;
	if (remote->same_domain) {
		region = vfi_region_hold(ep->domain->memory, request->key, request->address,
			request->bytes, access, &there, &error);
		if (!region)
			return failed(ep, request, error, 0);
		notify = notifications_wanted(ep, region);
	} else if (remote->direct) {
		there = vfi_direct_find(remote->direct, request->key, request->address,
			request->bytes, (uint32_t)(access / FI_REMOTE_READ), &notify);
	}
	if (!there) {
		say_once(ep, remote);
		return -ENOENT;
	}
	ssize_t rc = 0;
	bool notifying = (request->flags & FI_REMOTE_CQ_DATA)
	        || (notify & (access & FI_REMOTE_READ ? VFI_NOTIFY_READ : VFI_NOTIFY_WRITE));
	if (request->what == VFI_ATOMIC
	        && (uintptr_t)there % vfi_number_bytes(request->datatype) != 0)
		error = FI_EINVAL;
	else if (notifying && peer->waiting.first)
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

static struct vfi_one_sided *new_operation(struct vfi_endpoint *ep)
{
	struct vfi_rma *rma = ep->rma;
	struct vfi_one_sided *one = rma->free;
	if (one) {
		rma->free = one->next_free;
	} else {
		one = calloc(1, sizeof(*one));
		if (!one)
			return NULL;
		one->next_of_all = rma->all;
		rma->all = one;
	}
	one->copy = NULL;
	one->unsent = false;
	one->error = 0;
	one->got = 0;
	one->count = 0;
	rma->under_way++;
	return one;
}

static void free_operation(struct vfi_endpoint *ep, struct vfi_one_sided *one)
{
	struct vfi_rma *rma = ep->rma;
	free(one->copy);
	one->copy = NULL;
	one->next_free = rma->free;
	rma->free = one;
	rma->under_way--;
}

/* It is answered, or never will be. */
static void finish(struct vfi_endpoint *ep, struct vfi_one_sided *one, int prov_errno)
{
	struct vfi_remote *remote = one->operation.peer->memory;
	vfi_token_leave(ep, &one->operation);
	remote->under_way--;
	if (one->error)
		vfi_tx_failed(ep, one->counter, one->context, one->flags, one->error, prov_errno);
	else
		vfi_tx_done(ep, one->counter, one->context, one->flags, one->wanted);
	free_operation(ep, one);
}

static void peer_failed(
	struct vfi_endpoint *ep, struct vfi_operation *operation, int error, int prov_errno)
{
	struct vfi_one_sided *one = (struct vfi_one_sided *)operation;
	one->error = error;
	finish(ep, one, prov_errno);
}

static struct vfi_one_sided *of_message(struct vfi_outgoing *out)
{ return (struct vfi_one_sided *)((char *)out - offsetof(struct vfi_operation, out)); }

/* When the peer has failed, this operation fails with all others that it is asked for. */
static void message_sent(struct vfi_endpoint *ep, struct vfi_peer *peer, struct vfi_outgoing *out,
	int error, int prov_errno)
{
	struct vfi_one_sided *one = of_message(out);
	(void)peer, (void)prov_errno;
	one->unsent = false;
	/* It was refused before all of it was sent. */
	if (!error && one->error)
		finish(ep, one, 0);
}

/* What goes in a request's message besides its header. */
static uint64_t payload_bytes(const struct vfi_request *request)
{
	if (request->what == VFI_GET || request->op == FI_ATOMIC_READ)
		return 0;
	return request->compare ? 2 * request->bytes : request->bytes;
}

static struct vfi_wire header_of(const struct vfi_request *request, uint64_t token)
{
	uint64_t address = request->address, key = request->key;
	struct vfi_wire header = { .flags = VFI_WIRE_ACK, .token = token };
	if (request->what == VFI_PUT) {
		header.put = (struct vfi_wire_put) { address, key, { request->data } };
		header.flags |= request->flags & FI_REMOTE_CQ_DATA ? VFI_WIRE_DATA : 0;
	} else if (request->what == VFI_GET) {
		header.get = (struct vfi_wire_get) { address, key, request->bytes };
	} else {
		header.atomic = (struct vfi_wire_atomic) { address, key, request->bytes };
		header.datatype = request->datatype;
		header.op = request->op;
		header.flags |= fetches(request) ? VFI_WIRE_FETCH : 0;
	}
	return header;
}

/* The next message of a put that goes in parts; the last one wants an answer. */
static void make_part(struct vfi_one_sided *one)
{
	struct vfi_outgoing *out = &one->operation.out;
	uint64_t left = one->bytes - one->put, bytes = left < one->each ? left : one->each;
	out->header.put.address = one->address + one->put;
	out->header.flags = bytes == left ? one->last_flags : 0;
	out->header.put.left = left;
	if (bytes == left)
		out->header.put.cq_data = one->last_data;
	out->count = vfi_slice(one->local, one->count, one->put, bytes, out->parts);
	one->put += bytes;
}

/* No more of what was refused. */
static bool part_follows(struct vfi_outgoing *out)
{
	struct vfi_one_sided *one = of_message(out);
	if (one->error || one->put == one->bytes)
		return false;
	make_part(one);
	return true;
}

static int ask_in_parts(struct vfi_endpoint *ep, struct vfi_peer *peer, struct vfi_one_sided *one,
	const struct vfi_request *request, const struct vfi_wire *header, uint64_t each)
{
	one->count = request->count;
	memcpy(one->local, request->local, one->count * sizeof(*one->local));
	if (request->flags & FI_INJECT) {
		one->copy = malloc(request->bytes);
		if (!one->copy)
			return -FI_ENOMEM;
		vfi_gather(request->local, request->count, 0, one->copy, request->bytes);
		one->local[0] = (struct iovec) { one->copy, request->bytes };
		one->count = 1;
	}
	one->each = each;
	one->put = 0;
	one->address = request->address;
	one->last_flags = header->flags;
	one->last_data = header->put.cq_data;
	one->operation.out = (struct vfi_outgoing) { .header = *header,
		.operation = request->what,
		.sent = message_sent,
		.follows = part_follows };
	make_part(one);
	one->unsent = true;
	vfi_peer_send(ep, peer, &one->operation.out);
	return 0;
}

/* A request of one message, now or when there is room. */
static int ask_at_once(struct vfi_endpoint *ep, struct vfi_peer *peer, struct vfi_one_sided *one,
	const struct vfi_request *request, const struct vfi_wire *header)
{
	char both[2 * VFI_ATOMIC_BYTES];
	uint64_t bytes = payload_bytes(request);
	const void *payload = bytes ? request->local->iov_base : NULL;
	bool copied = request->what == VFI_ATOMIC;
	if (request->compare) {
		memcpy(both, payload, request->bytes);
		memcpy(both + request->bytes, request->compare, request->bytes);
		payload = both;
	}
	int rc = bytes && request->what == VFI_PUT && request->count > 1
		? -EAGAIN
		: vfi_peer_post(ep, peer, request->what, header, payload, (uint32_t)bytes);
	if (rc != -EAGAIN)
		return rc;
	struct vfi_outgoing *out = &one->operation.out;
	*out = (struct vfi_outgoing) {
		.header = *header, .operation = request->what, .sent = message_sent
	};
	if (bytes && (copied || (request->flags & FI_INJECT))) {
		one->copy = malloc(bytes);
		if (!one->copy)
			return -FI_ENOMEM;
		if (copied)
			memcpy(one->copy, payload, bytes);
		else
			vfi_gather(request->local, request->count, 0, one->copy, bytes);
		out->parts[0] = (struct iovec) { one->copy, bytes };
		out->count = 1;
	} else if (bytes) {
		out->count = vfi_slice(request->local, request->count, 0, bytes, out->parts);
	}
	one->unsent = true;
	vfi_peer_send(ep, peer, out);
	return 0;
}

/* Asks the owner of the memory. */
static ssize_t ask(struct vfi_endpoint *ep, struct vfi_peer *peer, struct vfi_remote *remote,
	const struct vfi_request *request)
{
	struct vfi_rma *rma = ep->rma;
	uint64_t each = (peer->most - sizeof(struct vfi_wire)) & ~UINT64_C(63);
	uint64_t payload = payload_bytes(request);
	if (request->what == VFI_ATOMIC && payload > peer->most - sizeof(struct vfi_wire))
		return -FI_EMSGSIZE;
	if (rma->under_way >= VFI_REQUESTS)
		return -FI_EAGAIN;
	struct vfi_one_sided *one = new_operation(ep);
	if (!one)
		return -FI_ENOMEM;
	one->operation.peer = peer;
	one->operation.kind = VFI_KIND_ONE_SIDED;
	one->operation.failed = peer_failed;
	one->counter = counter_of(ep, request);
	one->context = request->context;
	one->flags = completion_flags(request);
	one->wanted = !request->silent && is_wanted(ep, request);
	one->what = request->what;
	one->bytes = request->what == VFI_ATOMIC && !fetches(request) ? 0 : request->bytes;
	const struct iovec *into = request->what == VFI_GET ? request->local : request->result;
	one->count = request->what == VFI_GET ? request->count : request->result_count;
	if (into)
		memcpy(one->local, into, one->count * sizeof(*into));
	uint64_t token = vfi_token_take(ep, &one->operation);
	if (token == 0) {
		free_operation(ep, one);
		return -FI_EAGAIN;
	}
	remote->under_way++;
	struct vfi_wire header = header_of(request, token);
	int rc = request->what == VFI_PUT && payload > each
		? ask_in_parts(ep, peer, one, request, &header, each)
		: ask_at_once(ep, peer, one, request, &header);
	if (rc == 0)
		return 0;
	if (rc != -FI_ENOMEM) {
		/* The lane is of no use any more: this one fails with all others. */
		vfi_peer_fail(ep, peer, FI_EIO, -rc);
		return 0;
	}
	vfi_token_leave(ep, &one->operation);
	remote->under_way--;
	free_operation(ep, one);
	return rc;
}

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
	bool closed = vshmem_lane_closed(peer->lane);
	if (closed || !vshmem_lane_alive(peer->lane))
		return closed ? FI_ESHUTDOWN : FI_ECONNRESET;
	remote->looked_after = now;
	return 0;
}

static ssize_t begin(struct vfi_endpoint *ep, const struct vfi_request *request)
{
	struct vfi_peer *peer;
	int rc = vfi_peer_of(ep, request->to, &peer);
	if (rc != 0)
		return rc;
	if (peer->error)
		return failed(ep, request, FI_EHOSTUNREACH, peer->prov_errno);
	struct vfi_remote *remote = peer->memory;
	if (!remote && !(remote = vfi_remote_of(ep, peer)))
		return -FI_ENOMEM;
	if (!remote->looked)
		look(ep, remote, peer, request->to);
	if ((rc = has_ended(peer, remote)) != 0)
		return failed(ep, request, rc, EPIPE);
	bool answered = remote->under_way == 0;
	if ((request->flags & FI_FENCE) && (peer->under_way || peer->waiting.first))
		return -FI_EAGAIN;
	ssize_t here = answered ? do_here(ep, peer, remote, request) : -ENOENT;
	return here == -ENOENT ? ask(ep, peer, remote, request) : here;
}

ssize_t vfi_one_sided(struct vfi_endpoint *ep, const struct vfi_request *request)
{
	if (!ep->enabled)
		return -FI_EOPBADSTATE;
	vfi_lock(ep->domain, &ep->lock);
	ssize_t rc = begin(ep, request);
	vfi_unlock(ep->domain, &ep->lock);
	return rc;
}

/* An error number that an owner may answer with. */
static int error_of(uint16_t status)
{
	return status == FI_EKEYREJECTED || status == FI_EACCES || status == FI_EINVAL
	                || status == FI_EOPNOTSUPP
		? status
		: FI_EIO;
}

/* What was read, or was there before an atomic operation, or a piece of it. */
static bool take_answer(struct vfi_one_sided *one, const struct vfi_incoming *message)
{
	uint64_t at = one->what == VFI_GET ? message->header.answer.offset : 0;
	uint64_t bytes = message->header.bytes;
	bool whole = one->what == VFI_GET || bytes == one->bytes;
	if (!whole || at > one->bytes || bytes > one->bytes - at)
		return false;
	if (one->count > 0)
		vfi_scatter(one->local, one->count, at, message->payload, bytes);
	one->got += bytes;
	return true;
}

void vfi_answered(struct vfi_endpoint *ep, const struct vfi_incoming *message)
{
	struct vfi_one_sided *one = (struct vfi_one_sided *)vfi_token_find(
		ep, message->header.token, VFI_KIND_ONE_SIDED, message->source->port.nonce);
	if (!one || one->what != message->header.answered)
		return;
	if (message->header.error != 0)
		one->error = error_of(message->header.error);
	else if (one->what != VFI_PUT && !take_answer(one, message))
		one->error = FI_EIO;
	/* Of a put in parts each is answered that was refused, and the last: of those the first
	 * answer counts. */
	bool last = one->error || one->what == VFI_PUT || one->got >= one->bytes;
	if (last && !one->unsent)
		finish(ep, one, 0);
	else if (last && !one->error)
		one->error = FI_EIO; /* nobody has seen all of it yet */
}
