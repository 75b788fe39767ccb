/* Uses process-shared locks of all kinds in a segment while a member forges them: no call may crash
 * it, change memory of its own, or wait for what no thread of this program can end. Calls may fail.
 *
 *   locker    until the arena says stop
 *
 * Exits 0; 42 when its own memory was changed. */
#include "arena.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = 64, THREADS = 6 };
static const uint64_t secret = 0x5ec2e7;

static struct arena *arena;
static __thread volatile uint64_t block[WORDS];
static volatile uint64_t data[WORDS];
static volatile unsigned long calls;
static atomic_int running = THREADS;

static void fill(volatile uint64_t *words)
{
	for (int i = 0; i < WORDS; i++)
		words[i] = secret + i;
}

static void look(volatile uint64_t *words, const char *what)
{
	for (int i = 0; i < WORDS; i++)
		if (words[i] != secret + i) {
			fprintf(stderr, "locker: %s was changed: %#lx\n", what, words[i]);
			_exit(42);
		}
}

static struct timespec *soon(struct timespec *t)
{
	clock_gettime(CLOCK_REALTIME, t);
	t->tv_nsec += 200000;
	if (t->tv_nsec >= 1000000000) {
		t->tv_nsec -= 1000000000;
		t->tv_sec++;
	}
	return t;
}

static void make(int i)
{
	pthread_mutexattr_t m;
	pthread_condattr_t c;
	pthread_rwlockattr_t r;
	pthread_barrierattr_t b;
	pthread_mutexattr_init(&m);
	pthread_condattr_init(&c);
	pthread_rwlockattr_init(&r);
	pthread_barrierattr_init(&b);
	pthread_mutexattr_setpshared(&m, PTHREAD_PROCESS_SHARED);
	pthread_condattr_setpshared(&c, PTHREAD_PROCESS_SHARED);
	pthread_rwlockattr_setpshared(&r, PTHREAD_PROCESS_SHARED);
	pthread_barrierattr_setpshared(&b, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&arena->each[i].normal, &m);
	pthread_mutexattr_setrobust(&m, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&arena->each[i].robust, &m);
	pthread_cond_init(&arena->each[i].cond, &c);
	pthread_rwlock_init(&arena->each[i].rwlock, &r);
	pthread_barrier_init(&arena->each[i].barrier, &b, 1);
	sem_init(&arena->each[i].sem, 1, 1);
}

static void use_mutex(pthread_mutex_t *m)
{
	struct timespec t;
	int locked = pthread_mutex_timedlock(m, soon(&t));
	if (locked == EOWNERDEAD)
		pthread_mutex_consistent(m);
	if (locked == 0 || locked == EOWNERDEAD)
		pthread_mutex_unlock(m);
}

/* Calls that have a bound. */
static void use(int i, unsigned turn)
{
	struct timespec t;
	switch (turn % 6) {
	case 0: use_mutex(&arena->each[i].robust); break;
	case 1: use_mutex(&arena->each[i].normal); break;
	case 2:
		pthread_cond_signal(&arena->each[i].cond);
		pthread_cond_broadcast(&arena->each[i].cond);
		break;
	case 3:
		if (pthread_rwlock_timedrdlock(&arena->each[i].rwlock, soon(&t)) == 0)
			pthread_rwlock_unlock(&arena->each[i].rwlock);
		break;
	case 4:
		if (pthread_rwlock_timedwrlock(&arena->each[i].rwlock, soon(&t)) == 0)
			pthread_rwlock_unlock(&arena->each[i].rwlock);
		break;
	default:
		if (sem_timedwait(&arena->each[i].sem, soon(&t)) == 0)
			sem_post(&arena->each[i].sem);
	}
}

/* Those that have none: a member may make up an owner who lives, or threads that are to come. Two
 * threads alone make them. */
static void use_without_bound(int i, uintptr_t thread)
{
	struct timespec t;
	if (thread == 0) {
		pthread_barrier_wait(&arena->each[i].barrier);
	} else if (pthread_mutex_timedlock(&arena->each[i].normal, soon(&t)) == 0) {
		pthread_cond_timedwait(&arena->each[i].cond, &arena->each[i].normal, soon(&t));
		pthread_mutex_unlock(&arena->each[i].normal);
	}
}

/* A thread that ends with a robust mutex of its own. */
static void *hold(void *mutex)
{
	struct timespec t;
	pthread_mutex_timedlock(mutex, soon(&t));
	return NULL;
}

static void *work(void *number)
{
	unsigned seed = (unsigned)(uintptr_t)number;
	fill(block);
	if ((uintptr_t)number < 4)
		arena->targets[4 + (uintptr_t)number] = (uint64_t)&block[WORDS / 2];
	while (!arena->stop) {
		for (int turn = 0; turn < 64 && !arena->stop; turn++) {
			if ((uintptr_t)number < 2)
				use_without_bound(rand_r(&seed) % OF_EACH, (uintptr_t)number);
			else
				use(rand_r(&seed) % OF_EACH, rand_r(&seed));
			calls++;
		}
		look(block, "the block of a thread");
		look(data, "data");
		pthread_t t;
		pthread_mutex_t *robust = &arena->each[rand_r(&seed) % OF_EACH].robust;
		if (rand_r(&seed) % 8 == 0 && pthread_create(&t, NULL, hold, robust) == 0)
			pthread_join(t, NULL);
		/* What has no mark any more is made again. */
		if ((uintptr_t)number == 2)
			make(rand_r(&seed) % OF_EACH);
	}
	running--;
	return NULL;
}

/* Held by nobody, and a thread waits: one that the member has let wait for an owner goes on. */
static void set_mutex_free(int i)
{
	*(volatile uint64_t *)&arena->each[i].normal = 1;
	pthread_mutex_unlock(&arena->each[i].normal);
}

int main(void)
{
	static const uint64_t magic[] = ARENA_MAGIC;
	int segment = shmget(IPC_PRIVATE, sizeof *arena, IPC_CREAT | 0600);
	arena = shmat(segment, NULL, 0);
	if (segment == -1 || arena == (void *)-1) {
		perror("locker: a segment");
		return 1;
	}
	shmctl(segment, IPC_RMID, NULL);
	for (int i = 0; i < OF_EACH; i++)
		make(i);
	fill(data);
	uint64_t *heap = malloc(WORDS * sizeof *heap);
	fill(heap);
	arena->targets[0] = (uint64_t)&data[WORDS / 2];
	arena->targets[1] = (uint64_t)&heap[WORDS / 2];
	arena->targets[2] = (uint64_t)pthread_self();
	arena->targets[3] = (uint64_t)&segment;
	memcpy(arena->magic, magic, sizeof magic);
	arena->ready = 1;
	pthread_t threads[THREADS];
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)i) != 0)
			return 1;
	const struct timespec a_moment = { .tv_nsec = 1000000 };
	for (bool are_made = false; running;) {
		bool are_to_be_made = arena->stop && !are_made;
		for (int i = 0; i < OF_EACH; i++) {
			if (are_to_be_made)
				make(i);
			set_mutex_free(i);
			/* The next round: this thread alone is what it takes. */
			if (arena->stop)
				pthread_barrier_wait(&arena->each[i].barrier);
		}
		are_made = are_made || are_to_be_made;
		nanosleep(&a_moment, NULL);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	look(heap, "the heap");
	look(data, "data");
	printf("%lu calls\n", calls);
	return 0;
}
