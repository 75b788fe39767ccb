/* A thread is asked to end just after a blocking call has looked whether it was: the call ends all
 * the same. pthread_testcancel(3), by which the library looks, is this program's own here, and asks
 * right after it has looked. On a kernel the calls look for themselves. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <unistd.h>

#include "fail.h"

static _Thread_local int ask_after; /* looks from now until the thread is asked to end */

static struct {
	sem_t sem;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
} *shared;
static int full, empty;
static mqd_t full_mq, empty_mq;

void pthread_testcancel(void)
{
	static void (*look)(void);
	if (look == NULL)
		look = (void (*)(void))dlsym(RTLD_NEXT, "pthread_testcancel");
	look();
	if (ask_after > 0 && --ask_after == 0)
		pthread_cancel(pthread_self());
}

static struct {
	long type;
	char text[8192];
} message = { 1, "" };

static void unlock(void *mutex)
{
	pthread_mutex_unlock(mutex);
}

static void receive(void)
{
	msgrcv(empty, &message, sizeof message.text, 0, 0);
}
static void send_one(void)
{
	msgsnd(full, &message, sizeof message.text, 0);
}
static void receive_mq(void)
{
	char text[16];
	mq_receive(empty_mq, text, sizeof text, NULL);
}
static void send_mq(void)
{
	mq_send(full_mq, "a", 1, 0);
}
static void wait_sem(void)
{
	sem_wait(&shared->sem);
}
static void wait_cond(void)
{
	pthread_mutex_lock(&shared->mutex);
	pthread_cleanup_push(unlock, &shared->mutex);
	for (;;)
		pthread_cond_wait(&shared->cond, &shared->mutex);
	pthread_cleanup_pop(1);
}
static void poll_mq(void)
{
	struct pollfd one = { (int)empty_mq, POLLIN, 0 };
	poll(&one, 1, -1);
}

static const struct {
	const char *name;
	void (*call)(void);
} calls[] = {
	{ "msgrcv", receive },	{ "msgsnd", send_one },	  { "mq_receive", receive_mq },
	{ "mq_send", send_mq }, { "sem_wait", wait_sem }, { "pthread_cond_wait", wait_cond },
	{ "poll", poll_mq },
};

struct attempt {
	size_t which;
	int looks;
};

static void *wait_and_be_asked(void *argument)
{
	const struct attempt *attempt = argument;
	ask_after = attempt->looks;
	calls[attempt->which].call();
	return NULL;
}

static mqd_t queue_of(const char *name)
{
	struct mq_attr size = { .mq_maxmsg = 1, .mq_msgsize = 16 };
	mq_unlink(name);
	mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &size);
	if (queue == (mqd_t)-1)
		fail("mq_open");
	return queue;
}

static void set_up(void)
{
	empty = msgget(IPC_PRIVATE, 0600);
	full = msgget(IPC_PRIVATE, 0600);
	while (msgsnd(full, &message, sizeof message.text, IPC_NOWAIT) == 0)
		;
	if (empty == -1 || full == -1 || errno != EAGAIN)
		fail("queues");
	empty_mq = queue_of("/cancelled-empty");
	full_mq = queue_of("/cancelled-full");
	mq_send(full_mq, "a", 1, 0);
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED,
		      shm_open("/cancelled", O_RDWR | O_CREAT, 0600), 0);
	if (shared == MAP_FAILED)
		fail("memory");
}

int main(void)
{
	int file = shm_open("/cancelled", O_RDWR | O_CREAT, 0600);
	if (file == -1 || ftruncate(file, sizeof *shared) != 0)
		fail("shm_open");
	set_up();
	pthread_mutexattr_t of_mutex;
	pthread_condattr_t of_cond;
	pthread_mutexattr_init(&of_mutex);
	pthread_mutexattr_setpshared(&of_mutex, PTHREAD_PROCESS_SHARED);
	pthread_condattr_init(&of_cond);
	pthread_condattr_setpshared(&of_cond, PTHREAD_PROCESS_SHARED);
	if (sem_init(&shared->sem, 1, 0) != 0 ||
	    pthread_mutex_init(&shared->mutex, &of_mutex) != 0 ||
	    pthread_cond_init(&shared->cond, &of_cond) != 0)
		fail("locks");
	for (size_t which = 0; which < sizeof calls / sizeof *calls; which++)
		for (int looks = 1; looks <= 2; looks++) {
			struct attempt attempt = { which, looks };
			pthread_t thread;
			void *result = NULL;
			printf("%s, asked after look %d\n", calls[which].name, looks);
			fflush(stdout);
			if (pthread_create(&thread, NULL, wait_and_be_asked, &attempt) != 0)
				fail("a thread");
			/* A call that looks once only is asked in its sleep. */
			if (looks == 2)
				pthread_cancel(thread);
			pthread_join(thread, &result);
			if (result != PTHREAD_CANCELED)
				fail("the thread was to be cancelled");
		}
	if (mq_unlink("/cancelled-empty") != 0 || mq_unlink("/cancelled-full") != 0 ||
	    shm_unlink("/cancelled") != 0 || msgctl(empty, IPC_RMID, NULL) != 0 ||
	    msgctl(full, IPC_RMID, NULL) != 0)
		fail("removal");
	return 0;
}
