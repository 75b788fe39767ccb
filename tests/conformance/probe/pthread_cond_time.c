/* pthread_cond_timedwait(3), pthread_cond_clockwait(3): clocks and moments. */
#include "locks.h"

static void runs_out(clockid_t clock, long ms)
{
	struct page *p = normal_mutex();
	struct timespec t = from_now(clock, ms);
	pthread_mutex_lock(&p->mutex);
	int r = 0;
	while (r == 0)
		r = clock == CLOCK_REALTIME
			? pthread_cond_timedwait(&p->cond, &p->mutex, &t)
			: pthread_cond_clockwait(&p->cond, &p->mutex, clock, &t);
	say("%s, deadline has passed: %s", said(r), yes(has_passed(clock, &t)));
	say("the mutex is held: %s", said(pthread_mutex_trylock(&p->mutex)));
}

CASE(pthread_cond_timedwait_runs_out) { runs_out(CLOCK_REALTIME, SOON); }
CASE(pthread_cond_timedwait_past) { runs_out(CLOCK_REALTIME, -2000); }
CASE(pthread_cond_clockwait_runs_out) { runs_out(CLOCK_MONOTONIC, SOON); }
CASE(pthread_cond_clockwait_past) { runs_out(CLOCK_MONOTONIC, -2000); }

CASE(pthread_cond_clock_of_the_attribute)
{
	struct page *p = normal_mutex();
	pthread_condattr_t a;
	clockid_t clock = -1;
	pthread_condattr_init(&a);
	int r = pthread_condattr_getclock(&a, &clock);
	say("clock at first: %s, %d", said(r), (int)clock);
	say("monotonic: %s", said(pthread_condattr_setclock(&a, CLOCK_MONOTONIC)));
	say("of the processor: %s", said(pthread_condattr_setclock(&a, CLOCK_PROCESS_CPUTIME_ID)));
	pthread_condattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	say("init: %s", said(pthread_cond_init(&p->other, &a)));
	struct timespec t = from_now(CLOCK_MONOTONIC, SOON);
	pthread_mutex_lock(&p->mutex);
	r = 0;
	while (r == 0)
		r = pthread_cond_timedwait(&p->other, &p->mutex, &t);
	say("%s, deadline has passed: %s", said(r), yes(has_passed(CLOCK_MONOTONIC, &t)));
	t = from_now(CLOCK_MONOTONIC, -10);
	say("past: %s", said(pthread_cond_timedwait(&p->other, &p->mutex, &t)));
}

static long far;

static void far_turn(void *context)
{
	struct page *p = context;
	struct timespec t = from_now(CLOCK_MONOTONIC, 0);
	t.tv_sec += far;
	int r = 0;
	pthread_mutex_lock(&p->mutex);
	p->words[1] = 1;
	while (p->words[0] == 0 && r == 0)
		r = pthread_cond_timedwait(&p->other, &p->mutex, &t);
	pthread_mutex_unlock(&p->mutex);
	say("waiter: %s", said(r));
}

/* What programs say for "never", by a clock that begins at boot. */
CASE(pthread_cond_far_deadlines_of_the_attributes_clock)
{
	const long times[] = { 1000000000, INT_MAX / 2, INT_MAX };
	struct page *p = normal_mutex();
	pthread_condattr_t a;
	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_condattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	say("init: %s", said(pthread_cond_init(&p->other, &a)));
	for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
		far = times[i];
		p->words[0] = p->words[1] = 0;
		pid_t child = start(far_turn, p);
		while (p->words[1] == 0)
			a_moment();
		await_asleep(child);
		pthread_mutex_lock(&p->mutex);
		p->words[0] = 1;
		pthread_mutex_unlock(&p->mutex);
		pthread_cond_signal(&p->other);
		finish(child);
	}
}

CASE(pthread_cond_bad_times)
{
	const struct timespec times[] = { { 0, -1 }, { 0, 1000000000 }, { -1, 0 }, { 0, 0 },
		{ LONG_MIN, 0 } };
	struct page *p = normal_mutex();
	pthread_mutex_lock(&p->mutex);
	for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
		say("%zu: timedwait %s", i,
			said(pthread_cond_timedwait(&p->cond, &p->mutex, &times[i])));
		say("%zu: clockwait %s", i,
			said(pthread_cond_clockwait(
				&p->cond, &p->mutex, CLOCK_MONOTONIC, &times[i])));
	}
	say("the mutex is held: %s", said(pthread_mutex_trylock(&p->mutex)));
}

CASE(pthread_cond_clockwait_other_clocks)
{
	const clockid_t clocks[] = { CLOCK_PROCESS_CPUTIME_ID, CLOCK_BOOTTIME, 77, -1 };
	struct page *p = normal_mutex();
	struct timespec t = from_now(CLOCK_MONOTONIC, -1000);
	pthread_mutex_lock(&p->mutex);
	for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++)
		say("clock %d: %s", (int)clocks[i],
			said(pthread_cond_clockwait(&p->cond, &p->mutex, clocks[i], &t)));
}
