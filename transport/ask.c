/* Operations that this process asks the owner of the memory for.
 *
 * A request is in the table of tokens until it is answered, and so many are at most: so neither
 * memory nor the time for each grows with their number. A put of many bytes goes in parts, of which
 * the last is answered. One that is refused is answered, too, and no more are sent then.
 */
#include "one_sided.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static struct vshmem_asked *take(struct vshmem_peers *peers)
{
	struct vshmem_asked *asked = peers->free;
	if (asked) {
		peers->free = asked->next_free;
	} else {
		asked = malloc(sizeof(*asked));
		if (!asked)
			return NULL;
		asked->next_of_all = peers->all;
		peers->all = asked;
	}
	asked->copy = NULL;
	asked->unsent = false;
	asked->error = 0;
	asked->got = 0;
	peers->asked++;
	return asked;
}

static void give_back(struct vshmem_peers *peers, struct vshmem_asked *asked)
{
	free(asked->copy);
	asked->copy = NULL;
	asked->next_free = peers->free;
	peers->free = asked;
	asked->operation.peer->asked--;
	peers->asked--;
}

void vshmem_asked_close(struct vshmem_peers *peers)
{
	struct vshmem_asked *asked;
	while ((asked = peers->all)) {
		peers->all = asked->next_of_all;
		free(asked->copy);
		free(asked);
	}
	peers->free = NULL;
}

/* It is answered, or never will be. */
static void finish(struct vshmem_peers *peers, struct vshmem_asked *asked, int prov_errno)
{
	vshmem_token_leave(peers, &asked->operation);
	peers->calls->ended(peers, asked, asked->error, prov_errno);
	give_back(peers, asked);
}

static void peer_failed(
	struct vshmem_peers *peers, struct vshmem_awaited *operation, int error, int prov_errno)
{
	struct vshmem_asked *asked = (struct vshmem_asked *)operation;
	asked->error = error;
	finish(peers, asked, prov_errno);
}

static struct vshmem_asked *of_message(struct vshmem_outgoing *out)
{
	return (struct vshmem_asked *)((char *)out - offsetof(struct vshmem_awaited, out));
}

/* When the peer has failed, this operation fails with all others that it is asked for. */
static void message_sent(struct vshmem_peers *peers, struct vshmem_peer *peer,
	struct vshmem_outgoing *out, int error, int prov_errno)
{
	struct vshmem_asked *asked = of_message(out);
	(void)peer, (void)prov_errno;
	asked->unsent = false;
	/* It was refused before all of it was sent. */
	if (!error && asked->error)
		finish(peers, asked, 0);
}

/* What goes in a request's message besides its header. */
static uint64_t payload_bytes(const struct vshmem_request *request)
{
	bool reads = request->what == VSHMEM_ATOMIC && request->op == VSHMEM_WIRE_READ;
	if (request->what == VSHMEM_GET || reads)
		return 0;
	return request->compare ? 2 * request->bytes : request->bytes;
}

static struct vshmem_wire header_of(const struct vshmem_request *request, uint64_t token)
{
	uint64_t address = request->address, key = request->key;
	struct vshmem_wire header = { .flags = VSHMEM_WIRE_ACK, .token = token };
	if (request->what == VSHMEM_PUT) {
		header.put = (struct vshmem_wire_put) { address, key, { request->data } };
		header.flags |= request->tells ? VSHMEM_WIRE_DATA : 0;
	} else if (request->what == VSHMEM_GET) {
		header.get = (struct vshmem_wire_get) { address, key, request->bytes };
	} else {
		header.atomic = (struct vshmem_wire_atomic) { address, key, request->bytes };
		header.datatype = request->number;
		header.op = request->op;
		header.flags |= vshmem_fetches(request) ? VSHMEM_WIRE_FETCH : 0;
	}
	return header;
}

/* The next message of a put that goes in parts; the last one wants an answer. */
static void make_part(struct vshmem_asked *asked)
{
	struct vshmem_outgoing *out = &asked->operation.out;
	uint64_t left = asked->bytes - asked->put;
	bool last = left <= asked->each;
	out->header.put.address = asked->request.address + asked->put;
	out->header.flags = last ? asked->last_flags : 0;
	out->header.put.left = last ? asked->request.data : left;
	out->count = vshmem_slice(
		asked->local, asked->count, asked->put, last ? left : asked->each, out->parts);
	asked->put += last ? left : asked->each;
}

/* No more of what was refused. */
static bool part_follows(struct vshmem_outgoing *out)
{
	struct vshmem_asked *asked = of_message(out);
	if (asked->error || asked->put == asked->bytes)
		return false;
	make_part(asked);
	return true;
}

/* What has to wait, and is not to be looked at later where it lies, lies in a copy then. */
static bool keep(
	struct vshmem_asked *asked, const struct iovec *parts, size_t count, uint64_t bytes)
{
	asked->copy = malloc(bytes);
	if (!asked->copy)
		return false;
	vshmem_gather(parts, count, 0, asked->copy, bytes);
	return true;
}

static int ask_in_parts(struct vshmem_peers *peers, struct vshmem_asked *asked,
	const struct vshmem_request *request, const struct vshmem_wire *header, uint64_t each)
{
	asked->count = request->count;
	memcpy(asked->local, request->local, asked->count * sizeof(*asked->local));
	if (request->inject) {
		if (!keep(asked, request->local, request->count, request->bytes))
			return -ENOMEM;
		asked->local[0] = (struct iovec) { asked->copy, request->bytes };
		asked->count = 1;
	}
	asked->each = each;
	asked->put = 0;
	asked->last_flags = header->flags;
	asked->operation.out = (struct vshmem_outgoing) { .header = *header,
		.operation = request->what,
		.sent = message_sent,
		.follows = part_follows };
	make_part(asked);
	asked->unsent = true;
	vshmem_peer_send(peers, asked->operation.peer, &asked->operation.out);
	return 0;
}

/* A request of one message, now or when there is room. */
static int ask_at_once(struct vshmem_peers *peers, struct vshmem_asked *asked,
	const struct vshmem_request *request, const struct vshmem_wire *header)
{
	char both[2 * VSHMEM_ATOMIC_BYTES];
	struct vshmem_peer *peer = asked->operation.peer;
	uint64_t bytes = payload_bytes(request);
	const struct iovec *parts = request->local, compared = { both, bytes };
	size_t count = request->count;
	if (request->compare) {
		memcpy(both, request->local->iov_base, request->bytes);
		memcpy(both + request->bytes, request->compare, request->bytes);
		parts = &compared;
	}
	int rc = bytes && count > 1 ? -EAGAIN
				    : vshmem_peer_post(peers, peer, request->what, header,
					      bytes ? parts->iov_base : NULL, (uint32_t)bytes);
	if (rc != -EAGAIN)
		return rc;
	struct vshmem_outgoing *out = &asked->operation.out;
	*out = (struct vshmem_outgoing) {
		.header = *header, .operation = request->what, .sent = message_sent
	};
	if (bytes && (request->what == VSHMEM_ATOMIC || request->inject)) {
		if (!keep(asked, parts, count, bytes))
			return -ENOMEM;
		out->parts[0] = (struct iovec) { asked->copy, bytes };
		out->count = 1;
	} else if (bytes) {
		out->count = vshmem_slice(parts, count, 0, bytes, out->parts);
	}
	asked->unsent = true;
	vshmem_peer_send(peers, peer, out);
	return 0;
}

/* An entry for a request; NULL: too many are under way. */
static struct vshmem_asked *enter(
	struct vshmem_peers *peers, struct vshmem_peer *peer, const struct vshmem_request *request)
{
	struct vshmem_asked *asked = take(peers);
	if (!asked)
		return NULL;
	const struct iovec *into = request->result;
	asked->request = *request;
	asked->bytes = request->bytes;
	asked->count = request->result_count;
	if (request->what == VSHMEM_GET) {
		into = request->local;
		asked->count = request->count;
	} else if (request->what == VSHMEM_ATOMIC && !vshmem_fetches(request)) {
		asked->bytes = 0;
	}
	if (into)
		memcpy(asked->local, into, asked->count * sizeof(*into));
	asked->operation.peer = peer;
	asked->operation.kind = VSHMEM_KIND_ONE_SIDED;
	asked->operation.failed = peer_failed;
	peer->asked++;
	if (vshmem_token_take(peers, &asked->operation) != 0)
		return asked;
	give_back(peers, asked);
	return NULL;
}

int vshmem_ask(
	struct vshmem_peers *peers, struct vshmem_peer *peer, const struct vshmem_request *request)
{
	uint64_t payload = payload_bytes(request), each = vshmem_peer_payload(peer);
	if (peer->most < VSHMEM_LEAST_MOST
		|| (request->what == VSHMEM_ATOMIC
			&& payload > peer->most - sizeof(struct vshmem_wire)))
		return -EMSGSIZE;
	struct vshmem_asked *asked = peers->asked < VSHMEM_REQUESTS ? enter(peers, peer, request)
								    : NULL;
	if (!asked)
		return -EAGAIN;
	struct vshmem_wire header = header_of(request, asked->operation.token);
	int rc = request->what == VSHMEM_PUT && payload > each
		? ask_in_parts(peers, asked, request, &header, each)
		: ask_at_once(peers, asked, request, &header);
	if (rc == -ENOMEM) {
		vshmem_token_leave(peers, &asked->operation);
		give_back(peers, asked);
		return rc;
	}
	/* The lane is of no use any more: this one fails with all others. */
	if (rc != 0)
		vshmem_peer_fail(peers, peer, EIO, -rc);
	return 0;
}

/* An error number that an owner may answer with. */
static int error_of(uint16_t status)
{
	return status == EKEYREJECTED || status == EACCES || status == EINVAL
			|| status == EOPNOTSUPP
		? status
		: EIO;
}

/* What was read, or was there before an atomic operation, or a piece of it. */
static bool take_answer(struct vshmem_asked *asked, const struct vshmem_incoming *message)
{
	bool reads = asked->request.what == VSHMEM_GET;
	uint64_t at = reads ? message->header.answer.offset : 0, bytes = message->header.bytes;
	if ((!reads && bytes != asked->bytes) || at > asked->bytes || bytes > asked->bytes - at)
		return false;
	if (asked->count > 0)
		vshmem_scatter(asked->local, asked->count, at, message->payload, bytes);
	asked->got += bytes;
	return true;
}

void vshmem_answered(
	struct vshmem_peers *peers, const struct vshmem_incoming *message, uint64_t nonce)
{
	struct vshmem_asked *asked = (struct vshmem_asked *)vshmem_token_find(
		peers, message->header.token, VSHMEM_KIND_ONE_SIDED, nonce);
	uint8_t what = asked ? asked->request.what : 0;
	if (!asked || what != message->header.answered)
		return;
	if (message->header.error != 0)
		asked->error = error_of(message->header.error);
	else if (what != VSHMEM_PUT && !take_answer(asked, message))
		asked->error = EIO;
	/* Of a put in parts each is answered that was refused, and the last: of those the first
	 * answer counts. */
	bool last = asked->error || what == VSHMEM_PUT || asked->got >= asked->bytes;
	if (last && !asked->unsent)
		finish(peers, asked, 0);
	else if (last && !asked->error)
		asked->error = EIO; /* nobody has seen all of it yet */
}
