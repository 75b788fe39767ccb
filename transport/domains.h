/* The domains that processes of a job are in, and which of them are dead. */
#ifndef VSHMEM_DOMAINS_H
#define VSHMEM_DOMAINS_H

#include <stdbool.h>
#include <stdint.h>

#include "tuning.h"
#include "vshmem.h"

/* Domains of a pool at most. */
#define VSHMEM_DOMAINS 64

/* Used by one thread at a time. All 0: none is known. */
struct vshmem_domains {
	struct vshmem_domain known[VSHMEM_DOMAINS];
	unsigned count;
	unsigned looks;
	uint64_t last;
};

/* Processes of the job are in a domain. */
void vshmem_domains_add(struct vshmem_domains *domains, const struct vshmem_domain *domain);
/* It is no concern of the job any more. */
void vshmem_domains_remove(struct vshmem_domains *domains, const struct vshmem_domain *domain);
/* To be called with every look for a message: true some ten times a second. */
bool vshmem_domains_due(struct vshmem_domains *domains);
/* A domain that is dead; NULL when all live. */
const struct vshmem_domain *vshmem_domains_dead(
	const struct vshmem_domains *domains, const vshmem_pool *pool);

#endif
