/* A handler interrupts shmat(2) and shmdt(2) for long, while another thread moves a part of what it
 * has attached itself. The addresses that this frees are given to the call that was interrupted:
 * what is attached there must not be taken for what has gone.
 *
 *	handlers [ROUNDS]
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <time.h>
#include <unistd.h>

#define PAGE  ((size_t)4096)
#define BYTES (8 * PAGE)
/* Where a part is moved to: nothing else is there. */
#define PLACE ((char *)((uintptr_t)1 << 44))

enum { MANY = 500 };
enum { BEGUN, SIGNALLED, IN_HANDLER, MOVED, COUNTED };

extern void (*after_mremap)(void);

static atomic_int stage, waiting, may_go;
static atomic_long attaches;

static void broken(const char *what)
{
	perror(what);
	_exit(1);
}

static void nap(long microseconds)
{
	struct timespec span = { 0, microseconds * 1000 };
	nanosleep(&span, NULL);
}

static int segment(void)
{
	int id = shmget(IPC_PRIVATE, BYTES, 0600);
	if (id == -1)
		broken("shmget");
	return id;
}

static void check(int id, int attached, const char *what)
{
	struct shmid_ds state;
	if (shmctl(id, IPC_STAT, &state) != 0)
		broken("IPC_STAT");
	if ((int)state.shm_nattch != attached) {
		printf("%s: %d attaches, not %d\n", what, (int)state.shm_nattch, attached);
		fflush(stdout);
		_exit(1);
	}
}

/* Until the other thread has moved a part, and the kernel alone knows. */
static void handler(int signal)
{
	(void)signal;
	stage = IN_HANDLER;
	for (int i = 0; i < 1000 && stage == IN_HANDLER; i++)
		nap(100);
}

/* The kernel has moved a part: the interrupted call goes on. One that is kept waiting gets its
 * attach later. */
static void wait_for_attach(void)
{
	long before = attaches;
	stage = MOVED;
	for (int i = 0; i < 100 && attaches == before; i++)
		nap(100);
}

static void *attach(void *unused)
{
	int id = segment();
	for (;;) {
		while (!may_go) {
			waiting = 1;
			sched_yield();
		}
		char *at = shmat(id, NULL, 0);
		if (at == (void *)-1)
			broken("shmat");
		attaches++;
		while (stage == MOVED)
			sched_yield();
		check(id, 1, "attached beside a change");
		if (shmdt(at) != 0)
			broken("shmdt");
		check(id, 0, "detached beside a change");
	}
	return unused;
}

static void stop(void)
{
	may_go = 0;
	waiting = 0;
	while (!waiting)
		sched_yield();
}

static void round_of(pthread_t other, int id)
{
	/* It attaches below this, and again there and in what is free above. */
	char *at = shmat(id, NULL, 0);
	if (at == (void *)-1)
		broken("shmat");
	may_go = 1;
	nap(rand() % 1000);
	stage = SIGNALLED;
	pthread_kill(other, SIGUSR1);
	while (stage == SIGNALLED)
		sched_yield();
	if (mremap(at, BYTES / 2, BYTES / 2, MREMAP_MAYMOVE | MREMAP_FIXED, PLACE) != PLACE)
		broken("mremap");
	stage = COUNTED;
	check(id, 2, "a part moved");
	/* The other thread looks at its attach while the part is there. */
	stop();
	if (munmap(PLACE, BYTES / 2) != 0 || munmap(at + BYTES / 2, BYTES / 2) != 0)
		broken("munmap");
	check(id, 0, "unmapped");
}

/* New mappings lie below all others from now on, each next to the last. */
static void fill_gaps(void)
{
	char *last = NULL;
	for (int next_to = 0; next_to < 16;) {
		char *at = mmap(NULL, BYTES, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (at == MAP_FAILED)
			broken("mmap");
		next_to = at + BYTES == last ? next_to + 1 : 0;
		last = at;
	}
}

/* A pool keeps no detached mappings after that, which the next attach would get. */
static void keep_nothing(int id)
{
	char *at = shmat(id, NULL, 0);
	if (at == (void *)-1 || madvise(at, PAGE, MADV_RANDOM) != 0)
		broken("madvise");
	check(id, 2, "a part with advice");
	if (shmdt(at) != 0)
		broken("shmdt");
}

/* The more segments a process has attached, the longer a pool takes to count the first attach of
 * another one: most handlers then come while the addresses are not yet given. */
static void attach_many(void)
{
	for (int i = 0; i < MANY; i++) {
		int id = segment();
		if (shmat(id, NULL, 0) == (void *)-1)
			broken("one of many");
		shmctl(id, IPC_RMID, NULL);
	}
}

int main(int count, char **words)
{
	int rounds = count > 1 ? atoi(words[1]) : 100, id = segment();
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
	sigaction(SIGUSR1, &action, NULL);
	attach_many();
	keep_nothing(id);
	pthread_t other;
	if (pthread_create(&other, NULL, attach, NULL) != 0)
		broken("pthread_create");
	stop();
	fill_gaps();
	after_mremap = wait_for_attach;
	for (int nth = 0; nth < rounds; nth++)
		round_of(other, id);
	printf("%d rounds, %ld attaches\n", rounds, (long)attaches);
	fflush(stdout);
	shmctl(id, IPC_RMID, NULL);
	return 0;
}
