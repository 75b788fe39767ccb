/* What the provider "vshmem" offers beside libfabric's own calls (fi_vshmem(7)).
 *
 * Memory of the pool: a region in it is read and written by peers directly, without its owner.
 *
 *	struct fi_vshmem_memory_ops *pool;
 *	if (fi_open_ops(&domain->fid, FI_VSHMEM_MEMORY_OPS, 0, (void **)&pool, NULL) == 0)
 *		pool->take(domain, bytes, &memory);
 */
#ifndef FI_EXT_VSHMEM_H
#define FI_EXT_VSHMEM_H

#include <stddef.h>

#include <rdma/fi_domain.h>

#define FI_VSHMEM_MEMORY_OPS "vshmem memory 1"

struct fi_vshmem_memory_ops {
	size_t size;
	/* Zeroed memory, whole pages. -FI_ENOMEM: the pool has no room for it. */
	int (*take)(struct fid_domain *domain, size_t bytes, void **memory);
	/* Once no region lies in it. -FI_EINVAL: it is none that was taken. */
	int (*give_back)(struct fid_domain *domain, void *memory);
};

#endif
