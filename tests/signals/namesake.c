/* A child that has the number of its parent, in a PID namespace of its own: namesake. Needs root.
 *
 * Threads of the parent are in sem_open(3) at the fork. The child opens the semaphore, and does not
 * wait for a thread that it has not. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 10, THREADS = 2 };

static char name[64];
static volatile bool over;
/* Children that have their parent's number, and those that have opened the semaphore. */
static volatile int *seen;
/* How many processes rest. */
static atomic_int *resting;

static void must(bool holds, const char *what)
{
	if (!holds) {
		perror(what);
		exit(1);
	}
}

static pid_t start(void (*role)(void))
{
	pid_t child = fork();
	must(child != -1, "fork");
	if (child == 0) {
		role();
		_exit(0);
	}
	return child;
}

static void await(pid_t child)
{
	int status;
	must(waitpid(child, &status, 0) == child, "waitpid");
	must(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child");
}

static void end(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void rest(void)
{
	(*resting)++;
	for (;;)
		pause();
}

/* Starts the first process of a namespace, which rests. Killed before that it may be in the middle
 * of joining the pool, and what it leaves there stays until a namespace has its number again. */
static pid_t start_first(void)
{
	int before = *resting;
	pid_t first = start(rest);
	while (*resting == before)
		sched_yield();
	return first;
}

static void *open_and_close(void *unused)
{
	while (!over) {
		sem_t *sem = sem_open(name, 0);
		if (sem != SEM_FAILED)
			sem_close(sem);
	}
	return unused;
}

/* The second process of a namespace forks the second one of another. */
static void fork_a_namesake(void)
{
	pthread_t threads[THREADS];
	must(unshare(CLONE_NEWPID) == 0, "unshare");
	pid_t first = start_first();
	int inner = (int)syscall(SYS_pidfd_open, first, 0);
	int outer = (int)syscall(SYS_pidfd_open, getpid(), 0);
	/* As long as children go elsewhere no thread can be made. */
	must(setns(outer, CLONE_NEWPID) == 0, "setns");
	for (int i = 0; i < THREADS; i++)
		must(pthread_create(&threads[i], NULL, open_and_close, NULL) == 0, "a thread");
	must(setns(inner, CLONE_NEWPID) == 0, "setns");
	pid_t parent = getpid(), child = fork();
	must(child != -1, "fork");
	if (child == 0) {
		seen[0] += getpid() == parent;
		seen[1] += sem_open(name, 0) != SEM_FAILED;
		_exit(0);
	}
	await(child);
	over = true;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	end(first);
}

static void in_a_namespace(void)
{
	must(unshare(CLONE_NEWPID) == 0, "unshare");
	pid_t first = start_first();
	await(start(fork_a_namesake));
	end(first);
}

int main(void)
{
	seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(seen != MAP_FAILED, "mmap");
	resting = (atomic_int *)&seen[2];
	snprintf(name, sizeof name, "/namesake-%d", (int)getpid());
	must(sem_open(name, O_CREAT | O_EXCL, 0600, 1) != SEM_FAILED, "sem_open");
	for (int i = 0; i < ROUNDS; i++)
		await(start(in_a_namespace));
	sem_unlink(name);
	printf("of %d: the same number %d, opened %d\n", ROUNDS, seen[0], seen[1]);
	return seen[0] == ROUNDS && seen[1] == ROUNDS ? 0 : 1;
}
