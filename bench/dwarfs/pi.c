/* pi as the integral of 4 / (1 + x x) from 0 to 1 by Simpson's rule: map and reduce. */
#include <math.h>
#include <stdlib.h>

#include "../run.h"
#include "dwarf.h"

/* Pairs of intervals: n of them. */
struct integral {
	double wrong;
};

static size_t no_bytes(long n)
{
	(void)n;
	return 0;
}

static void prepare(struct work *work)
{
	work->state = calloc(1, sizeof(struct integral));
	if (work->state == NULL)
		give_up("no memory for a dwarf's state");
}

static void reset(struct work *work) { ((struct integral *)work->state)->wrong = 0; }

static inline double curve(double x) { return 4 / (1 + x * x); }

/* 4 times the middle and 2 times the end of each pair. */
EVERY_PROCESSOR
static double simpson_sum(long first, long end, double width)
{
	double sum = 0;
	for (long begin = first; begin < end; begin += 1024) {
		int count = end - begin < 1024 ? (int)(end - begin) : 1024;
		double middle = (double)(2 * begin + 1) * width, part = 0;
		for (int i = 0; i < count; i++) {
			double x = middle + (double)(2 * i) * width;
			part += 4 * curve(x) + 2 * curve(x + width);
		}
		sum += part;
	}
	return sum;
}

static long run(struct work *work, long rounds)
{
	struct integral *integral = work->state;
	struct part own = own_part(work->team, work->n);
	double width = 0.5 / (double)work->n;
	for (long round = 0; round < rounds; round++) {
		double sum = simpson_sum(own.first, own.end, width);
		team_sum(work->team, &sum, 1);
		double pi = (sum + curve(0) - curve(1)) * width / 3, off = fabs(pi - M_PI);
		integral->wrong = off <= integral->wrong ? integral->wrong : off;
	}
	return rounds;
}

static double check(struct work *work, long rounds)
{
	(void)rounds;
	return ((struct integral *)work->state)->wrong;
}

static double operations(long n) { return 13 * (double)n; }

/* Of 16 pairs the rule itself is off by 4e-11. */
const struct dwarf simpson = {
	.name = "pi",
	.does = "Simpson's rule; n: pairs of intervals",
	.unit = "flop",
	.operations = operations,
	.tolerance = 1e-9,
	.bytes = no_bytes,
	.prepare = prepare,
	.reset = reset,
	.run = run,
	.check = check,
	.smallest = 16,
};
