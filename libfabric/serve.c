/* What peers ask of this endpoint's memory: done here, and answered.
 *
 * An answer that finds no room waits, and so many of one peer at most: one that asks and does not
 * read its answers gets none. What is read goes in pieces; a piece that waits is copied, because
 * the region may be closed meanwhile, and few of one peer are.
 */
#include "atomic_apply.h"
#include "one_sided.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Pieces of what one peer reads: that wait for room, and that are sent in one go. */
enum { PIECES = 4, AT_ONCE = 64 };

/* An answer that waits for room. */
struct answer {
	struct vfi_outgoing out;
	char payload[];
};

uint64_t vfi_access(uint8_t what, int op, bool fetches)
{
	if (what == VFI_PUT)
		return FI_REMOTE_WRITE;
	if (what == VFI_GET || op == FI_ATOMIC_READ)
		return FI_REMOTE_READ;
	return fetches ? FI_REMOTE_READ | FI_REMOTE_WRITE : FI_REMOTE_WRITE;
}

void vfi_count_remote(struct vfi_endpoint *ep, struct vfi_region *region, uint64_t access)
{
	/* A fetching operation is a read, as it is for those that begin it. */
	bool read = access & FI_REMOTE_READ;
	struct fid_cntr *counter = !region ? NULL : read ? region->read : region->written;
	vfi_count(read ? ep->remote_read_counter : ep->remote_write_counter, false);
	if (counter)
		counter->ops->add(counter, 1);
}

void vfi_remote_data(struct vfi_endpoint *ep, struct vfi_source *source, uint64_t data)
{
	struct fi_cq_tagged_entry entry = { .flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
		.data = data };
	if (ep->rx_cq)
		vfi_cq_add(ep->rx_cq, &entry, vfi_source_addr(ep, source));
}

static void answer_sent(struct vfi_endpoint *ep, struct vfi_peer *peer, struct vfi_outgoing *out,
	int error, int prov_errno)
{
	(void)ep, (void)error, (void)prov_errno;
	struct vfi_remote *remote = peer->memory;
	remote->answers--;
	free(out);
}

static void answer(struct vfi_endpoint *ep, struct vfi_peer *peer, const struct vfi_wire *header,
	const void *payload, uint32_t bytes)
{
	int rc = vfi_peer_post(ep, peer, VFI_ANSWER, header, payload, bytes);
	if (rc != -EAGAIN) {
		if (rc != 0)
			vfi_peer_fail(ep, peer, FI_EIO, -rc);
		return;
	}
	struct vfi_remote *remote = vfi_remote_of(ep, peer);
	struct answer *later = remote && remote->answers < VFI_REQUESTS
		? calloc(1, sizeof(*later) + bytes)
		: NULL;
	if (!later)
		return;
	remote->answers++;
	if (bytes)
		memcpy(later->payload, payload, bytes);
	later->out = (struct vfi_outgoing) { .header = *header,
		.parts = { { later->payload, bytes } },
		.count = bytes ? 1 : 0,
		.operation = VFI_ANSWER,
		.sent = answer_sent };
	vfi_peer_send(ep, peer, &later->out);
}

/* The header of the answer to a request. */
static struct vfi_wire answer_to(const struct vfi_incoming *message, int error)
{
	return (struct vfi_wire) { .flags = message->header.flags & VFI_WIRE_ACK,
		.answered = message->operation,
		.error = (uint16_t)error,
		.token = message->header.token };
}

static void put(struct vfi_endpoint *ep, struct vfi_peer *peer, const struct vfi_incoming *message)
{
	const struct vfi_wire *header = &message->header;
	char *there;
	int error = 0;
	/* Where some of it is outside of the region, none is written. */
	bool more = !(header->flags & VFI_WIRE_ACK) && header->put.left > header->bytes;
	bool refused = header->token && header->token == message->source->refused;
	struct vfi_region *region = refused
		? NULL
		: vfi_region_hold(ep->domain->memory, header->put.key, header->put.address,
			  more ? header->put.left : header->bytes, FI_REMOTE_WRITE, &there, &error);
	if (refused)
		error = FI_EINVAL;
	if (!region)
		message->source->refused = header->token;
	if (region) {
		vfi_copy(there, message->payload, header->bytes);
		if (header->flags & VFI_WIRE_ACK)
			vfi_count_remote(ep, region, FI_REMOTE_WRITE);
		vfi_region_release(ep->domain->memory);
		if (header->flags & VFI_WIRE_DATA)
			vfi_remote_data(ep, message->source, header->put.cq_data);
	}
	if (error || (header->flags & VFI_WIRE_ACK)) {
		struct vfi_wire reply = answer_to(message, error);
		answer(ep, peer, &reply, NULL, 0);
	}
}

/* What is wrong with an atomic operation; 0: nothing. */
static int refuse_atomic(const struct vfi_wire *header, bool fetches, bool compares)
{
	enum vfi_atomic_call call = compares ? VFI_ATOMIC_COMPARE
		: fetches                    ? VFI_ATOMIC_FETCH
					     : VFI_ATOMIC_BASE;
	if (!vfi_atomic_valid(header->datatype, header->op, call))
		return FI_EOPNOTSUPP;
	uint64_t sent = header->op == FI_ATOMIC_READ ? 0
		: compares                               ? 2 * header->atomic.length
							 : header->atomic.length;
	bool whole = header->atomic.length <= VFI_ATOMIC_BYTES && header->bytes == sent
	        && header->atomic.length % vfi_number_bytes(header->datatype) == 0;
	return whole ? 0 : FI_EINVAL;
}

static void atomic(
	struct vfi_endpoint *ep, struct vfi_peer *peer, const struct vfi_incoming *message)
{
	const struct vfi_wire *header = &message->header;
	char result[VFI_ATOMIC_BYTES], *there;
	bool compares = header->op >= FI_CSWAP;
	bool fetches = compares || (header->flags & VFI_WIRE_FETCH);
	uint64_t access = vfi_access(VFI_ATOMIC, header->op, fetches);
	int error = refuse_atomic(header, fetches, compares);
	struct vfi_region *region = error
		? NULL
		: vfi_region_hold(ep->domain->memory, header->atomic.key, header->atomic.address,
			  header->atomic.length, access, &there, &error);
	size_t unit = vfi_number_bytes(header->datatype);
	if (region && (uintptr_t)there % unit == 0) {
		const uint8_t *operands = header->bytes ? message->payload : NULL;
		vfi_atomic_apply(there, header->datatype, header->op, operands,
			compares ? operands + header->atomic.length : NULL, fetches ? result : NULL,
			header->atomic.length / unit);
		vfi_count_remote(ep, region, access);
	} else if (region) {
		error = FI_EINVAL;
	}
	if (region)
		vfi_region_release(ep->domain->memory);
	struct vfi_wire reply = answer_to(message, error);
	answer(ep, peer, &reply, result, fetches && !error ? (uint32_t)header->atomic.length : 0);
}

/* What a message has room for. */
static uint32_t piece_bytes(const struct vfi_peer *peer)
{ return (peer->most - (uint32_t)sizeof(struct vfi_wire)) & ~63u; }

/* The next piece of what is read: from the region itself or, where it has to wait, into ROOM. */
static int read_piece(struct vfi_endpoint *ep, struct vfi_peer *peer, struct vfi_reading *reading,
	struct answer *room)
{
	const struct vfi_wire *request = &reading->request;
	uint64_t left = request->get.length - reading->at;
	uint32_t bytes = left < piece_bytes(peer) ? (uint32_t)left : piece_bytes(peer);
	struct vfi_wire header = {
		.answered = VFI_GET, .answer.offset = reading->at, .token = request->token
	};
	char *there;
	int rc = 0, error = 0;
	/* All of it: what is outside of the region is refused before any of it is sent. */
	struct vfi_region *region = vfi_region_hold(ep->domain->memory, request->get.key,
		request->get.address, request->get.length, FI_REMOTE_READ, &there, &error);
	if (!region) {
		header.error = (uint16_t)error;
		bytes = 0;
	}
	if (room) {
		room->out = (struct vfi_outgoing) { .header = header,
			.parts = { { room->payload, bytes } },
			.count = bytes ? 1 : 0,
			.operation = VFI_ANSWER };
		if (bytes)
			memcpy(room->payload, there + reading->at, bytes);
	} else {
		rc = vfi_peer_post(
			ep, peer, VFI_ANSWER, &header, region ? there + reading->at : NULL, bytes);
	}
	if (rc == 0) {
		reading->at = region ? reading->at + bytes : request->get.length;
		if (region && reading->at == request->get.length)
			vfi_count_remote(ep, region, FI_REMOTE_READ);
	}
	if (region)
		vfi_region_release(ep->domain->memory);
	return rc;
}

static void piece_sent(struct vfi_endpoint *ep, struct vfi_peer *peer, struct vfi_outgoing *out,
	int error, int prov_errno)
{
	(void)ep, (void)error, (void)prov_errno;
	struct vfi_remote *remote = peer->memory;
	remote->pieces--;
	free(out);
}

/* Without room some pieces wait among what else waits: so this peer's turn comes. */
static int wait_with_piece(
	struct vfi_endpoint *ep, struct vfi_peer *peer, struct vfi_reading *reading)
{
	struct vfi_remote *remote = peer->memory;
	struct answer *piece = remote->pieces < PIECES ? malloc(sizeof(*piece) + piece_bytes(peer))
						       : NULL;
	if (!piece)
		return -EAGAIN;
	read_piece(ep, peer, reading, piece);
	piece->out.sent = piece_sent;
	remote->pieces++;
	vfi_peer_send(ep, peer, &piece->out);
	return 0;
}

int vfi_read_on(struct vfi_endpoint *ep, struct vfi_peer *peer)
{
	struct vfi_remote *remote = peer->memory;
	int turn = 0;
	for (; remote->first && turn < AT_ONCE && !peer->error; turn++) {
		struct vfi_reading *reading = remote->first;
		int rc = read_piece(ep, peer, reading, NULL);
		if (rc == -EAGAIN && wait_with_piece(ep, peer, reading) != 0)
			break;
		if (rc != 0 && rc != -EAGAIN) {
			vfi_peer_fail(ep, peer, FI_EIO, -rc);
			break;
		}
		/* Failing, it has given back all that it was reading. */
		if (peer->error)
			break;
		if (reading->at < reading->request.get.length)
			continue;
		remote->first = reading->next;
		remote->answers--;
		((struct vfi_rma *)ep->rma)->reading--;
		free(reading);
	}
	return turn;
}

static void get(struct vfi_endpoint *ep, struct vfi_peer *peer, const struct vfi_incoming *message)
{
	struct vfi_remote *remote = vfi_remote_of(ep, peer);
	struct vfi_reading *reading = remote && remote->answers < VFI_REQUESTS
	                && peer->most > sizeof(struct vfi_wire) + 63
		? calloc(1, sizeof(*reading))
		: NULL;
	if (!reading)
		return;
	reading->request = message->header;
	remote->answers++;
	((struct vfi_rma *)ep->rma)->reading++;
	/* What is asked for first is read first. */
	if (remote->first)
		remote->last->next = reading;
	else
		remote->first = reading;
	remote->last = reading;
	vfi_read_on(ep, peer);
}

/* A peer has done something to memory of this domain by itself, and tells of it. */
static void remote_done(struct vfi_endpoint *ep, const struct vfi_incoming *message)
{
	const struct vfi_wire *header = &message->header;
	char *there;
	int error;
	struct vfi_region *region = vfi_region_hold(ep->domain->memory, header->remote.key,
		header->remote.address, 0, 0, &there, &error);
	vfi_count_remote(
		ep, region, header->done & VFI_REMOTE_READ ? FI_REMOTE_READ : FI_REMOTE_WRITE);
	if (region)
		vfi_region_release(ep->domain->memory);
	if (header->flags & VFI_WIRE_DATA)
		vfi_remote_data(ep, message->source, header->remote.cq_data);
}

void vfi_serve(struct vfi_endpoint *ep, const struct vfi_incoming *message)
{
	if (message->operation == VFI_REMOTE_DONE) {
		remote_done(ep, message);
		return;
	}
	struct vfi_peer *peer = vfi_peer_of_source(ep, message->source);
	if (!peer || peer->error)
		return;
	switch (message->operation) {
	case VFI_PUT: put(ep, peer, message); break;
	case VFI_GET: get(ep, peer, message); break;
	case VFI_ATOMIC: atomic(ep, peer, message); break;
	default: break;
	}
}
