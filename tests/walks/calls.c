// The calls that are walked, each between two breakpoints, on a pool and after all that happens
// only once: calls WALK
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Messages that fill the ring of a queue (RING_SLOTS of vshmem_wire).
enum { KEY = 0x77616c6b, RING = 8, TEXT = 64 };

#define WALKED(call) \
	do { \
		__asm__ volatile("int3"); \
		must(call); \
		__asm__ volatile("int3"); \
	} while (0)

static int must(int result)
{
	if (result == -1) {
		perror("calls");
		exit(1);
	}
	return result;
}

// What is done once a second at most is not due in a walk, after the calls that come before it.
static void await_second(void)
{
	time_t begun = time(NULL);
	while (time(NULL) == begun)
		;
}

static void shmget_of_key(void)
{
	int id = must(shmget(KEY, 4096, IPC_CREAT | 0600));
	await_second();
	must(shmget(KEY, 4096, 0));
	WALKED(shmget(KEY, 4096, 0));
	must(shmctl(id, IPC_RMID, NULL));
}

static int operate(int id, int change, int flags)
{
	struct sembuf operation = { 0, (short)change, (short)flags };
	return semop(id, &operation, 1);
}

static void semop_that_does_not_wait(void)
{
	int id = must(semget(IPC_PRIVATE, 1, 0600));
	await_second();
	must(operate(id, 1, 0));
	WALKED(operate(id, -1, 0));
	must(semctl(id, 0, IPC_RMID));
}

static char state_of(pid_t process)
{
	char name[64], line[512] = "";
	snprintf(name, sizeof name, "/proc/%d/stat", (int)process);
	FILE *stat = fopen(name, "r");
	if (!stat)
		return 0;
	char *end = fgets(line, sizeof line, stat) ? strrchr(line, ')') : NULL;
	fclose(stat);
	return end ? end[2] : 0;
}

// Until a process has slept for a while. It is not asked by its set: that would take the set's
// lock, from a thread that the tracer delays.
static void await_sleep(pid_t process)
{
	for (int looks = 0; looks < 10; looks++) {
		usleep(20000);
		if (state_of(process) != 'S')
			looks = -1;
	}
}

// Lets a thread go on that has gone to sleep, so often.
static void let_go(int id, int times)
{
	while (times--) {
		await_sleep(getppid());
		must(operate(id, 1, 0));
	}
	_exit(0);
}

static void semop_that_sleeps(int flags)
{
	enum { WARM = 6 };
	int id = must(semget(IPC_PRIVATE, 1, 0600)), status;
	pid_t child = must(fork());
	if (child == 0)
		let_go(id, WARM + 1);
	await_second();
	for (int i = 0; i < WARM; i++)
		must(operate(id, -1, flags));
	WALKED(operate(id, -1, flags));
	must(waitpid(child, &status, 0));
	must(semctl(id, 0, IPC_RMID));
}

static struct {
	long type;
	char text[TEXT];
} message = { 1, "" };

static int send(int id)
{
	return msgsnd(id, &message, TEXT, 0);
}

static int queue_of(int messages)
{
	int id = must(msgget(IPC_PRIVATE, 0600));
	while (messages--)
		must(send(id));
	return id;
}

// The ring has room, and each of its slots keeps a chunk for messages.
static void msgsnd_at_once(void)
{
	int id = queue_of(0);
	await_second();
	for (int i = 0; i < 2 * RING; i++) {
		must(send(id));
		must((int)msgrcv(id, &message, TEXT, 0, 0));
	}
	WALKED(send(id));
	must(msgctl(id, IPC_RMID, NULL));
}

// The ring is full, so that it is closed, and the message goes to the list behind those of it.
static void msgsnd_to_full_ring(void)
{
	int other = queue_of(RING + 2), id = queue_of(RING);
	await_second();
	must(send(other));
	WALKED(send(id));
	must(msgctl(id, IPC_RMID, NULL));
	must(msgctl(other, IPC_RMID, NULL));
}

// There are messages in the list already.
static void msgsnd_to_list(void)
{
	int id = queue_of(RING + 2);
	await_second();
	must(send(id));
	WALKED(send(id));
	must(msgctl(id, IPC_RMID, NULL));
}

// Killed with an adjustment, with a segment attached, and asleep. The agent is stopped, so its
// parent finds it.
static pid_t victim(int set, int segment)
{
	pid_t child = must(fork());
	if (child == 0) {
		if (shmat(segment, NULL, 0) == (void *)-1)
			_exit(1);
		must(operate(set, 1, SEM_UNDO));
		must(operate(set, -2, 0));
		_exit(1);
	}
	await_sleep(child);
	must(kill(child, SIGKILL));
	while (state_of(child) != 'Z')
		usleep(1000);
	return child;
}

static void death_of_child(void)
{
	int set = must(semget(IPC_PRIVATE, 1, 0600));
	int segment = must(shmget(IPC_PRIVATE, 4096, 0600));
	int status;
	must(waitpid(victim(set, segment), &status, 0));
	pid_t child = victim(set, segment);
	WALKED(waitpid(child, &status, 0));
	must(semctl(set, 0, IPC_RMID));
	must(shmctl(segment, IPC_RMID, NULL));
}

int main(int arguments, char **argument)
{
	const char *walk = arguments == 2 ? argument[1] : "";
	if (!strcmp(walk, "shmget"))
		shmget_of_key();
	else if (!strcmp(walk, "semop"))
		semop_that_does_not_wait();
	else if (!strcmp(walk, "semop-sleeps"))
		semop_that_sleeps(0);
	else if (!strcmp(walk, "semop-undo-sleeps"))
		semop_that_sleeps(SEM_UNDO);
	else if (!strcmp(walk, "msgsnd"))
		msgsnd_at_once();
	else if (!strcmp(walk, "msgsnd-full-ring"))
		msgsnd_to_full_ring();
	else if (!strcmp(walk, "msgsnd-list"))
		msgsnd_to_list();
	else if (!strcmp(walk, "death"))
		death_of_child();
	else
		return 2;
	return 0;
}
