/*
 * A program of a user who debugs it: the calls that the library takes over, a thread, a handler, a
 * child. What it prints does not depend on timing. `calls overrun` reads memory that it has freed,
 * `calls race` stores from two threads at once: what the tools are there to find.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t handled;
static int semaphores;

static void count(int signal)
{
	(void)signal;
	handled++;
}

static int operate(int by, int flags)
{
	struct sembuf one = { 0, by, flags };

	return semop(semaphores, &one, 1);
}

static void *post(void *text)
{
	strcpy(text, "a thread was here");
	operate(1, 0);
	return NULL;
}

static void system_v(void)
{
	struct { long mtype; char text[32]; } message = { 7, "a message" };
	int segment = shmget(IPC_PRIVATE, 8192, 0600), queue = msgget(IPC_PRIVATE, 0600);
	struct shmid_ds status;
	pthread_t thread;
	char *memory = shmat(segment, NULL, 0);

	semaphores = semget(IPC_PRIVATE, 1, 0600);
	pthread_create(&thread, NULL, post, memory);
	operate(-1, SEM_UNDO);
	pthread_join(thread, NULL);
	printf("segment: %s\n", memory);
	msgsnd(queue, &message, sizeof message.text, 0);
	if (fork() == 0) {
		msgrcv(queue, &message, sizeof message.text, 7, 0);
		strcpy(memory, message.text);
		operate(1, SEM_UNDO);
		operate(1, 0);
		exit(0);
	}
	wait(NULL);
	operate(-1, 0);
	shmctl(segment, IPC_STAT, &status);
	printf("from the child: %s; semaphore %d, attached %ld\n", memory, semctl(semaphores, 0, GETVAL), (long)status.shm_nattch);
	shmdt(memory);
	shmctl(segment, IPC_RMID, NULL);
	semctl(semaphores, 0, IPC_RMID);
	msgctl(queue, IPC_RMID, NULL);
}

static void posix(void)
{
	char name[64], text[64] = "";
	struct mq_attr attributes = { .mq_maxmsg = 4, .mq_msgsize = sizeof text };
	int descriptor;
	long *memory;
	sem_t *semaphore;
	mqd_t queue;

	snprintf(name, sizeof name, "/debugging-%d", (int)getpid());
	descriptor = shm_open(name, O_CREAT | O_RDWR, 0600);
	if (ftruncate(descriptor, 4096) != 0)
		perror("ftruncate");
	memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
	semaphore = sem_open(name, O_CREAT, 0600, 0);
	queue = mq_open(name, O_CREAT | O_RDWR, 0600, &attributes);
	if (fork() == 0) {
		memory[3] = 42;
		mq_send(queue, "by queue", 9, 1);
		sem_post(semaphore);
		exit(0);
	}
	sem_wait(semaphore);
	mq_receive(queue, text, sizeof text, NULL);
	wait(NULL);
	printf("posix: %ld, %s\n", memory[3], text);
	munmap(memory, 4096);
	close(descriptor);
	mq_close(queue);
	sem_close(semaphore);
	shm_unlink(name);
	sem_unlink(name);
	mq_unlink(name);
}

static long shared;

static void *add(void *unused)
{
	for (int i = 0; i < 1000; i++)
		shared++;
	return unused;
}

int main(int argc, char **argv)
{
	const char *fault = argc > 1 ? argv[1] : "";
	struct sigaction action = { .sa_handler = count };
	char *volatile freed = malloc(16);

	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	system_v();
	posix();
	free(freed);
	if (strcmp(fault, "overrun") == 0)
		putchar(freed[3]);
	if (strcmp(fault, "race") == 0) {
		pthread_t threads[2];

		for (int i = 0; i < 2; i++)
			pthread_create(&threads[i], NULL, add, NULL);
		for (int i = 0; i < 2; i++)
			pthread_join(threads[i], NULL);
	}
	printf("handled %d\n", (int)handled);
	return 0;
}
