/* Giving the CPU away where others need it.
 *
 * Nobody tells a process in a guest, or in a network namespace, that it shares its CPU with others.
 * It finds out. As long as the pool has no more users in this kernel than there are CPUs, nobody yields:
 * what runs beside them is none of their job's. (A yield takes 40 us in a User Mode Linux guest.) When it
 * has more, a yield that takes much longer than the shortest so far has let one of them run, and the
 * next one comes sooner; one that comes back at once was for nothing, and the next one comes later.
 */
#include "btl_vshmem.h"

#include <sched.h>
#include <time.h>
#include <unistd.h>

/* Looks in vain before a yield: where others wait for this CPU, and where hardly anybody does. */
#define LEAST 16
#define MOST 4096
/* Looks in vain before it is asked how many there are. */
#define ASK (1 << 16)

static inline uint64_t ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t count;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
	return count;
#else
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
#endif
}

/* More processes than CPUs? They come one after the other, so this is asked again. */
static bool crowded(void)
{
	static long cpus;
	if (!cpus)
		cpus = sysconf(_SC_NPROCESSORS_ONLN);
	return vshmem_btl.pool && vshmem_neighbours(vshmem_btl.pool) > cpus;
}

void vshmem_patience(int events)
{
	static unsigned idle, limit = MOST, next_asked;
	static uint64_t shortest = UINT64_MAX;
	static bool is_crowded;
	if (events) {
		idle = 0;
		return;
	}
	if (++idle < limit)
		return;
	idle = 0;
	if (next_asked < limit) {
		is_crowded = crowded();
		next_asked = ASK;
	}
	next_asked -= limit;
	if (!is_crowded)
		return;
	uint64_t before = ticks();
	sched_yield();
	uint64_t took = ticks() - before;
	if (took < shortest)
		shortest = took;
	if (took > 8 * shortest)
		limit = limit > 2 * LEAST ? limit / 2 : LEAST;
	else if (limit < MOST)
		limit *= 2;
}
