/* A descriptor that becomes readable when something has come. */
#ifndef VFI_WAIT_H
#define VFI_WAIT_H

#include "vshmem_fi.h"

struct vfi_wait {
	struct vfi_domain *domain;
	int descriptor; /* an eventfd */
	uint32_t armed; /* the program may sleep there: the next event is written */
	struct vfi_wait *next;
};

/* The semaphores that processes of a pool sleep at: one set for all, as long as the pool lasts, so
 * that a process that is killed leaves nothing of its own. A process has that of its client number;
 * two may share one, which then wakes both a little later. */
#define VFI_SLEEPERS 256
/* The id of that set; negative: it cannot be had. */
int vfi_sleepers(vshmem_pool *pool);

#endif
