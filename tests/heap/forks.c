/* A program that forks while its threads allocate: each child has the memory of its parent as it
 * was, and neither sees what the other stores later.
 *   forks [CHILDREN [fork|_Fork]] */
#define _GNU_SOURCE
#include "heap.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 12, THREADS = 3 };

static uint32_t *block[BLOCKS];
static size_t bytes_of(int nth)
{ return (size_t)(nth % 2 ? 70000 : 1000) * (size_t)(nth + 1) / 4 * 4; }

/* What a library keeps under a lock, and takes in its handlers around a fork: both halves are the
 * same whenever the lock is free. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t *halves;
enum { HALF = 40000 };
static void take(void) { pthread_mutex_lock(&lock); }
static void let_go(void) { pthread_mutex_unlock(&lock); }
static int ends;

static void *allocate(void *argument)
{
	uint32_t random = (uint32_t)(uintptr_t)argument;
	while (!__atomic_load_n(&ends, __ATOMIC_RELAXED)) {
		random = random * 1664525 + 1013904223;
		size_t bytes = (random >> 12) % 400000 / 4 * 4 + 4;
		uint32_t *mine = malloc(bytes);
		fill(mine, bytes, random);
		pthread_mutex_lock(&lock);
		for (int nth = 0; nth < HALF; nth++)
			halves[nth] = halves[HALF + nth] = random + (uint32_t)nth;
		pthread_mutex_unlock(&lock);
		if (!is_filled(mine, bytes, random))
			abort();
		free(mine);
	}
	return NULL;
}

static int blocks_hold(uint32_t seed)
{
	for (int nth = 0; nth < BLOCKS; nth++)
		if (!is_filled(block[nth], bytes_of(nth), seed + (uint32_t)nth))
			return 0;
	return 1;
}

static void fill_blocks(uint32_t seed)
{
	for (int nth = 0; nth < BLOCKS; nth++)
		fill(block[nth], bytes_of(nth), seed + (uint32_t)nth);
}

/* Exit status 0: all is as it was in the parent, and stays so. `allocates`: it may. */
static int child(uint32_t seed, int go, int done, int allocates)
{
	char byte;
	/* The parent stores first. */
	if (read(go, &byte, 1) != 1 || !blocks_hold(seed))
		return 1;
	if (allocates && memcmp(halves, halves + HALF, HALF * 4) != 0)
		return 2;
	fill_blocks(77);
	if (write(done, "", 1) != 1 || read(go, &byte, 1) != 1 || !blocks_hold(77))
		return 3;
	if (!allocates)
		return 0;
	void *more = malloc(300000);
	if (!more || in_pool(more))
		return 4;
	block[1] = realloc(block[1], bytes_of(1) + 500000);
	if (!blocks_hold(77))
		return 5;
	/* A grandchild. */
	pid_t grandchild = fork();
	if (grandchild == 0)
		_exit(!blocks_hold(77));
	int status;
	for (int nth = 0; nth < BLOCKS; nth++)
		free(block[nth]);
	return waitpid(grandchild, &status, 0) != grandchild || status != 0 ? 6 : 0;
}

static void one(uint32_t seed, pid_t (*make)(void))
{
	int go[2], done[2], status = -1;
	char byte;
	CHECK(pipe(go) == 0 && pipe(done) == 0);
	fill_blocks(seed);
	pid_t made = make();
	if (made == 0) {
		close(go[1]);
		close(done[0]);
		_exit(child(seed, go[0], done[1], make == fork));
	}
	close(go[0]);
	close(done[1]);
	CHECK(made > 0);
	fill_blocks(seed + 1000);
	CHECK(write(go[1], "", 1) == 1 && read(done[0], &byte, 1) == 1);
	CHECK(blocks_hold(seed + 1000));
	fill_blocks(seed + 2000);
	CHECK(write(go[1], "", 1) == 1);
	CHECK(waitpid(made, &status, 0) == made);
	if (status != 0)
		printf("child %u: status %#x\n", seed, status);
	CHECK(status == 0);
	CHECK(blocks_hold(seed + 2000));
	close(go[1]);
	close(done[0]);
}

/* A child that is none of fork's shares the heap, and takes nothing of it. */
static void cloned(void)
{
	int status;
	long made = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (made == 0) {
		void *more = malloc(300000);
		_exit(in_pool(more) || !blocks_hold(1));
	}
	CHECK(waitpid((pid_t)made, &status, 0) == made && status == 0);
}

/* vfork's child shares its parent's memory, and what is built on it works. */
static void shared(void)
{
	int status;
	uint32_t before = block[1][0];
	pid_t made = vfork();
	if (made == 0) {
		block[1][0] = before + 1;
		_exit(0);
	}
	CHECK(waitpid(made, &status, 0) == made && block[1][0] == before + 1);
	block[1][0] = before;
	CHECK(system("exit 3") >> 8 == 3);
	FILE *said = popen("echo yes", "r");
	char line[10] = "";
	CHECK(said && fgets(line, sizeof(line), said) && strcmp(line, "yes\n") == 0);
	pclose(said);
}

/* No memory for the copy: ENOMEM, and nothing else has changed. */
static void without_memory(void)
{
	struct rlimit limit, before;
	char *large = malloc(20 << 20);
	getrlimit(RLIMIT_AS, &before);
	CHECK(in_pool(large));
	limit = before;
	limit.rlim_cur = 1 << 20;
	setrlimit(RLIMIT_AS, &limit);
	pid_t made = fork();
	int error = errno;
	setrlimit(RLIMIT_AS, &before);
	if (made == 0)
		_exit(1);
	CHECK(made == -1 && error == ENOMEM);
	free(large);
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	int children = argc > 1 ? atoi(argv[1]) : 100;
	pid_t (*make)(void) = argc > 2 && strcmp(argv[2], "_Fork") == 0 ? _Fork : fork;
	pthread_t thread[THREADS];
	/* In the pool. */
	halves = calloc(HALF * 2, 4);
	CHECK(in_pool(halves));
	pthread_atfork(take, let_go, let_go);
	for (int nth = 0; nth < BLOCKS; nth++)
		block[nth] = malloc(bytes_of(nth));
	for (int nth = 0; nth < THREADS; nth++)
		pthread_create(&thread[nth], NULL, allocate, (void *)(uintptr_t)(nth + 1));
	for (int nth = 0; nth < children && !failed; nth++)
		one((uint32_t)nth, make);
	ends = 1;
	for (int nth = 0; nth < THREADS; nth++)
		pthread_join(thread[nth], NULL);
	fill_blocks(1);
	cloned();
	shared();
	without_memory();
	one(1, make);
	return failed;
}
