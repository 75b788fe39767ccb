/* put, get and atomics: what rma.c and atomic.c begin, one_sided.c does or asks for.
 *
 * Memory that its owner has published, and that of the own domain, is reached by this process's
 * own CPU, and the operation is complete when the call returns. For other memory its owner is
 * asked, by a message that is answered when the owner makes progress. As long as an answer of a
 * peer is awaited, all operations go to that peer by messages, so that their order is kept.
 */
#ifndef VFI_ONE_SIDED_H
#define VFI_ONE_SIDED_H

#include "../transport/one_sided.h"
#include "regions.h"
#include "vshmem_fi.h"

/* What an endpoint knows of a peer: its `memory`. */
struct vfi_remote {
	struct vfi_remote *next;
	struct vfi_peer *peer;
	struct vfi_direct *direct; /* NULL: its owner is asked */
	bool looked;     /* for it */
	bool same_domain;
	uint64_t looked_after; /* when (ticks) the peer was last seen to live */
};

/* remote.c */
struct vfi_remote *vfi_remote_of(struct vfi_endpoint *ep, struct vfi_peer *peer);

/* serve.c: of vfi_calls. */
char *vfi_hold(struct vshmem_peers *peers, uint8_t what, uint64_t access, uint64_t key,
	uint64_t address, uint64_t bytes, void **region, int *error);
void vfi_let_go(struct vshmem_peers *peers, void *region, uint64_t done);
void vfi_put_data(struct vshmem_peers *peers, const struct vshmem_incoming *message);

/* one_sided.c */
ssize_t vfi_one_sided(struct vfi_endpoint *ep, struct vshmem_request *request);
extern const struct vshmem_calls vfi_calls;

#endif
