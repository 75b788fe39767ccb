/* Messages that are too long for one piece. Once a receive is there, its owner copies as many bytes
 * as it has room for from the sender's memory, if that is the pool's, or if it can read it
 * (cross_memory.c). Otherwise it
 * asks for them, and copies each piece straight to the program's buffer; pieces of several messages
 * may come by turns.
 */
#include "vshmem_fi.h"

#include <errno.h>
#include <string.h>

/* Pieces sent in one go: so that both directions go on at once, and others make progress, too. */
#define PIECES 4

static void sent_all(struct vfi_endpoint *ep, struct vfi_send *send)
{
	vshmem_token_leave(&ep->to, &send->operation);
	vfi_tx_done(ep, ep->send_counter, send->context, send->flags, send->wanted);
	vfi_send_free(ep, send);
}

void vfi_rendezvous_cleared(struct vfi_endpoint *ep, const struct vshmem_incoming *message)
{
	struct vfi_send *send = (struct vfi_send *)vshmem_token_find(
		&ep->to, message->header.token, VFI_KIND_SEND, message->source->port.nonce);
	if (!send || !send->is_asked || send->cleared)
		return;
	struct vfi_peer *peer = (struct vfi_peer *)send->operation.peer;
	vfi_offer_withdraw(ep, send);
	send->cleared = true;
	send->receiver = message->header.clear.receiver;
	send->asked = message->header.clear.wanted < send->size ? message->header.clear.wanted
								: send->size;
	if (send->asked == 0) {
		sent_all(ep, send);
		return;
	}
	vshmem_queue_append(&peer->sending, &send->operation.out);
	vshmem_peer_busy(&ep->to, &peer->base);
}

static int push_piece(struct vfi_endpoint *ep, struct vfi_peer *peer, struct vfi_send *send)
{
	size_t left = send->asked - send->pieces, most = peer->piece - sizeof(struct vshmem_wire);
	size_t bytes = left < most ? left : most;
	struct vshmem_wire header = {
		.bytes = (uint32_t)bytes, .piece.offset = send->pieces, .token = send->receiver
	};
	struct iovec parts[VSHMEM_PARTS + 1] = { { &header, sizeof(header) } };
	int count = vshmem_slice(send->parts, send->count, send->pieces, bytes, parts + 1);
	int rc = vshmem_send(peer->base.lane, parts, count + 1, VFI_PIECE);
	if (rc != 0)
		return rc;
	send->pieces += bytes;
	if (peer->base.wakes)
		vfi_wake(&ep->to, &peer->base);
	return 0;
}

int vfi_rendezvous_push(struct vshmem_peers *peers, struct vshmem_peer *base)
{
	struct vfi_endpoint *ep = vfi_endpoint_of(peers);
	struct vfi_peer *peer = (struct vfi_peer *)base;
	int pushed = 0;
	while (peer->sending.first && pushed < PIECES) {
		/* The first member of the first member. */
		struct vfi_send *send = (struct vfi_send *)peer->sending.first;
		int rc = push_piece(ep, peer, send);
		if (rc == -EAGAIN)
			break;
		if (rc != 0) {
			vshmem_peer_fail(peers, base, FI_EIO, -rc);
			break;
		}
		pushed++;
		if (send->pieces < send->asked)
			continue;
		vshmem_queue_take(&peer->sending);
		if (send->operation.out.header.flags & VSHMEM_WIRE_ACK)
			send->operation.kind = VFI_KIND_ACKED;
		else
			sent_all(ep, send);
	}
	if (peer->sending.first)
		vshmem_peer_busy(peers, base);
	return pushed;
}

/* Copies what its sender has in the pool. False: it is to be asked for; what the parts hold may
 * have been written. */
static bool read_in_pool(const struct vfi_endpoint *ep, const struct vfi_peer *peer,
	const struct vshmem_wire *header, const void *named, const struct vfi_receive *receive,
	size_t wanted)
{
	const struct vfi_domain *domain = ep->domain;
	struct vfi_pool_place place;
	if (header->bytes != sizeof(place))
		return false;
	memcpy(&place, named, sizeof(place));
	if (!domain->base || place.offset > domain->bytes
		|| header->message.size > domain->bytes - place.offset)
		return false;
	vshmem_scatter(receive->operation.out.parts, (size_t)receive->operation.out.count, 0,
		(const char *)domain->base + place.offset, wanted);
	/* Until then the memory was nobody else's. */
	return vshmem_lane_alive(peer->base.lane) && !vshmem_lane_closed(peer->base.lane);
}

static void receive_failed(
	struct vshmem_peers *peers, struct vshmem_awaited *operation, int error, int prov_errno)
{
	struct vfi_endpoint *ep = vfi_endpoint_of(peers);
	struct vfi_receive *receive = (struct vfi_receive *)operation;
	vfi_receive_failed(ep, receive, &receive->header, error, prov_errno);
}

void vfi_rendezvous_accept(struct vfi_endpoint *ep, struct vfi_receive *receive,
	const struct vshmem_wire *header, const struct vshmem_address *port, const void *offered_at)
{
	struct vfi_peer *peer = vfi_peer_of_port(ep, port);
	size_t room = vshmem_bytes_of(
		receive->operation.out.parts, (size_t)receive->operation.out.count);
	receive->header = *header;
	if (!peer || peer->base.error) {
		vfi_receive_failed(ep, receive, header, peer ? peer->base.error : FI_ENOMEM,
			peer ? peer->base.prov_errno : 0);
		return;
	}
	receive->port = *port;
	size_t wanted = header->message.size < room ? header->message.size : room;
	if (wanted
		&& (read_in_pool(ep, peer, header, offered_at, receive, wanted)
			|| vfi_offer_read(ep, peer, header, offered_at,
				receive->operation.out.parts, (size_t)receive->operation.out.count,
				wanted))) {
		/* An answer that nothing is wanted any more is one that it was delivered. */
		struct vshmem_wire whole = *header;
		whole.flags &= (uint8_t)~VSHMEM_WIRE_ACK;
		vfi_rendezvous_discard(ep, header, port);
		vfi_received(ep, receive, &whole, port, wanted);
		return;
	}
	receive->wanted = wanted;
	receive->got = 0;
	receive->operation.peer = &peer->base;
	receive->operation.kind = VFI_KIND_RECEIVE;
	receive->operation.failed = receive_failed;
	struct vshmem_wire answer = { .token = header->token, .clear.wanted = wanted };
	if (wanted) {
		answer.clear.receiver = vshmem_token_take(&ep->to, &receive->operation);
		if (answer.clear.receiver == 0) {
			vfi_rendezvous_discard(ep, header, port);
			vfi_receive_failed(ep, receive, header, FI_ENOMEM, 0);
			return;
		}
	}
	/* With a token it may have failed by now, with its peer. */
	vshmem_peer_answer(&ep->to, &peer->base, VFI_CLEAR_TO_SEND, &answer, NULL, 0);
	if (wanted == 0)
		vfi_received(ep, receive, header, port, 0);
}

void vfi_rendezvous_discard(struct vfi_endpoint *ep, const struct vshmem_wire *header,
	const struct vshmem_address *port)
{
	struct vfi_peer *peer = vfi_peer_of_port(ep, port);
	struct vshmem_wire answer = { .token = header->token };
	if (peer)
		vshmem_peer_answer(&ep->to, &peer->base, VFI_CLEAR_TO_SEND, &answer, NULL, 0);
}

void vfi_rendezvous_piece(struct vfi_endpoint *ep, const struct vshmem_incoming *message)
{
	struct vfi_receive *receive = (struct vfi_receive *)vshmem_token_find(
		&ep->to, message->header.token, VFI_KIND_RECEIVE, message->source->port.nonce);
	size_t bytes = message->header.bytes;
	if (!receive)
		return;
	if (message->header.piece.offset != receive->got || bytes == 0
		|| bytes > receive->wanted - receive->got) {
		vshmem_peer_fail(&ep->to, receive->operation.peer, FI_EIO, EBADMSG);
		return;
	}
	vshmem_scatter(receive->operation.out.parts, (size_t)receive->operation.out.count,
		receive->got, message->payload, bytes);
	receive->got += bytes;
	if (receive->got < receive->wanted)
		return;
	struct vshmem_wire header = receive->header;
	struct vshmem_address port = receive->port;
	vshmem_token_leave(&ep->to, &receive->operation);
	vfi_received(ep, receive, &header, &port, receive->got);
}
