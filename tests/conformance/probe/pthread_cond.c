/* pthread_cond_*(3) with PTHREAD_PROCESS_SHARED, in a segment. */
#include "locks.h"

/* words[0]: how many may come through; words[1]: how many wait; words[2]: how many came. */
static struct page *scene(void) { return normal_mutex(); }

static void wait_turn(void *context)
{
	struct page *p = context;
	int r = 0;
	pthread_mutex_lock(&p->mutex);
	p->words[1] = p->words[1] + 1;
	while (p->words[0] == 0 && r == 0)
		r = pthread_cond_wait(&p->cond, &p->mutex);
	p->words[0] = p->words[0] - 1;
	p->words[2] = p->words[2] + 1;
	pthread_mutex_unlock(&p->mutex);
	say("waiter: %s", said(r));
}

static void await_waiting(struct page *p, int count, pid_t process)
{
	while (p->words[1] != count)
		a_moment();
	await_asleep(process);
}

static int may_pass(struct page *p, int count, int (*wake)(pthread_cond_t *))
{
	pthread_mutex_lock(&p->mutex);
	p->words[0] = p->words[0] + count;
	pthread_mutex_unlock(&p->mutex);
	return wake(&p->cond);
}

/* A wait may end without a reason at any time. */
static int timedwait(struct page *p, const struct timespec *t)
{
	int r = 0;
	while (r == 0)
		r = pthread_cond_timedwait(&p->cond, &p->mutex, t);
	return r;
}

CASE(pthread_cond_signal_wakes)
{
	struct page *p = scene();
	pid_t child = start(wait_turn, p);
	await_waiting(p, 1, child);
	int r = may_pass(p, 1, pthread_cond_signal);
	finish(child);
	say("signal: %s, came %d", said(r), p->words[2]);
}

CASE(pthread_cond_signal_under_the_mutex)
{
	struct page *p = scene();
	pid_t child = start(wait_turn, p);
	await_waiting(p, 1, child);
	pthread_mutex_lock(&p->mutex);
	p->words[0] = 1;
	pthread_cond_signal(&p->cond);
	for (int i = 0; i < 10; i++)
		a_moment();
	say("while the mutex is held: came %d", p->words[2]);
	pthread_mutex_unlock(&p->mutex);
	finish(child);
}

CASE(pthread_cond_signal_wakes_one)
{
	struct page *p = scene();
	pid_t a = start(wait_turn, p), b = start(wait_turn, p);
	await_waiting(p, 2, a);
	await_waiting(p, 2, b);
	may_pass(p, 1, pthread_cond_signal);
	pid_t first = waitpid(-1, NULL, 0);
	await_asleep(first == a ? b : a);
	say("came %d", p->words[2]);
	may_pass(p, 1, pthread_cond_signal);
	finish(first == a ? b : a);
	say("came %d", p->words[2]);
}

CASE(pthread_cond_broadcast_wakes_all)
{
	struct page *p = scene();
	pid_t children[6];
	for (int i = 0; i < 6; i++) {
		children[i] = start(wait_turn, p);
		await_waiting(p, i + 1, children[i]);
	}
	int r = may_pass(p, 6, pthread_cond_broadcast);
	for (int i = 0; i < 6; i++)
		finish(children[i]);
	say("broadcast: %s, came %d", said(r), p->words[2]);
}

static void wait_once(void *context)
{
	struct page *p = context;
	pthread_mutex_lock(&p->mutex);
	p->words[1] = p->words[1] + 1;
	pthread_cond_wait(&p->cond, &p->mutex);
	p->words[2] = p->words[2] + 1;
	pthread_mutex_unlock(&p->mutex);
}

static void pass_by(void *context)
{
	struct page *p = context;
	pthread_mutex_lock(&p->mutex);
	pthread_mutex_unlock(&p->mutex);
}

static void pass_by_and_be_killed(void *context)
{
	pass_by(context);
	raise(SIGKILL);
}

/* A wait may end without a reason; the end of others is none. */
CASE(pthread_cond_others_end)
{
	struct page *p = scene(), *other = scene();
	pid_t waiter = start(wait_once, p);
	await_waiting(p, 1, waiter);
	for (int i = 0; i < turns(10); i++) {
		finish(start(pass_by, other));
		finish(start(pass_by_and_be_killed, p));
		await_asleep(waiter);
	}
	say("others have ended: came %d", p->words[2]);
	may_pass(p, 1, pthread_cond_signal);
	finish(waiter);
	say("came %d", p->words[2]);
}

CASE(pthread_cond_many_signals)
{
	struct page *p = scene();
	pid_t children[4];
	for (int i = 0; i < 4; i++) {
		children[i] = start(wait_turn, p);
		await_waiting(p, i + 1, children[i]);
	}
	for (int i = 0; i < 4; i++)
		may_pass(p, 1, pthread_cond_signal);
	for (int i = 0; i < 4; i++)
		finish(children[i]);
	say("came %d", p->words[2]);
}

CASE(pthread_cond_signal_without_waiters)
{
	struct page *p = scene();
	struct timespec t = from_now(CLOCK_REALTIME, SOON);
	say("signal: %s", said(pthread_cond_signal(&p->cond)));
	say("broadcast: %s", said(pthread_cond_broadcast(&p->cond)));
	pthread_mutex_lock(&p->mutex);
	say("nothing is kept: %s", said(timedwait(p, &t)));
	say("the mutex is held: %s", said(pthread_mutex_trylock(&p->mutex)));
}

static void timed_turn(void *context)
{
	struct page *p = context;
	struct timespec t = from_now(CLOCK_REALTIME, NEVER);
	int r = 0;
	pthread_mutex_lock(&p->mutex);
	p->words[1] = p->words[1] + 1;
	while (p->words[0] == 0 && r == 0)
		r = pthread_cond_timedwait(&p->cond, &p->mutex, &t);
	pthread_mutex_unlock(&p->mutex);
	say("waiter: %s", said(r));
}

CASE(pthread_cond_timedwait_until_signal)
{
	struct page *p = scene();
	pid_t child = start(timed_turn, p);
	await_waiting(p, 1, child);
	may_pass(p, 1, pthread_cond_signal);
	finish(child);
}

static void count_signal(int signal) { (void)signal; }

CASE(pthread_cond_wait_is_not_ended_by_handlers)
{
	struct page *p = scene();
	handle(SIGUSR1, count_signal, 0);
	pid_t child = start(wait_turn, p);
	await_waiting(p, 1, child);
	for (int i = 0; i < 3; i++) {
		kill(child, SIGUSR1);
		await_asleep(child);
	}
	may_pass(p, 1, pthread_cond_signal);
	finish(child);
}

CASE(pthread_cond_waiter_killed)
{
	struct page *p = scene();
	pid_t doomed = start(wait_turn, p);
	await_waiting(p, 1, doomed);
	stop_by(doomed, SIGKILL);
	pid_t other = start(wait_turn, p);
	await_waiting(p, 2, other);
	may_pass(p, 1, pthread_cond_broadcast);
	finish(other);
	say("came %d", p->words[2]);
}

CASE(pthread_cond_destroyed_and_made_anew)
{
	struct page *p = scene();
	say("destroy: %s", said(pthread_cond_destroy(&p->cond)));
	pthread_condattr_t a;
	pthread_condattr_init(&a);
	pthread_condattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	say("init: %s", said(pthread_cond_init(&p->cond, &a)));
	say("signal: %s", said(pthread_cond_signal(&p->cond)));
}

static void *thread_turn(void *context)
{
	wait_turn(context);
	return NULL;
}

CASE(pthread_cond_of_threads)
{
	struct page *p = scene();
	pthread_t t[3];
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, thread_turn, p);
	while (p->words[1] != 3)
		a_moment();
	may_pass(p, 3, pthread_cond_broadcast);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	say("came %d", p->words[2]);
}

CASE(pthread_cond_private_in_a_segment)
{
	struct page *p = new_page();
	struct timespec t = from_now(CLOCK_REALTIME, SOON);
	pthread_mutex_init(&p->mutex, NULL);
	say("init: %s", said(pthread_cond_init(&p->cond, NULL)));
	pthread_mutex_lock(&p->mutex);
	say("timedwait: %s", said(timedwait(p, &t)));
	say("signal: %s", said(pthread_cond_signal(&p->cond)));
	say("destroy: %s", said(pthread_cond_destroy(&p->cond)));
}

CASE(pthread_cond_static_initialiser)
{
	static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
	static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	struct timespec t = from_now(CLOCK_REALTIME, SOON);
	pthread_mutex_lock(&m);
	say("timedwait: %s", said(pthread_cond_timedwait(&c, &m, &t)));
	say("signal: %s, broadcast: %s", said(pthread_cond_signal(&c)),
		said(pthread_cond_broadcast(&c)));
	say("unlock: %s", said(pthread_mutex_unlock(&m)));
}

static void cleanup(void *context)
{
	struct page *p = context;
	say("in the cleanup handler the mutex is held: %s", said(pthread_mutex_trylock(&p->mutex)));
	pthread_mutex_unlock(&p->mutex);
}

static void *wait_to_be_cancelled(void *context)
{
	struct page *p = context;
	pthread_mutex_lock(&p->mutex);
	pthread_cleanup_push(cleanup, p);
	p->words[3] = gettid();
	for (;;)
		pthread_cond_wait(&p->cond, &p->mutex);
	pthread_cleanup_pop(0);
	return NULL;
}

CASE(pthread_cond_wait_is_a_cancellation_point)
{
	struct page *p = scene();
	pthread_t t;
	void *result;
	pthread_create(&t, NULL, wait_to_be_cancelled, p);
	while (p->words[3] == 0)
		a_moment();
	await_thread_asleep(p->words[3]);
	pthread_cancel(t);
	pthread_join(t, &result);
	say("cancelled: %s", yes(result == PTHREAD_CANCELED));
	say("the mutex is free: %s", said(pthread_mutex_trylock(&p->mutex)));
	pthread_mutex_unlock(&p->mutex);
	/* The cancelled one takes no signal of another. */
	pid_t child = start(wait_turn, p);
	await_waiting(p, 1, child);
	may_pass(p, 1, pthread_cond_signal);
	finish(child);
}

static void *cancel_pending(void *context)
{
	struct page *p = context;
	pthread_mutex_lock(&p->mutex);
	pthread_cancel(pthread_self());
	pthread_cleanup_push(cleanup, p);
	pthread_cond_wait(&p->cond, &p->mutex);
	pthread_cleanup_pop(0);
	return NULL;
}

CASE(pthread_cond_wait_cancel_pending)
{
	struct page *p = scene();
	pthread_t t;
	void *result;
	pthread_create(&t, NULL, cancel_pending, p);
	pthread_join(t, &result);
	say("cancelled: %s", yes(result == PTHREAD_CANCELED));
}

/* A queue of one place, between processes. */
enum { ITEMS = 1000 };

static void consume(void *context)
{
	struct page *p = context;
	for (int i = 0; i < turns(ITEMS); i++) {
		pthread_mutex_lock(&p->mutex);
		while (p->words[5] == 0)
			pthread_cond_wait(&p->cond, &p->mutex);
		p->words[6] += p->words[7];
		p->words[5] = 0;
		pthread_cond_signal(&p->other);
		pthread_mutex_unlock(&p->mutex);
	}
}

CASE(pthread_cond_hands_things_over)
{
	struct page *p = scene();
	pthread_condattr_t a;
	pthread_condattr_init(&a);
	pthread_condattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&p->other, &a);
	pid_t child = start(consume, p);
	for (int i = 0; i < turns(ITEMS); i++) {
		pthread_mutex_lock(&p->mutex);
		while (p->words[5] == 1)
			pthread_cond_wait(&p->other, &p->mutex);
		p->words[7] = i;
		p->words[5] = 1;
		pthread_cond_signal(&p->cond);
		pthread_mutex_unlock(&p->mutex);
	}
	finish(child);
	say("sum %d", p->words[6]);
}

static struct page *checked(int type, int robust)
{ return mutex_page((struct mutex_kind) { type, robust }); }

CASE(pthread_cond_wait_without_the_mutex)
{
	struct page *p = checked(PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_STALLED);
	struct timespec t = from_now(CLOCK_REALTIME, SOON);
	say("errorcheck, not held: %s", said(timedwait(p, &t)));
}

static void hold_and_die(void *context)
{
	struct page *p = context;
	while (p->words[1] == 0)
		a_moment();
	pthread_mutex_lock(&p->mutex);
	p->words[0] = 1;
	pthread_cond_signal(&p->cond);
	raise(SIGKILL);
}

CASE(pthread_cond_wait_with_a_robust_mutex_of_the_dead)
{
	struct page *p = checked(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST);
	pid_t child = start(hold_and_die, p);
	int r = 0;
	pthread_mutex_lock(&p->mutex);
	p->words[1] = 1;
	while (p->words[0] == 0 && r == 0)
		r = pthread_cond_wait(&p->cond, &p->mutex);
	say("wait: %s", said(r));
	say("consistent: %s", said(pthread_mutex_consistent(&p->mutex)));
	say("unlock: %s", said(pthread_mutex_unlock(&p->mutex)));
	finish(child);
}

CASE(pthread_cond_wait_with_a_recursive_mutex)
{
	struct page *p = checked(PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED);
	struct timespec t = from_now(CLOCK_REALTIME, SOON);
	pthread_mutex_lock(&p->mutex);
	say("timedwait: %s", said(timedwait(p, &t)));
	say("unlock: %s", said(pthread_mutex_unlock(&p->mutex)));
	say("unlock: %s", said(pthread_mutex_unlock(&p->mutex)));
}
