/* The processor's own clock: some nanoseconds to read, also in a User Mode Linux guest, where the
 * kernel's takes 40 us. */
#ifndef TICKS_H
#define TICKS_H

#include <stdint.h>

static inline uint64_t ticks(void)
{
#if defined(__x86_64__)
	/* The fence: what came before is done. */
	__builtin_ia32_lfence();
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t now;
	__asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(now)::"memory");
	return now;
#else
#error "no clock is known for this processor"
#endif
}

/* Compares both clocks for 50 ms. */
double ns_per_tick(void);
/* What one reading adds to the time between two: the median of a few, in ticks. */
double tick_cost(void);

/* The value below which that part of n sorted ones lies: 0.5 is the median. */
double quantile(const double *sorted, long n, double part);
void sort(double *values, long n);

#endif
