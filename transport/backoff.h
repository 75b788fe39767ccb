/* Giving the CPU away where others need it: what one waiting place of a process remembers. */
#ifndef VSHMEM_BACKOFF_H
#define VSHMEM_BACKOFF_H

#include <stdint.h>

#include "vshmem.h"

struct vshmem_backoff {
	vshmem_pool *pool; /* NULL: none is open yet, and the CPU is kept */
	unsigned looks, until_asked;
	long each, sleep;
	uint64_t began, waiting_since, shortest, arrivals;
	uint64_t given_away; /* times that it yielded or slept */
};

/* Begins anew. */
void vshmem_backoff_start(struct vshmem_backoff *backoff, vshmem_pool *pool);
/* After a look that found so many events: yields or sleeps when it is time to. */
void vshmem_backoff(struct vshmem_backoff *backoff, int events);
/* Of a counter of one to a few GHz. */
uint64_t vshmem_ticks(void);

#endif
