/* This process leaves the pool when its domain does, and joins one again. */
#include "btl_vshmem.h"

#include <stdlib.h>
#include <sys/resource.h>

static const char *refused; /* why, as it was said */
static struct timespec since; /* this process leaves, or has left */

/* Milliseconds of that, which begin anew. */
static long passed(void)
{
	struct timespec was = since;
	clock_gettime(CLOCK_MONOTONIC, &since);
	return (since.tv_sec - was.tv_sec) * 1000 + (since.tv_nsec - was.tv_nsec) / 1000000;
}

/* With every process of the job that may ever be sent to through the pool: who wants to send
 * to this one later finds a pair that has gone over. */
static void make_pairs(void)
{
	struct vshmem_modex modex;
	for (uint32_t rank = 0; rank < vshmem_btl.processes; rank++) {
		opal_process_name_t name = { OPAL_PROC_MY_NAME.jobid, rank };
		if (vshmem_modex_known(rank, &modex) && vshmem_is_peer(&name, &modex))
			vshmem_endpoint_open(rank, &modex);
	}
}

/* Two descriptors for each process. */
static void make_room(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static void begin(void)
{
	const char *why = vshmem_btl.modex.place.count == 0 ? "it has no network" : NULL;
	for (struct vshmem_user *user = vshmem_btl.users; user && !why; user = user->next)
		why = user->refuses ? user->refuses() : NULL;
	if (why && why != refused)
		vshmem_say(
			"this process does not leave the pool: %s. When the time limit of the leave has passed, its "
			"domain is evicted, and the job ends",
			why);
	refused = why;
	if (why)
		return;
	make_room();
	make_pairs();
	passed();
	vshmem_btl.me.leaving = vshmem_btl.moving = true;
}

static void join(void)
{
	static time_t last;
	char message[512];
	vshmem_endpoint *endpoint;
	time_t now = vshmem_seconds();
	if (now == last)
		return;
	last = now;
	if (!vshmem_btl_join(message, sizeof(message)))
		return;
	passed();
	for (struct vshmem_user *user = vshmem_btl.users; user; user = user->next)
		if (user->joined)
			user->joined();
	OPAL_LIST_FOREACH(endpoint, &vshmem_btl.endpoints, vshmem_endpoint)
	{
		OPAL_THREAD_LOCK(&endpoint->lock);
		endpoint->pair.leave_said = false;
		OPAL_THREAD_UNLOCK(&endpoint->lock);
	}
	vshmem_watch_anew();
}

void vshmem_leave_look(void)
{
	struct vshmem_me *me = &vshmem_btl.me;
	if (!vshmem_btl.pool)
		join();
	else if (vshmem_domain_alive(vshmem_btl.pool, &me->stay.domain) == 0)
		vshmem_abort("this process's domain was evicted from the pool%s",
			me->leaving || refused ? ": it did not leave in time" : "");
	else if (!vshmem_leaving(vshmem_btl.pool))
		refused = NULL;
	else if (!me->leaving)
		begin();
}

static bool all_parted(void)
{
	vshmem_endpoint *endpoint;
	bool done = true;
	OPAL_LIST_FOREACH(endpoint, &vshmem_btl.endpoints, vshmem_endpoint)
	done &= endpoint->gone || vshmem_pair_parted(&endpoint->pair);
	for (struct vshmem_user *user = vshmem_btl.users; user; user = user->next)
		done &= !user->leave || user->leave(true);
	return done;
}

static void part(void)
{
	struct vshmem_btl *btl = &vshmem_btl;
	vshmem_endpoint *endpoint;
	OPAL_LIST_FOREACH(endpoint, &btl->endpoints, vshmem_endpoint)
	{
		if (endpoint->peer.lane)
			vshmem_lane_close(endpoint->peer.lane);
		endpoint->peer.lane = NULL;
	}
	vshmem_port_close(btl->port);
	btl->port = NULL;
	btl->base = NULL;
	btl->bytes = 0;
	btl->backoff.pool = NULL;
	for (struct vshmem_user *user = btl->users; user; user = user->next)
		if (user->parting)
			user->parting();
	int rc = vshmem_part(btl->pool);
	for (struct vshmem_user *user = btl->users; user; user = user->next)
		if (user->left)
			user->left();
	vshmem_close(btl->pool);
	btl->pool = NULL;
	btl->me.leaving = btl->me.here = false;
	btl->left++;
	/* What it has mapped is others' when its domain is evicted. */
	if (rc != 0)
		vshmem_abort(
			"the memory that this process has of the pool cannot be made private: %s",
			strerror(-rc));
	long took = passed();
	if (vshmem_parameters.verbose)
		vshmem_say("has left the pool after %ld ms", took);
}

int vshmem_leave_step(void)
{
	struct vshmem_btl *btl = &vshmem_btl;
	vshmem_endpoint *endpoint, *next;
	int events = vshmem_over_receive();
	bool settled = true;
	OPAL_LIST_FOREACH_SAFE(endpoint, next, &btl->endpoints, vshmem_endpoint)
	settled &= vshmem_over_step(endpoint);
	if (!btl->me.leaving)
		for (struct vshmem_user *user = btl->users; user; user = user->next)
			settled &= !user->leave || user->leave(false);
	else if (all_parted())
		part();
	btl->moving = btl->me.leaving || !btl->me.here || !settled;
	if (!btl->moving && btl->left && vshmem_parameters.verbose)
		vshmem_say(
			"all messages go by the pool again, %ld ms after it was joined", passed());
	return events;
}
