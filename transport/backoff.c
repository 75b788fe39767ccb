/* Giving the CPU away where others need it.
 *
 * No kernel tells a process in a guest, or in a container, that it shares its CPU with others. It
 * finds out. As long as the pool has no more users in this kernel, in all its containers, than
 * there are CPUs, no process yields: what runs beside them is none of their job's. (A yield takes
 * 40 us in a User Mode Linux guest.) When it has more, a process that polls without success yields,
 * and when that did not help either, sleeps: a scheduler that is fair lets a process that only
 * yields have its whole share again and again. The more share a CPU, the longer they sleep.
 *
 * Only what comes through the pool is seen here. That messages come another way, within the kernel,
 * shows in looks that take longer than looks in vain do.
 */
#include "backoff.h"

#include "tuning.h"

#include <sched.h>
#include <time.h>
#include <unistd.h>

uint64_t vshmem_ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t count;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
	/* Of 1 GHz at most, and usually much slower. */
	return count * 16;
#else
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
#endif
}

/* Processes for each CPU. They come one after the other, so this is asked again. */
static long processes_per_cpu(const vshmem_pool *pool)
{
	static long cpus;
	if (!cpus)
		cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int processes = vshmem_neighbours(pool);
	return cpus > 0 && processes > cpus ? (processes + cpus - 1) / cpus : 1;
}

void vshmem_backoff_start(struct vshmem_backoff *backoff, vshmem_pool *pool)
{
	*backoff = (struct vshmem_backoff) {
		.pool = pool, .each = 1, .sleep = VSHMEM_FIRST_SLEEP, .shortest = UINT64_MAX / 2
	};
}

/* After as many looks in vain as are made between yields and sleeps. */
static void give_away(struct vshmem_backoff *backoff)
{
	uint64_t now = vshmem_ticks(), took = now - backoff->began;
	/* It is forgotten in time: looks were shorter before other transports were there to look
	 * at. */
	backoff->shortest = took < backoff->shortest
		? took
		: backoff->shortest + backoff->shortest / 256 + 1;
	if (took / 4 > backoff->shortest) {
		backoff->waiting_since = 0;
		backoff->sleep = VSHMEM_FIRST_SLEEP;
		return;
	}
	backoff->given_away++;
	if (backoff->waiting_since == 0)
		backoff->waiting_since = backoff->began;
	if (now - backoff->waiting_since < VSHMEM_YIELDING) {
		sched_yield();
		return;
	}
	struct timespec span = { .tv_nsec = backoff->sleep };
	nanosleep(&span, NULL);
	if (backoff->sleep < backoff->each * VSHMEM_LONGEST_SLEEP_EACH)
		backoff->sleep *= 2;
}

void vshmem_backoff(struct vshmem_backoff *backoff, int events)
{
	/* Collective calls wait elsewhere, and look in vain here. */
	uint64_t arrived = events ? backoff->arrivals : vshmem_team_arrivals();
	if (events || arrived != backoff->arrivals) {
		backoff->arrivals = arrived;
		backoff->looks = 0;
		backoff->waiting_since = 0;
		backoff->sleep = VSHMEM_FIRST_SLEEP;
		return;
	}
	if (++backoff->looks < VSHMEM_LOOKS_PER_YIELD) {
		if (backoff->looks == 1 && backoff->each > 1)
			backoff->began = vshmem_ticks();
		return;
	}
	backoff->looks = 0;
	if (backoff->until_asked < VSHMEM_LOOKS_PER_YIELD) {
		/* Who has left a pool keeps what it knew. */
		if (backoff->pool)
			backoff->each = processes_per_cpu(backoff->pool);
		backoff->until_asked = VSHMEM_LOOKS_PER_COUNT;
		backoff->began = 0;
	}
	backoff->until_asked -= VSHMEM_LOOKS_PER_YIELD;
	if (backoff->each > 1 && backoff->began != 0)
		give_away(backoff);
}
