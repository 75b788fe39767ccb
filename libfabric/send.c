/* Sending: at once where there is room and the message is short, as an operation otherwise. */
#include "vshmem_fi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_silent(const struct vfi_call *call)
{ return (call->flags & VFI_INJECT) == VFI_INJECT; }

static uint64_t completion_flags(const struct vfi_call *call)
{ return is_silent(call) ? 0 : FI_SEND | (call->tagged ? FI_TAGGED : FI_MSG); }

/* Programs take each completion's context for one of theirs: what has none fails by its call. */
static ssize_t fail(struct vfi_endpoint *ep, const struct vfi_call *call, struct vfi_peer *peer)
{
	int error = peer->base.error == FI_ECONNRESET ? FI_EHOSTUNREACH : peer->base.error;
	vfi_tx_failed(ep, ep->send_counter, call->context, completion_flags(call), error,
		peer->base.prov_errno);
	return is_silent(call) ? -error : 0;
}

static void give_up(
	struct vshmem_peers *peers, struct vshmem_awaited *operation, int error, int prov_errno)
{
	struct vfi_endpoint *ep = vfi_endpoint_of(peers);
	struct vfi_send *send = (struct vfi_send *)operation;
	vfi_offer_withdraw(ep, send);
	vfi_tx_failed(ep, ep->send_counter, send->context, send->flags, error, prov_errno);
	vfi_send_free(ep, send);
}

/* An eager message, or the first of a rendezvous, lies in the lane. */
static void is_sent(struct vshmem_peers *peers, struct vshmem_peer *peer,
	struct vshmem_outgoing *message, int error, int prov_errno)
{
	struct vfi_endpoint *ep = vfi_endpoint_of(peers);
	struct vfi_send *send = (struct vfi_send *)message;
	(void)peer;
	if (error) {
		vshmem_token_leave(peers, &send->operation);
		give_up(peers, &send->operation, error, prov_errno);
		return;
	}
	/* An answer is to come. */
	if (send->operation.token) {
		send->is_asked = true;
		return;
	}
	vfi_tx_done(ep, ep->send_counter, send->context, send->flags, send->wanted);
	vfi_send_free(ep, send);
}

static struct vfi_send *make(
	struct vfi_endpoint *ep, const struct vfi_call *call, struct vfi_peer *peer, size_t size)
{
	struct vfi_send *send = vfi_send_new(ep);
	if (!send)
		return NULL;
	send->operation.out.sent = is_sent;
	send->operation.peer = &peer->base;
	send->operation.failed = give_up;
	send->context = call->context;
	send->flags = completion_flags(call);
	send->wanted = call->flags & FI_COMPLETION;
	send->size = size;
	send->count = call->count;
	for (size_t nth = 0; nth < call->count; nth++)
		send->parts[nth] = call->parts[nth];
	if (!(call->flags & FI_INJECT) || size == 0)
		return send;
	uint8_t *copy = send->copy = malloc(size);
	if (!copy) {
		vfi_send_free(ep, send);
		return NULL;
	}
	for (size_t nth = 0; nth < call->count; nth++) {
		memcpy(copy, call->parts[nth].iov_base, call->parts[nth].iov_len);
		copy += call->parts[nth].iov_len;
	}
	send->parts[0] = (struct iovec) { send->copy, size };
	send->count = 1;
	return send;
}

/* The whole message. */
static void set_eager(struct vfi_send *send, bool tagged)
{
	struct vshmem_outgoing *out = &send->operation.out;
	out->operation = tagged ? VFI_EAGER_TAGGED : VFI_EAGER;
	out->count = (int)send->count;
	for (size_t nth = 0; nth < send->count; nth++)
		out->parts[nth] = send->parts[nth];
}

/* Whether the whole message lies in the pool, in one piece. */
static bool is_in_pool(const struct vfi_domain *domain, const struct vfi_send *send, uint64_t *at)
{
	*at = (uint64_t)((char *)send->parts[0].iov_base - (char *)domain->base);
	return domain->base && send->count == 1 && *at < domain->bytes
	        && send->size <= domain->bytes - *at;
}

/* That there is one, and where, if the peer may be able to read it there. */
static void set_rendezvous(
	struct vfi_endpoint *ep, const struct vfi_peer *peer, struct vfi_send *send)
{
	struct vshmem_outgoing *out = &send->operation.out;
	out->operation = VFI_READY_TO_SEND;
	if (is_in_pool(ep->domain, send, &send->pool_at.offset)) {
		out->parts[0] = (struct iovec) { &send->pool_at, sizeof(send->pool_at) };
		out->count = 1;
		return;
	}
	out->parts[0] = (struct iovec) { &send->offered_at, sizeof(send->offered_at) };
	out->count = vfi_offer_make(ep, peer, send) ? 1 : 0;
}

/* What is not over when it is begun. */
static ssize_t start(struct vfi_endpoint *ep, const struct vfi_call *call, struct vfi_peer *peer,
	struct vshmem_wire *header, size_t size)
{
	bool eager = size + sizeof(*header) <= peer->base.most;
	bool ack = call->flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)
	        && !(call->flags & FI_INJECT);
	if (ep->outstanding >= ep->tx_size)
		return -FI_EAGAIN;
	struct vfi_send *send = make(ep, call, peer, size);
	if (!send)
		return -FI_ENOMEM;
	struct vshmem_awaited *operation = &send->operation;
	if (ack)
		header->flags |= VSHMEM_WIRE_ACK;
	if (ack || !eager) {
		operation->kind = eager ? VFI_KIND_ACKED : VFI_KIND_SEND;
		header->token = vshmem_token_take(&ep->to, operation);
		if (header->token == 0) {
			vfi_send_free(ep, send);
			return -FI_EAGAIN;
		}
	}
	if (eager) {
		set_eager(send, call->tagged);
	} else {
		header->flags |= call->tagged ? VSHMEM_WIRE_TAGGED : 0;
		set_rendezvous(ep, peer, send);
	}
	operation->out.header = *header;
	vshmem_peer_send(&ep->to, &peer->base, &operation->out);
	return 0;
}

static ssize_t send_locked(struct vfi_endpoint *ep, const struct vfi_call *call)
{
	struct vfi_peer *peer;
	int rc = vfi_peer_of(ep, call->addr, &peer);
	if (rc != 0)
		return rc;
	if (__builtin_expect(peer->base.error != 0, 0))
		return fail(ep, call, peer);
	/* What was begun before has to be over. */
	if (call->flags & FI_FENCE && (peer->base.under_way || peer->base.waiting.first))
		return -FI_EAGAIN;
	size_t size = vshmem_bytes_of(call->parts, call->count);
	struct vshmem_wire header = { .flags = call->flags & FI_REMOTE_CQ_DATA ? VSHMEM_WIRE_DATA
									       : 0,
		.bytes = (uint32_t)size,
		.message = { .size = size, .tag = call->tag, .cq_data = call->data } };
	if (call->count > 1 || size + sizeof(header) > peer->base.most
		|| call->flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE))
		return start(ep, call, peer, &header, size);
	rc = vshmem_peer_post(&ep->to, &peer->base, call->tagged ? VFI_EAGER_TAGGED : VFI_EAGER,
		&header, call->count ? call->parts[0].iov_base : NULL, (uint32_t)size);
	if (rc == -EAGAIN)
		return start(ep, call, peer, &header, size);
	if (rc != 0) {
		vshmem_peer_fail(&ep->to, &peer->base, FI_EIO, -rc);
		return fail(ep, call, peer);
	}
	vfi_tx_done(ep, ep->send_counter, call->context, completion_flags(call),
		call->flags & FI_COMPLETION);
	return 0;
}

ssize_t vfi_start_send(struct vfi_endpoint *ep, const struct vfi_call *call)
{
	if (!ep->enabled)
		return -FI_EOPBADSTATE;
	if (call->count > VSHMEM_PARTS
		|| (call->flags & FI_INJECT
			&& vshmem_bytes_of(call->parts, call->count) > VFI_INJECT_BYTES))
		return -FI_EINVAL;
	vfi_lock(ep->domain, &ep->lock);
	ssize_t rc = send_locked(ep, call);
	vfi_unlock(ep->domain, &ep->lock);
	return rc;
}

void vfi_send_acked(struct vfi_endpoint *ep, const struct vshmem_incoming *message)
{
	struct vfi_send *send = (struct vfi_send *)vshmem_token_find(
		&ep->to, message->header.token, VFI_KIND_ACKED, message->source->port.nonce);
	if (!send || !send->is_asked)
		return;
	vshmem_token_leave(&ep->to, &send->operation);
	vfi_tx_done(ep, ep->send_counter, send->context, send->flags, send->wanted);
	vfi_send_free(ep, send);
}
