/* Receives: posting, peeking, claiming, cancelling, and messages that come. */
#include "vshmem_fi.h"

#include <stdlib.h>
#include <string.h>

/* The receive that a message goes to: the posted one, or for a buffer of several messages the part
 * of it that is this message's. */
static struct vfi_receive *take_part(
	struct vfi_endpoint *ep, struct vfi_receive *receive, bool is_posted, size_t size)
{
	if (!(receive->flags & FI_MULTI_RECV)) {
		if (is_posted)
			vfi_unpost_receive(ep, receive, receive->tagged);
		return receive;
	}
	struct vfi_receive *part = vfi_receive_new(ep);
	if (!part)
		return NULL;
	size_t left = receive->room - receive->used, bytes = size < left ? size : left;
	part->operation.out.parts[0] = (struct iovec) {
		(char *)receive->operation.out.parts[0].iov_base + receive->used, bytes
	};
	part->operation.out.count = 1;
	part->room = bytes;
	part->context = receive->context;
	part->wanted_completion = receive->wanted_completion;
	part->within = receive;
	receive->used += bytes;
	receive->filling++;
	if (receive->room - receive->used < ep->least_multi || receive->room == receive->used) {
		receive->ended = true;
		if (is_posted)
			vfi_unpost_receive(ep, receive, receive->tagged);
	}
	return part;
}

static void deliver(struct vfi_endpoint *ep, struct vfi_receive *receive,
	const struct vshmem_wire *header, const struct vshmem_address *port, const uint8_t *payload)
{
	size_t left = header->bytes;
	const struct iovec *parts = receive->operation.out.parts;
	for (int nth = 0; nth < receive->operation.out.count && left; nth++) {
		size_t bytes = parts[nth].iov_len < left ? parts[nth].iov_len : left;
		memcpy(parts[nth].iov_base, payload, bytes);
		payload += bytes;
		left -= bytes;
	}
	vfi_received(ep, receive, header, port, header->bytes - left);
}

static void begin(struct vfi_endpoint *ep, struct vfi_receive *receive, bool rendezvous,
	const struct vshmem_wire *header, const struct vshmem_address *port, const uint8_t *payload)
{
	if (rendezvous)
		vfi_rendezvous_accept(ep, receive, header, port, payload);
	else
		deliver(ep, receive, header, port, payload);
}

void vfi_message_arrived(struct vfi_endpoint *ep, const struct vshmem_incoming *message)
{
	bool rendezvous = message->operation == VFI_READY_TO_SEND;
	bool tagged = rendezvous ? message->header.flags & VSHMEM_WIRE_TAGGED
				 : message->operation == VFI_EAGER_TAGGED;
	struct vfi_receive *receive = vfi_match_posted(ep, message, tagged);
	struct vfi_receive *part = receive
		? take_part(ep, receive, true, message->header.message.size)
		: NULL;
	if (part)
		begin(ep, part, rendezvous, &message->header, &message->source->port,
			message->payload);
	else if (!vfi_keep_unexpected(ep, message))
		vfi_say("no memory for a message that is not expected: it is lost");
}

static ssize_t complete_peek(
	struct vfi_endpoint *ep, const struct vfi_call *call, const struct vfi_unexpected *found)
{
	uint64_t flags = FI_RECV | (call->tagged ? FI_TAGGED : FI_MSG);
	if (!found) {
		struct fi_cq_err_entry error = { .op_context = call->context,
			.flags = flags,
			.tag = call->tag,
			.err = FI_ENOMSG };
		if (ep->rx_cq)
			vfi_cq_add_error(ep->rx_cq, &error, FI_ADDR_NOTAVAIL);
		return 0;
	}
	if (found->header.flags & VSHMEM_WIRE_DATA)
		flags |= FI_REMOTE_CQ_DATA;
	struct fi_cq_tagged_entry entry = { .op_context = call->context,
		.flags = flags,
		.len = found->header.message.size,
		.data = found->header.message.cq_data,
		.tag = found->header.message.tag };
	if (ep->rx_cq)
		vfi_cq_add(ep->rx_cq, &entry,
			ep->caps & FI_SOURCE ? vfi_av_of_nonce(ep->av, found->port.nonce)
					     : FI_ADDR_NOTAVAIL);
	return 0;
}

static void discard(struct vfi_endpoint *ep, struct vfi_unexpected *message)
{
	if (message->rendezvous)
		vfi_rendezvous_discard(ep, &message->header, &message->port);
	free(message);
}

static ssize_t peek(
	struct vfi_endpoint *ep, const struct vfi_call *call, const struct vfi_receive *receive)
{
	bool take = call->flags & (FI_CLAIM | FI_DISCARD);
	struct vfi_unexpected *found = vfi_match_unexpected(ep, receive, call->tagged, take);
	complete_peek(ep, call, found);
	if (!found || !take)
		return 0;
	if (call->flags & FI_DISCARD) {
		discard(ep, found);
		return 0;
	}
	found->claimed = call->context;
	vfi_link_unexpected(&ep->claimed, found);
	return 0;
}

/* Receives the message that this context has claimed. */
static ssize_t claim(
	struct vfi_endpoint *ep, const struct vfi_call *call, struct vfi_receive *receive)
{
	struct vfi_unexpected *message = ep->claimed.first;
	while (message && message->claimed != call->context)
		message = message->next;
	if (!message)
		return -FI_EINVAL;
	vfi_unlink_unexpected(&ep->claimed, message);
	if (call->flags & FI_DISCARD) {
		struct fi_cq_tagged_entry entry = { .op_context = call->context,
			.flags = FI_RECV | (call->tagged ? FI_TAGGED : FI_MSG),
			.tag = message->header.message.tag };
		discard(ep, message);
		vfi_receive_free(ep, receive);
		if (ep->rx_cq)
			vfi_cq_add(ep->rx_cq, &entry, FI_ADDR_NOTAVAIL);
		return 0;
	}
	begin(ep, receive, message->rendezvous, &message->header, &message->port, message->payload);
	free(message);
	return 0;
}

/* Takes what is there already. True: the receive is used up. */
static bool take_unexpected(struct vfi_endpoint *ep, struct vfi_receive *receive)
{
	bool several = receive->flags & FI_MULTI_RECV;
	struct vfi_unexpected *message;
	do {
		message = vfi_match_unexpected(ep, receive, receive->tagged, true);
		if (!message)
			return false;
		struct vfi_receive *part = take_part(
			ep, receive, false, message->header.message.size);
		if (!part) {
			vfi_say("no memory for a receive: a message is lost");
			free(message);
			return false;
		}
		/* The last message of a buffer gives it back: the receive is not looked at after
		 * that. */
		bool over = !several || receive->ended;
		begin(ep, part, message->rendezvous, &message->header, &message->port,
			message->payload);
		free(message);
		if (over)
			return true;
	} while (several);
	return true;
}

static struct vfi_receive *make(struct vfi_endpoint *ep, const struct vfi_call *call)
{
	struct vfi_receive *receive = vfi_receive_new(ep);
	if (!receive)
		return NULL;
	receive->tagged = call->tagged;
	receive->tag = call->tag;
	receive->ignore = call->tagged ? call->ignore : UINT64_MAX;
	receive->context = call->context;
	receive->flags = call->flags & FI_MULTI_RECV;
	receive->wanted_completion = call->flags & FI_COMPLETION;
	receive->operation.out.count = (int)call->count;
	for (size_t nth = 0; nth < call->count; nth++)
		receive->operation.out.parts[nth] = call->parts[nth];
	receive->room = vshmem_bytes_of(call->parts, call->count);
	receive->source = FI_ADDR_UNSPEC;
	return receive;
}

/* Only messages of this peer. */
static int direct(struct vfi_endpoint *ep, struct vfi_receive *receive, fi_addr_t source)
{
	struct vfi_address address;
	if (source == FI_ADDR_UNSPEC || !(ep->caps & FI_DIRECTED_RECV))
		return 0;
	if (source < ep->by_addr_room && ep->by_addr[source])
		receive->from = ep->by_addr[source]->address.nonce;
	else if (ep->av && vfi_av_address(ep->av, source, &address))
		receive->from = address.nonce;
	else
		return -FI_EINVAL;
	receive->source = source;
	return 0;
}

static ssize_t receive_locked(struct vfi_endpoint *ep, const struct vfi_call *call)
{
	struct vfi_receive *receive = make(ep, call);
	if (!receive)
		return -FI_ENOMEM;
	ssize_t rc = direct(ep, receive, call->addr);
	if (rc == 0 && call->flags & FI_PEEK) {
		rc = peek(ep, call, receive);
		vfi_receive_free(ep, receive);
		return rc;
	}
	if (rc == 0 && call->flags & FI_CLAIM)
		rc = claim(ep, call, receive);
	else if (rc == 0 && !take_unexpected(ep, receive)) {
		const struct vfi_peer *peer = receive->from ? vfi_peer_known(ep, receive->from)
							    : NULL;
		static const struct vshmem_wire none;
		if (peer && peer->base.error)
			vfi_receive_failed(
				ep, receive, &none, FI_EHOSTUNREACH, peer->base.prov_errno);
		else
			vfi_post_receive(ep, receive, call->tagged);
	}
	if (rc != 0)
		vfi_receive_free(ep, receive);
	return rc;
}

ssize_t vfi_start_receive(struct vfi_endpoint *ep, const struct vfi_call *call)
{
	if (!ep->enabled)
		return -FI_EOPBADSTATE;
	if (call->count > VSHMEM_PARTS
		|| (call->flags & FI_MULTI_RECV && (call->tagged || call->count != 1)))
		return -FI_EINVAL;
	vfi_lock(ep->domain, &ep->lock);
	ssize_t rc = receive_locked(ep, call);
	vfi_unlock(ep->domain, &ep->lock);
	return rc;
}

ssize_t vfi_cancel(struct vfi_endpoint *ep, void *context)
{
	static const struct vshmem_wire none;
	struct vfi_receives *lists[] = { &ep->posted, &ep->posted_tagged };
	vfi_lock(ep->domain, &ep->lock);
	for (size_t nth = 0; nth < 2; nth++) {
		struct vfi_receive *receive = lists[nth]->first;
		while (receive && receive->context != context)
			receive = receive->next;
		if (!receive)
			continue;
		vfi_unpost_receive(ep, receive, nth == 1);
		receive->ended = true;
		/* With messages still coming to it, the last of them gives the buffer back. */
		if (receive->filling == 0)
			vfi_receive_failed(ep, receive, &none, FI_ECANCELED, 0);
		break;
	}
	vfi_unlock(ep->domain, &ep->lock);
	return 0;
}

void vfi_directed_fail(struct vfi_endpoint *ep, uint64_t nonce, int error, int prov_errno)
{
	static const struct vshmem_wire none;
	struct vfi_receives *lists[] = { &ep->posted, &ep->posted_tagged };
	for (size_t nth = 0; nth < 2; nth++) {
		struct vfi_receive *receive = lists[nth]->first, *next;
		for (; receive; receive = next) {
			next = receive->next;
			if (receive->from != nonce)
				continue;
			vfi_unpost_receive(ep, receive, nth == 1);
			vfi_receive_failed(ep, receive, &none, error, prov_errno);
		}
	}
}
