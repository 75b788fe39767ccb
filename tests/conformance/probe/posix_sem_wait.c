/* sem_wait(3), sem_timedwait(3), sem_clockwait(3) that sleep: who is woken, what ends the wait. */
#include "locks.h"

static void wait_and_say(void *context)
{
	struct page *p = context;
	say("waiter: %s", got(sem_wait(&p->sem)));
}

static pid_t waiting(struct page *p)
{
	pid_t child = start(wait_and_say, p);
	await_asleep(child);
	return child;
}

CASE(posix_sem_wait_until_post)
{
	struct page *p = sem_page(0);
	pid_t child = waiting(p);
	say("asleep: value %d", sem_value(&p->sem));
	sem_post(&p->sem);
	finish(child);
	say("value %d", sem_value(&p->sem));
}

CASE(posix_sem_wait_one_post_wakes_one)
{
	struct page *p = sem_page(0);
	pid_t a = waiting(p), b = waiting(p);
	sem_post(&p->sem);
	pid_t first = waitpid(-1, NULL, 0);
	pid_t other = first == a ? b : a;
	await_asleep(other);
	say("one came back, value %d", sem_value(&p->sem));
	sem_post(&p->sem);
	finish(other);
	say("value %d", sem_value(&p->sem));
}

CASE(posix_sem_wait_many)
{
	struct page *p = sem_page(0);
	pid_t children[6];
	for (int i = 0; i < 6; i++)
		children[i] = waiting(p);
	for (int i = 0; i < 6; i++)
		sem_post(&p->sem);
	for (int i = 0; i < 6; i++)
		finish(children[i]);
	say("value %d", sem_value(&p->sem));
}

CASE(posix_sem_wait_killed)
{
	struct page *p = sem_page(0);
	stop_by(waiting(p), SIGKILL);
	tell("post", sem_post(&p->sem), &p->sem);
	say("trywait: %s", got(sem_trywait(&p->sem)));
}

CASE(posix_sem_wait_killed_beside_another)
{
	struct page *p = sem_page(0);
	pid_t doomed = waiting(p), other = waiting(p);
	stop_by(doomed, SIGKILL);
	sem_post(&p->sem);
	finish(other);
	say("value %d", sem_value(&p->sem));
}

static void take_and_die(void *context)
{
	struct page *p = context;
	sem_wait(&p->sem);
	raise(SIGKILL);
}

CASE(posix_sem_stays_taken_by_the_dead)
{
	struct page *p = sem_page(2);
	say("taker: %s", ended(finish(start(take_and_die, p))));
	say("value %d", sem_value(&p->sem));
}

CASE(posix_sem_wait_handler)
{
	struct page *p = sem_page(0);
	ignore_quietly(SIGUSR1);
	pid_t child = waiting(p);
	kill(child, SIGUSR1);
	finish(child);
	tell("post", sem_post(&p->sem), &p->sem);
}

static volatile sig_atomic_t handled;
static void count_signal(int signal)
{
	(void)signal;
	handled = handled + 1;
}

static void wait_through_signals(void *context)
{
	struct page *p = context;
	int r = sem_wait(&p->sem);
	say("waiter: %s, handled %d", got(r), (int)handled);
}

CASE(posix_sem_wait_handler_restarts)
{
	struct page *p = sem_page(0);
	handle(SIGUSR1, count_signal, SA_RESTART);
	pid_t child = start(wait_through_signals, p);
	for (int i = 0; i < 3; i++) {
		await_asleep(child);
		kill(child, SIGUSR1);
	}
	await_asleep(child);
	sem_post(&p->sem);
	finish(child);
}

CASE(posix_sem_wait_stopped)
{
	struct page *p = sem_page(0);
	pid_t child = waiting(p);
	kill(child, SIGSTOP);
	waitpid(child, NULL, WUNTRACED);
	kill(child, SIGCONT);
	await_asleep(child);
	sem_post(&p->sem);
	finish(child);
}

CASE(posix_sem_wait_posted_while_stopped)
{
	struct page *p = sem_page(0);
	pid_t child = waiting(p);
	kill(child, SIGSTOP);
	waitpid(child, NULL, WUNTRACED);
	sem_post(&p->sem);
	kill(child, SIGCONT);
	finish(child);
	say("value %d", sem_value(&p->sem));
}

CASE(posix_sem_wait_ignored_signal)
{
	struct page *p = sem_page(0);
	handle(SIGUSR1, SIG_IGN, 0);
	pid_t child = waiting(p);
	kill(child, SIGUSR1);
	await_asleep(child);
	sem_post(&p->sem);
	finish(child);
}

static void post_from_handler(int signal)
{
	(void)signal;
	handled = handled + 1;
}

static void wait_restarted(void *context)
{
	struct page *p = context;
	handle(SIGUSR1, post_from_handler, SA_RESTART);
	sem_post(&p->go);
	struct timespec t = from_now(CLOCK_REALTIME, NEVER);
	int r = sem_timedwait(&p->sem, &t);
	say("timedwait with SA_RESTART: %s", got(r));
}

CASE(posix_sem_timedwait_handler_restarts)
{
	struct page *p = sem_page(0);
	sem_init(&p->go, 1, 0);
	pid_t child = start(wait_restarted, p);
	sem_wait(&p->go);
	await_asleep(child);
	kill(child, SIGUSR1);
	finish(child);
}

CASE(posix_sem_timedwait_handler)
{
	struct page *p = sem_page(0);
	ignore_quietly(SIGALRM);
	struct timespec t = from_now(CLOCK_REALTIME, NEVER);
	ualarm(20000, 20000);
	int r = sem_timedwait(&p->sem, &t);
	ualarm(0, 0);
	say("%s", got(r));
}

static void waits_until(clockid_t clock, long ms, unsigned value)
{
	struct page *p = sem_page(value);
	struct timespec t = from_now(clock, ms);
	int r = clock == CLOCK_REALTIME ? sem_timedwait(&p->sem, &t)
					: sem_clockwait(&p->sem, clock, &t);
	const char *word = got(r);
	say("%s, deadline has passed: %s, value %d", word, yes(has_passed(clock, &t)),
		sem_value(&p->sem));
}

CASE(posix_sem_timedwait_runs_out) { waits_until(CLOCK_REALTIME, SOON, 0); }
CASE(posix_sem_timedwait_has_one) { waits_until(CLOCK_REALTIME, NEVER, 1); }
CASE(posix_sem_timedwait_past) { waits_until(CLOCK_REALTIME, -5000, 0); }
CASE(posix_sem_timedwait_past_has_one) { waits_until(CLOCK_REALTIME, -5000, 1); }
CASE(posix_sem_clockwait_runs_out) { waits_until(CLOCK_MONOTONIC, SOON, 0); }
CASE(posix_sem_clockwait_has_one) { waits_until(CLOCK_MONOTONIC, NEVER, 3); }
CASE(posix_sem_clockwait_past) { waits_until(CLOCK_MONOTONIC, -5000, 0); }

CASE(posix_sem_clockwait_realtime)
{
	struct page *p = sem_page(1);
	struct timespec t = from_now(CLOCK_REALTIME, SOON);
	say("has one: %s", got(sem_clockwait(&p->sem, CLOCK_REALTIME, &t)));
	say("runs out: %s", got(sem_clockwait(&p->sem, CLOCK_REALTIME, &t)));
}

CASE(posix_sem_clockwait_other_clocks)
{
	struct page *p = sem_page(1);
	const clockid_t clocks[] = { CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID,
		CLOCK_BOOTTIME, CLOCK_MONOTONIC_RAW, 77, -1 };
	for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
		struct timespec t = from_now(CLOCK_MONOTONIC, NEVER);
		say("clock %d: %s", (int)clocks[i], got(sem_clockwait(&p->sem, clocks[i], &t)));
	}
	say("value %d", sem_value(&p->sem));
}

CASE(posix_sem_timedwait_bad_times)
{
	const struct timespec times[] = { { 0, -1 }, { 0, 1000000000 }, { -1, 0 }, { -1, -1 },
		{ 0, 0 }, { LONG_MAX, 999999999 }, { 0, LONG_MAX }, { LONG_MIN, 0 } };
	for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
		struct page *p = sem_page(1);
		const char *first = got(sem_timedwait(&p->sem, &times[i]));
		/* The one that would sleep for ages sleeps in no case. */
		const char *second = times[i].tv_sec == LONG_MAX
			? "not tried"
			: got(sem_timedwait(&p->sem, &times[i]));
		say("%zu: with one to take: %s, then: %s", i, first, second);
		shmdt(p);
	}
}

static void timed_waiter(void *context)
{
	struct page *p = context;
	struct timespec t = from_now(CLOCK_REALTIME, NEVER);
	say("waiter: %s", got(sem_timedwait(&p->sem, &t)));
}

CASE(posix_sem_timedwait_until_post)
{
	struct page *p = sem_page(0);
	pid_t child = start(timed_waiter, p);
	await_asleep(child);
	sem_post(&p->sem);
	finish(child);
	say("value %d", sem_value(&p->sem));
}

CASE(posix_sem_timedwait_ran_out_and_posted)
{
	struct page *p = sem_page(0);
	struct timespec t = from_now(CLOCK_REALTIME, SOON);
	say("%s", got(sem_timedwait(&p->sem, &t)));
	sem_post(&p->sem);
	tell("trywait", sem_trywait(&p->sem), &p->sem);
}

static void *post_later(void *context)
{
	struct page *p = context;
	await_thread_asleep(getpid());
	say("thread posts: %s", got(sem_post(&p->sem)));
	return NULL;
}

CASE(posix_sem_wait_for_a_thread)
{
	struct page *p = sem_page(0);
	pthread_t t;
	pthread_create(&t, NULL, post_later, p);
	int r = sem_wait(&p->sem);
	pthread_join(t, NULL);
	say("%s, value %d", got(r), sem_value(&p->sem));
}

static sem_t *answered;
static void answer_by_post(int signal)
{
	(void)signal;
	sem_post(answered);
}

CASE(posix_sem_wait_posted_by_its_own_handler)
{
	struct page *p = sem_page(0);
	answered = &p->sem;
	handle(SIGALRM, answer_by_post, SA_RESTART);
	ualarm(20000, 0);
	say("%s", got(sem_wait(&p->sem)));
}

/* ---- cancellation ---- */

enum calls { WAIT, TIMEDWAIT, CLOCKWAIT, TRYWAIT, POST };
struct cancelled {
	struct page *page;
	enum calls call;
	bool pending;
	volatile pid_t thread;
};

static void *call_and_return(void *context)
{
	struct cancelled *c = context;
	struct timespec t = from_now(CLOCK_REALTIME, NEVER), m = from_now(CLOCK_MONOTONIC, NEVER);
	if (c->pending)
		pthread_cancel(pthread_self());
	c->thread = gettid();
	switch (c->call) {
	case WAIT: sem_wait(&c->page->sem); break;
	case TIMEDWAIT: sem_timedwait(&c->page->sem, &t); break;
	case CLOCKWAIT: sem_clockwait(&c->page->sem, CLOCK_MONOTONIC, &m); break;
	case TRYWAIT: sem_trywait(&c->page->sem); break;
	case POST: sem_post(&c->page->sem); break;
	}
	return (void *)"returned";
}

static void cancels(enum calls call, unsigned value, bool pending)
{
	struct cancelled c = { sem_page(value), call, pending, 0 };
	pthread_t t;
	void *result;
	pthread_create(&t, NULL, call_and_return, &c);
	if (!pending) {
		while (c.thread == 0)
			a_moment();
		await_thread_asleep(c.thread);
		pthread_cancel(t);
	}
	pthread_join(t, &result);
	say("%s, value %d", result == PTHREAD_CANCELED ? "cancelled" : "returned",
		sem_value(&c.page->sem));
	tell("post", sem_post(&c.page->sem), &c.page->sem);
}

CASE(posix_sem_cancel_wait_asleep) { cancels(WAIT, 0, false); }
CASE(posix_sem_cancel_timedwait_asleep) { cancels(TIMEDWAIT, 0, false); }
CASE(posix_sem_cancel_clockwait_asleep) { cancels(CLOCKWAIT, 0, false); }
CASE(posix_sem_cancel_wait_pending) { cancels(WAIT, 1, true); }
CASE(posix_sem_cancel_timedwait_pending) { cancels(TIMEDWAIT, 1, true); }
CASE(posix_sem_cancel_trywait_pending) { cancels(TRYWAIT, 1, true); }
CASE(posix_sem_cancel_post_pending) { cancels(POST, 1, true); }
