/* The lock of the heap. By system calls of its own: a program, or another library before libc, may
 * have its own pthread_mutex_lock. */
#include "heap.h"
#include "system.h"

#include <linux/futex.h>

__thread bool heap_inside;

/* 0: free, 1: held, 2: held, and somebody sleeps. */
static uint32_t word;

void heap_lock(void)
{
	uint32_t seen = 0;
	if (__atomic_compare_exchange_n(&word, &seen, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	while (__atomic_exchange_n(&word, 2, __ATOMIC_ACQUIRE) != 0)
		heap_system(SYS_futex, (long)&word, FUTEX_WAIT_PRIVATE, 2, 0, 0, 0);
}

void heap_unlock(void)
{
	if (__atomic_exchange_n(&word, 0, __ATOMIC_RELEASE) == 2)
		heap_system(SYS_futex, (long)&word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

void heap_lock_reset(void) { __atomic_store_n(&word, 0, __ATOMIC_RELEASE); }
