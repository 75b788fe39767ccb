/* A domain that dies takes processes of the job with it, and messages that others expect from them
 * never arrive. The pool knows at once; mpirun, which waits for a network, may take minutes. The
 * process of the job that looks first ends it.
 *
 * Other jobs, which this one has spawned or joined, are not ended.
 */
#include "btl_vshmem.h"

static struct vshmem_domains domains;
static bool all_known, ended;

void vshmem_watch(const struct vshmem_domain *domain)
{
	OPAL_THREAD_LOCK(&vshmem_btl.lock);
	vshmem_domains_add(&domains, domain);
	OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
}

void vshmem_watch_peer(const vshmem_endpoint *endpoint)
{
	const struct vshmem_stay *they = &endpoint->pair.they, *mine = &vshmem_btl.me.stay;
	if (!endpoint->pair.they_left && vshmem_btl.me.here
		&& memcmp(they->pool, mine->pool, sizeof(they->pool)) == 0)
		vshmem_watch(&they->domain);
}

/* All processes of a domain that are known here have left the pool with it: their messages come
 * by connections, and so does their death. */
static bool has_left(const struct vshmem_domain *domain)
{
	vshmem_endpoint *endpoint;
	bool left = false;
	OPAL_LIST_FOREACH(endpoint, &vshmem_btl.endpoints, vshmem_endpoint)
	{
		const struct vshmem_pair *pair = &endpoint->pair;
		if (pair->they.domain.index != domain->index
			|| pair->they.domain.epoch != domain->epoch)
			continue;
		left = pair->they_left && pair->out == BY_SOCKET && pair->in == BY_SOCKET;
		if (!left)
			break;
	}
	return left;
}

/* The domains of all processes of the job. */
static void watch_job(void)
{
	struct vshmem_modex modex;
	for (uint32_t rank = 0; rank < vshmem_btl.processes; rank++) {
		const vshmem_endpoint *endpoint = vshmem_endpoint_of_rank(rank);
		if (endpoint)
			vshmem_watch_peer(endpoint);
		else if (vshmem_modex_known(rank, &modex))
			vshmem_watch(&modex.domain);
	}
}

static void look(void)
{
	static unsigned looks;
	/* A process may wait for one that it has never talked to. */
	if (!all_known && ++looks == VSHMEM_LOOKS_BEFORE_ALL_ARE_KNOWN) {
		all_known = true;
		watch_job();
	}
	const struct vshmem_domain *dead = vshmem_domains_dead(&domains, vshmem_btl.pool);
	if (!dead)
		return;
	if (has_left(dead)) {
		vshmem_domains_remove(&domains, dead);
		return;
	}
	char pool[64] = "";
	uint32_t domain, client;
	vshmem_whoami(vshmem_btl.pool, pool, &domain, &client);
	ended = true;
	vshmem_abort(
		"domain %u of pool %s is dead, and processes of this job with it: the job ends",
		dead->index, pool);
}

void vshmem_watch_look(void)
{
	if (!ended && vshmem_btl.pool)
		look();
}

bool vshmem_watch_due(void) { return vshmem_domains_due(&domains); }

void vshmem_watch_anew(void)
{
	vshmem_endpoint *endpoint;
	domains.count = 0;
	/* What the others have published is of the first pool. */
	all_known = true;
	OPAL_LIST_FOREACH(endpoint, &vshmem_btl.endpoints, vshmem_endpoint)
	vshmem_watch_peer(endpoint);
}
