/* put, get and atomics: what rma.c and atomic.c begin, one_sided.c does or asks for, and serve.c
 * does for those that ask.
 *
 * Memory that its owner has published, and that of the own domain, is reached by this process's
 * own CPU, and the operation is complete when the call returns. For other memory its owner is
 * asked, by a message that is answered when the owner makes progress. As long as an answer of a
 * peer is awaited, all operations go to that peer by messages, so that their order is kept.
 */
#ifndef VFI_ONE_SIDED_H
#define VFI_ONE_SIDED_H

#include "regions.h"
#include "vshmem_fi.h"

/* Operands of an atomic operation: one message has them all, and so has its answer. */
#define VFI_ATOMIC_BYTES 1024
/* Requests of an endpoint that are not answered, before callers are asked to come back; and what
 * waits for room to answer one peer. */
#define VFI_REQUESTS 4096

/* What a program asks for. */
struct vfi_request {
	fi_addr_t to;
	uint8_t what;   /* VFI_PUT, VFI_GET, VFI_ATOMIC */
	uint8_t datatype; /* of an atomic operation, and the operation */
	uint8_t op;
	uint64_t address, key;
	uint64_t bytes;     /* there */
	const struct iovec *local; /* what is put, what is got, or operands: then one part */
	size_t count;
	const void *compare;     /* NULL: nothing is compared */
	const struct iovec *result; /* what was there; NULL: it is not wanted */
	size_t result_count;
	uint64_t flags; /* FI_INJECT, FI_FENCE, FI_REMOTE_CQ_DATA, FI_COMPLETION */
	bool silent; /* it ends without a completion */
	uint64_t data;
	void *context;
};

/* A request that waits for its answer. */
struct vfi_one_sided {
	struct vfi_operation operation; /* the first: a token names it */
	struct vfi_one_sided *next_free, *next_of_all;
	struct vfi_counter *counter;
	void *context;
	uint64_t flags; /* of the completion */
	bool wanted;
	uint8_t what;
	int error;
	uint64_t bytes, got;
	struct iovec local[VFI_IOV_LIMIT]; /* where the answer goes, or what is put in parts */
	size_t count;
	bool unsent; /* its message, or the last part of it, waits for room */
	/* A put in parts: bytes of one, those that are in a message, and where the first goes. */
	uint64_t each, put, address, last_data;
	uint8_t last_flags;
	char *copy;
};

/* What an endpoint knows of a peer: its `memory`. */
struct vfi_remote {
	struct vfi_remote *next;
	struct vfi_peer *peer;
	struct vfi_direct *direct; /* NULL: its owner is asked */
	bool looked;     /* for it */
	bool same_domain;
	uint32_t under_way; /* requests without an answer */
	uint32_t answers;   /* for it, that wait for room */
	struct vfi_reading *first, *last; /* what it reads, in pieces */
	uint32_t pieces; /* that wait for room */
	uint64_t looked_after; /* when (ticks) the peer was last seen to live */
};

/* Of an endpoint: its `rma`. */
struct vfi_rma {
	struct vfi_one_sided *free, *all;
	struct vfi_remote *remotes;
	uint32_t under_way, looks;
	uint32_t reading; /* by peers, in pieces */
	bool warned; /* that memory cannot be attached */
};

/* Memory that a peer reads, in pieces. */
struct vfi_reading {
	struct vfi_reading *next;
	struct vfi_wire request;
	uint64_t at;
};

/* remote.c */
struct vfi_remote *vfi_remote_of(struct vfi_endpoint *ep, struct vfi_peer *peer);

/* serve.c */
/* FI_REMOTE_READ and so on: what an operation needs. */
uint64_t vfi_access(uint8_t what, int op, bool fetches);
/* What was done to memory of this endpoint's domain: FI_REMOTE_READ, FI_REMOTE_WRITE or both. */
void vfi_count_remote(struct vfi_endpoint *ep, struct vfi_region *region, uint64_t access);
void vfi_remote_data(struct vfi_endpoint *ep, struct vfi_source *source, uint64_t data);
void vfi_serve(struct vfi_endpoint *ep, const struct vfi_incoming *message);
/* More of what a peer reads: pieces. */
int vfi_read_on(struct vfi_endpoint *ep, struct vfi_peer *peer);

/* one_sided.c */
ssize_t vfi_one_sided(struct vfi_endpoint *ep, const struct vfi_request *request);
void vfi_answered(struct vfi_endpoint *ep, const struct vfi_incoming *message);

#endif
