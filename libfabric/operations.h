/* Operations: sends and receives that are under way. */
#ifndef VFI_OPERATIONS_H
#define VFI_OPERATIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include <rdma/fabric.h>

#include "../transport/peer.h"
#include "wire.h"

struct vfi_endpoint;
struct vfi_peer;
struct vfi_offer;

/* Kinds of what an answer is awaited for, beside VSHMEM_KIND_ONE_SIDED. */
enum vfi_kind { VFI_KIND_SEND = 1, VFI_KIND_RECEIVE, VFI_KIND_ACKED };

/* A message that is not in the lane yet, not wholly, or that an answer is wanted for. */
struct vfi_send {
	struct vshmem_awaited operation;
	struct vfi_send *next_free;
	void *context;
	uint64_t flags; /* of its completion */
	bool wanted; /* a completion */
	struct iovec parts[VSHMEM_PARTS]; /* of the payload */
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
	struct vshmem_awaited operation; /* of kind VFI_KIND_RECEIVE; its parts are the buffer */
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
	struct vshmem_wire header;
	struct vshmem_address port;
	size_t wanted, got;
};

struct vfi_receives {
	struct vfi_receive *first, *last;
};

/* A message that nobody has posted a receive for yet. */
struct vfi_unexpected {
	struct vfi_unexpected *next, *previous;
	struct vshmem_wire header;
	struct vshmem_address port; /* of its sender; for answers and directed receives */
	void *claimed;      /* the context of the call that has claimed it */
	bool rendezvous;
	uint8_t payload[];
};

struct vfi_unexpecteds {
	struct vfi_unexpected *first, *last;
};

#endif
