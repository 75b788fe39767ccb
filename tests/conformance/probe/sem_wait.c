/* semop(2) and semtimedop(2) that sleep: who is counted, who is woken, what ends the wait. */
#include "case.h"

#include <pthread.h>
#include <sys/syscall.h>

struct waiter {
	int set, n, by;
	const char *name;
	volatile int *result; /* for waiters woken together, which would say it in any order */
};

static void wait_and_say(void *context)
{
	struct waiter *w = context;
	int r = step(w->set, w->n, w->by, 0);
	if (w->result)
		*w->result = r == 0 ? 0 : errno;
	else
		say("%s: %s", w->name, got(r));
}

static const char *outcome(int result) { return result == 0 ? "0" : errno_name(result); }

static pid_t waiting(struct waiter *w, int already)
{
	pid_t child = start(wait_and_say, w);
	await_waiters(w->set, w->n, w->by == 0 ? GETZCNT : GETNCNT, already + 1, child);
	return child;
}

CASE(sem_wait_for_more)
{
	struct waiter w = { set_of(2), 1, -2, "waiter", NULL };
	pid_t child = waiting(&w, 0);
	say("ncnt %d, zcnt %d, of the other %d", asked(w.set, 1, GETNCNT), asked(w.set, 1, GETZCNT),
		asked(w.set, 0, GETNCNT));
	step(w.set, 1, 1, 0);
	say("not enough: ncnt %d, value %d", asked(w.set, 1, GETNCNT), value(w.set, 1));
	step(w.set, 1, 1, 0);
	finish(child);
	say("ncnt %d, value %d, pid %s", asked(w.set, 1, GETNCNT), value(w.set, 1),
		who(asked(w.set, 1, GETPID), child));
}

CASE(sem_wait_for_zero)
{
	struct waiter w = { set_of(1), 0, 0, "waiter", NULL };
	set_value(w.set, 0, 2);
	pid_t child = waiting(&w, 0);
	say("ncnt %d, zcnt %d", asked(w.set, 0, GETNCNT), asked(w.set, 0, GETZCNT));
	step(w.set, 0, -1, 0);
	say("at 1: zcnt %d", asked(w.set, 0, GETZCNT));
	step(w.set, 0, -1, 0);
	finish(child);
	say("zcnt %d, value %d", asked(w.set, 0, GETZCNT), value(w.set, 0));
}

CASE(sem_wait_value_moves_at_the_post)
{
	/* The post hands the value to the waiter: nobody can see the semaphore at 1 afterwards. */
	struct waiter w = { set_of(1), 0, -1, "waiter", NULL };
	bool always = true;
	w.result = shared_ints();
	for (int i = 0; i < 20; i++) {
		pid_t child = waiting(&w, 0);
		step(w.set, 0, 1, 0);
		always = always && value(w.set, 0) == 0 && asked(w.set, 0, GETNCNT) == 0
		        && step(w.set, 0, -1, IPC_NOWAIT) == -1;
		finish(child);
	}
	say("right after the post: value 0, ncnt 0, nothing to take: %s", yes(always));
}

CASE(sem_wait_first_come)
{
	struct waiter a = { set_of(1), 0, -1, "first", NULL }, b = { a.set, 0, -1, "second", NULL },
		      c = { a.set, 0, -1, "third", NULL };
	pid_t first = waiting(&a, 0), second = waiting(&b, 1), third = waiting(&c, 2);
	say("ncnt %d", asked(a.set, 0, GETNCNT));
	step(a.set, 0, 1, 0);
	finish(first);
	step(a.set, 0, 1, 0);
	finish(second);
	step(a.set, 0, 1, 0);
	finish(third);
	say("value %d", value(a.set, 0));
}

CASE(sem_wait_one_post_wakes_one)
{
	struct waiter a = { set_of(1), 0, -1, "first", NULL }, b = { a.set, 0, -1, "second", NULL };
	pid_t first = waiting(&a, 0), second = waiting(&b, 1);
	step(a.set, 0, 1, 0);
	finish(first);
	say("ncnt %d, value %d", asked(a.set, 0, GETNCNT), value(a.set, 0));
	await_asleep(second);
	stop_by(second, SIGKILL);
}

CASE(sem_wait_large_does_not_block_small)
{
	struct waiter a = { set_of(1), 0, -3, "takes 3", NULL },
		      b = { a.set, 0, -1, "takes 1", NULL };
	pid_t large = waiting(&a, 0), small = waiting(&b, 1);
	step(a.set, 0, 1, 0);
	finish(small);
	step(a.set, 0, 3, 0);
	finish(large);
	say("value %d", value(a.set, 0));
}

CASE(sem_wait_one_post_wakes_many)
{
	struct waiter a = { set_of(1), 0, -1, "one", NULL };
	pid_t children[4];
	a.name = "waiter";
	for (int i = 0; i < 4; i++)
		children[i] = waiting(&a, i);
	step(a.set, 0, 4, 0);
	for (int i = 0; i < 4; i++)
		finish(children[i]);
	say("value %d, ncnt %d", value(a.set, 0), asked(a.set, 0, GETNCNT));
}

CASE(sem_wait_zero_and_take)
{
	/* One post lets the taker through, and the taker's step lets the one through that waits for
	 * zero. */
	volatile int *results = shared_ints();
	struct waiter z = { set_of(1), 0, 0, "for zero", results },
		      t = { z.set, 0, -5, "takes 5", results + 1 };
	set_value(z.set, 0, 1);
	pid_t zero = waiting(&z, 0), take_five = waiting(&t, 0);
	step(z.set, 0, 4, 0);
	finish(take_five);
	finish(zero);
	say("for zero: %s, takes 5: %s", outcome(results[0]), outcome(results[1]));
	say("value %d, ncnt %d, zcnt %d", value(z.set, 0), asked(z.set, 0, GETNCNT),
		asked(z.set, 0, GETZCNT));
}

static void take_both(void *context)
{
	int set = *(int *)context;
	int r = semop(set, (struct sembuf[]) { { 0, -1, 0 }, { 1, -1, 0 } }, 2);
	say("both: %s", got(r));
}

CASE(sem_wait_array_counts_at_the_blocking_one)
{
	int a = set_of(2);
	set_value(a, 0, 1);
	pid_t child = start(take_both, &a);
	await_waiters(a, 1, GETNCNT, 1, child);
	say("values %d %d, ncnt %d %d", value(a, 0), value(a, 1), asked(a, 0, GETNCNT),
		asked(a, 1, GETNCNT));
	say("the first can be taken meanwhile: %s", got(step(a, 0, -1, IPC_NOWAIT)));
	step(a, 1, 1, 0);
	await_waiters(a, 0, GETNCNT, 1, child);
	say("values %d %d, ncnt %d %d", value(a, 0), value(a, 1), asked(a, 0, GETNCNT),
		asked(a, 1, GETNCNT));
	step(a, 0, 1, 0);
	finish(child);
	say("values %d %d", value(a, 0), value(a, 1));
}

static void minus_then_plus(void *context)
{
	int set = *(int *)context;
	int r = semop(set, (struct sembuf[]) { { 0, -1, 0 }, { 0, 1, 0 } }, 2);
	say("{-1,+1}: %s", got(r));
}

CASE(sem_wait_minus_then_plus)
{
	int a = set_of(1);
	pid_t child = start(minus_then_plus, &a);
	await_waiters(a, 0, GETNCNT, 1, child);
	step(a, 0, 1, 0);
	finish(child);
	say("value %d", value(a, 0));
}

CASE(sem_wait_setval_wakes)
{
	struct waiter w = { set_of(1), 0, -3, "waiter", NULL };
	pid_t child = waiting(&w, 0);
	set_value(w.set, 0, 5);
	finish(child);
	say("value %d", value(w.set, 0));
}

CASE(sem_wait_setval_zero_wakes)
{
	struct waiter w = { set_of(1), 0, 0, "waiter", NULL };
	set_value(w.set, 0, 9);
	pid_t child = waiting(&w, 0);
	set_value(w.set, 0, 0);
	finish(child);
}

CASE(sem_wait_setall_wakes)
{
	struct waiter w = { set_of(2), 1, -1, "waiter", NULL };
	pid_t child = waiting(&w, 0);
	semctl(w.set, 0, SETALL, (union semun) { .array = (unsigned short[]) { 4, 1 } });
	finish(child);
	say("values %d %d", value(w.set, 0), value(w.set, 1));
}

CASE(sem_wait_removed)
{
	volatile int *results = shared_ints();
	struct waiter a = { set_of(2), 0, -1, "takes", results },
		      b = { a.set, 1, 0, "for zero", results + 1 };
	set_value(a.set, 1, 1);
	pid_t one = waiting(&a, 0), two = waiting(&b, 0);
	say("remove: %s", got(semctl(a.set, 0, IPC_RMID)));
	finish(one);
	finish(two);
	say("takes: %s, for zero: %s", outcome(results[0]), outcome(results[1]));
}

static void quiet(int signal) { (void)signal; }

struct signalled {
	int set, flags;
	bool timed;
};

static void wait_signalled(void *context)
{
	struct signalled *s = context;
	handle(SIGUSR1, quiet, s->flags);
	struct sembuf o = { 0, -1, 0 };
	struct timespec long_time = { .tv_sec = 1000 };
	int r = s->timed ? semtimedop(s->set, &o, 1, &long_time) : semop(s->set, &o, 1);
	say("%s", got(r));
}

static void signal_a_waiter(int flags, bool timed)
{
	struct signalled s = { set_of(1), flags, timed };
	pid_t child = start(wait_signalled, &s);
	await_waiters(s.set, 0, GETNCNT, 1, child);
	kill(child, SIGUSR1);
	finish(child);
	say("ncnt %d, value %d", asked(s.set, 0, GETNCNT), value(s.set, 0));
	say("nothing is taken by it later: %s", got(step(s.set, 0, 1, 0)));
	say("value %d", value(s.set, 0));
}

CASE(sem_wait_handler) { signal_a_waiter(0, false); }
CASE(sem_wait_handler_sa_restart) { signal_a_waiter(SA_RESTART, false); }
CASE(sem_wait_handler_timed) { signal_a_waiter(0, true); }
CASE(sem_wait_handler_timed_sa_restart) { signal_a_waiter(SA_RESTART, true); }

CASE(sem_wait_ignored_signal)
{
	struct waiter w = { set_of(1), 0, -1, "waiter", NULL };
	signal(SIGUSR1, SIG_IGN);
	pid_t child = waiting(&w, 0);
	kill(child, SIGUSR1);
	kill(child, SIGWINCH);
	await_waiters(w.set, 0, GETNCNT, 1, child);
	say("still waiting after ignored signals: ncnt %d", asked(w.set, 0, GETNCNT));
	step(w.set, 0, 1, 0);
	finish(child);
}

CASE(sem_wait_blocked_signal)
{
	struct waiter w = { set_of(1), 0, -1, "waiter", NULL };
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	handle(SIGUSR1, quiet, 0);
	sigprocmask(SIG_BLOCK, &set, NULL);
	pid_t child = waiting(&w, 0);
	kill(child, SIGUSR1);
	await_waiters(w.set, 0, GETNCNT, 1, child);
	step(w.set, 0, 1, 0);
	finish(child);
}

static void await_stopped(pid_t child)
{
	int status;
	if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status))
		broken("the child did not stop");
}

CASE(sem_wait_stop_and_continue)
{
	struct waiter w = { set_of(1), 0, -1, "after SIGSTOP and SIGCONT", NULL };
	pid_t child = waiting(&w, 0);
	kill(child, SIGSTOP);
	await_stopped(child);
	kill(child, SIGCONT);
	/* Linux ends the wait with EINTR (signal(7)); where the wait goes on instead, let it end.
	 */
	while (waitpid(child, NULL, WNOHANG) == 0) {
		if (asked(w.set, 0, GETNCNT) == 1) {
			await_asleep(child);
			step(w.set, 0, 1, 0);
			finish(child);
			break;
		}
	}
	say("ncnt %d", asked(w.set, 0, GETNCNT));
}

CASE(sem_wait_sigkill)
{
	struct waiter w = { set_of(1), 0, -1, "waiter", NULL };
	pid_t child = waiting(&w, 0);
	stop_by(child, SIGKILL);
	while (asked(w.set, 0, GETNCNT) != 0)
		;
	step(w.set, 0, 1, 0);
	say("ncnt %d, value stays %d", asked(w.set, 0, GETNCNT), value(w.set, 0));
}

CASE(sem_wait_sigkill_of_the_first)
{
	struct waiter a = { set_of(1), 0, -1, "first", NULL }, b = { a.set, 0, -1, "second", NULL };
	pid_t first = waiting(&a, 0), second = waiting(&b, 1);
	stop_by(first, SIGKILL);
	while (asked(a.set, 0, GETNCNT) != 1)
		;
	step(a.set, 0, 1, 0);
	finish(second);
	say("value %d", value(a.set, 0));
}

CASE(sem_wait_counts_at_once_after_sigkill)
{
	struct waiter w = { set_of(1), 0, -1, "waiter", NULL };
	pid_t child = waiting(&w, 0);
	stop_by(child, SIGKILL);
	say("right after waitpid of a waiter killed by SIGKILL: ncnt %d", asked(w.set, 0, GETNCNT));
	step(w.set, 0, 1, 0);
	say("value %d", value(w.set, 0));
}

/* ---- semctl and semop inside a handler that interrupts a semop of the same process ---- */

static int handler_set;
static volatile int handler_sees[4];

static void looks_in_handler(int signal)
{
	(void)signal;
	handler_sees[0] = semctl(handler_set, 0, GETVAL);
	handler_sees[1] = step(handler_set, 1, 1, 0);
	handler_sees[2] = semctl(handler_set, 0, GETNCNT);
	handler_sees[3] = semctl(handler_set, 0, SETVAL, (union semun) { .val = 1 });
}

static void wait_with_busy_handler(void *context)
{
	handler_set = *(int *)context;
	handle(SIGUSR1, looks_in_handler, SA_RESTART);
	say("semop: %s", got(step(handler_set, 0, -1, 0)));
	say("in the handler: GETVAL %d, semop %d, ncnt %d, SETVAL %d", handler_sees[0],
		handler_sees[1], handler_sees[2], handler_sees[3]);
}

CASE(sem_wait_calls_in_handler)
{
	int a = set_of(2);
	pid_t child = start(wait_with_busy_handler, &a);
	await_waiters(a, 0, GETNCNT, 1, child);
	kill(child, SIGUSR1);
	finish(child);
	say("values %d %d", value(a, 0), value(a, 1));
}

static volatile sig_atomic_t ticks;

static void posts_in_handler(int signal)
{
	(void)signal;
	ticks++;
	step(handler_set, 0, 1, 0);
}

CASE(sem_wait_handlers_during_many_ops)
{
	/* Signals that land anywhere inside semop, not only in its sleep: no deadlock, no lost
	 * step. */
	handler_set = set_of(2);
	handle(SIGALRM, posts_in_handler, SA_RESTART);
	timer_t timer;
	timer_create(CLOCK_MONOTONIC, NULL, &timer);
	timer_settime(timer, 0, &(struct itimerspec) { { 0, 200000 }, { 0, 200000 } }, NULL);
	int done = 0, failed = 0;
	while (ticks < 200) {
		if (step(handler_set, 0, 1, 0) == 0)
			done++;
		else
			failed++;
		if (step(handler_set, 0, -1, 0) == 0)
			done--;
		else
			failed++;
	}
	timer_delete(timer);
	say("done and undone: %d, failed %d, value matches the handler's posts: %s", done, failed,
		yes(value(handler_set, 0) == ticks));
}

/* ---- threads ---- */

struct thread_waiter {
	int set;
	volatile pid_t thread;
	int result, error;
};

static void *wait_in_thread(void *context)
{
	struct thread_waiter *w = context;
	w->thread = (pid_t)syscall(SYS_gettid);
	w->result = step(w->set, 0, -1, 0);
	w->error = errno;
	return NULL;
}

CASE(sem_wait_threads_of_one_process)
{
	struct thread_waiter w[2] = { { .set = set_of(1) }, { .set = 0 } };
	w[1].set = w[0].set;
	pthread_t t[2];
	for (int i = 0; i < 2; i++) {
		pthread_create(&t[i], NULL, wait_in_thread, &w[i]);
		await_waiters(w[0].set, 0, GETNCNT, i + 1, 0);
		await_thread_asleep(w[i].thread);
	}
	say("ncnt %d", asked(w[0].set, 0, GETNCNT));
	step(w[0].set, 0, 1, 0);
	pthread_join(t[0], NULL);
	say("the first: %d; ncnt %d", w[0].result, asked(w[0].set, 0, GETNCNT));
	semctl(w[0].set, 0, IPC_RMID);
	pthread_join(t[1], NULL);
	say("the second: %d %s", w[1].result, errno_name(w[1].error));
}

CASE(sem_wait_signal_to_one_thread)
{
	struct thread_waiter w = { .set = set_of(1) };
	ignore_quietly(SIGUSR1);
	pthread_t t;
	pthread_create(&t, NULL, wait_in_thread, &w);
	await_waiters(w.set, 0, GETNCNT, 1, 0);
	await_thread_asleep(w.thread);
	pthread_kill(t, SIGUSR1);
	pthread_join(t, NULL);
	say("%d %s, ncnt %d", w.result, errno_name(w.error), asked(w.set, 0, GETNCNT));
}

CASE(sem_wait_thread_cancel)
{
	/* semop is no cancellation point: pthread_cancel acts only after it. */
	struct thread_waiter w = { .set = set_of(1), .result = 77 };
	pthread_t t;
	pthread_create(&t, NULL, wait_in_thread, &w);
	await_waiters(w.set, 0, GETNCNT, 1, 0);
	await_thread_asleep(w.thread);
	pthread_cancel(t);
	say("ncnt %d", asked(w.set, 0, GETNCNT));
	step(w.set, 0, 1, 0);
	pthread_join(t, NULL);
	say("result %d", w.result);
}
