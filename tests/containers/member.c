/* What runs in the test's containers: unchanged System V IPC on keys that both containers know.
 *   member hold     makes a segment and a set, takes the semaphore with SEM_UNDO, attaches, says "ready" and waits
 *   member wait     does nothing at all
 *   member look     prints the segment's text, its attaches and the semaphore's value */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <unistd.h>

#define KEY 0x626f7865
#define BYTES 4096

static int failed(const char *what)
{
	perror(what);
	return 1;
}

static int look(int segment, int set)
{
	struct shmid_ds status;
	const char *text = shmat(segment, NULL, SHM_RDONLY);

	if (text == (void *)-1)
		return failed("shmat");
	if (shmctl(segment, IPC_STAT, &status) != 0)
		return failed("shmctl");
	printf("text %s, attaches %lu, semaphore %d\n", text, (unsigned long)status.shm_nattch,
	       semctl(set, 0, GETVAL));
	return 0;
}

static int hold(int segment, int set)
{
	struct sembuf give = { .sem_num = 0, .sem_op = 1, .sem_flg = SEM_UNDO };
	char *text = shmat(segment, NULL, 0);

	if (text == (void *)-1)
		return failed("shmat");
	strcpy(text, "from-the-first");
	if (semop(set, &give, 1) != 0)
		return failed("semop");
	printf("ready\n");
	fflush(stdout);
	return 0;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";
	int segment, set;

	while (strcmp(verb, "wait") == 0)
		pause();
	segment = shmget(KEY, BYTES, IPC_CREAT | 0666);
	set = semget(KEY, 1, IPC_CREAT | 0666);
	if (segment < 0 || set < 0)
		return failed("shmget or semget");
	if (strcmp(verb, "look") == 0)
		return look(segment, set);
	if (hold(segment, set) != 0)
		return 1;
	for (;;)
		pause();
}
