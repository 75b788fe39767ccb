/* Bandwidth of memory, by the four loops of McCalpin's STREAM: arrays that no cache holds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "named.h"
#include "run.h"
#include "ticks.h"

enum { COPY, SCALE, ADD, TRIAD, LOOPS };
static const char *const names[LOOPS] = { "copy", "scale", "add", "triad" };
static const int arrays_of[LOOPS] = { 2, 2, 3, 3 };
static const double factor = 3.0;

static void loop(int which, long n, double *restrict a, double *restrict b, double *restrict c)
{
	switch (which) {
	case COPY: memcpy(c, a, (size_t)n * sizeof *a); break;
	case SCALE:
		for (long i = 0; i < n; i++)
			b[i] = factor * c[i];
		break;
	case ADD:
		for (long i = 0; i < n; i++)
			c[i] = a[i] + b[i];
		break;
	default:
		for (long i = 0; i < n; i++)
			a[i] = b[i] + factor * c[i];
	}
}

int main(int argc, char **argv)
{
	long n = 4 << 20, rounds = 10, timeout = 300;
	const struct named options[] = {
		{ "n", "N", "numbers of 8 bytes in each of three arrays (default 4 Mi)", .value = &n,
			.least = 1 },
		{ "rounds", "N", "of all four loops, after one that does not count (default 10)",
			.value = &rounds, .least = 1 },
		{ "timeout", "S", "give up after S seconds (default 300)", .value = &timeout,
			.least = 1 },
		{ NULL }
	};
	read_named(argc, argv,
		"Copies, scales, adds and combines arrays, and prints bytes a second: medians of the rounds.",
		options);
	start_deadline((int)timeout);
	double *a = malloc((size_t)n * sizeof *a), *b = malloc((size_t)n * sizeof *b),
	       *c = malloc((size_t)n * sizeof *c), *took[LOOPS];
	if (a == NULL || b == NULL || c == NULL)
		give_up("no memory for three arrays of %ld numbers", n);
	for (long i = 0; i < n; i++) {
		a[i] = 1;
		b[i] = 2;
		c[i] = 0;
	}
	for (int which = 0; which < LOOPS; which++)
		if ((took[which] = malloc((size_t)rounds * sizeof **took)) == NULL)
			give_up("no memory for %ld readings", rounds);
	double expected = 1, seconds = 0;
	for (long round = -1; round < rounds; round++) {
		for (int which = 0; which < LOOPS; which++) {
			uint64_t began = now_ns();
			loop(which, n, a, b, c);
			double spent = (double)(now_ns() - began) / 1e9;
			if (round >= 0)
				seconds += took[which][round] = spent > 1e-9 ? spent : 1e-9;
		}
		expected = factor * expected + factor * (expected + factor * expected);
		if (deadline_passed)
			give_up("broken off, or not done within %ld seconds", timeout);
	}
	for (long i = 0; i < n; i++)
		if (a[i] != expected)
			give_up("number %ld is %g and not %g", i, a[i], expected);
	printf("{\"bench\":\"stream\",\"model\":\"none\",\"n\":%ld,\"ranks\":1,\"seconds\":%.9f,\"work\":%ld,\"unit\":\"round\",\"check\":0",
		n, seconds, rounds);
	for (int which = 0; which < LOOPS; which++) {
		sort(took[which], rounds);
		double bytes = (double)n * sizeof(double) * arrays_of[which];
		printf(",\"%s\":%.0f", names[which], bytes / quantile(took[which], rounds, 0.5));
	}
	printf("}\n");
	return 0;
}
