/* How all members of a team end it at the same call when one of them leaves the pool.
 *
 * Who leaves asks for it by a word in the team's memory. Each member then says once how many
 * calls it has begun, and begins none more before all have said so. The largest of these numbers is
 * the last call of the team: all have to take part in it, because one has begun it. The next one
 * goes by messages. A member says so where it makes progress, waits in a call of the team, or
 * begins one; and when it has made the last call it gives the team back, when all have made it.
 *
 * Locking: `lock` is held while numbers are said and teams are given back.
 */
#include "coll_vshmem.h"

#include "opal/runtime/opal_progress.h"

static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT;
static struct vshmem_use *used; /* by_team and stopped */

static uint64_t load(const uint64_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static void store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}
static bool asked(const struct vshmem_use *use)
{
	return __atomic_load_n(&use->stop->asked, __ATOMIC_ACQUIRE) != 0;
}

void vshmem_stop_enter(struct vshmem_use *use)
{
	OPAL_THREAD_LOCK(&lock);
	use->next = used;
	used = use;
	OPAL_THREAD_UNLOCK(&lock);
}

/* With the lock held: says how many calls this member has begun. */
static void say(struct vshmem_use *use, uint64_t begun)
{
	if (!use->said)
		store(&use->stop->members[use->rank].begun, begun + 1);
	use->said = true;
}

/* Whether all have said it; then the number of the last call. */
static bool all_said(const struct vshmem_use *use, uint64_t *last)
{
	*last = 0;
	for (uint32_t member = 0; member < use->members; member++) {
		uint64_t begun = load(&use->stop->members[member].begun);
		if (begun == 0)
			return false;
		*last = begun - 1 > *last ? begun - 1 : *last;
	}
	return true;
}

static uint64_t begun_by(const struct vshmem_use *use)
{
	return __atomic_load_n(&use->calls, __ATOMIC_RELAXED);
}

/* Others, who have still to make the last call, wait for the word of this member. */
void vshmem_stop_forget(struct vshmem_use *use)
{
	struct vshmem_use **link = &used;
	OPAL_THREAD_LOCK(&lock);
	while (*link && *link != use)
		link = &(*link)->next;
	if (*link) {
		*link = use->next;
		say(use, begun_by(use));
		store(&use->stop->members[use->rank].finished, 1);
	}
	OPAL_THREAD_UNLOCK(&lock);
}

void vshmem_stop_look(struct vshmem_use *use)
{
	if (!use->stop || !asked(use) || use->said)
		return;
	OPAL_THREAD_LOCK(&lock);
	say(use, begun_by(use));
	OPAL_THREAD_UNLOCK(&lock);
}

int vshmem_stop_before(void)
{
	int calls = vshmem_coll_parameters.after - CALLS_BEFORE_ANOTHER;
	return calls < 0 ? calls : 0;
}

static void stop(struct vshmem_use *use)
{
	use->before = vshmem_stop_before();
	use->way = STOPPED;
}

bool vshmem_stop_goes_on(struct vshmem_use *use)
{
	uint64_t last;
	OPAL_THREAD_LOCK(&lock);
	/* This one is begun only if others need it. */
	say(use, use->calls - 1);
	OPAL_THREAD_UNLOCK(&lock);
	while (!all_said(use, &last))
		opal_progress();
	if (use->calls <= last)
		return true;
	OPAL_THREAD_LOCK(&lock);
	use->calls--;
	stop(use);
	use->inside = false;
	OPAL_THREAD_UNLOCK(&lock);
	return false;
}

/* With the lock held. Whether the team can be given back. */
static bool ended(struct vshmem_use *use)
{
	uint64_t last;
	if (!all_said(use, &last) || begun_by(use) < last || use->inside || use->under_way > 0)
		return false;
	if (use->way == BY_TEAM)
		stop(use);
	store(&use->stop->members[use->rank].finished, 1);
	for (uint32_t member = 0; member < use->members; member++)
		if (!load(&use->stop->members[member].finished))
			return false;
	return true;
}

bool vshmem_stop_step(bool leaving)
{
	bool done = true;
	OPAL_THREAD_LOCK(&lock);
	for (struct vshmem_use **link = &used, *use; (use = *link);) {
		if (leaving)
			__atomic_store_n(&use->stop->asked, 1, __ATOMIC_RELEASE);
		if (asked(use)) {
			say(use, begun_by(use));
			done = false;
			if (ended(use)) {
				*link = use->next;
				use->give_back(use);
				continue;
			}
		}
		link = &use->next;
	}
	OPAL_THREAD_UNLOCK(&lock);
	return done;
}

void vshmem_stop_wait(struct vshmem_use *use)
{
	for (vshmem_stop_step(false); use->way == STOPPED; vshmem_stop_step(false))
		opal_progress();
}
