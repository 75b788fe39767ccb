/* A child of vfork that has the number of its parent, in a PID namespace of its own: housemate.
 * Needs root.
 *
 * It works in its parent's memory. What it closes, and its end, are not its parent's. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK = 256 << 10, BYTES = 8192 };

static int object;
static volatile bool is_namesake;
static pid_t parent;
static char *stack;

static void must(bool holds, const char *what)
{
	if (!holds) {
		perror(what);
		exit(1);
	}
}

static void await(pid_t child)
{
	int status;
	must(waitpid(child, &status, 0) == child, "waitpid");
	must(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child");
}

/* Returns when the child is over, as vfork(2) does. */
static void start_in_own_memory(int (*role)(void *))
{
	int flags = CLONE_VM | CLONE_VFORK | CLONE_NEWPID | SIGCHLD;
	pid_t child = clone(role, stack + STACK, flags, NULL);
	must(child != -1, "clone");
	await(child);
}

static int ends(void *unused)
{
	(void)unused;
	is_namesake = getpid() == parent;
	_exit(0);
}

static int closes(void *unused)
{
	(void)unused;
	close(object);
	_exit(0);
}

static int first_of_a_namespace(void)
{
	parent = getpid();
	char name[64];
	snprintf(name, sizeof name, "/housemate-%d", (int)getppid());
	shm_unlink(name);
	object = shm_open(name, O_CREAT | O_RDWR, 0600);
	must(object >= 0 && ftruncate(object, BYTES) == 0, "shm_open");
	int set = semget(IPC_PRIVATE, 1, 0600 | IPC_CREAT);
	struct sembuf up = { 0, 1, SEM_UNDO };
	must(set >= 0 && semop(set, &up, 1) == 0, "semop");

	start_in_own_memory(ends);
	int value = semctl(set, 0, GETVAL);
	start_in_own_memory(closes);
	void *seen = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, object, 0);
	must(seen != MAP_FAILED, "mmap of what the child has closed");
	*(volatile char *)seen = 1;

	semctl(set, 0, IPC_RMID);
	shm_unlink(name);
	printf("the same number: %d, the value after the child's end: %d\n", is_namesake, value);
	fflush(stdout);
	return is_namesake && value == 1 ? 0 : 1;
}

int main(void)
{
	stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(stack != MAP_FAILED, "mmap");
	must(unshare(CLONE_NEWPID) == 0, "unshare");
	pid_t child = fork();
	must(child != -1, "fork");
	if (child == 0)
		exit(first_of_a_namespace());
	await(child);
	return 0;
}
