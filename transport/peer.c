/* What waits for room in a peer's lane, and what ends with the peer. */
#include "peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Parts of long messages that are sent in one go: an answer that says that no more are wanted is
 * then seen. */
#define PARTS 16

static int put(struct vshmem_peers *peers, struct vshmem_peer *peer, const struct iovec *parts,
	int count, uint8_t operation)
{
	int rc = peers->send ? peers->send(peer, parts, count, operation)
			     : vshmem_send(peer->lane, parts, count, operation);
	if (rc == 0 && peer->wakes)
		peers->calls->wake(peers, peer);
	return rc;
}

int vshmem_peer_post(struct vshmem_peers *peers, struct vshmem_peer *peer, uint8_t operation,
	const struct vshmem_wire *header, const void *payload, uint32_t bytes)
{
	if (peer->error)
		return -EPIPE;
	if (peer->waiting.first)
		return -EAGAIN;
	if (bytes >= 4096 || peers->send) {
		/* Past the cache. */
		struct iovec parts[2] = { { (void *)(uintptr_t)header, sizeof(*header) },
			{ (void *)(uintptr_t)payload, bytes } };
		return put(peers, peer, parts, bytes ? 2 : 1, operation);
	}
	int rc = vshmem_post(peer->lane, header, sizeof(*header), payload, bytes, operation);
	if (rc == 0 && peer->wakes)
		peers->calls->wake(peers, peer);
	return rc;
}

static int put_message(
	struct vshmem_peers *peers, struct vshmem_peer *peer, struct vshmem_outgoing *message)
{
	struct iovec parts[VSHMEM_PARTS + 1];
	parts[0] = (struct iovec) { &message->header, sizeof(message->header) };
	for (int nth = 0; nth < message->count; nth++)
		parts[nth + 1] = message->parts[nth];
	return put(peers, peer, parts, message->count + 1, message->operation);
}

void vshmem_peer_busy(struct vshmem_peers *peers, struct vshmem_peer *peer)
{
	if (peer->busy)
		return;
	peer->busy = true;
	peer->next_busy = peers->busy;
	peers->busy = peer;
}

void vshmem_peer_send(
	struct vshmem_peers *peers, struct vshmem_peer *peer, struct vshmem_outgoing *message)
{
	if (peer->error) {
		message->sent(peers, peer, message, peer->error, peer->prov_errno);
		return;
	}
	int rc = peer->waiting.first ? -EAGAIN : put_message(peers, peer, message);
	if (rc == 0 && !(message->follows && message->follows(message))) {
		message->sent(peers, peer, message, 0, 0);
		return;
	}
	vshmem_queue_append(&peer->waiting, message);
	vshmem_peer_busy(peers, peer);
	if (rc == 0)
		vshmem_peer_push(peers, peer);
	else if (rc != -EAGAIN)
		vshmem_peer_fail(peers, peer, EIO, -rc);
}

static void answer_sent(struct vshmem_peers *peers, struct vshmem_peer *peer,
	struct vshmem_outgoing *message, int error, int prov_errno)
{
	(void)peers, (void)error, (void)prov_errno;
	peer->answers--;
	free(message);
}

void vshmem_peer_answer(struct vshmem_peers *peers, struct vshmem_peer *peer, uint8_t operation,
	const struct vshmem_wire *header, const void *payload, uint32_t bytes)
{
	int rc = vshmem_peer_post(peers, peer, operation, header, payload, bytes);
	if (rc == 0)
		return;
	if (rc != -EAGAIN || peer->answers >= VSHMEM_ANSWERS) {
		vshmem_peer_fail(peers, peer, EIO, rc == -EAGAIN ? ENOBUFS : -rc);
		return;
	}
	struct vshmem_outgoing *message = calloc(1, sizeof(*message) + bytes);
	if (!message)
		return;
	peer->answers++;
	if (bytes)
		memcpy(message + 1, payload, bytes);
	*message = (struct vshmem_outgoing) { .header = *header,
		.parts = { { message + 1, bytes } },
		.count = bytes ? 1 : 0,
		.operation = operation,
		.sent = answer_sent };
	vshmem_peer_send(peers, peer, message);
}

int vshmem_peer_push(struct vshmem_peers *peers, struct vshmem_peer *peer)
{
	int pushed = 0, parts = 0;
	struct vshmem_outgoing *message;
	while ((message = peer->waiting.first) && parts < PARTS) {
		int rc = put_message(peers, peer, message);
		if (rc == -EAGAIN)
			break;
		if (rc != 0) {
			vshmem_peer_fail(peers, peer, EIO, -rc);
			break;
		}
		pushed++;
		if (message->follows && message->follows(message)) {
			parts++;
			continue;
		}
		vshmem_queue_take(&peer->waiting);
		message->sent(peers, peer, message, 0, 0);
	}
	return pushed;
}

void vshmem_peer_fail(
	struct vshmem_peers *peers, struct vshmem_peer *peer, int error, int prov_errno)
{
	if (peer->error)
		return;
	peer->error = error;
	peer->prov_errno = prov_errno;
	while (peer->waiting.first) {
		struct vshmem_outgoing *message = vshmem_queue_take(&peer->waiting);
		message->sent(peers, peer, message, error, prov_errno);
	}
	for (uint32_t index = 0; peer->under_way && index < peers->tokens.room; index++) {
		struct vshmem_awaited *operation = peers->tokens.entries[index].operation;
		if (!operation || operation->peer != peer)
			continue;
		vshmem_token_leave(peers, operation);
		operation->failed(peers, operation, error, prov_errno);
	}
	struct vshmem_reading *reading;
	while ((reading = peer->first)) {
		peer->first = reading->next;
		peer->answers--;
		free(reading);
	}
	if (peers->calls->gone)
		peers->calls->gone(peers, peer);
}
