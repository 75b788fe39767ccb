/* Forks beside threads that attach, detach, map and change mappings under a lock which a library's
 * fork handlers take. forks [COUNT]
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE  4096
#define BYTES (16 * PAGE)

extern pthread_mutex_t guard;

static atomic_int over;
static int segment;
static char *shared;

static void broken(const char *what)
{
	perror(what);
	_exit(1);
}

/* Mutexes are not fair: who forks must come by this one, too. */
static void leave_to_others(void)
{
	pthread_mutex_unlock(&guard);
	usleep(100);
}

static void *attach(void *unused)
{
	while (!over) {
		pthread_mutex_lock(&guard);
		char *at = shmat(segment, NULL, 0);
		if (at == (void *)-1 || shmdt(at) != 0)
			broken("attach and detach");
		leave_to_others();
	}
	return unused;
}

static void *map(void *unused)
{
	while (!over) {
		pthread_mutex_lock(&guard);
		char *at = mmap(
			NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (at == MAP_FAILED || munmap(at, BYTES) != 0)
			broken("map and unmap");
		leave_to_others();
	}
	return unused;
}

static void *change(void *unused)
{
	while (!over)
		if (mprotect(shared + PAGE, PAGE, PROT_READ) != 0
		        || mprotect(shared + PAGE, PAGE, PROT_READ | PROT_WRITE) != 0)
			broken("mprotect");
	return unused;
}

static void *change_guarded(void *unused)
{
	while (!over) {
		pthread_mutex_lock(&guard);
		if (mprotect(shared + 3 * PAGE, PAGE, PROT_READ) != 0
		        || mprotect(shared + 3 * PAGE, PAGE, PROT_READ | PROT_WRITE) != 0)
			broken("mprotect");
		leave_to_others();
	}
	return unused;
}

int main(int count, char **words)
{
	int forks = count > 1 ? atoi(words[1]) : 200;
	void *(*works[])(void *) = { attach, map, change, change_guarded };
	pthread_t threads[sizeof(works) / sizeof(works[0])];
	segment = shmget(IPC_PRIVATE, BYTES, 0600 | IPC_CREAT);
	shared = shmat(segment, NULL, 0);
	if (segment == -1 || shared == (void *)-1)
		broken("a segment");
	for (size_t nth = 0; nth < sizeof(works) / sizeof(works[0]); nth++)
		pthread_create(&threads[nth], NULL, works[nth], NULL);
	for (int nth = 0; nth < forks; nth++) {
		pid_t child = fork();
		if (child == -1)
			broken("fork");
		if (child == 0) {
			/* What the child has in its addresses, it has attached. */
			shared[0]++;
			_exit(shmdt(shared) == 0 ? 0 : 2);
		}
		int status;
		if (waitpid(child, &status, 0) != child || status != 0)
			broken("a child");
	}
	over = 1;
	for (size_t nth = 0; nth < sizeof(works) / sizeof(works[0]); nth++)
		pthread_join(threads[nth], NULL);
	struct shmid_ds state;
	if (shmctl(segment, IPC_STAT, &state) != 0 || shmdt(shared) != 0
	        || shmctl(segment, IPC_RMID, NULL) != 0)
		broken("the end");
	return 0;
}
