/* pthread_rwlock_*(3), pthread_barrier_*(3), pthread_spin_*(3) with PTHREAD_PROCESS_SHARED, in a
 * segment. */
#include "locks.h"

static struct page *rwlock_page(void)
{
	struct page *p = new_page();
	pthread_rwlockattr_t a;
	pthread_rwlockattr_init(&a);
	pthread_rwlockattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	if (pthread_rwlock_init(&p->rwlock, &a) != 0)
		broken("pthread_rwlock_init");
	sem_init(&p->go, 1, 0);
	return p;
}

static void try_both(void *context)
{
	struct page *p = context;
	int r = pthread_rwlock_tryrdlock(&p->rwlock);
	say("other: tryrdlock %s", said(r));
	if (r == 0)
		pthread_rwlock_unlock(&p->rwlock);
	r = pthread_rwlock_trywrlock(&p->rwlock);
	say("other: trywrlock %s", said(r));
	if (r == 0)
		pthread_rwlock_unlock(&p->rwlock);
}

CASE(pthread_rwlock_readers_share)
{
	struct page *p = rwlock_page();
	say("rdlock: %s", said(pthread_rwlock_rdlock(&p->rwlock)));
	finish(start(try_both, p));
	say("unlock: %s", said(pthread_rwlock_unlock(&p->rwlock)));
	finish(start(try_both, p));
}

CASE(pthread_rwlock_writer_excludes)
{
	struct page *p = rwlock_page();
	say("wrlock: %s", said(pthread_rwlock_wrlock(&p->rwlock)));
	finish(start(try_both, p));
	say("unlock: %s", said(pthread_rwlock_unlock(&p->rwlock)));
	finish(start(try_both, p));
}

CASE(pthread_rwlock_recursive_reads)
{
	struct page *p = rwlock_page();
	for (int i = 0; i < 3; i++)
		say("rdlock: %s", said(pthread_rwlock_rdlock(&p->rwlock)));
	for (int i = 0; i < 3; i++) {
		finish(start(try_both, p));
		say("unlock: %s", said(pthread_rwlock_unlock(&p->rwlock)));
	}
	say("trywrlock: %s", said(pthread_rwlock_trywrlock(&p->rwlock)));
}

CASE(pthread_rwlock_deadlocks_are_seen)
{
	struct page *p = rwlock_page();
	struct timespec t = from_now(CLOCK_REALTIME, SOON);
	pthread_rwlock_wrlock(&p->rwlock);
	say("wrlock of a writer: %s", said(pthread_rwlock_wrlock(&p->rwlock)));
	say("rdlock of a writer: %s", said(pthread_rwlock_rdlock(&p->rwlock)));
	say("timedwrlock of a writer: %s", said(pthread_rwlock_timedwrlock(&p->rwlock, &t)));
	say("timedrdlock of a writer: %s", said(pthread_rwlock_timedrdlock(&p->rwlock, &t)));
	say("tryrdlock of a writer: %s", said(pthread_rwlock_tryrdlock(&p->rwlock)));
	say("trywrlock of a writer: %s", said(pthread_rwlock_trywrlock(&p->rwlock)));
}

static void read_and_say(void *context)
{
	struct page *p = context;
	int r = pthread_rwlock_rdlock(&p->rwlock);
	__atomic_fetch_add(&p->words[0], 1, __ATOMIC_SEQ_CST);
	pthread_rwlock_unlock(&p->rwlock);
	say("reader: %s", said(r));
}

static void write_and_say(void *context)
{
	struct page *p = context;
	int r = pthread_rwlock_wrlock(&p->rwlock);
	p->words[1] = p->words[1] + 1;
	pthread_rwlock_unlock(&p->rwlock);
	say("writer: %s", said(r));
}

CASE(pthread_rwlock_reader_waits_for_the_writer)
{
	struct page *p = rwlock_page();
	pthread_rwlock_wrlock(&p->rwlock);
	pid_t child = start(read_and_say, p);
	await_asleep(child);
	pthread_rwlock_unlock(&p->rwlock);
	finish(child);
}

CASE(pthread_rwlock_writer_waits_for_readers)
{
	struct page *p = rwlock_page();
	pthread_rwlock_rdlock(&p->rwlock);
	pthread_rwlock_rdlock(&p->rwlock);
	pid_t child = start(write_and_say, p);
	await_asleep(child);
	pthread_rwlock_unlock(&p->rwlock);
	await_asleep(child);
	say("one reader left: written %d", p->words[1]);
	pthread_rwlock_unlock(&p->rwlock);
	finish(child);
	say("written %d", p->words[1]);
}

CASE(pthread_rwlock_writer_waits_for_the_writer)
{
	struct page *p = rwlock_page();
	pthread_rwlock_wrlock(&p->rwlock);
	pid_t a = start(write_and_say, p), b = start(write_and_say, p);
	await_asleep(a);
	await_asleep(b);
	pthread_rwlock_unlock(&p->rwlock);
	finish(a);
	finish(b);
	say("written %d", p->words[1]);
}

CASE(pthread_rwlock_readers_pass_a_waiting_writer)
{
	struct page *p = rwlock_page();
	pthread_rwlock_rdlock(&p->rwlock);
	pid_t writer = start(write_and_say, p);
	await_asleep(writer);
	finish(start(read_and_say, p));
	say("tryrdlock: %s", said(pthread_rwlock_tryrdlock(&p->rwlock)));
	pthread_rwlock_unlock(&p->rwlock);
	pthread_rwlock_unlock(&p->rwlock);
	finish(writer);
}

CASE(pthread_rwlock_writer_lets_all_readers_in)
{
	struct page *p = rwlock_page();
	pid_t children[5];
	pthread_rwlock_wrlock(&p->rwlock);
	for (int i = 0; i < 5; i++) {
		children[i] = start(read_and_say, p);
		await_asleep(children[i]);
	}
	pthread_rwlock_unlock(&p->rwlock);
	for (int i = 0; i < 5; i++)
		finish(children[i]);
	say("read %d", p->words[0]);
}

CASE(pthread_rwlock_waiting_reader_killed)
{
	struct page *p = rwlock_page();
	pthread_rwlock_wrlock(&p->rwlock);
	pid_t doomed = start(write_and_say, p), other = start(write_and_say, p);
	await_asleep(doomed);
	await_asleep(other);
	stop_by(doomed, SIGKILL);
	pthread_rwlock_unlock(&p->rwlock);
	finish(other);
	say("written %d", p->words[1]);
}

static void hold_for_write(void *context)
{
	struct page *p = context;
	pthread_rwlock_wrlock(&p->rwlock);
}

static void times_out(int (*lock)(pthread_rwlock_t *, const struct timespec *), long ms,
	const struct timespec *given)
{
	struct page *p = rwlock_page();
	struct timespec t = given ? *given : from_now(CLOCK_REALTIME, ms);
	int r = lock(&p->rwlock, &t);
	say("free: %s", said(r));
	if (r == 0)
		pthread_rwlock_unlock(&p->rwlock);
	finish(start(hold_for_write, p));
	say("held: %s", said(lock(&p->rwlock, &t)));
	shmdt(p);
}

CASE(pthread_rwlock_timed_read) { times_out(pthread_rwlock_timedrdlock, SOON, NULL); }
CASE(pthread_rwlock_timed_write) { times_out(pthread_rwlock_timedwrlock, SOON, NULL); }
CASE(pthread_rwlock_timed_past)
{
	times_out(pthread_rwlock_timedrdlock, -1000, NULL);
	times_out(pthread_rwlock_timedwrlock, -1000, NULL);
}

CASE(pthread_rwlock_bad_times)
{
	const struct timespec times[] = { { 0, -1 }, { 0, 1000000000 }, { -1, 0 } };
	for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
		times_out(pthread_rwlock_timedrdlock, 0, &times[i]);
		times_out(pthread_rwlock_timedwrlock, 0, &times[i]);
	}
}

CASE(pthread_rwlock_clocks)
{
	struct page *p = rwlock_page();
	struct timespec t = from_now(CLOCK_MONOTONIC, SOON);
	finish(start(hold_for_write, p));
	say("clockrdlock: %s", said(pthread_rwlock_clockrdlock(&p->rwlock, CLOCK_MONOTONIC, &t)));
	say("clockwrlock: %s", said(pthread_rwlock_clockwrlock(&p->rwlock, CLOCK_MONOTONIC, &t)));
	say("deadline has passed: %s", yes(has_passed(CLOCK_MONOTONIC, &t)));
	say("another clock: %s", said(pthread_rwlock_clockrdlock(&p->rwlock, CLOCK_BOOTTIME, &t)));
	say("another clock: %s", said(pthread_rwlock_clockwrlock(&p->rwlock, 77, &t)));
}

enum { TURNS = 1500 };

static void write_many(void *context)
{
	struct page *p = context;
	for (int i = 0; i < turns(TURNS); i++) {
		pthread_rwlock_wrlock(&p->rwlock);
		p->words[0] = p->words[0] + 1;
		p->words[32] = p->words[32] + 1;
		pthread_rwlock_unlock(&p->rwlock);
	}
}

static void read_many(void *context)
{
	struct page *p = context;
	for (int i = 0; i < turns(TURNS); i++) {
		pthread_rwlock_rdlock(&p->rwlock);
		if (p->words[0] != p->words[32])
			p->words[1] = 1;
		pthread_rwlock_unlock(&p->rwlock);
	}
}

CASE(pthread_rwlock_excludes)
{
	struct page *p = rwlock_page();
	pid_t children[4];
	for (int i = 0; i < 4; i++)
		children[i] = start(i < 2 ? write_many : read_many, p);
	for (int i = 0; i < 4; i++)
		finish(children[i]);
	say("written %d, torn: %s", p->words[0], yes(p->words[1]));
}

CASE(pthread_rwlock_destroy_and_private)
{
	struct page *p = rwlock_page();
	say("destroy: %s", said(pthread_rwlock_destroy(&p->rwlock)));
	say("init as private: %s", said(pthread_rwlock_init(&p->rwlock, NULL)));
	say("wrlock: %s", said(pthread_rwlock_wrlock(&p->rwlock)));
	say("tryrdlock: %s", said(pthread_rwlock_tryrdlock(&p->rwlock)));
	say("unlock: %s", said(pthread_rwlock_unlock(&p->rwlock)));
	static pthread_rwlock_t fixed = PTHREAD_RWLOCK_INITIALIZER;
	say("static: rdlock %s", said(pthread_rwlock_rdlock(&fixed)));
	say("static: unlock %s", said(pthread_rwlock_unlock(&fixed)));
}

/* ---- barriers ---- */

static struct page *barrier_page(unsigned count)
{
	struct page *p = new_page();
	pthread_barrierattr_t a;
	pthread_barrierattr_init(&a);
	pthread_barrierattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	int r = pthread_barrier_init(&p->barrier, &a, count);
	if (r != 0)
		broken("pthread_barrier_init: %s", said(r));
	return p;
}

CASE(pthread_barrier_counts)
{
	struct page *p = new_page();
	pthread_barrierattr_t a;
	pthread_barrierattr_init(&a);
	pthread_barrierattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	const unsigned counts[] = { 0, 1, 2, INT_MAX, (unsigned)INT_MAX + 1, UINT_MAX };
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
		say("%u: %s", counts[i], said(pthread_barrier_init(&p->barrier, &a, counts[i])));
}

CASE(pthread_barrier_of_one)
{
	struct page *p = barrier_page(1);
	for (int i = 0; i < 3; i++)
		say("serial: %s",
			yes(pthread_barrier_wait(&p->barrier) == PTHREAD_BARRIER_SERIAL_THREAD));
	say("destroy: %s", said(pthread_barrier_destroy(&p->barrier)));
}

static void meet(void *context)
{
	struct page *p = context;
	for (int i = 0; i < turns(200); i++) {
		__atomic_fetch_add(&p->words[0], 1, __ATOMIC_SEQ_CST);
		int r = pthread_barrier_wait(&p->barrier);
		if (p->words[0] < (i + 1) * 4)
			p->words[2] = 1;
		if (r == PTHREAD_BARRIER_SERIAL_THREAD)
			__atomic_fetch_add(&p->words[1], 1, __ATOMIC_SEQ_CST);
		else if (r != 0)
			p->words[3] = r;
		/* Nobody comes into the next round before all have looked. */
		pthread_barrier_wait(&p->barrier);
	}
}

CASE(pthread_barrier_many_rounds)
{
	struct page *p = barrier_page(4);
	pid_t children[4];
	for (int i = 0; i < 4; i++)
		children[i] = start(meet, p);
	for (int i = 0; i < 4; i++)
		finish(children[i]);
	say("came %d, serial ones %d, too early: %s, errors: %s", p->words[0], p->words[1],
		yes(p->words[2]), yes(p->words[3]));
	say("destroy: %s", said(pthread_barrier_destroy(&p->barrier)));
}

static void meet_once(void *context)
{
	struct page *p = context;
	int r = pthread_barrier_wait(&p->barrier);
	__atomic_fetch_add(&p->words[r == 0 ? 0 : 1], 1, __ATOMIC_SEQ_CST);
}

CASE(pthread_barrier_waits_for_all)
{
	struct page *p = barrier_page(3);
	pid_t a = start(meet_once, p), b = start(meet_once, p);
	await_asleep(a);
	await_asleep(b);
	say("two are there: through %d", p->words[0] + p->words[1]);
	meet_once(p);
	finish(a);
	finish(b);
	say("through %d, serial %d", p->words[0], p->words[1]);
}

/* ---- spinlocks ---- */

static struct page *spin_page(void)
{
	struct page *p = new_page();
	if (pthread_spin_init(&p->spin, PTHREAD_PROCESS_SHARED) != 0)
		broken("pthread_spin_init");
	return p;
}

static void spin_try(void *context)
{
	struct page *p = context;
	say("other: trylock %s", said(pthread_spin_trylock(&p->spin)));
}

CASE(pthread_spin_locks)
{
	struct page *p = spin_page();
	say("lock: %s", said(pthread_spin_lock(&p->spin)));
	say("trylock: %s", said(pthread_spin_trylock(&p->spin)));
	finish(start(spin_try, p));
	say("unlock: %s", said(pthread_spin_unlock(&p->spin)));
	say("trylock: %s", said(pthread_spin_trylock(&p->spin)));
	say("unlock: %s", said(pthread_spin_unlock(&p->spin)));
	say("destroy: %s", said(pthread_spin_destroy(&p->spin)));
	say("init with 7: %s", said(pthread_spin_init(&p->spin, 7)));
}

static void spin_many(void *context)
{
	struct page *p = context;
	for (int i = 0; i < turns(TURNS); i++) {
		pthread_spin_lock(&p->spin);
		p->words[0] = p->words[0] + 1;
		pthread_spin_unlock(&p->spin);
	}
}

CASE(pthread_spin_excludes)
{
	struct page *p = spin_page();
	pid_t children[3];
	for (int i = 0; i < 3; i++)
		children[i] = start(spin_many, p);
	for (int i = 0; i < 3; i++)
		finish(children[i]);
	say("counted %d of %d", p->words[0], 3 * turns(TURNS));
}
