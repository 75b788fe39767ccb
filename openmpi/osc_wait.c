/* Waiting for other processes of a window. Who waits makes progress: others may need it, it sees
 * that a domain of the job has died (watch.c), and it gives the CPU away where others need it
 * (backoff.c). */
#include "osc_vshmem.h"

#include "../transport/tuning.h"

#include "opal/runtime/opal_progress.h"

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
	if (*looks < VSHMEM_LOOKS_PER_PROGRESS) {
		++*looks;
		relax();
	} else {
		opal_progress();
	}
}

void vshmem_window_pass(void)
{
	static __thread unsigned calls;
	if (OPAL_UNLIKELY(++calls % VSHMEM_LOOKS_PER_PROGRESS == 0))
		opal_progress();
}
