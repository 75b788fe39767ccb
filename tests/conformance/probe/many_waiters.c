/* More threads that wait than a small pool has thread slots: many_waiters.sh makes such a pool. No
 * thread is lost: it is woken, or (System V and queues) its call has failed at once. */
#include "locks.h"
#include "mq.h"

#include <sys/syscall.h>

enum { MANY = 40, EACH = 10 };

struct crowd {
	pthread_t threads[MANY];
	volatile pid_t numbers[MANY];
	volatile int ended[MANY]; /* what its call has said, plus one */
	int (*call)(void *context);
	void *context;
};

struct role_of_one {
	struct crowd *all;
	int nth;
};

static void *one(void *given)
{
	struct role_of_one *role = given;
	struct crowd *all = role->all;
	int nth = role->nth;
	free(role);
	all->numbers[nth] = gettid();
	all->ended[nth] = 1 + all->call(all->context);
	return NULL;
}

/* MANY threads, each in the call: asleep, or it has ended already. `call` gives an error number. */
static struct crowd *gather(int (*call)(void *), void *context)
{
	struct crowd *all = calloc(1, sizeof(*all));
	*all = (struct crowd) { .call = call, .context = context };
	for (int i = 0; i < MANY; i++) {
		struct role_of_one *role = malloc(sizeof(*role));
		*role = (struct role_of_one) { all, i };
		if (pthread_create(&all->threads[i], NULL, one, role) != 0)
			broken("a thread");
	}
	for (int i = 0; i < MANY; i++) {
		while (all->numbers[i] == 0)
			a_moment();
		if (all->ended[i] == 0)
			await_thread_asleep(all->numbers[i]);
	}
	return all;
}

static int ended_with(const struct crowd *all, int error)
{
	int count = 0;
	for (int i = 0; i < MANY; i++)
		count += all->ended[i] == 1 + error;
	return count;
}

/* How many wait: the others' calls have failed at once, for want of a place. */
static int waiting(const struct crowd *all) { return MANY - ended_with(all, ENOMEM); }

static void scatter(struct crowd *all)
{
	for (int i = 0; i < MANY; i++)
		pthread_join(all->threads[i], NULL);
}

/* All have come back without an error, none has been refused. */
static void all_came(struct crowd *all)
{
	scatter(all);
	say("came %d", ended_with(all, 0));
}

/* All have come back, some perhaps refused. */
static void none_is_lost(struct crowd *all)
{
	scatter(all);
	say("came or refused %d", ended_with(all, 0) + ended_with(all, ENOMEM));
}

/* ---- condition variables: words[0] may pass, words[1] wait ---- */

static int pass(struct page *p, const struct timespec *until)
{
	int r = 0;
	pthread_mutex_lock(&p->mutex);
	p->words[1] = p->words[1] + 1;
	while (p->words[0] == 0 && r == 0)
		r = until == NULL ? pthread_cond_wait(&p->cond, &p->mutex)
				  : pthread_cond_timedwait(&p->cond, &p->mutex, until);
	if (r == 0)
		p->words[0] = p->words[0] - 1;
	pthread_mutex_unlock(&p->mutex);
	return r;
}

static int wait_turn(void *page) { return pass(page, NULL); }

static int wait_turn_until(void *page)
{
	struct timespec until = from_now(CLOCK_REALTIME, NEVER);
	return pass(page, &until);
}

static void let_pass(struct page *p, int count, int (*wake)(pthread_cond_t *))
{
	pthread_mutex_lock(&p->mutex);
	p->words[0] = p->words[0] + count;
	pthread_mutex_unlock(&p->mutex);
	wake(&p->cond);
}

CASE(many_waiters_of_a_broadcast)
{
	struct page *p = normal_mutex();
	struct crowd *all = gather(wait_turn, p);
	let_pass(p, MANY, pthread_cond_broadcast);
	all_came(all);
}

CASE(many_waiters_of_a_broadcast_until)
{
	struct page *p = normal_mutex();
	struct crowd *all = gather(wait_turn_until, p);
	let_pass(p, MANY, pthread_cond_broadcast);
	all_came(all);
}

CASE(many_waiters_of_signals)
{
	struct page *p = normal_mutex();
	struct crowd *all = gather(wait_turn, p);
	for (int i = 0; i < MANY; i++)
		let_pass(p, 1, pthread_cond_signal);
	all_came(all);
}

static void *wait_in_thread(void *page)
{
	wait_turn(page);
	return NULL;
}

static void wait_in_threads(void *page)
{
	pthread_t threads[EACH];
	for (int i = 0; i < EACH; i++)
		if (pthread_create(&threads[i], NULL, wait_in_thread, page) != 0)
			broken("a thread");
	for (int i = 0; i < EACH; i++)
		pthread_join(threads[i], NULL);
}

CASE(many_waiters_in_processes)
{
	struct page *p = normal_mutex();
	pid_t children[MANY / EACH];
	for (int i = 0; i < MANY / EACH; i++)
		children[i] = start(wait_in_threads, p);
	while (p->words[1] != MANY)
		a_moment();
	let_pass(p, MANY, pthread_cond_broadcast);
	for (int i = 0; i < MANY / EACH; i++)
		say("%s", ended(finish(children[i])));
	say("left %d", p->words[0]);
}

/* ---- mutexes, read-write locks, barriers, semaphores ---- */

static int lock_once(void *page)
{
	struct page *p = page;
	int r = pthread_mutex_lock(&p->mutex);
	return r != 0 ? r : pthread_mutex_unlock(&p->mutex);
}

CASE(many_waiters_of_a_mutex)
{
	struct page *p = normal_mutex();
	pthread_mutex_lock(&p->mutex);
	struct crowd *all = gather(lock_once, p);
	pthread_mutex_unlock(&p->mutex);
	all_came(all);
}

static void hold_until_killed(void *page)
{
	struct page *p = page;
	pthread_mutex_lock(&p->mutex);
	p->words[0] = 1;
	for (;;)
		pause();
}

static int repair_once(void *page)
{
	struct page *p = page;
	int r = pthread_mutex_lock(&p->mutex);
	if (r == EOWNERDEAD)
		p->words[1] = p->words[1] + 1, pthread_mutex_consistent(&p->mutex), r = 0;
	return r != 0 ? r : pthread_mutex_unlock(&p->mutex);
}

CASE(many_waiters_of_a_robust_mutex)
{
	struct page *p = robust_mutex();
	pid_t holder = start(hold_until_killed, p);
	while (p->words[0] == 0)
		a_moment();
	struct crowd *all = gather(repair_once, p);
	stop_by(holder, SIGKILL);
	all_came(all);
	say("repaired %d times", p->words[1]);
}

static int read_or_write(void *page)
{
	struct page *p = page;
	int r = gettid() % 2 ? pthread_rwlock_rdlock(&p->rwlock)
	                     : pthread_rwlock_wrlock(&p->rwlock);
	return r != 0 ? r : pthread_rwlock_unlock(&p->rwlock);
}

CASE(many_waiters_of_a_rwlock)
{
	struct page *p = new_page();
	pthread_rwlockattr_t a;
	pthread_rwlockattr_init(&a);
	pthread_rwlockattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	if (pthread_rwlock_init(&p->rwlock, &a) != 0)
		broken("pthread_rwlock_init");
	pthread_rwlock_wrlock(&p->rwlock);
	struct crowd *all = gather(read_or_write, p);
	pthread_rwlock_unlock(&p->rwlock);
	all_came(all);
}

static int meet(void *page)
{
	int r = pthread_barrier_wait(&((struct page *)page)->barrier);
	return r == PTHREAD_BARRIER_SERIAL_THREAD ? 0 : r;
}

CASE(many_waiters_of_a_barrier)
{
	struct page *p = new_page();
	pthread_barrierattr_t a;
	pthread_barrierattr_init(&a);
	pthread_barrierattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	if (pthread_barrier_init(&p->barrier, &a, MANY + 1) != 0)
		broken("pthread_barrier_init");
	struct crowd *all = gather(meet, p);
	say("the last one: %s", said(meet(p)));
	all_came(all);
}

static int take_one(void *semaphore) { return sem_wait(semaphore) == 0 ? 0 : errno; }

static void posts_wake(sem_t *semaphore)
{
	struct crowd *all = gather(take_one, semaphore);
	for (int i = 0; i < MANY; i++)
		sem_post(semaphore);
	all_came(all);
	say("value %d", sem_value(semaphore));
}

CASE(many_waiters_of_a_semaphore) { posts_wake(&sem_page(0)->sem); }

CASE(many_waiters_of_a_named_semaphore)
{
	sem_t *named = sem_open(fresh_name(), O_CREAT | O_EXCL, 0600, 0);
	if (named == SEM_FAILED)
		broken("sem_open");
	posts_wake(named);
}

/* ---- System V ---- */

static int lower(void *set) { return step(*(int *)set, 0, -1, 0) == 0 ? 0 : errno; }

CASE(many_waiters_of_semop)
{
	int set = set_of(1);
	struct crowd *all = gather(lower, &set);
	int wait = waiting(all);
	say("all that wait are counted: %s", yes(asked(set, 0, GETNCNT) == wait));
	say("raised: %s", got(step(set, 0, wait, 0)));
	none_is_lost(all);
	say("value %d", value(set, 0));
}

static int lower_two(void *set)
{
	struct sembuf both[] = { { 0, -1, SEM_UNDO }, { 1, -1, 0 } };
	return semop(*(int *)set, both, 2) == 0 ? 0 : errno;
}

CASE(many_waiters_of_two_semaphores)
{
	int set = set_of(2);
	set_value(set, 0, MANY);
	struct crowd *all = gather(lower_two, &set);
	int wait = waiting(all);
	say("raised: %s", got(step(set, 1, wait, 0)));
	none_is_lost(all);
	say("values %d and %d", value(set, 0) == MANY - wait ? 0 : 1, value(set, 1));
}

CASE(many_waiters_of_a_set_that_goes)
{
	int set = set_of(1);
	struct crowd *all = gather(lower, &set);
	semctl(set, 0, IPC_RMID);
	scatter(all);
	say("gone or refused %d", ended_with(all, EIDRM) + ended_with(all, ENOMEM));
}

static int receive_one(void *queue)
{
	struct message m;
	return take(*(int *)queue, &m, sizeof(m.text), 0, 0) >= 0 ? 0 : errno;
}

CASE(many_waiters_of_msgrcv)
{
	int queue = queue_of();
	struct crowd *all = gather(receive_one, &queue);
	int wait = waiting(all), sent = 0;
	for (int i = 0; i < wait; i++)
		sent += put(queue, 1, "text", 0) == 0;
	say("sent to all that wait: %s", yes(sent == wait));
	none_is_lost(all);
	say("left %lu", (unsigned long)queue_state(queue).msg_qnum);
}

static int send_one(void *queue) { return put(*(int *)queue, 2, "late", 0) == 0 ? 0 : errno; }

CASE(many_waiters_of_msgsnd)
{
	int queue = queue_of(), early = 0;
	while (put(queue, 1, "text", IPC_NOWAIT) == 0)
		early++;
	struct crowd *all = gather(send_one, &queue);
	int wait = waiting(all), taken = 0;
	struct message m;
	for (int i = 0; i < early + wait; i++)
		taken += take(queue, &m, sizeof(m.text), 0, 0) >= 0;
	say("took all: %s", yes(taken == early + wait));
	none_is_lost(all);
	say("left %lu", (unsigned long)queue_state(queue).msg_qnum);
}

/* ---- POSIX queues ---- */

static int mq_receive_one(void *queue)
{
	char text[64];
	return mq_receive(*(mqd_t *)queue, text, sizeof(text), NULL) >= 0 ? 0 : errno;
}

CASE(many_waiters_of_mq_receive)
{
	mqd_t queue = mq_of(8, 64, 0);
	struct crowd *all = gather(mq_receive_one, &queue);
	int wait = waiting(all), sent = 0;
	for (int i = 0; i < wait; i++)
		sent += mq_put(queue, "text", 1) == 0;
	say("sent to all that wait: %s", yes(sent == wait));
	none_is_lost(all);
	say("left %ld", mq_state(queue).mq_curmsgs);
}

static int mq_send_one(void *queue) { return mq_put(*(mqd_t *)queue, "late", 0) == 0 ? 0 : errno; }

CASE(many_waiters_of_mq_send)
{
	mqd_t queue = mq_of(8, 64, 0);
	for (int i = 0; i < 8; i++)
		mq_put(queue, "text", 1);
	struct crowd *all = gather(mq_send_one, &queue);
	int wait = waiting(all), taken = 0;
	for (int i = 0; i < 8 + wait; i++)
		taken += mq_receive_one(&queue) == 0;
	say("took all: %s", yes(taken == 8 + wait));
	none_is_lost(all);
	say("left %ld", mq_state(queue).mq_curmsgs);
}

/* ---- other calls meanwhile ---- */

CASE(many_waiters_and_what_does_not_wait)
{
	int set = set_of(1);
	struct crowd *all = gather(lower, &set);
	say("a set: %s", made(track_set(semget(IPC_PRIVATE, 1, 0600))));
	say("a segment: %s", made(track_segment(shmget(IPC_PRIVATE, 4096, 0600))));
	int queue = queue_of();
	say("a message: %s", got(put(queue, 1, "text", IPC_NOWAIT)));
	say("a child's exit: %s", ended(finish(start((role_fn *)a_moment, NULL))));
	struct sigevent quiet = { .sigev_notify = SIGEV_NONE };
	int r = mq_notify(mq_of(8, 64, 0), &quiet);
	say("registered or refused: %s", yes(r == 0 || errno == ENOMEM));
	say("raised: %s", got(step(set, 0, waiting(all), 0)));
	none_is_lost(all);
}

/* ---- a child without a client slot ---- */

static void wait_to_be_killed(void *context)
{
	(void)context;
	for (;;)
		pause();
}

CASE(many_waiters_and_a_child_without_a_client)
{
	struct page *p = normal_mutex();
	pid_t others[MANY];
	int count = 0;
	while (count < MANY) {
		pid_t other = fork();
		if (other == 0)
			wait_to_be_killed(NULL);
		if (other == -1)
			break; /* the pool has no slot for one more */
		others[count++] = other;
	}
	/* Behind the C library's back: fork would have failed. */
	pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (child == 0) {
		p->words[1] = 1 + pthread_mutex_trylock(&p->mutex);
		if (p->words[1] == 1)
			pthread_mutex_unlock(&p->mutex);
		p->words[2] = 1 + pthread_mutex_lock(&p->mutex);
		if (p->words[2] == 1)
			p->words[3] = 1 + pthread_mutex_unlock(&p->mutex);
		p->words[4] = 1 + sem_post(&p->go);
		_exit(0);
	}
	while (p->words[1] == 0)
		a_moment();
	a_moment();
	while (count > 0)
		stop_by(others[--count], SIGKILL);
	say("%s", ended(finish(child)));
	say("trylock: %s", yes(p->words[1] == 1 || p->words[1] == 1 + EBUSY));
	say("lock: %s, unlock: %s", said(p->words[2] - 1), said(p->words[3] - 1));
	say("post: %d, value %d", p->words[4] - 1, sem_value(&p->go));
}
