/* Peers: messages on their way to each, and the operations that an answer of one is expected for.
 *
 * A transport has a struct vshmem_peers for each port of its own, and a struct vshmem_peer for each
 * port that it sends to, inside of what else it knows of it. The caller holds a lock of the
 * transport, the same for all peers of one port; so do the calls from here.
 */
#ifndef VSHMEM_TRANSPORT_PEER_H
#define VSHMEM_TRANSPORT_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "copy.h"
#include "vshmem.h"
#include "wire.h"

/* Answers to one peer that wait for room: one that reads none of so many is given up. An honest one
 * has fewer operations under way. */
#define VSHMEM_ANSWERS 8192

struct vshmem_peers;
struct vshmem_peer;
struct vshmem_asked;
struct vshmem_incoming;
struct vshmem_source; /* the transport's own */

/* A message on its way into a lane. */
struct vshmem_outgoing {
	struct vshmem_outgoing *next;
	struct vshmem_wire header;
	struct iovec parts[VSHMEM_PARTS];
	int count;
	uint8_t operation;
	/* It lies in the lane (error 0), or never will: E..., and what the pool said. */
	void (*sent)(struct vshmem_peers *peers, struct vshmem_peer *peer,
		struct vshmem_outgoing *message, int error, int prov_errno);
	/* Of one that goes in parts, else NULL: a part lies in the lane. True: another follows, and
	 * the message is that one now. */
	bool (*follows)(struct vshmem_outgoing *message);
};

/* In the order in which they came. */
struct vshmem_queue {
	struct vshmem_outgoing *first, *last;
};

static inline void vshmem_queue_append(struct vshmem_queue *queue, struct vshmem_outgoing *message)
{
	message->next = NULL;
	if (queue->last)
		queue->last->next = message;
	else
		queue->first = message;
	queue->last = message;
}

/* Takes the first one out, of which there is one. */
static inline struct vshmem_outgoing *vshmem_queue_take(struct vshmem_queue *queue)
{
	struct vshmem_outgoing *message = queue->first;
	queue->first = message->next;
	if (!queue->first)
		queue->last = NULL;
	return message;
}

/* An operation that a peer's answer is expected for. It is in the table of tokens. */
struct vshmem_awaited {
	struct vshmem_outgoing out;
	struct vshmem_peer *peer;
	uint64_t token;
	uint8_t kind; /* VSHMEM_KIND_ONE_SIDED, or the transport's own: an answer must be of the
	                 same */
	/* Its peer is gone: it is no longer in the table nor in any queue. */
	void (*failed)(struct vshmem_peers *peers, struct vshmem_awaited *operation, int error,
		int prov_errno);
};

enum { VSHMEM_KIND_ONE_SIDED = 16 };

/* Tokens: the index of an entry, and its generation above it. */
#define VSHMEM_TOKEN_BITS 16
struct vshmem_tokens {
	struct vshmem_token {
		struct vshmem_awaited *operation; /* NULL: free */
		uint64_t generation;
		uint32_t next;
	} *entries;
	uint32_t room, first_free, last_free;
};

/* Memory that a peer reads, in pieces. */
struct vshmem_reading {
	struct vshmem_reading *next;
	struct vshmem_wire request;
	uint64_t at;
};

/* What the transport does. The first three and the last may be NULL. */
struct vshmem_calls {
	/* A message was published for a peer that WAKES. */
	void (*wake)(struct vshmem_peers *peers, struct vshmem_peer *peer);
	/* All that was under way with a peer has failed: its lane is to be closed. */
	void (*gone)(struct vshmem_peers *peers, struct vshmem_peer *peer);
	/* When nothing waits for room: sends more to a peer that is busy, which is entered again
	 * (vshmem_peer_busy) if something is left. Number of messages. */
	int (*more)(struct vshmem_peers *peers, struct vshmem_peer *peer);
	/* What vshmem_ask began has ended, with E... or 0. It is freed afterwards. */
	void (*ended)(struct vshmem_peers *peers, const struct vshmem_asked *asked, int error,
		int prov_errno);
	/* Memory of this process that a peer names for WHAT (VSHMEM_PUT and so on) and access
	 * (VSHMEM_REMOTE_READ and so on); NULL and an E... if it may not. It stays what it is until
	 * let_go, which is told what was done to it. */
	char *(*hold)(struct vshmem_peers *peers, uint8_t what, uint64_t access, uint64_t key,
		uint64_t address, uint64_t bytes, void **region, int *error);
	void (*let_go)(struct vshmem_peers *peers, void *region, uint64_t done);
	/* A put has come with data beside it. */
	void (*data)(struct vshmem_peers *peers, const struct vshmem_incoming *message);
};

/* All zero but for CALLS, and SEND if any. */
struct vshmem_peers {
	const struct vshmem_calls *calls;
	/* NULL: vshmem_send. */
	int (*send)(struct vshmem_peer *peer, const struct iovec *parts, int count, uint8_t tag);
	struct vshmem_tokens tokens;
	struct vshmem_peer *busy; /* by next_busy */
	struct vshmem_asked *free, *all;
	uint32_t asked; /* and not answered */
};

/* All zero at first. */
struct vshmem_peer {
	struct vshmem_peer *next_busy;
	vshmem_lane *lane; /* NULL: not claimed, or closed */
	uint64_t nonce; /* of its port */
	uint32_t most; /* bytes of a message with its header */
	int error, prov_errno; /* E... since it is gone; 0 */
	uint32_t under_way; /* operations in the table of tokens */
	uint32_t asked; /* those of them that are one-sided */
	uint32_t answers; /* to it, that wait for room */
	uint32_t pieces; /* of what it reads, that wait for room */
	bool busy; /* something waits for room, or is read */
	bool wakes; /* it may sleep */
	struct vshmem_queue waiting; /* for room, in order */
	struct vshmem_reading *first, *last; /* what it reads, in pieces */
	uint64_t refused; /* token of its last put that was: nor are its later parts written */
};

/* No honest port has shorter messages. */
#define VSHMEM_LEAST_MOST (sizeof(struct vshmem_wire) + 64)
/* What goes in a message beside its header, in whole lines. */
static inline uint32_t vshmem_peer_payload(const struct vshmem_peer *peer)
{ return (peer->most - (uint32_t)sizeof(struct vshmem_wire)) & ~63u; }

/* A message that has come. */
struct vshmem_incoming {
	struct vshmem_wire header; /* a copy, its bytes those that lie there */
	const uint8_t *payload; /* the sender may still change it */
	struct vshmem_source *source;
	uint8_t operation;
};

/* tokens.c */
/* The token of an operation, whose peer is set, by which its answer is known; 0: too many are under
 * way. */
uint64_t vshmem_token_take(struct vshmem_peers *peers, struct vshmem_awaited *operation);
/* The operation of a token, if it is outstanding, of this kind, and was asked of this port; NULL.
 * It stays in the table. */
struct vshmem_awaited *vshmem_token_find(
	const struct vshmem_peers *peers, uint64_t token, uint8_t kind, uint64_t nonce);
void vshmem_token_leave(struct vshmem_peers *peers, struct vshmem_awaited *operation);
void vshmem_tokens_close(struct vshmem_peers *peers);

/* peer.c */
/* A message of one part now. -EAGAIN: it has to wait (with the others that do); else the peer is
 * of no use any more, and vshmem_peer_fail is to be called. */
int vshmem_peer_post(struct vshmem_peers *peers, struct vshmem_peer *peer, uint8_t operation,
	const struct vshmem_wire *header, const void *payload, uint32_t bytes);
/* A message now, or when there is room, after what waits already; then its SENT is called, perhaps
 * before this returns. */
void vshmem_peer_send(
	struct vshmem_peers *peers, struct vshmem_peer *peer, struct vshmem_outgoing *message);
/* An answer, which is copied where it has to wait. */
void vshmem_peer_answer(struct vshmem_peers *peers, struct vshmem_peer *peer, uint8_t operation,
	const struct vshmem_wire *header, const void *payload, uint32_t bytes);
/* To be looked after: something is in one of its queues. */
void vshmem_peer_busy(struct vshmem_peers *peers, struct vshmem_peer *peer);
/* Sends what waits for room. Number of messages, and of parts. */
int vshmem_peer_push(struct vshmem_peers *peers, struct vshmem_peer *peer);
/* All that is under way with a peer fails. */
void vshmem_peer_fail(
	struct vshmem_peers *peers, struct vshmem_peer *peer, int error, int prov_errno);

#endif
