/* What the cases of locks and POSIX semaphores share. Their objects lie in a segment, so that
 * processes can share them, and a pool can have them. */
#pragma once

#include "case.h"

#include <pthread.h>
#include <semaphore.h>

/* What a call says that returns an error number. */
static inline const char *said(int error) { return error == 0 ? "0" : errno_name(error); }

static inline struct timespec from_now(clockid_t clock, long ms)
{
	struct timespec t;
	clock_gettime(clock, &t);
	t.tv_sec += ms / 1000;
	t.tv_nsec += ms % 1000 * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_nsec -= 1000000000;
		t.tv_sec++;
	} else if (t.tv_nsec < 0) {
		t.tv_nsec += 1000000000;
		t.tv_sec--;
	}
	return t;
}

enum { SOON = 30, NEVER = 3600 * 1000 }; /* milliseconds */

static inline bool has_passed(clockid_t clock, const struct timespec *t)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec != t->tv_sec ? now.tv_sec > t->tv_sec : now.tv_nsec >= t->tv_nsec;
}

static inline void a_moment(void) { nanosleep(&(struct timespec) { .tv_nsec = 1000000 }, NULL); }

/* Words beside the objects: counters, marks. */
struct page {
	union {
		sem_t sem;
		pthread_mutex_t mutex;
		pthread_rwlock_t rwlock;
		pthread_barrier_t barrier;
		pthread_spinlock_t spin;
	};
	pthread_cond_t cond;
	pthread_cond_t other;
	sem_t go;
	volatile int words[64];
};

static inline struct page *new_page(void)
{ return (struct page *)attach(segment_of(sizeof(struct page))); }

static inline struct page *sem_page(unsigned value)
{
	struct page *p = new_page();
	if (sem_init(&p->sem, 1, value) != 0)
		broken("sem_init");
	return p;
}

static inline int sem_value(sem_t *sem)
{
	int v = -1;
	if (sem_getvalue(sem, &v) != 0)
		broken("sem_getvalue");
	return v;
}

/* What a call on a semaphore said, and the value afterwards. */
static inline void tell(const char *what, int result, sem_t *sem)
{
	const char *word = got(result);
	say("%s: %s, value %d", what, word, sem_value(sem));
}

struct mutex_kind {
	int type, robust;
};

static inline struct page *mutex_page(struct mutex_kind kind)
{
	struct page *p = new_page();
	pthread_mutexattr_t a;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_settype(&a, kind.type);
	pthread_mutexattr_setrobust(&a, kind.robust);
	if (pthread_mutex_init(&p->mutex, &a) != 0)
		broken("pthread_mutex_init");
	pthread_condattr_t c;
	pthread_condattr_init(&c);
	pthread_condattr_setpshared(&c, PTHREAD_PROCESS_SHARED);
	if (pthread_cond_init(&p->cond, &c) != 0)
		broken("pthread_cond_init");
	if (sem_init(&p->go, 1, 0) != 0)
		broken("sem_init");
	return p;
}

static inline struct page *normal_mutex(void)
{ return mutex_page((struct mutex_kind) { PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED }); }

static inline struct page *robust_mutex(void)
{ return mutex_page((struct mutex_kind) { PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST }); }

/* A thread of this process that does something and ends. */
static inline void in_thread(void *(*role)(void *), void *context)
{
	pthread_t t;
	if (pthread_create(&t, NULL, role, context) != 0 || pthread_join(t, NULL) != 0)
		broken("a thread");
}
