#include "ticks.h"

#include <stdlib.h>

#include "run.h"

double ns_per_tick(void)
{
	uint64_t began = now_ns(), first = ticks(), ended;
	while ((ended = now_ns()) - began < 50000000)
		;
	return (double)(ended - began) / (double)(ticks() - first);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

void sort(double *values, long n) { qsort(values, (size_t)n, sizeof *values, by_value); }

double quantile(const double *sorted, long n, double part)
{
	long at = (long)(part * (double)n);
	if (part == 0.5 && n % 2 == 0)
		return (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
	return sorted[at < n ? at : n - 1];
}

double tick_cost(void)
{
	double cost[101];
	long n = sizeof cost / sizeof *cost;
	for (long i = 0; i < n; i++) {
		uint64_t before = ticks();
		cost[i] = (double)(ticks() - before);
	}
	sort(cost, n);
	return quantile(cost, n, 0.5);
}
