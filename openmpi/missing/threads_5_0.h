/* Open MPI 5.0's headers of threads include three that distributions do not install with them: what
 * locks, conditions and a thread's own data are where threads are the system's. */
#ifndef THREADS_5_0_H
#define THREADS_5_0_H

#include <pthread.h>
#include <sched.h>

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;
typedef pthread_key_t opal_tsd_key_t;
#define OPAL_THREAD_INTERNAL_MUTEX_INITIALIZER            PTHREAD_MUTEX_INITIALIZER
#define opal_thread_internal_mutex_init(mutex, recursive) pthread_mutex_init(mutex, NULL)
#define opal_thread_internal_mutex_lock                   pthread_mutex_lock
#define opal_thread_internal_mutex_trylock                pthread_mutex_trylock
#define opal_thread_internal_mutex_unlock                 pthread_mutex_unlock
#define opal_thread_internal_mutex_destroy                pthread_mutex_destroy
#define opal_thread_internal_cond_init(condition)         pthread_cond_init(condition, NULL)
#define opal_thread_internal_cond_signal                  pthread_cond_signal
#define opal_thread_internal_cond_destroy                 pthread_cond_destroy

static inline void opal_thread_yield(void) { sched_yield(); }

#endif
