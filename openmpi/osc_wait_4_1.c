/* Waiting for other processes of a window. Who waits makes progress: others may need it, it sees
 * that a domain of the job has died (watch.c), and it gives the CPU away where others need it
 * (backoff.c). */
#include "osc_vshmem.h"

#include "opal/runtime/opal_progress.h"

/* Looks in vain before progress is made: what is waited for often takes less time than that. */
#define SPINS 64
/* Calls between which none is made. */
#define CALLS_PER_PROGRESS 64

static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

void vshmem_window_wait(unsigned *looks)
{
	if (*looks < SPINS) {
		++*looks;
		relax();
	} else {
		opal_progress();
	}
}

void vshmem_window_pass(void)
{
	static __thread unsigned calls;
	if (OPAL_UNLIKELY(++calls % CALLS_PER_PROGRESS == 0))
		opal_progress();
}
