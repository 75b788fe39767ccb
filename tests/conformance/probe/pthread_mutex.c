/* pthread_mutex_*(3) with PTHREAD_PROCESS_SHARED, in a segment: types, errors, waiting. */
#include "locks.h"

static const int types[] = { PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ERRORCHECK,
	PTHREAD_MUTEX_RECURSIVE };
static const char *type_names[] = { "normal", "errorcheck", "recursive" };
enum { TYPES = 3 };

static struct page *of_type(int i, int robust)
{ return mutex_page((struct mutex_kind) { types[i], robust }); }

static void each_type(void (*look)(struct page *p, const char *name))
{
	for (int i = 0; i < TYPES; i++) {
		char robust[32];
		look(of_type(i, PTHREAD_MUTEX_STALLED), type_names[i]);
		snprintf(robust, sizeof robust, "robust %s", type_names[i]);
		look(of_type(i, PTHREAD_MUTEX_ROBUST), robust);
	}
}

static void lock_and_unlock(struct page *p, const char *name)
{
	say("%s: lock %s", name, said(pthread_mutex_lock(&p->mutex)));
	say("%s: unlock %s", name, said(pthread_mutex_unlock(&p->mutex)));
	say("%s: trylock %s", name, said(pthread_mutex_trylock(&p->mutex)));
	say("%s: unlock %s", name, said(pthread_mutex_unlock(&p->mutex)));
	say("%s: destroy %s", name, said(pthread_mutex_destroy(&p->mutex)));
}

CASE(pthread_mutex_lock_and_unlock) { each_type(lock_and_unlock); }

static void try_held(struct page *p, const char *name)
{
	pthread_mutex_lock(&p->mutex);
	say("%s: trylock of one's own: %s", name, said(pthread_mutex_trylock(&p->mutex)));
	say("%s: unlock %s", name, said(pthread_mutex_unlock(&p->mutex)));
}

CASE(pthread_mutex_trylock_own) { each_type(try_held); }

static void destroy_held(struct page *p, const char *name)
{
	pthread_mutex_lock(&p->mutex);
	say("%s: destroy while locked: %s", name, said(pthread_mutex_destroy(&p->mutex)));
	say("%s: unlock %s", name, said(pthread_mutex_unlock(&p->mutex)));
}

CASE(pthread_mutex_destroy_held) { each_type(destroy_held); }

CASE(pthread_mutex_errorcheck_twice)
{
	struct page *p = of_type(1, PTHREAD_MUTEX_STALLED);
	struct timespec t = from_now(CLOCK_REALTIME, SOON);
	say("lock: %s", said(pthread_mutex_lock(&p->mutex)));
	say("lock again: %s", said(pthread_mutex_lock(&p->mutex)));
	say("timedlock: %s", said(pthread_mutex_timedlock(&p->mutex, &t)));
	say("clocklock: %s", said(pthread_mutex_clocklock(&p->mutex, CLOCK_MONOTONIC, &t)));
	say("unlock: %s", said(pthread_mutex_unlock(&p->mutex)));
	say("unlock again: %s", said(pthread_mutex_unlock(&p->mutex)));
}

CASE(pthread_mutex_recursive_counts)
{
	struct page *p = of_type(2, PTHREAD_MUTEX_STALLED);
	struct timespec t = from_now(CLOCK_REALTIME, SOON);
	say("lock: %s", said(pthread_mutex_lock(&p->mutex)));
	say("lock: %s", said(pthread_mutex_lock(&p->mutex)));
	say("trylock: %s", said(pthread_mutex_trylock(&p->mutex)));
	say("timedlock: %s", said(pthread_mutex_timedlock(&p->mutex, &t)));
	for (int i = 0; i < 5; i++)
		say("unlock: %s", said(pthread_mutex_unlock(&p->mutex)));
}

static void as_other(void *context)
{
	struct page *p = context;
	say("other: trylock %s", said(pthread_mutex_trylock(&p->mutex)));
	say("other: unlock %s", said(pthread_mutex_unlock(&p->mutex)));
}

CASE(pthread_mutex_recursive_of_another)
{
	struct page *p = of_type(2, PTHREAD_MUTEX_STALLED);
	pthread_mutex_lock(&p->mutex);
	pthread_mutex_lock(&p->mutex);
	pthread_mutex_unlock(&p->mutex);
	finish(start(as_other, p));
	pthread_mutex_unlock(&p->mutex);
}

CASE(pthread_mutex_errorcheck_of_another)
{
	struct page *p = of_type(1, PTHREAD_MUTEX_STALLED);
	pthread_mutex_lock(&p->mutex);
	finish(start(as_other, p));
	say("unlock: %s", said(pthread_mutex_unlock(&p->mutex)));
}

CASE(pthread_mutex_unlock_of_another_robust)
{
	struct page *p = robust_mutex();
	pthread_mutex_lock(&p->mutex);
	finish(start(as_other, p));
	say("unlock: %s", said(pthread_mutex_unlock(&p->mutex)));
	say("unlock again: %s", said(pthread_mutex_unlock(&p->mutex)));
}

static void *other_thread(void *context)
{
	as_other(context);
	return NULL;
}

CASE(pthread_mutex_owner_is_a_thread)
{
	for (int i = 1; i < TYPES; i++) {
		struct page *p = of_type(i, PTHREAD_MUTEX_STALLED);
		say("%s", type_names[i]);
		pthread_mutex_lock(&p->mutex);
		in_thread(other_thread, p);
		say("unlock: %s", said(pthread_mutex_unlock(&p->mutex)));
	}
}

static void unlock_it(void *context)
{
	struct page *p = context;
	say("other: unlock %s", said(pthread_mutex_unlock(&p->mutex)));
}

CASE(pthread_mutex_normal_unlocked_by_another)
{
	/* Not portable, but it works, and programs do it. */
	struct page *p = normal_mutex();
	pthread_mutex_lock(&p->mutex);
	finish(start(unlock_it, p));
	say("trylock: %s", said(pthread_mutex_trylock(&p->mutex)));
}

static void lock_and_say(void *context)
{
	struct page *p = context;
	int locked = pthread_mutex_lock(&p->mutex);
	p->words[0] = p->words[0] + 1;
	int unlocked = pthread_mutex_unlock(&p->mutex);
	say("waiter: lock %s, unlock %s", said(locked), said(unlocked));
}

static pid_t waiting(struct page *p)
{
	pid_t child = start(lock_and_say, p);
	await_asleep(child);
	return child;
}

CASE(pthread_mutex_wait)
{
	for (int i = 0; i < TYPES; i++) {
		struct page *p = of_type(i, PTHREAD_MUTEX_STALLED);
		pthread_mutex_lock(&p->mutex);
		pid_t child = waiting(p);
		int r = pthread_mutex_unlock(&p->mutex);
		finish(child);
		say("%s: unlock %s", type_names[i], said(r));
	}
}

CASE(pthread_mutex_wait_robust)
{
	for (int i = 0; i < TYPES; i++) {
		struct page *p = of_type(i, PTHREAD_MUTEX_ROBUST);
		pthread_mutex_lock(&p->mutex);
		pid_t child = waiting(p);
		int r = pthread_mutex_unlock(&p->mutex);
		finish(child);
		say("%s: unlock %s", type_names[i], said(r));
	}
}

CASE(pthread_mutex_wait_many)
{
	struct page *p = normal_mutex();
	pid_t children[5];
	pthread_mutex_lock(&p->mutex);
	for (int i = 0; i < 5; i++)
		children[i] = start(lock_and_say, p);
	for (int i = 0; i < 5; i++)
		await_asleep(children[i]);
	pthread_mutex_unlock(&p->mutex);
	for (int i = 0; i < 5; i++)
		finish(children[i]);
	say("%d came in", p->words[0]);
}

CASE(pthread_mutex_wait_killed)
{
	struct page *p = normal_mutex();
	pthread_mutex_lock(&p->mutex);
	pid_t doomed = waiting(p), other = waiting(p);
	stop_by(doomed, SIGKILL);
	pthread_mutex_unlock(&p->mutex);
	finish(other);
	say("trylock: %s", said(pthread_mutex_trylock(&p->mutex)));
}

static volatile sig_atomic_t handled;
static void count_signal(int signal)
{
	(void)signal;
	handled = handled + 1;
}

CASE(pthread_mutex_wait_is_not_ended_by_handlers)
{
	struct page *p = normal_mutex();
	handle(SIGUSR1, count_signal, 0);
	pthread_mutex_lock(&p->mutex);
	pid_t child = waiting(p);
	for (int i = 0; i < 3; i++) {
		kill(child, SIGUSR1);
		await_asleep(child);
	}
	pthread_mutex_unlock(&p->mutex);
	finish(child);
}

static void *wait_in_thread(void *context)
{
	lock_and_say(context);
	return NULL;
}

CASE(pthread_mutex_wait_is_no_cancellation_point)
{
	struct page *p = normal_mutex();
	pthread_t t;
	void *result;
	pthread_mutex_lock(&p->mutex);
	pthread_create(&t, NULL, wait_in_thread, p);
	pthread_cancel(t);
	for (int i = 0; i < 20; i++)
		a_moment();
	pthread_mutex_unlock(&p->mutex);
	pthread_join(t, &result);
	/* say() writes, and is one. */
	say("trylock: %s", said(pthread_mutex_trylock(&p->mutex)));
}

static void lock_and_leave(void *context)
{
	struct page *p = context;
	pthread_mutex_lock(&p->mutex);
}

static void timed(int i, clockid_t clock, long ms, bool held)
{
	struct page *p = of_type(i, PTHREAD_MUTEX_STALLED);
	struct timespec t = from_now(clock, ms);
	if (held)
		finish(start(lock_and_leave, p));
	int r = clock == CLOCK_REALTIME ? pthread_mutex_timedlock(&p->mutex, &t)
					: pthread_mutex_clocklock(&p->mutex, clock, &t);
	say("%s: %s, deadline has passed: %s", type_names[i], said(r), yes(has_passed(clock, &t)));
}

CASE(pthread_mutex_timedlock_runs_out)
{
	for (int i = 0; i < TYPES; i++)
		timed(i, CLOCK_REALTIME, SOON, true);
}

CASE(pthread_mutex_timedlock_free)
{
	for (int i = 0; i < TYPES; i++)
		timed(i, CLOCK_REALTIME, NEVER, false);
}

CASE(pthread_mutex_timedlock_past)
{
	for (int i = 0; i < TYPES; i++) {
		timed(i, CLOCK_REALTIME, -2000, true);
		timed(i, CLOCK_REALTIME, -2000, false);
	}
}

CASE(pthread_mutex_clocklock_monotonic)
{
	timed(0, CLOCK_MONOTONIC, SOON, true);
	timed(0, CLOCK_MONOTONIC, NEVER, false);
	timed(0, CLOCK_MONOTONIC, -2000, true);
}

CASE(pthread_mutex_clocklock_other_clocks)
{
	const clockid_t clocks[] = { CLOCK_PROCESS_CPUTIME_ID, CLOCK_BOOTTIME, CLOCK_TAI, 77, -1 };
	struct page *p = normal_mutex();
	struct timespec t = from_now(CLOCK_MONOTONIC, NEVER);
	for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
		int r = pthread_mutex_clocklock(&p->mutex, clocks[i], &t);
		say("free, clock %d: %s", (int)clocks[i], said(r));
		if (r == 0)
			pthread_mutex_unlock(&p->mutex);
	}
}

CASE(pthread_mutex_timedlock_bad_times)
{
	const struct timespec times[] = { { 0, -1 }, { 0, 1000000000 }, { -1, 0 }, { 0, LONG_MAX },
		{ LONG_MIN, 0 } };
	for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
		struct page *p = normal_mutex();
		say("%zu, free: %s", i, said(pthread_mutex_timedlock(&p->mutex, &times[i])));
		say("%zu, held: %s", i, said(pthread_mutex_timedlock(&p->mutex, &times[i])));
		shmdt(p);
	}
}

static void timed_waiter(void *context)
{
	struct page *p = context;
	struct timespec t = from_now(CLOCK_REALTIME, NEVER);
	say("waiter: %s", said(pthread_mutex_timedlock(&p->mutex, &t)));
	pthread_mutex_unlock(&p->mutex);
}

CASE(pthread_mutex_timedlock_until_unlock)
{
	struct page *p = normal_mutex();
	pthread_mutex_lock(&p->mutex);
	pid_t child = start(timed_waiter, p);
	await_asleep(child);
	pthread_mutex_unlock(&p->mutex);
	finish(child);
}

enum { TURNS = 3000, WORKERS = 3 };

static void count_under(void *context)
{
	struct page *p = context;
	for (int i = 0; i < turns(TURNS); i++) {
		if (pthread_mutex_lock(&p->mutex) != 0)
			broken("pthread_mutex_lock");
		p->words[0] = p->words[0] + 1;
		if (pthread_mutex_unlock(&p->mutex) != 0)
			broken("pthread_mutex_unlock");
	}
}

static void *count_in_thread(void *context)
{
	count_under(context);
	return NULL;
}

static void exclude(struct page *p, const char *name)
{
	pid_t children[WORKERS];
	pthread_t threads[WORKERS];
	for (int i = 0; i < WORKERS; i++)
		children[i] = start(count_under, p);
	for (int i = 0; i < WORKERS; i++)
		pthread_create(&threads[i], NULL, count_in_thread, p);
	for (int i = 0; i < WORKERS; i++) {
		finish(children[i]);
		pthread_join(threads[i], NULL);
	}
	say("%s: %d of %d", name, p->words[0], 2 * WORKERS * turns(TURNS));
}

CASE(pthread_mutex_excludes) { each_type(exclude); }

CASE(pthread_mutex_attributes)
{
	pthread_mutexattr_t a;
	int v = -1;
	pthread_mutexattr_init(&a);
	int r = pthread_mutexattr_getpshared(&a, &v);
	say("shared at first: %s, %d", said(r), v);
	say("set: %s", said(pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED)));
	r = pthread_mutexattr_getpshared(&a, &v);
	say("shared: %s, %d", said(r), v);
	say("set to 7: %s", said(pthread_mutexattr_setpshared(&a, 7)));
	say("type 7: %s", said(pthread_mutexattr_settype(&a, 7)));
	say("robust 7: %s", said(pthread_mutexattr_setrobust(&a, 7)));
	say("protocol 7: %s", said(pthread_mutexattr_setprotocol(&a, 7)));
	r = pthread_mutexattr_getrobust(&a, &v);
	say("robust: %s, %d", said(r), v);
	say("destroy: %s", said(pthread_mutexattr_destroy(&a)));
}

CASE(pthread_mutex_private_in_a_segment)
{
	struct page *p = new_page();
	say("init: %s", said(pthread_mutex_init(&p->mutex, NULL)));
	say("lock: %s", said(pthread_mutex_lock(&p->mutex)));
	say("trylock: %s", said(pthread_mutex_trylock(&p->mutex)));
	say("unlock: %s", said(pthread_mutex_unlock(&p->mutex)));
	say("destroy: %s", said(pthread_mutex_destroy(&p->mutex)));
}

CASE(pthread_mutex_outside_of_segments)
{
	pthread_mutex_t *m = (pthread_mutex_t *)shared_ints();
	pthread_mutexattr_t a;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	say("init: %s", said(pthread_mutex_init(m, &a)));
	say("lock: %s", said(pthread_mutex_lock(m)));
	say("unlock: %s", said(pthread_mutex_unlock(m)));
	say("consistent: %s", said(pthread_mutex_consistent(m)));
	say("destroy: %s", said(pthread_mutex_destroy(m)));
}

CASE(pthread_mutex_static_initialisers)
{
	pthread_mutex_t m[] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
		PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP, PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP };
	for (int i = 0; i < 4; i++) {
		say("%d: lock %s", i, said(pthread_mutex_lock(&m[i])));
		say("%d: trylock %s", i, said(pthread_mutex_trylock(&m[i])));
		say("%d: unlock %s", i, said(pthread_mutex_unlock(&m[i])));
	}
}

CASE(pthread_mutex_init_again)
{
	struct page *p = normal_mutex();
	pthread_mutex_lock(&p->mutex);
	pthread_mutex_unlock(&p->mutex);
	say("destroy: %s", said(pthread_mutex_destroy(&p->mutex)));
	say("init as private: %s", said(pthread_mutex_init(&p->mutex, NULL)));
	say("lock: %s", said(pthread_mutex_lock(&p->mutex)));
	say("unlock: %s", said(pthread_mutex_unlock(&p->mutex)));
}

CASE(pthread_mutex_in_what_was_used_before)
{
	struct page *p = new_page();
	pthread_mutexattr_t a;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	memset(p, 0xff, sizeof *p);
	say("init: %s", said(pthread_mutex_init(&p->mutex, &a)));
	say("lock: %s", said(pthread_mutex_lock(&p->mutex)));
	say("trylock: %s", said(pthread_mutex_trylock(&p->mutex)));
	say("unlock: %s", said(pthread_mutex_unlock(&p->mutex)));
}

CASE(pthread_mutex_at_two_addresses)
{
	int segment = segment_of(4096);
	pthread_mutexattr_t a;
	pthread_mutex_t *here = (pthread_mutex_t *)attach(segment),
			*there = (pthread_mutex_t *)attach(segment);
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK);
	say("init: %s", said(pthread_mutex_init(here, &a)));
	say("lock: %s", said(pthread_mutex_lock(here)));
	say("lock there: %s", said(pthread_mutex_lock(there)));
	say("unlock there: %s", said(pthread_mutex_unlock(there)));
	say("unlock: %s", said(pthread_mutex_unlock(here)));
}

static void hold_and_die(void *context)
{
	struct page *p = context;
	pthread_mutex_lock(&p->mutex);
	raise(SIGKILL);
}

CASE(pthread_mutex_of_the_dead_stays_locked)
{
	for (int i = 0; i < TYPES; i++) {
		struct page *p = of_type(i, PTHREAD_MUTEX_STALLED);
		struct timespec t = from_now(CLOCK_REALTIME, SOON);
		finish(start(hold_and_die, p));
		say("%s: trylock %s", type_names[i], said(pthread_mutex_trylock(&p->mutex)));
		say("%s: timedlock %s", type_names[i],
			said(pthread_mutex_timedlock(&p->mutex, &t)));
	}
}
