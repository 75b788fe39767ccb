/* Operations: messages on their way, sends and receives that are under way. */
#ifndef VFI_OPERATIONS_H
#define VFI_OPERATIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include <rdma/fabric.h>

#include "vshmem.h"
#include "wire.h"

#define VFI_IOV_LIMIT 4

struct vfi_endpoint;
struct vfi_peer;
struct vfi_offer;

/* A message on its way into a lane. */
struct vfi_outgoing {
	struct vfi_outgoing *next;
	struct vfi_wire header;
	struct iovec parts[VFI_IOV_LIMIT];
	int count;
	uint8_t operation;
	/* It lies in the lane (error 0), or never will: FI_E..., and what the pool said. */
	void (*sent)(struct vfi_endpoint *ep, struct vfi_peer *peer, struct vfi_outgoing *message,
		int error, int prov_errno);
	/* Of one that goes in parts, else NULL: a part lies in the lane. True: another follows, and
	 * the message is that one now. */
	bool (*follows)(struct vfi_outgoing *message);
};

/* In the order in which they came. */
struct vfi_queue {
	struct vfi_outgoing *first, *last;
};

static inline void vfi_queue_append(struct vfi_queue *queue, struct vfi_outgoing *message)
{
	message->next = NULL;
	if (queue->last)
		queue->last->next = message;
	else
		queue->first = message;
	queue->last = message;
}

/* Takes the first one out, of which there is one. */
static inline struct vfi_outgoing *vfi_queue_take(struct vfi_queue *queue)
{
	struct vfi_outgoing *message = queue->first;
	queue->first = message->next;
	if (!queue->first)
		queue->last = NULL;
	return message;
}

/* An operation that a peer's answer is expected for. It is in the endpoint's table of tokens. */
struct vfi_operation {
	struct vfi_outgoing out;
	struct vfi_peer *peer;
	uint64_t token;
	uint8_t kind; /* enum vfi_kind: an answer must be of the same */
	/* Its peer is gone: it is no longer in the table nor in any queue. */
	void (*failed)(struct vfi_endpoint *ep, struct vfi_operation *operation, int error,
		int prov_errno);
};

enum vfi_kind { VFI_KIND_SEND = 1, VFI_KIND_RECEIVE, VFI_KIND_ACKED, VFI_KIND_ONE_SIDED = 16 };

/* Tokens: the index of an entry, and its generation above it. */
#define VFI_TOKEN_BITS 16
struct vfi_token {
	struct vfi_operation *operation; /* NULL: free */
	uint64_t generation;
	uint32_t next;
};
struct vfi_tokens {
	struct vfi_token *entries;
	uint32_t room, first_free, last_free;
};

/* A message that is not in the lane yet, not wholly, or that an answer is wanted for. */
struct vfi_send {
	struct vfi_operation operation;
	struct vfi_send *next_free;
	void *context;
	uint64_t flags; /* of its completion */
	bool wanted; /* a completion */
	struct iovec parts[VFI_IOV_LIMIT]; /* of the payload */
	size_t count, size;
	/* Its message is in the lane: no answer is one before that, whatever a peer guesses. */
	bool is_asked;
	/* A rendezvous. */
	struct vfi_offer *offer; /* NULL: it may not be copied */
	struct vfi_offer_place offered_at;
	struct vfi_pool_place pool_at;
	bool cleared;
	uint64_t receiver; /* token of it */
	size_t asked, pieces;    /* bytes that the receiver wants, and those that were sent */
	void *copy;    /* of what was injected */
};

/* A receive that was posted, and one that waits for the pieces of its message. */
struct vfi_receive {
	struct vfi_operation operation; /* of kind VFI_KIND_RECEIVE; its parts are the buffer */
	struct vfi_receive *next, *previous;
	uint64_t tag, ignore;
	uint64_t from; /* nonce; 0: anybody */
	fi_addr_t source;
	void *context;
	uint64_t flags; /* of the call */
	size_t room; /* bytes of the buffer */
	bool tagged, wanted_completion;
	/* Multi-receive. */
	size_t used;
	uint32_t filling; /* messages whose pieces still come */
	bool ended;   /* too little is left; given back with the last of them */
	/* A rendezvous under way. */
	struct vfi_receive *within; /* the multi-receive that its buffer is of */
	struct vfi_wire header;
	struct vshmem_address port;
	size_t wanted, got;
};

struct vfi_receives {
	struct vfi_receive *first, *last;
};

/* A message that nobody has posted a receive for yet. */
struct vfi_unexpected {
	struct vfi_unexpected *next, *previous;
	struct vfi_wire header;
	struct vshmem_address port; /* of its sender; for answers and directed receives */
	void *claimed;      /* the context of the call that has claimed it */
	bool rendezvous;
	uint8_t payload[];
};

struct vfi_unexpecteds {
	struct vfi_unexpected *first, *last;
};

#endif
