/* Receives that end: completions, acknowledgements, and buffers of several messages. */
#include "vshmem_fi.h"

/* The receive is over. FI_MULTI_RECV when the buffer of several messages is the program's again. */
static uint64_t release(struct vfi_endpoint *ep, struct vfi_receive *receive)
{
	struct vfi_receive *whole = receive->within;
	vfi_receive_free(ep, receive);
	if (!whole)
		return 0;
	whole->filling--;
	if (!whole->ended || whole->filling)
		return 0;
	vfi_receive_free(ep, whole);
	return FI_MULTI_RECV;
}

static uint64_t flags_of(const struct vfi_receive *receive, const struct vshmem_wire *header)
{
	return FI_RECV | (receive->tagged ? FI_TAGGED : FI_MSG)
		| (header->flags & VSHMEM_WIRE_DATA ? FI_REMOTE_CQ_DATA : 0);
}

static fi_addr_t source_of(struct vfi_endpoint *ep, const struct vshmem_address *port)
{ return ep->caps & FI_SOURCE ? vfi_av_of_nonce(ep->av, port->nonce) : FI_ADDR_NOTAVAIL; }

void vfi_received(struct vfi_endpoint *ep, struct vfi_receive *receive,
	const struct vshmem_wire *header, const struct vshmem_address *port, size_t copied)
{
	if (header->flags & VSHMEM_WIRE_ACK) {
		struct vfi_peer *peer = vfi_peer_of_port(ep, port);
		struct vshmem_wire answer = { .token = header->token };
		if (peer)
			vshmem_peer_answer(&ep->to, &peer->base, VFI_ACK, &answer, NULL, 0);
	}
	if (copied < header->message.size) {
		receive->got = copied;
		vfi_receive_failed(ep, receive, header, FI_ETRUNC, 0);
		return;
	}
	struct fi_cq_tagged_entry entry = { .op_context = receive->context,
		.flags = flags_of(receive, header),
		.len = copied,
		.buf = receive->operation.out.parts[0].iov_base,
		.data = header->message.cq_data,
		.tag = header->message.tag };
	bool wanted = receive->wanted_completion;
	entry.flags |= release(ep, receive);
	vfi_count(ep->receive_counter, false);
	if (ep->rx_cq && (wanted || entry.flags & FI_MULTI_RECV))
		vfi_cq_add(ep->rx_cq, &entry, source_of(ep, port));
}

void vfi_receive_failed(struct vfi_endpoint *ep, struct vfi_receive *receive,
	const struct vshmem_wire *header, int error, int prov_errno)
{
	struct fi_cq_err_entry entry = { .op_context = receive->context,
		.flags = flags_of(receive, header),
		.len = receive->got,
		.buf = receive->operation.out.parts[0].iov_base,
		.data = header->message.cq_data,
		.tag = header->message.tag,
		.olen = error == FI_ETRUNC ? header->message.size - receive->got : 0,
		.err = error,
		.prov_errno = prov_errno };
	entry.flags |= release(ep, receive);
	vfi_count(ep->receive_counter, true);
	if (ep->rx_cq)
		vfi_cq_add_error(ep->rx_cq, &entry, FI_ADDR_NOTAVAIL);
}
