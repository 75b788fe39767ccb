#include "domains.h"

#include "backoff.h"

void vshmem_domains_add(struct vshmem_domains *domains, const struct vshmem_domain *domain)
{
	for (unsigned nth = 0; nth < domains->count; nth++)
		if (domains->known[nth].index == domain->index
		        && domains->known[nth].epoch == domain->epoch)
			return;
	if (domains->count < VSHMEM_DOMAINS)
		domains->known[domains->count++] = *domain;
}

void vshmem_domains_remove(struct vshmem_domains *domains, const struct vshmem_domain *domain)
{
	for (unsigned nth = 0; nth < domains->count; nth++)
		if (domains->known[nth].index == domain->index
			&& domains->known[nth].epoch == domain->epoch)
			domains->known[nth--] = domains->known[--domains->count];
}

bool vshmem_domains_due(struct vshmem_domains *domains)
{
	if (++domains->looks < VSHMEM_LOOKS_PER_PROGRESS)
		return false;
	domains->looks = 0;
	uint64_t now = vshmem_ticks();
	if (now - domains->last < VSHMEM_DOMAINS_INTERVAL)
		return false;
	domains->last = now;
	return true;
}

const struct vshmem_domain *vshmem_domains_dead(
	const struct vshmem_domains *domains, const vshmem_pool *pool)
{
	for (unsigned nth = 0; nth < domains->count; nth++)
		if (vshmem_domain_alive(pool, &domains->known[nth]) == 0)
			return &domains->known[nth];
	return NULL;
}
