/* A library that has a lock, and keeps it over forks as allocators do. Its handlers are registered
 * before those of preloaded libraries. */
#include <pthread.h>

pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

static void before(void) { pthread_mutex_lock(&guard); }

static void after(void) { pthread_mutex_unlock(&guard); }

__attribute__((constructor)) static void begin(void) { pthread_atfork(before, after, after); }
