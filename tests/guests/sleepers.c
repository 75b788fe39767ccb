/* For cloned_guest: sleepers take NUMBER: three threads, one sleeps in semop, one in msgrcv and one waits for a robust mutex; says what has
 * come of each. sleepers give NUMBER: what the first two wait for. sleepers hold: makes the mutex, holds it and sleeps. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <unistd.h>

enum { KEY = 0x4711 };
static unsigned short number;

static const char *of(int rc)
{ return rc ? strerror(errno) : "done"; }

static void *take(void *nothing)
{
	int set = semget(KEY, 3, IPC_CREAT | 0666);
	struct sembuf change = { number, -1, 0 };
	(void)nothing;
	return (void *)(set < 0 ? "no set" : of(semop(set, &change, 1)));
}

struct message {
	long type;
	char text[8];
};

static void *receive(void *nothing)
{
	struct message message;
	int queue = msgget(KEY, IPC_CREAT | 0666);
	(void)nothing;
	return (void *)(queue < 0 ? "no queue" : of(msgrcv(queue, &message, sizeof(message.text), 1, 0) < 0));
}

static pthread_mutex_t *mutex(void)
{
	int segment = shmget(KEY, 4096, IPC_CREAT | 0666);
	void *memory = segment < 0 ? NULL : shmat(segment, NULL, 0);
	return memory == (void *)-1 ? NULL : memory;
}

static void *lock(void *nothing)
{
	pthread_mutex_t *there = mutex();
	int rc = there ? pthread_mutex_lock(there) : ENOMEM;
	(void)nothing;
	if (rc == EOWNERDEAD)
		pthread_mutex_consistent(there);
	if (rc == 0 || rc == EOWNERDEAD)
		pthread_mutex_unlock(there);
	return (void *)(rc == EOWNERDEAD ? "owner died" : rc ? strerror(rc) : "locked");
}

static int hold(void)
{
	pthread_mutexattr_t how;
	pthread_mutex_t *there = mutex();
	if (!there)
		return 1;
	pthread_mutexattr_init(&how);
	pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(there, &how);
	pthread_mutex_lock(there);
	puts("held");
	fflush(stdout);
	pause();
	return 0;
}

static int give(void)
{
	struct message message = { 1, "take me" };
	struct sembuf change = { number, 1, 0 };
	return semop(semget(KEY, 3, IPC_CREAT | 0666), &change, 1)
	        || msgsnd(msgget(KEY, IPC_CREAT | 0666), &message, sizeof(message.text), 0);
}

int main(int count, char **words)
{
	void *(*all[])(void *) = { take, receive, lock };
	void *came[3];
	pthread_t threads[3];
	if (!strcmp(words[1], "hold"))
		return hold();
	number = (unsigned short)atoi(words[count - 1]);
	if (!strcmp(words[1], "give"))
		return give();
	for (int nth = 0; nth < 3; nth++)
		pthread_create(&threads[nth], NULL, all[nth], NULL);
	for (int nth = 0; nth < 3; nth++)
		pthread_join(threads[nth], &came[nth]);
	printf("semop: %s; msgrcv: %s; mutex: %s\n", (char *)came[0], (char *)came[1], (char *)came[2]);
	return 0;
}
