/* POSIX semaphores and process-shared locks that are free: they lie in a segment, and so in the
 * pool under `vshmem run --share all,posix`. */
#include <pthread.h>
#include <semaphore.h>
#include <sys/ipc.h>
#include <sys/shm.h>

#include "calls.h"

enum { SENTINEL = 7 };

/* Whatever is measured, in a segment that goes with this process. */
union object {
	sem_t semaphore;
	pthread_mutex_t mutex;
	pthread_rwlock_t rwlock;
};

static union object *in_segment(void)
{
	int segment = shmget(IPC_PRIVATE, sizeof(union object), 0600);
	if (segment == -1)
		give_up_creating("shmget");
	union object *at = shmat(segment, NULL, 0);
	shmctl(segment, IPC_RMID, NULL);
	if (at == (void *)-1)
		give_up_call("shmat");
	return at;
}

static void semaphore_rounds(void *context, uint64_t first, uint64_t count)
{
	sem_t *semaphore = context;
	(void)first;
	while (count--)
		if (sem_post(semaphore) != 0 || sem_wait(semaphore) != 0)
			give_up_call("sem_post or sem_wait");
}

void posix_semaphore(const struct request *request)
{
	union object *o = in_segment();
	int value;
	if (sem_init(&o->semaphore, 1, SENTINEL) != 0)
		give_up_call("sem_init");
	measure(&request->run, semaphore_rounds, &o->semaphore, NULL);
	if (sem_getvalue(&o->semaphore, &value) != 0 || value != SENTINEL)
		give_up("the semaphore is %d after as many posts as waits from %d", value,
			SENTINEL);
}

static void mutex_rounds(void *context, uint64_t first, uint64_t count)
{
	pthread_mutex_t *mutex = context;
	(void)first;
	while (count--)
		if (pthread_mutex_lock(mutex) != 0 || pthread_mutex_unlock(mutex) != 0)
			give_up("pthread_mutex_lock or unlock has failed");
}

static void measure_mutex(
	const struct request *request, pthread_mutex_t *mutex, int shared, int robust)
{
	pthread_mutexattr_t attributes;
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, shared);
	pthread_mutexattr_setrobust(&attributes, robust);
	if (pthread_mutex_init(mutex, &attributes) != 0)
		give_up("pthread_mutex_init has failed");
	measure(&request->run, mutex_rounds, mutex, NULL);
	if (pthread_mutex_trylock(mutex) != 0)
		give_up("the mutex is not free after as many unlocks as locks");
}

void shared_mutex(const struct request *request)
{ measure_mutex(request, &in_segment()->mutex, PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_STALLED); }

void robust_mutex(const struct request *request)
{ measure_mutex(request, &in_segment()->mutex, PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_ROBUST); }

/* The C library's own, whatever lies in the pool. */
void private_mutex(const struct request *request)
{
	static pthread_mutex_t mutex;
	measure_mutex(request, &mutex, PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_STALLED);
}

static void rwlock_rounds(void *context, uint64_t first, uint64_t count)
{
	pthread_rwlock_t *lock = context;
	(void)first;
	while (count--)
		if (pthread_rwlock_rdlock(lock) != 0 || pthread_rwlock_unlock(lock) != 0)
			give_up("pthread_rwlock_rdlock or unlock has failed");
}

void shared_rwlock(const struct request *request)
{
	pthread_rwlockattr_t attributes;
	pthread_rwlock_t *lock = &in_segment()->rwlock;
	pthread_rwlockattr_init(&attributes);
	pthread_rwlockattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	if (pthread_rwlock_init(lock, &attributes) != 0)
		give_up("pthread_rwlock_init has failed");
	measure(&request->run, rwlock_rounds, lock, NULL);
	if (pthread_rwlock_trywrlock(lock) != 0)
		give_up("the lock is not free after as many unlocks as locks");
}
