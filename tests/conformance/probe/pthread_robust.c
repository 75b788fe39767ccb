/* PTHREAD_MUTEX_ROBUST: what comes after the death of an owner. */
#include "locks.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/time.h>

static struct page *robust(int type)
{ return mutex_page((struct mutex_kind) { type, PTHREAD_MUTEX_ROBUST }); }

static void lock_and_end(void *context)
{
	struct page *p = context;
	int r = pthread_mutex_lock(&p->mutex);
	if (r != 0)
		say("the one who ends: lock %s", said(r));
}

static void lock_and_be_killed(void *context)
{
	lock_and_end(context);
	raise(SIGKILL);
}

static void repair(struct page *p, int r)
{
	say("lock: %s", said(r));
	say("consistent: %s", said(pthread_mutex_consistent(&p->mutex)));
	say("unlock: %s", said(pthread_mutex_unlock(&p->mutex)));
	say("trylock: %s", said(pthread_mutex_trylock(&p->mutex)));
	say("unlock: %s", said(pthread_mutex_unlock(&p->mutex)));
}

static void repaired(int type, role_fn *end)
{
	struct page *p = robust(type);
	finish(start(end, p));
	repair(p, pthread_mutex_lock(&p->mutex));
}

CASE(pthread_robust_killed_normal) { repaired(PTHREAD_MUTEX_NORMAL, lock_and_be_killed); }
CASE(pthread_robust_killed_errorcheck) { repaired(PTHREAD_MUTEX_ERRORCHECK, lock_and_be_killed); }
CASE(pthread_robust_killed_recursive) { repaired(PTHREAD_MUTEX_RECURSIVE, lock_and_be_killed); }
CASE(pthread_robust_exited_normal) { repaired(PTHREAD_MUTEX_NORMAL, lock_and_end); }
CASE(pthread_robust_exited_recursive) { repaired(PTHREAD_MUTEX_RECURSIVE, lock_and_end); }

CASE(pthread_robust_trylock)
{
	struct page *p = robust_mutex();
	finish(start(lock_and_be_killed, p));
	repair(p, pthread_mutex_trylock(&p->mutex));
}

CASE(pthread_robust_timedlock)
{
	struct page *p = robust_mutex();
	struct timespec t = from_now(CLOCK_REALTIME, NEVER);
	finish(start(lock_and_be_killed, p));
	repair(p, pthread_mutex_timedlock(&p->mutex, &t));
}

CASE(pthread_robust_not_recoverable)
{
	struct page *p = robust_mutex();
	struct timespec t = from_now(CLOCK_REALTIME, NEVER);
	finish(start(lock_and_be_killed, p));
	say("lock: %s", said(pthread_mutex_lock(&p->mutex)));
	say("unlock without consistent: %s", said(pthread_mutex_unlock(&p->mutex)));
	say("lock: %s", said(pthread_mutex_lock(&p->mutex)));
	say("timedlock: %s", said(pthread_mutex_timedlock(&p->mutex, &t)));
	say("consistent: %s", said(pthread_mutex_consistent(&p->mutex)));
	/* Last: a trylock that finds it lost leaves glibc's mutex locked. */
	say("trylock: %s", said(pthread_mutex_trylock(&p->mutex)));
	say("destroy: %s", said(pthread_mutex_destroy(&p->mutex)));
}

CASE(pthread_robust_consistent_errors)
{
	struct page *p = robust_mutex(), *other = normal_mutex();
	say("free: %s", said(pthread_mutex_consistent(&p->mutex)));
	pthread_mutex_lock(&p->mutex);
	say("held, and well: %s", said(pthread_mutex_consistent(&p->mutex)));
	pthread_mutex_unlock(&p->mutex);
	say("not robust: %s", said(pthread_mutex_consistent(&other->mutex)));
}

CASE(pthread_robust_dies_with_the_second_owner)
{
	struct page *p = robust_mutex();
	finish(start(lock_and_be_killed, p));
	finish(start(lock_and_be_killed, p));
	finish(start(lock_and_end, p));
	repair(p, pthread_mutex_lock(&p->mutex));
}

static void wait_and_repair(void *context)
{
	struct page *p = context;
	repair(p, pthread_mutex_lock(&p->mutex));
}

static void lock_and_wait_to_die(void *context)
{
	struct page *p = context;
	pthread_mutex_lock(&p->mutex);
	sem_post(&p->go);
	pause();
}

static pid_t holder(struct page *p)
{
	pid_t child = start(lock_and_wait_to_die, p);
	while (sem_wait(&p->go) != 0)
		;
	return child;
}

CASE(pthread_robust_waiter_is_woken)
{
	struct page *p = robust_mutex();
	pid_t doomed = holder(p), waiter = start(wait_and_repair, p);
	await_asleep(waiter);
	stop_by(doomed, SIGKILL);
	finish(waiter);
}

static void wait_unrepaired(void *context)
{
	struct page *p = context;
	int r = pthread_mutex_lock(&p->mutex);
	if (r == EOWNERDEAD)
		__atomic_fetch_add(&p->words[0], 1, __ATOMIC_SEQ_CST);
	else if (r == ENOTRECOVERABLE)
		__atomic_fetch_add(&p->words[1], 1, __ATOMIC_SEQ_CST);
	if (r != ENOTRECOVERABLE)
		pthread_mutex_unlock(&p->mutex);
}

CASE(pthread_robust_waiters_learn_that_it_is_lost)
{
	/* Not more than two: the second one of glibc's wakes no third. */
	struct page *p = robust_mutex();
	pid_t doomed = holder(p), first = start(wait_unrepaired, p),
	      second = start(wait_unrepaired, p);
	await_asleep(first);
	await_asleep(second);
	stop_by(doomed, SIGKILL);
	finish(first);
	finish(second);
	say("EOWNERDEAD %d, ENOTRECOVERABLE %d", p->words[0], p->words[1]);
}

static void wait_repaired(void *context)
{
	struct page *p = context;
	int r = pthread_mutex_lock(&p->mutex);
	if (r == EOWNERDEAD) {
		__atomic_fetch_add(&p->words[0], 1, __ATOMIC_SEQ_CST);
		pthread_mutex_consistent(&p->mutex);
	} else if (r == 0)
		__atomic_fetch_add(&p->words[1], 1, __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&p->mutex);
}

CASE(pthread_robust_waiters_go_on)
{
	struct page *p = robust_mutex();
	pid_t doomed = holder(p), waiters[4];
	for (int i = 0; i < 4; i++)
		waiters[i] = start(wait_repaired, p);
	for (int i = 0; i < 4; i++)
		await_asleep(waiters[i]);
	stop_by(doomed, SIGKILL);
	for (int i = 0; i < 4; i++)
		finish(waiters[i]);
	say("EOWNERDEAD %d, 0 %d", p->words[0], p->words[1]);
}

static void *lock_in_thread(void *context)
{
	struct page *p = context;
	pthread_mutex_lock(&p->mutex);
	return NULL;
}

CASE(pthread_robust_thread_ends)
{
	struct page *p = robust_mutex();
	in_thread(lock_in_thread, p);
	repair(p, pthread_mutex_lock(&p->mutex));
}

static void *lock_and_exit_thread(void *context)
{
	lock_in_thread(context);
	pthread_exit(NULL);
}

CASE(pthread_robust_thread_exits)
{
	struct page *p = robust_mutex();
	in_thread(lock_and_exit_thread, p);
	repair(p, pthread_mutex_trylock(&p->mutex));
}

static void thread_ends_under(void *context)
{
	in_thread(lock_in_thread, context);
	struct page *p = context;
	sem_post(&p->go);
	pause();
}

CASE(pthread_robust_thread_of_another_process_ends)
{
	struct page *p = robust_mutex();
	pid_t child = start(thread_ends_under, p);
	while (sem_wait(&p->go) != 0)
		;
	repair(p, pthread_mutex_lock(&p->mutex));
	stop_by(child, SIGKILL);
}

CASE(pthread_robust_many_held)
{
	/* More than one at a time, and given back in no order. */
	enum { MANY = 20 };
	struct page *p[MANY];
	for (int i = 0; i < MANY; i++)
		p[i] = robust_mutex();
	pid_t child = fork();
	if (child == 0) {
		for (int i = 0; i < MANY; i++)
			pthread_mutex_lock(&p[i]->mutex);
		for (int i = 0; i < MANY; i += 2)
			pthread_mutex_unlock(&p[(i * 7) % MANY]->mutex);
		raise(SIGKILL);
	}
	finish(child);
	int dead = 0, well = 0;
	for (int i = 0; i < MANY; i++) {
		int r = pthread_mutex_lock(&p[i]->mutex);
		dead += r == EOWNERDEAD;
		well += r == 0;
	}
	say("EOWNERDEAD %d, 0 %d", dead, well);
}

static pthread_mutex_t *many_in(int segment, int count)
{
	pthread_mutexattr_t a;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_t *mutexes = (pthread_mutex_t *)attach(segment);
	for (int i = 0; i < count; i++)
		pthread_mutex_init(&mutexes[i], &a);
	return mutexes;
}

static void *lock_those(void *context)
{
	pthread_mutex_t **next = context;
	while (*next)
		pthread_mutex_lock(*next++);
	return NULL;
}

CASE(pthread_robust_thread_ends_with_many)
{
	const int held[] = { 1, 63, 64, 65, 130, 1000 };
	enum { MOST = 1000 };
	for (size_t n = 0; n < sizeof held / sizeof *held; n++) {
		pthread_mutex_t *mutexes = many_in(segment_of(MOST * sizeof *mutexes), MOST);
		pthread_mutex_t *those[MOST + 1] = { NULL };
		for (int i = 0; i < held[n]; i++)
			those[i] = &mutexes[i * 7 % MOST];
		in_thread(lock_those, those);
		int dead = 0, well = 0;
		for (int i = 0; i < MOST; i++) {
			int r = pthread_mutex_lock(&mutexes[i]);
			dead += r == EOWNERDEAD;
			well += r == 0;
		}
		say("%d held: EOWNERDEAD %d, 0 %d", held[n], dead, well);
	}
}

struct last_words {
	pthread_mutex_t *those[131];
	atomic_bool holds, may_end;
};

static void *lock_those_and_wait(void *context)
{
	struct last_words *w = context;
	lock_those(w->those);
	w->holds = true;
	while (!w->may_end)
		sched_yield();
	return NULL;
}

static void lock_of_the_dead(void *mutex)
{ _exit(pthread_mutex_lock(mutex) == EOWNERDEAD ? 0 : 1); }

CASE(pthread_robust_waiters_of_many_are_woken)
{
	enum { HELD = 130 };
	pthread_mutex_t *mutexes = many_in(segment_of(HELD * sizeof *mutexes), HELD);
	struct last_words w = { 0 };
	pthread_t thread;
	pid_t waiters[] = { 3, 63, 64, 129 };
	for (int i = 0; i < HELD; i++)
		w.those[i] = &mutexes[i];
	pthread_create(&thread, NULL, lock_those_and_wait, &w);
	while (!w.holds)
		sched_yield();
	for (int i = 0; i < 4; i++) {
		waiters[i] = start(lock_of_the_dead, &mutexes[waiters[i]]);
		await_asleep(waiters[i]);
	}
	w.may_end = true;
	pthread_join(thread, NULL);
	for (int i = 0; i < 4; i++)
		say("%s", ended(finish(waiters[i])));
}

CASE(pthread_robust_exec)
{
	/* A program that is replaced holds no mutex any more. */
	struct page *p = robust_mutex();
	pid_t child = fork();
	if (child == 0) {
		pthread_mutex_lock(&p->mutex);
		execl("/bin/true", "true", (char *)NULL);
		broken("exec");
	}
	finish(child);
	repair(p, pthread_mutex_lock(&p->mutex));
}

CASE(pthread_robust_fork_child_owns_nothing)
{
	struct page *p = mutex_page(
		(struct mutex_kind) { PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ROBUST });
	pthread_mutex_lock(&p->mutex);
	pid_t child = fork();
	if (child == 0) {
		say("child: unlock %s", said(pthread_mutex_unlock(&p->mutex)));
		say("child: trylock %s", said(pthread_mutex_trylock(&p->mutex)));
		_exit(0);
	}
	finish(child);
	say("parent: lock %s", said(pthread_mutex_lock(&p->mutex)));
	say("parent: unlock %s", said(pthread_mutex_unlock(&p->mutex)));
}

static void recurse_and_die(void *context)
{
	struct page *p = context;
	for (int i = 0; i < 3; i++)
		pthread_mutex_lock(&p->mutex);
	raise(SIGKILL);
}

CASE(pthread_robust_recursion_begins_anew)
{
	struct page *p = robust(PTHREAD_MUTEX_RECURSIVE);
	finish(start(recurse_and_die, p));
	say("lock: %s", said(pthread_mutex_lock(&p->mutex)));
	pthread_mutex_consistent(&p->mutex);
	say("lock: %s", said(pthread_mutex_lock(&p->mutex)));
	for (int i = 0; i < 3; i++)
		say("unlock: %s", said(pthread_mutex_unlock(&p->mutex)));
}

/* A thread ends that holds many, which are detached meanwhile: by a handler, at many distances from
 * the beginning. */
enum { MANY = 2000, DETACHES = 300 };

static pthread_mutex_t *many;
static atomic_bool is_detached;

static void detach_many(int signal)
{
	(void)signal;
	shmdt(many);
	is_detached = true;
}

static void *lock_all_and_end(void *context)
{
	const int *turn = context;
	struct itimerval soon = { .it_value.tv_usec = 1 + *turn };
	for (int i = 0; i < MANY; i++)
		if (pthread_mutex_lock(&many[i]) != 0)
			say("lock of %d", i);
	setitimer(ITIMER_REAL, &soon, NULL);
	return NULL;
}

static void detach_while_one_ends(void *context)
{
	sigset_t alarm;
	pthread_mutexattr_t a;
	(void)context;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	handle(SIGALRM, detach_many, 0);
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	int segment = segment_of(MANY * sizeof *many);
	for (int turn = 0; turn < turns(DETACHES); turn++) {
		pthread_t t;
		many = (pthread_mutex_t *)attach(segment);
		for (int i = 0; i < MANY; i++)
			pthread_mutex_init(&many[i], &a);
		is_detached = false;
		pthread_create(&t, NULL, lock_all_and_end, &turn);
		/* This thread detaches them only if the other has ended before. */
		pthread_sigmask(SIG_BLOCK, &alarm, NULL);
		pthread_join(t, NULL);
		pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
		while (!is_detached)
			sched_yield();
	}
}

CASE(pthread_robust_detached_while_its_owner_ends)
{ say("%s", ended(finish(start(detach_while_one_ends, NULL)))); }
