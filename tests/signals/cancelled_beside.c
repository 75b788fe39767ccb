/* Cancellations of other threads end no call that is no cancellation point: not a semop in a
 * handler that has interrupted msgrcv, nor one that follows a msgrcv which a handler has left by
 * siglongjmp(3). */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <unistd.h>

#include "fail.h"

enum { CANCELLATIONS = 50 };

static int set, queue, leaves, wrong;
static sigjmp_buf back;
/* What semop has returned: an errno, 0, or that it has not. */
static volatile int result;
/* The thread that is about to wait in msgrcv. */
static volatile int waiter;

static void take(void)
{
	struct sembuf one = { 0, -1, 0 };
	int answer = semop(set, &one, 1) == 0 ? 0 : errno;
	__atomic_store_n(&result, answer, __ATOMIC_RELEASE);
}

static void handler(int signal)
{
	(void)signal;
	if (leaves)
		siglongjmp(back, 1);
	take();
}

static void *receive(void *nothing)
{
	struct {
		long type;
		char text[8];
	} message;
	if (sigsetjmp(back, 1) == 0 && (waiter = gettid()))
		msgrcv(queue, &message, sizeof message.text, 0, 0);
	if (leaves)
		take();
	return nothing;
}

static void *sleep_on(void *nothing)
{
	for (;;)
		pause();
	return nothing;
}

static int is_asleep(int thread)
{
	char path[64], text[256] = "";
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
	FILE *file = fopen(path, "r");
	if (!file || !fgets(text, sizeof text, file))
		fail(path);
	fclose(file);
	return strrchr(text, ')')[2] == 'S';
}

/* The thread sleeps in msgrcv, and after that, by a signal, in semop. */
static void interrupt(pthread_t thread)
{
	while (waiter == 0 || !is_asleep(waiter))
		usleep(1000);
	pthread_kill(thread, SIGUSR1);
	while (semctl(set, 0, GETNCNT) == 0)
		usleep(1000);
}

static void cancel_another(void)
{
	pthread_t other;
	if (pthread_create(&other, NULL, sleep_on, NULL) != 0 || pthread_cancel(other) != 0
	        || pthread_join(other, NULL) != 0)
		fail("another thread");
}

static void attempt(void)
{
	pthread_t thread;
	struct sembuf give = { 0, 1, 0 };
	semctl(set, 0, SETVAL, 0);
	result = -1;
	waiter = 0;
	if (pthread_create(&thread, NULL, receive, NULL) != 0)
		fail("a thread");
	interrupt(thread);
	for (int times = 0; times < CANCELLATIONS && result == -1; times++)
		cancel_another();
	if (semop(set, &give, 1) != 0)
		fail("to post");
	while (__atomic_load_n(&result, __ATOMIC_ACQUIRE) == -1)
		usleep(1000);
	if (result != 0) {
		printf("FAILED: semop %s ended with %s\n",
			leaves ? "after a msgrcv that was left" : "in a handler", strerror(result));
		wrong = 1;
	}
	if (!leaves)
		pthread_cancel(thread);
	pthread_join(thread, NULL);
}

int main(void)
{
	struct sigaction action = { .sa_handler = handler };
	set = semget(IPC_PRIVATE, 1, 0600);
	queue = msgget(IPC_PRIVATE, 0600);
	if (set == -1 || queue == -1 || sigaction(SIGUSR1, &action, NULL) != 0)
		fail("to prepare");
	for (leaves = 0; leaves < 2; leaves++)
		attempt();
	semctl(set, 0, IPC_RMID);
	msgctl(queue, IPC_RMID, NULL);
	return wrong;
}
