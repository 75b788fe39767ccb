/* put, get and atomics on memory of a peer, by messages: what ask.c asks for, and serve.c does for
 * those that ask. Memory that can be reached from here is the transport's own business.
 */
#ifndef VSHMEM_TRANSPORT_ONE_SIDED_H
#define VSHMEM_TRANSPORT_ONE_SIDED_H

#include "atomic_apply.h"
#include "peer.h"

/* Operands of an atomic operation: one message has them all, and so has its answer. */
#define VSHMEM_ATOMIC_BYTES 1024
/* Requests of one port that are not answered, before callers are asked to come back. */
#define VSHMEM_REQUESTS 4096

/* What a program asks for. */
struct vshmem_request {
	uint8_t what;   /* VSHMEM_PUT, VSHMEM_GET, VSHMEM_ATOMIC */
	uint8_t number; /* of an atomic operation, and the operation */
	uint8_t op;
	bool inject; /* its memory is the program's again when the call returns */
	bool tells;  /* DATA goes beside a put */
	bool silent; /* it ends without a completion */
	uint64_t address, key;
	uint64_t bytes;     /* there */
	const struct iovec *local; /* what is put, what is got, or operands: then one part */
	size_t count;
	const void *compare;     /* NULL: nothing is compared */
	const struct iovec *result; /* what was there; NULL: it is not wanted */
	size_t result_count;
	uint64_t data;
	/* The transport's own. */
	uint64_t to, flags;
	void *context;
};

/* Whether what was there is sent back. */
static inline bool vshmem_fetches(const struct vshmem_request *request)
{
	return request->result || request->compare || request->op == VSHMEM_WIRE_READ;
}

/* A request that waits for its answer. */
struct vshmem_asked {
	struct vshmem_awaited operation; /* the first: a token names it */
	struct vshmem_asked *next_free, *next_of_all;
	struct vshmem_request request; /* as it was, but for its LOCAL, COMPARE and RESULT */
	bool unsent; /* its message, or the last part of it, waits for room */
	int error;
	uint64_t bytes, got;
	struct iovec local[VSHMEM_PARTS]; /* where the answer goes, or what is put in parts */
	size_t count;
	/* A put in parts: bytes of one, and those that are in a message. */
	uint64_t each, put;
	uint8_t last_flags;
	char *copy;
};

/* ask.c */
/* 0: it ends by CALLS->ended, perhaps before this returns; -EAGAIN: too many are under way;
 * -EMSGSIZE, -ENOMEM. */
int vshmem_ask(
	struct vshmem_peers *peers, struct vshmem_peer *peer, const struct vshmem_request *request);
/* An answer, from the port of this nonce. */
void vshmem_answered(
	struct vshmem_peers *peers, const struct vshmem_incoming *message, uint64_t nonce);
/* When nothing is under way any more. */
void vshmem_asked_close(struct vshmem_peers *peers);

/* serve.c */
/* VSHMEM_REMOTE_READ and so on: what an operation needs. */
uint64_t vshmem_access(uint8_t what, int op, bool fetches);
/* VSHMEM_PUT, VSHMEM_GET or VSHMEM_ATOMIC of a peer. */
void vshmem_serve(struct vshmem_peers *peers, struct vshmem_peer *peer,
	const struct vshmem_incoming *message);
/* To be called where progress is made: what waits for room, more, and what peers read, of those
 * that are busy. Number of messages. */
int vshmem_peers_push(struct vshmem_peers *peers);

#endif
