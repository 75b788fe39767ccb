/* The blocking calls that step.c interrupts, each on an object of its own at which it sleeps. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <time.h>
#include <unistd.h>
#ifdef LIBVSHMEM
#include <vshmem.h>
#endif

#include "fail.h"

struct call {
	const char *name;
	void (*set_up)(void);
	/* What the child does: 0, or -1 with errno. */
	int (*wait)(void);
	/* NULL: the call ends with EINTR. Else it goes on, and this lets it end. */
	void (*wake)(void);
	/* Whether the object is as if the call had never been, and serves the next one. */
	bool (*works)(void);
	/* Of the handler. */
	int flags;
};

static int set;

static void set_up_set(void)
{
	if (set == 0 && (set = semget(IPC_PRIVATE, 1, 0600)) == -1)
		fail("semget");
}

static bool set_works(void)
{
	struct sembuf add = { 0, 1, 0 }, take = { 0, -1, IPC_NOWAIT };
	return semctl(set, 0, GETVAL) == 0 && semctl(set, 0, GETNCNT) == 0
	        && semop(set, &add, 1) == 0 && semctl(set, 0, GETVAL) == 1
	        && semop(set, &take, 1) == 0;
}

#ifdef LIBVSHMEM
static vshmem_pool *pool;

static int wait_at_set(void)
{
	struct sembuf take = { 0, -1, 0 };
	int result = vshmem_semop(pool, set, &take, 1, NULL);
	errno = -result;
	return result < 0 ? -1 : 0;
}

static const struct call calls[] = {
	{ "semop", set_up_set, wait_at_set, NULL, set_works, SA_RESTART },
};
#else
static int wait_at_set(void)
{
	struct sembuf take = { 0, -1, 0 };
	return semop(set, &take, 1);
}

static int queue;
enum { FULL = 64 };
static struct message {
	long type;
	char text[FULL];
} message = { 1, "" };

static unsigned long messages(void)
{
	struct msqid_ds state;
	if (msgctl(queue, IPC_STAT, &state) != 0)
		fail("IPC_STAT");
	return state.msg_qnum;
}

static bool receive_one(void)
{
	struct message got;
	return msgrcv(queue, &got, sizeof got.text, 0, IPC_NOWAIT) == FULL;
}

static bool send_one(void) { return msgsnd(queue, &message, FULL, IPC_NOWAIT) == 0; }

/* Room for one message. */
static void set_up_queue(void)
{
	struct msqid_ds state;
	queue = msgget(IPC_PRIVATE, 0600);
	if (queue == -1 || msgctl(queue, IPC_STAT, &state) != 0)
		fail("msgget");
	state.msg_qbytes = FULL;
	if (msgctl(queue, IPC_SET, &state) != 0)
		fail("IPC_SET");
}

static void set_up_full_queue(void)
{
	set_up_queue();
	if (!send_one())
		fail("msgsnd");
}

static int wait_to_receive(void)
{
	struct message got;
	return msgrcv(queue, &got, sizeof got.text, 0, 0) < 0 ? -1 : 0;
}

static int wait_to_receive_type(void)
{
	struct message got;
	return msgrcv(queue, &got, sizeof got.text, 7, 0) < 0 ? -1 : 0;
}

static int wait_to_send(void) { return msgsnd(queue, &message, FULL, 0); }

static bool empty_queue_works(void)
{ return messages() == 0 && send_one() && messages() == 1 && receive_one(); }

static bool full_queue_works(void)
{ return messages() == 1 && receive_one() && messages() == 0 && send_one(); }

static mqd_t posix_queue;

static long posix_messages(void)
{
	struct mq_attr state;
	if (mq_getattr(posix_queue, &state) != 0)
		fail("mq_getattr");
	return state.mq_curmsgs;
}

static bool posix_receive(void)
{
	char text[FULL];
	struct timespec past = { 1, 0 };
	return mq_timedreceive(posix_queue, text, sizeof text, NULL, &past) == 1;
}

static bool posix_send(void)
{
	struct timespec past = { 1, 0 };
	return mq_timedsend(posix_queue, "a", 1, 0, &past) == 0;
}

static void set_up_posix_queue(void)
{
	struct mq_attr size = { .mq_maxmsg = 1, .mq_msgsize = FULL };
	mq_unlink("/step");
	posix_queue = mq_open("/step", O_RDWR | O_CREAT | O_EXCL, 0600, &size);
	if (posix_queue == (mqd_t)-1)
		fail("mq_open");
}

static void set_up_full_posix_queue(void)
{
	set_up_posix_queue();
	if (!posix_send())
		fail("mq_send");
}

static int wait_to_receive_posix(void)
{
	char text[FULL];
	return mq_receive(posix_queue, text, sizeof text, NULL) < 0 ? -1 : 0;
}

static int wait_to_send_posix(void) { return mq_send(posix_queue, "b", 1, 0); }

static bool empty_posix_queue_works(void)
{ return posix_messages() == 0 && posix_send() && posix_messages() == 1 && posix_receive(); }

static bool full_posix_queue_works(void)
{ return posix_messages() == 1 && posix_receive() && posix_messages() == 0 && posix_send(); }

/* In the pool's memory. */
static struct {
	sem_t semaphore;
	pthread_mutex_t mutex;
	pthread_cond_t condition;
	int fine;
} *shared;

static void set_up_memory(void)
{
	if (shared)
		return;
	shm_unlink("/step");
	int file = shm_open("/step", O_RDWR | O_CREAT | O_EXCL, 0600);
	if (file == -1 || ftruncate(file, sizeof *shared) != 0)
		fail("shm_open");
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (shared == MAP_FAILED)
		fail("mmap");
	pthread_mutexattr_t of_mutex;
	pthread_condattr_t of_condition;
	pthread_mutexattr_init(&of_mutex);
	pthread_condattr_init(&of_condition);
	pthread_mutexattr_setpshared(&of_mutex, PTHREAD_PROCESS_SHARED);
	pthread_condattr_setpshared(&of_condition, PTHREAD_PROCESS_SHARED);
	if (sem_init(&shared->semaphore, 1, 0) != 0 || pthread_mutex_init(&shared->mutex, &of_mutex)
	        || pthread_cond_init(&shared->condition, &of_condition))
		fail("the memory's objects");
}

static int wait_for_semaphore(void) { return sem_wait(&shared->semaphore); }

static bool semaphore_works(void)
{
	int value;
	return sem_getvalue(&shared->semaphore, &value) == 0 && value == 0
	        && sem_post(&shared->semaphore) == 0 && sem_trywait(&shared->semaphore) == 0;
}

static int wait_for_condition(void)
{
	int result = pthread_mutex_lock(&shared->mutex);
	while (result == 0 && !shared->fine)
		result = pthread_cond_wait(&shared->condition, &shared->mutex);
	if (result == 0)
		result = pthread_mutex_unlock(&shared->mutex);
	errno = result;
	return result ? -1 : 0;
}

static void signal_condition(void)
{
	if (pthread_mutex_lock(&shared->mutex))
		fail("pthread_mutex_lock");
	shared->fine = 1;
	if (pthread_cond_signal(&shared->condition) || pthread_mutex_unlock(&shared->mutex))
		fail("pthread_cond_signal");
}

static bool condition_works(void)
{
	shared->fine = 0;
	return pthread_mutex_trylock(&shared->mutex) == 0
	        && pthread_mutex_unlock(&shared->mutex) == 0;
}

static void set_up_locked(void)
{
	set_up_memory();
	if (pthread_mutex_trylock(&shared->mutex))
		fail("pthread_mutex_trylock");
}

static int wait_for_mutex(void)
{
	int result = pthread_mutex_lock(&shared->mutex);
	if (result == 0)
		result = pthread_mutex_unlock(&shared->mutex);
	errno = result;
	return result ? -1 : 0;
}

static void unlock_mutex(void)
{
	if (pthread_mutex_unlock(&shared->mutex))
		fail("pthread_mutex_unlock");
}

/* Locked again for the next. */
static bool mutex_works(void) { return pthread_mutex_trylock(&shared->mutex) == 0; }

static const struct call calls[] = {
	{ "semop", set_up_set, wait_at_set, NULL, set_works, SA_RESTART },
	{ "msgrcv", set_up_queue, wait_to_receive, NULL, empty_queue_works, SA_RESTART },
	{ "msgrcv-type", set_up_full_queue, wait_to_receive_type, NULL, full_queue_works,
		SA_RESTART },
	{ "msgsnd", set_up_full_queue, wait_to_send, NULL, full_queue_works, SA_RESTART },
	/* These are restarted after a handler with SA_RESTART. */
	{ "mq_receive", set_up_posix_queue, wait_to_receive_posix, NULL, empty_posix_queue_works, 0 },
	{ "mq_send", set_up_full_posix_queue, wait_to_send_posix, NULL, full_posix_queue_works, 0 },
	{ "sem_wait", set_up_memory, wait_for_semaphore, NULL, semaphore_works, 0 },
	{ "pthread_cond_wait", set_up_memory, wait_for_condition, signal_condition,
		condition_works, 0 },
	{ "pthread_mutex_lock", set_up_locked, wait_for_mutex, unlock_mutex, mutex_works, 0 },
};
#endif
