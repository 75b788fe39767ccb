/* First processes of PID namespaces that are killed at any moment while they join a pool:
 * short_lived. Needs root. The next namespace may have the number of the one before. */
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 120, LATEST_US = 600 };

static void must(bool holds, const char *what)
{
	if (!holds) {
		perror(what);
		exit(1);
	}
}

/* A child of this process is the first one of a namespace. It is on the pool as soon as it is
 * there: what its parent has attached is attached to it. */
static void in_a_namespace(int round)
{
	must(unshare(CLONE_NEWPID) == 0, "unshare");
	pid_t first = fork();
	must(first != -1, "fork");
	if (first == 0)
		for (;;)
			pause();
	usleep((useconds_t)(round * LATEST_US / ROUNDS));
	must(kill(first, SIGKILL) == 0 && waitpid(first, NULL, 0) == first, "the end of a child");
	_exit(0);
}

int main(void)
{
	int segment = shmget(IPC_PRIVATE, 4096, 0600 | IPC_CREAT);
	must(segment != -1 && shmat(segment, NULL, 0) != (void *)-1, "a segment");
	for (int round = 0; round < ROUNDS; round++) {
		pid_t child = fork();
		must(child != -1, "fork");
		if (child == 0)
			in_a_namespace(round);
		int status;
		must(waitpid(child, &status, 0) == child && status == 0, "a child");
	}
	must(shmctl(segment, IPC_RMID, NULL) == 0, "IPC_RMID");
	return 0;
}
