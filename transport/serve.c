/* What peers ask of this process's memory: done here, and answered.
 *
 * An answer that finds no room waits, and so many of one peer at most. What is read goes in pieces;
 * a piece that waits is copied, because the memory may be withdrawn meanwhile, and few of one peer
 * are.
 */
#include "one_sided.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Pieces of what one peer reads: that wait for room, and that are sent in one go. */
enum { PIECES = 4, AT_ONCE = 64 };

uint64_t vshmem_access(uint8_t what, int op, bool fetches)
{
	if (what == VSHMEM_PUT)
		return VSHMEM_REMOTE_WRITE;
	if (what == VSHMEM_GET || op == VSHMEM_WIRE_READ)
		return VSHMEM_REMOTE_READ;
	return fetches ? VSHMEM_REMOTE_READ | VSHMEM_REMOTE_WRITE : VSHMEM_REMOTE_WRITE;
}

/* The header of the answer to a request. */
static struct vshmem_wire answer_to(const struct vshmem_incoming *message, int error)
{
	return (struct vshmem_wire) { .flags = message->header.flags & VSHMEM_WIRE_ACK,
		.answered = message->operation,
		.error = (uint16_t)error,
		.token = message->header.token };
}

static void put(
	struct vshmem_peers *peers, struct vshmem_peer *peer, const struct vshmem_incoming *message)
{
	const struct vshmem_wire *header = &message->header;
	bool last = header->flags & VSHMEM_WIRE_ACK;
	/* Where some of it is outside of the region, none is written. */
	bool more = !last && header->put.left > header->bytes;
	void *region;
	char *there = NULL;
	int error = EINVAL;
	/* Its sender may have many more under way: the first is answered, and the last. */
	bool again = header->token && header->token == peer->refused;
	if (!again)
		there = peers->calls->hold(peers, VSHMEM_PUT, VSHMEM_REMOTE_WRITE, header->put.key,
			header->put.address, more ? header->put.left : header->bytes, &region,
			&error);
	if (there) {
		error = 0;
		vshmem_copy(there, message->payload, header->bytes);
		peers->calls->let_go(peers, region, last ? VSHMEM_REMOTE_WRITE : 0);
		if (header->flags & VSHMEM_WIRE_DATA && peers->calls->data)
			peers->calls->data(peers, message);
	} else {
		peer->refused = header->token;
	}
	if (last || (error && !again)) {
		struct vshmem_wire reply = answer_to(message, error);
		vshmem_peer_answer(peers, peer, VSHMEM_ANSWER, &reply, NULL, 0);
	}
}

/* What is wrong with an atomic operation; 0: nothing. */
static int refuse_atomic(const struct vshmem_wire *header, bool fetches, bool compares)
{
	enum vshmem_atomic_call call = compares ? VSHMEM_ATOMIC_COMPARE
		: fetches                       ? VSHMEM_ATOMIC_FETCH
						: VSHMEM_ATOMIC_BASE;
	if (!vshmem_atomic_valid(header->datatype, header->op, call))
		return EOPNOTSUPP;
	uint64_t sent = header->op == VSHMEM_WIRE_READ ? 0
		: compares                             ? 2 * header->atomic.length
						       : header->atomic.length;
	bool whole = header->atomic.length <= VSHMEM_ATOMIC_BYTES && header->bytes == sent
		&& header->atomic.length % vshmem_number_bytes(header->datatype) == 0;
	return whole ? 0 : EINVAL;
}

static void atomic(
	struct vshmem_peers *peers, struct vshmem_peer *peer, const struct vshmem_incoming *message)
{
	const struct vshmem_wire *header = &message->header;
	uint64_t length = header->atomic.length;
	char result[VSHMEM_ATOMIC_BYTES], *there = NULL;
	bool compares = header->op >= VSHMEM_WIRE_SWAP_IF;
	bool fetches = compares || (header->flags & VSHMEM_WIRE_FETCH);
	uint64_t access = vshmem_access(VSHMEM_ATOMIC, header->op, fetches);
	void *region;
	int error = refuse_atomic(header, fetches, compares);
	if (!error)
		there = peers->calls->hold(peers, VSHMEM_ATOMIC, access, header->atomic.key,
			header->atomic.address, length, &region, &error);
	if (there) {
		size_t unit = vshmem_number_bytes(header->datatype);
		const uint8_t *operands = header->bytes ? message->payload : NULL;
		error = (uintptr_t)there % unit != 0 ? EINVAL : 0;
		if (!error)
			vshmem_atomic_apply(there, header->datatype, header->op, operands,
				compares ? operands + length : NULL, fetches ? result : NULL,
				length / unit);
		peers->calls->let_go(peers, region, error ? 0 : access);
	}
	struct vshmem_wire reply = answer_to(message, error);
	vshmem_peer_answer(peers, peer, VSHMEM_ANSWER, &reply, result,
		fetches && !error ? (uint32_t)length : 0);
}

/* The next piece of what is read: from the region itself or, where it has to wait, into ROOM. */
static int read_piece(struct vshmem_peers *peers, struct vshmem_peer *peer,
	struct vshmem_reading *reading, struct vshmem_outgoing *room)
{
	const struct vshmem_wire *request = &reading->request;
	uint64_t left = request->get.length - reading->at;
	uint32_t most = vshmem_peer_payload(peer), bytes = left < most ? (uint32_t)left : most;
	struct vshmem_wire header = {
		.answered = VSHMEM_GET, .answer.offset = reading->at, .token = request->token
	};
	void *region;
	int rc = 0, error = 0;
	/* All of it: what is outside of the region is refused before any of it is sent. */
	char *there = peers->calls->hold(peers, VSHMEM_GET, VSHMEM_REMOTE_READ, request->get.key,
		request->get.address, request->get.length, &region, &error);
	if (!there) {
		header.error = (uint16_t)error;
		bytes = 0;
	}
	if (room) {
		*room = (struct vshmem_outgoing) { .header = header,
			.parts = { { room + 1, bytes } },
			.count = bytes ? 1 : 0,
			.operation = VSHMEM_ANSWER };
		if (bytes)
			memcpy(room + 1, there + reading->at, bytes);
	} else {
		rc = vshmem_peer_post(peers, peer, VSHMEM_ANSWER, &header,
			there ? there + reading->at : NULL, bytes);
	}
	if (rc == 0)
		reading->at = there ? reading->at + bytes : request->get.length;
	if (there)
		peers->calls->let_go(peers, region,
			rc == 0 && reading->at == request->get.length ? VSHMEM_REMOTE_READ : 0);
	return rc;
}

static void piece_sent(struct vshmem_peers *peers, struct vshmem_peer *peer,
	struct vshmem_outgoing *out, int error, int prov_errno)
{
	(void)peers, (void)error, (void)prov_errno;
	peer->pieces--;
	free(out);
}

/* Without room some pieces wait among what else waits: so this peer's turn comes. */
static int wait_with_piece(
	struct vshmem_peers *peers, struct vshmem_peer *peer, struct vshmem_reading *reading)
{
	struct vshmem_outgoing *piece = peer->pieces < PIECES
		? malloc(sizeof(*piece) + vshmem_peer_payload(peer))
		: NULL;
	if (!piece)
		return -EAGAIN;
	read_piece(peers, peer, reading, piece);
	piece->sent = piece_sent;
	peer->pieces++;
	vshmem_peer_send(peers, peer, piece);
	return 0;
}

/* More of what a peer reads: pieces. */
static int read_on(struct vshmem_peers *peers, struct vshmem_peer *peer)
{
	int turn = 0;
	for (; peer->first && turn < AT_ONCE; turn++) {
		struct vshmem_reading *reading = peer->first;
		int rc = read_piece(peers, peer, reading, NULL);
		if (rc == -EAGAIN && wait_with_piece(peers, peer, reading) != 0)
			break;
		if (rc != 0 && rc != -EAGAIN)
			vshmem_peer_fail(peers, peer, EIO, -rc);
		/* Failing, it has given back all that it was reading. */
		if (peer->error)
			return turn;
		if (reading->at < reading->request.get.length)
			continue;
		peer->first = reading->next;
		peer->answers--;
		free(reading);
	}
	if (peer->first)
		vshmem_peer_busy(peers, peer);
	return turn;
}

static void get(
	struct vshmem_peers *peers, struct vshmem_peer *peer, const struct vshmem_incoming *message)
{
	struct vshmem_reading *reading = peer->answers < VSHMEM_ANSWERS
			&& peer->most >= VSHMEM_LEAST_MOST
		? calloc(1, sizeof(*reading))
		: NULL;
	if (!reading)
		return;
	reading->request = message->header;
	peer->answers++;
	/* What is asked for first is read first. */
	if (peer->first)
		peer->last->next = reading;
	else
		peer->first = reading;
	peer->last = reading;
	read_on(peers, peer);
}

int vshmem_peers_push(struct vshmem_peers *peers)
{
	int done = 0;
	struct vshmem_peer *next = peers->busy;
	peers->busy = NULL;
	while (next) {
		struct vshmem_peer *peer = next;
		next = peer->next_busy;
		peer->busy = false;
		if (!peer->error)
			done += vshmem_peer_push(peers, peer);
		if (!peer->error && !peer->waiting.first && peers->calls->more)
			done += peers->calls->more(peers, peer);
		if (!peer->error)
			done += read_on(peers, peer);
		if (peer->waiting.first)
			vshmem_peer_busy(peers, peer);
	}
	return done;
}

void vshmem_serve(
	struct vshmem_peers *peers, struct vshmem_peer *peer, const struct vshmem_incoming *message)
{
	switch (message->operation) {
	case VSHMEM_PUT: put(peers, peer, message); break;
	case VSHMEM_GET: get(peers, peer, message); break;
	case VSHMEM_ATOMIC: atomic(peers, peer, message); break;
	default: break;
	}
}
