/* Under `vshmem run --share ...`: whose locks and semaphores are, which their address says alone.
 *
 *   locks pool    the kinds are shared: in the pool's memory the C library's code touches no
 *                 object, what was never initialised there for several processes is EINVAL, and so
 *                 is one whose mark a member has taken away or replaced
 *   locks libc    they are not: the C library's locks work in a segment
 *
 * Exits 0, or says what is wrong and exits 1. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 4, BYTES = PAGES * PAGE };

static const char *place = "";
static int segment = -1;

static void check(bool holds, const char *what, long detail)
{
	if (holds)
		return;
	fprintf(stderr, "locks: %s: %s (%ld)\n", place, what, detail);
	if (segment != -1)
		shmctl(segment, IPC_RMID, NULL);
	_exit(1);
}

/* ---- every call, on an object ---- */

static struct timespec passed;
static pthread_mutex_t own_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t own_cond = PTHREAD_COND_INITIALIZER;

/* The error of a call that returns -1 and errno. */
static int failed(int result) { return result == -1 ? errno : result; }

static int destroyed_by_c11(void *m)
{
	mtx_destroy(m);
	return thrd_error;
}

static int forgotten_by_c11(void *c)
{
	cnd_destroy(c);
	return thrd_error;
}

/* C11's answer for what is EINVAL elsewhere. */
static int c11(int result) { return result == thrd_error ? EINVAL : 1000 + result; }

static int ignored;
enum { MOST_CALLS = 16 };

/* Makes all calls on an object, and says how many there are. */
#define CALLS(name, type, ...)                                               \
	static int name(void *object, int *results)                          \
	{                                                                    \
		type *o = object;                                            \
		int all[] = { __VA_ARGS__ };                                 \
		memcpy(results, all, sizeof all);                            \
		return sizeof all / sizeof *all;                             \
	}
typedef int calls_fn(void *object, int *results);

CALLS(mutex_calls, pthread_mutex_t, pthread_mutex_lock(o), pthread_mutex_trylock(o),
	pthread_mutex_timedlock(o, &passed), pthread_mutex_clocklock(o, CLOCK_MONOTONIC, &passed),
	pthread_mutex_unlock(o), pthread_mutex_consistent(o),
	pthread_mutex_getprioceiling(o, &ignored),
	pthread_mutex_setprioceiling(o, 1, &ignored),
	pthread_cond_timedwait(&own_cond, o, &passed),
	pthread_mutex_destroy(o), pthread_mutex_init(o, NULL))
CALLS(cond_calls, pthread_cond_t, pthread_cond_signal(o), pthread_cond_broadcast(o),
	pthread_cond_wait(o, &own_mutex), pthread_cond_timedwait(o, &own_mutex, &passed),
	pthread_cond_clockwait(o, &own_mutex, CLOCK_MONOTONIC, &passed), pthread_cond_destroy(o),
	pthread_cond_init(o, NULL))
CALLS(rwlock_calls, pthread_rwlock_t, pthread_rwlock_rdlock(o), pthread_rwlock_tryrdlock(o),
	pthread_rwlock_timedrdlock(o, &passed),
	pthread_rwlock_clockrdlock(o, CLOCK_MONOTONIC, &passed), pthread_rwlock_wrlock(o),
	pthread_rwlock_trywrlock(o), pthread_rwlock_timedwrlock(o, &passed),
	pthread_rwlock_clockwrlock(o, CLOCK_MONOTONIC, &passed), pthread_rwlock_unlock(o),
	pthread_rwlock_destroy(o), pthread_rwlock_init(o, NULL))
CALLS(barrier_calls, pthread_barrier_t, pthread_barrier_wait(o), pthread_barrier_destroy(o),
	pthread_barrier_init(o, NULL, 1))
CALLS(semaphore_calls, sem_t, failed(sem_post(o)), failed(sem_trywait(o)), failed(sem_wait(o)),
	failed(sem_timedwait(o, &passed)), failed(sem_clockwait(o, CLOCK_MONOTONIC, &passed)),
	failed(sem_getvalue(o, &ignored)), failed(sem_destroy(o)), failed(sem_init(o, 0, 1)))
CALLS(c11_mutex_calls, mtx_t, c11(mtx_lock(o)), c11(mtx_trylock(o)),
	c11(mtx_timedlock(o, &passed)), c11(mtx_unlock(o)), c11(destroyed_by_c11(o)),
	c11(mtx_init(o, mtx_plain)))
CALLS(c11_cond_calls, cnd_t, c11(cnd_signal(o)), c11(cnd_broadcast(o)),
	c11(cnd_wait(o, (mtx_t *)&own_mutex)),
	c11(cnd_timedwait(o, (mtx_t *)&own_mutex, &passed)), c11(forgotten_by_c11(o)),
	c11(cnd_init(o)))

static const struct {
	const char *name;
	calls_fn *calls;
	size_t bytes;
} kinds[] = {
	{ "mutex", mutex_calls, sizeof(pthread_mutex_t) },
	{ "condition variable", cond_calls, sizeof(pthread_cond_t) },
	{ "read-write lock", rwlock_calls, sizeof(pthread_rwlock_t) },
	{ "barrier", barrier_calls, sizeof(pthread_barrier_t) },
	{ "semaphore", semaphore_calls, sizeof(sem_t) },
	{ "C11 mutex", c11_mutex_calls, sizeof(mtx_t) },
	{ "C11 condition variable", c11_cond_calls, sizeof(cnd_t) },
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Every call on these bytes is EINVAL and changes none of them: nothing of the C library's has run
 * on them. A child makes the calls, since what runs there instead may never end. */
static void refuse(int kind, void *at, const char *what)
{
	char text[96];
	snprintf(text, sizeof text, "%s: %s", kinds[kind].name, what);
	pid_t child = fork();
	if (child == 0) {
		unsigned char before[64];
		alarm(20);
		memcpy(before, at, kinds[kind].bytes);
		int results[MOST_CALLS], calls = kinds[kind].calls(at, results);
		for (int n = 0; n < calls; n++)
			check(results[n] == EINVAL, text, n * 1000 + results[n]);
		check(memcmp(before, at, kinds[kind].bytes) == 0, text, -1);
		_exit(0);
	}
	int status;
	waitpid(child, &status, 0);
	check(WIFEXITED(status) && WEXITSTATUS(status) == 0, text, status);
}

/* ---- in the pool's memory ---- */

static void make_mutex(pthread_mutex_t *m, int robust)
{
	pthread_mutexattr_t a;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, robust);
	check(pthread_mutex_init(m, &a) == 0, "pthread_mutex_init", 0);
}

static void make(int kind, void *at)
{
	pthread_condattr_t c;
	pthread_rwlockattr_t r;
	pthread_barrierattr_t b;
	switch (kind) {
	case 0: make_mutex(at, PTHREAD_MUTEX_ROBUST); break;
	case 1:
		pthread_condattr_init(&c);
		pthread_condattr_setpshared(&c, PTHREAD_PROCESS_SHARED);
		check(pthread_cond_init(at, &c) == 0, "pthread_cond_init", 0);
		check(pthread_cond_signal(at) == 0, "pthread_cond_signal", 0);
		break;
	case 2:
		pthread_rwlockattr_init(&r);
		pthread_rwlockattr_setpshared(&r, PTHREAD_PROCESS_SHARED);
		check(pthread_rwlock_init(at, &r) == 0, "pthread_rwlock_init", 0);
		check(pthread_rwlock_wrlock(at) == 0 && pthread_rwlock_unlock(at) == 0,
			"pthread_rwlock_wrlock", 0);
		break;
	case 3:
		pthread_barrierattr_init(&b);
		pthread_barrierattr_setpshared(&b, PTHREAD_PROCESS_SHARED);
		check(pthread_barrier_init(at, &b, 1) == 0, "pthread_barrier_init", 0);
		check(pthread_barrier_wait(at) == PTHREAD_BARRIER_SERIAL_THREAD,
			"pthread_barrier_wait", 0);
		break;
	default:
		check(sem_init(at, 1, 1) == 0 && sem_wait(at) == 0 && sem_post(at) == 0, "sem_init",
			errno);
	}
}

/* Kinds that glibc gives a mutex: shared, robust, of inherited and of protected priority. */
static const uint32_t glibcs_kinds[] = { 0, 0x80, 0x90, 0x10, 0xa0, 0xb0, 0xc0, 0x20, 0x30, 0x40,
	0x81, 0x92 };
enum { KIND_AT = 16, GLIBCS = sizeof glibcs_kinds / sizeof *glibcs_kinds };

static void in_pool(char *at, const char *where)
{
	place = where;
	for (int kind = 0; kind < KINDS; kind++) {
		memset(at, 0, 64);
		refuse(kind, at, "all zero, as libc's static initialiser");
		memset(at, 0xff, 64);
		refuse(kind, at, "all ones");
		for (int i = 0; kind == 0 && i < GLIBCS; i++) {
			memset(at, 0, 64);
			memcpy(at + KIND_AT, &glibcs_kinds[i], sizeof glibcs_kinds[i]);
			refuse(kind, at, "of a kind of glibc's");
		}
		if (kind > 4)
			continue;
		make(kind, at);
		for (int i = 0; kind == 0 && i < GLIBCS; i++) {
			make(kind, at);
			memcpy(at + KIND_AT, &glibcs_kinds[i], sizeof glibcs_kinds[i]);
			refuse(kind, at, "its mark replaced");
		}
		/* Whichever word the mark is in. */
		for (size_t word = 0; word < kinds[kind].bytes; word += 8) {
			uint64_t mark;
			make(kind, at);
			memcpy(&mark, at + word, sizeof mark);
			if ((mark & 0xffffffff) >> 16 != 0x5653 && mark >> 32 != 0xd6ad766d)
				continue;
			memset(at + word, 0, sizeof mark);
			refuse(kind, at, "its mark taken away");
		}
		make(kind, at);
	}
	pthread_mutex_t *m = (pthread_mutex_t *)at;
	make(0, at);
	check(pthread_mutex_lock(m) == 0 && pthread_mutex_unlock(m) == 0, "a mutex of the pool's",
		0);
}

static void *hold(void *mutex)
{
	check(pthread_mutex_lock(mutex) == 0, "lock of a robust mutex", 0);
	const uint32_t robust = 0x90;
	memcpy((char *)mutex + KIND_AT, &robust, sizeof robust);
	return NULL;
}

/* A thread ends that holds a robust mutex whose mark was replaced since. */
static void end_of_a_thread(char *at)
{
	unsigned char list[2 * sizeof(void *)];
	pthread_t t;
	place = "end of a thread";
	make(0, at);
	check(pthread_create(&t, NULL, hold, at) == 0 && pthread_join(t, NULL) == 0, "a thread", 0);
	memset(list, 0, sizeof list);
	check(memcmp(at + KIND_AT + 8, list, sizeof list) == 0, "an address was left", 0);
	refuse(0, at, "left by a thread");
}

/* ---- in memory that is not the pool's ---- */

static void outside_of_pool(char *at, const char *where)
{
	static const pthread_mutex_t fixed = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_t *m = (pthread_mutex_t *)at;
	pthread_cond_t *c = (pthread_cond_t *)at;
	pthread_rwlock_t *r = (pthread_rwlock_t *)at;
	sem_t *s = (sem_t *)at;
	mtx_t *mtx = (mtx_t *)at;
	place = where;
	for (int turn = 0; turn < 3; turn++) {
		memcpy(m, &fixed, sizeof fixed);
		check(pthread_mutex_lock(m) == 0 && pthread_mutex_trylock(m) == EBUSY
		                && pthread_mutex_unlock(m) == 0,
			"mutex with a static initialiser", 0);
		make_mutex(m, PTHREAD_MUTEX_ROBUST);
		check(pthread_mutex_lock(m) == 0 && pthread_mutex_unlock(m) == 0, "robust mutex", 0);
		check(pthread_cond_init(c, NULL) == 0 && pthread_cond_broadcast(c) == 0
		                && pthread_cond_destroy(c) == 0,
			"condition variable", 0);
		check(pthread_rwlock_init(r, NULL) == 0 && pthread_rwlock_wrlock(r) == 0
		                && pthread_rwlock_tryrdlock(r) == EBUSY
		                && pthread_rwlock_unlock(r) == 0,
			"read-write lock", 0);
		check(sem_init(s, turn, 1) == 0 && sem_wait(s) == 0 && sem_trywait(s) == -1
		                && errno == EAGAIN && sem_post(s) == 0,
			"semaphore", errno);
		check(mtx_init(mtx, mtx_plain) == thrd_success && mtx_lock(mtx) == thrd_success
		                && mtx_unlock(mtx) == thrd_success,
			"C11 mutex", 0);
	}
}

static char *attach(void *where, int flags)
{
	char *at = shmat(segment, where, flags);
	check(at != (void *)-1, "shmat", errno);
	return at;
}

static char *own(void *where)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | (where ? MAP_FIXED : 0);
	char *at = mmap(where, BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
	check(at != MAP_FAILED, "mmap", errno);
	return at;
}

static void *lock_often(void *mutex)
{
	for (int i = 0; i < 200000; i++)
		check(pthread_mutex_lock(mutex) == 0 && pthread_mutex_unlock(mutex) == 0,
			"a private mutex while others attach", i);
	return NULL;
}

static void pool(void)
{
	char *before = own(NULL), *first = attach(NULL, 0), *between = own(NULL),
	     *second = attach(NULL, 0), *behind = own(NULL), *there = own(NULL);
	in_pool(first, "attached");
	in_pool(second + BYTES - 64, "attached again, at the end");
	outside_of_pool(before, "memory before the attaches");
	outside_of_pool(between, "memory between the attaches");
	outside_of_pool(behind, "memory behind the attaches");
	end_of_a_thread(first);

	munmap(there, BYTES);
	check(attach(there, 0) == there, "shmat at an address", 0);
	in_pool(there, "attached at an address");
	check(attach(between, SHM_REMAP) == between, "SHM_REMAP", 0);
	in_pool(between, "attached over memory");
	own(between);
	outside_of_pool(between, "memory over an attach");
	/* One page of an attach is the program's, the others are the pool's. */
	check(mmap(first + PAGE, PAGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
	                == first + PAGE,
		"mmap", errno);
	outside_of_pool(first + PAGE, "memory inside of an attach");
	in_pool(first + 2 * PAGE, "behind a hole");
	in_pool(first + PAGE - 64, "before a hole");
	memset(first + PAGE - 16, 0, 16);
	place = "over the edge of an attach";
	for (int kind = 0; kind < KINDS; kind++)
		refuse(kind, first + PAGE - 16, "not whole in the pool");

	char *moved = mremap(second, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, own(NULL));
	check(moved != MAP_FAILED, "mremap", errno);
	in_pool(moved, "moved");
	check(mprotect(moved, PAGE, PROT_READ) == 0
	                && mprotect(moved, PAGE, PROT_READ | PROT_WRITE) == 0,
		"mprotect", errno);
	in_pool(moved, "protected and not");

	check(shmdt(there) == 0, "shmdt", errno);
	own(there);
	outside_of_pool(there, "memory where something was attached");

	static pthread_mutex_t private = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_t *mutexes[] = { &private, (pthread_mutex_t *)behind,
		(pthread_mutex_t *)(first + PAGE) };
	pthread_t threads[3];
	for (int i = 0; i < 3; i++)
		*mutexes[i] = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, lock_often, mutexes[i]);
	for (int i = 0; i < 2000; i++) {
		char *at = attach(NULL, 0);
		check(mprotect(at, PAGE, PROT_READ) == 0 && shmdt(at) == 0, "shmdt", errno);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

/* The kinds are not shared: locks in segments are the C library's, whatever pools are. */
static void libc(void)
{
	char *at = attach(NULL, 0);
	outside_of_pool(at, "a segment, and locks are not shared");
}

int main(int argc, char **argv)
{
	const char *part = argc > 1 ? argv[1] : "";
	segment = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
	check(segment != -1, "shmget", errno);
	if (strcmp(part, "pool") == 0)
		pool();
	else if (strcmp(part, "libc") == 0)
		libc();
	else
		return 2;
	shmctl(segment, IPC_RMID, NULL);
	return 0;
}
