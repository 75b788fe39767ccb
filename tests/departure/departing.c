/* A program whose domain leaves the pool while it runs: threads that store to a segment all the
 * time and check what they have stored, and threads that sleep in semop and msgrcv. What comes of
 * it is printed on SIGTERM. Usage: departing KEY [deaf]; one that is deaf blocks all signals. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STORERS = 3, WORDS = 1 << 20 };

static uint64_t *memory;
static int set, queue;
static atomic_int is_over;
static atomic_ulong rounds, lost;
static atomic_int semop_errno = -1, msgrcv_errno = -1;

static void end(int signal)
{
	(void)signal;
	is_over = 1;
}

/* Each word goes up by one in each round, and nobody else stores there. */
static void *store(void *argument)
{
	volatile uint64_t *words = memory + (size_t)argument * WORDS;
	for (size_t i = 0; i < WORDS; i++)
		words[i] = 0;
	for (uint64_t round = 1; !is_over; round++) {
		for (size_t i = 0; i < WORDS; i++) {
			if (words[i] != round - 1)
				lost++;
			words[i] = round;
		}
		rounds++;
	}
	return NULL;
}

static void *sleep_in_semop(void *argument)
{
	struct sembuf take = {.sem_op = -1};
	(void)argument;
	semop_errno = semop(set, &take, 1) == 0 ? 0 : errno;
	return NULL;
}

static void *sleep_in_msgrcv(void *argument)
{
	struct {
		long type;
		char text[8];
	} message;
	(void)argument;
	msgrcv_errno = msgrcv(queue, &message, sizeof message.text, 0, 0) >= 0 ? 0 : errno;
	return NULL;
}

static const char *name_of(int error)
{
	return error == -1 ? "asleep" : error == 0 ? "success" : strerrorname_np(error);
}

/* What the program can do when it is on its own again. */
static void report(key_t key)
{
	int got = shmget(key + 1, 4096, IPC_CREAT | 0600);
	printf("shmget: %s\n", got >= 0 ? "success" : name_of(errno));
	pid_t child = fork();
	if (child == 0)
		_exit(memory[0] == 0);
	int status = -1;
	waitpid(child, &status, 0);
	printf("fork: %s, child: %d\n", child > 0 ? "success" : name_of(errno), status);
	printf("shmdt: %s\n", shmdt(memory) == 0 ? "success" : name_of(errno));
}

int main(int count, char **words)
{
	key_t key = count > 1 ? (key_t)strtol(words[1], NULL, 0) : 0x6c76;
	int id = shmget(key, STORERS * WORDS * sizeof(uint64_t), IPC_CREAT | 0600);
	memory = id < 0 ? (void *)-1 : shmat(id, NULL, 0);
	set = semget(key, 1, IPC_CREAT | 0600);
	queue = msgget(key, IPC_CREAT | 0600);
	if (memory == (void *)-1 || set < 0 || queue < 0) {
		perror("departing");
		return 1;
	}
	signal(SIGTERM, end);
	struct sembuf held = {.sem_op = 1, .sem_flg = SEM_UNDO};
	semop(set, &held, 1);
	held.sem_op = -1;
	held.sem_flg = 0;
	semop(set, &held, 1);
	if (count > 2) { /* Nobody can tell this process to part. */
		sigset_t all;
		sigfillset(&all);
		sigdelset(&all, SIGTERM);
		pthread_sigmask(SIG_SETMASK, &all, NULL);
	}
	pthread_t threads[STORERS + 2];
	for (size_t i = 0; i < STORERS; i++)
		pthread_create(&threads[i], NULL, store, (void *)i);
	pthread_create(&threads[STORERS], NULL, sleep_in_semop, NULL);
	pthread_create(&threads[STORERS + 1], NULL, sleep_in_msgrcv, NULL);
	printf("departing: ready\n");
	fflush(stdout);
	while (!is_over)
		pause();
	for (size_t i = 0; i < STORERS; i++)
		pthread_join(threads[i], NULL);
	printf("rounds: %lu, lost: %lu\n", rounds, lost);
	printf("semop: %s, msgrcv: %s\n", name_of(semop_errno), name_of(msgrcv_errno));
	report(key);
	fflush(stdout);
	return 0;
}
