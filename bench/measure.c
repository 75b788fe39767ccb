#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ticks.h"

/* What one reading of the clock adds to the time between two readings: median of a few. */
static double clock_cost(void)
{
	double cost[21];
	size_t n = sizeof cost / sizeof *cost;
	uint64_t before = now_ns();
	for (size_t i = 0; i < n; i++) {
		uint64_t after = now_ns();
		cost[i] = (double)(after - before);
		before = after;
	}
	sort(cost, (long)n);
	return cost[n / 2];
}

static uint64_t cpu_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Times rounds one by one, and prints what part of them took no longer than what: every hundredth,
 * every thousandth of the last, the longest. Returns the members, to be freed; "" without --each. */
static char *each_round(const struct run *run, rounds_fn *rounds, void *context, uint64_t done)
{
	enum { ROOM = 4096 };
	char *text = calloc(1, ROOM);
	double *took = calloc((size_t)run->each + 1, sizeof *took);
	if (text == NULL || took == NULL)
		give_up("no memory for %ld readings", run->each);
	if (run->each == 0) {
		free(took);
		return text;
	}
	memset(took, 1, ((size_t)run->each + 1) * sizeof *took);
	double tick = ns_per_tick(), cost = tick_cost();
	for (long i = 0; i < run->each; i++) {
		uint64_t before = ticks();
		rounds(context, done + (uint64_t)i, 1);
		rounds_done++;
		double spent = (double)(ticks() - before) - cost;
		took[i] = (spent > 0 ? spent : 0) * tick;
		if (deadline_passed)
			give_up("broken off, or nothing was done for %d seconds", run->timeout);
	}
	sort(took, run->each);
	int used = snprintf(text, ROOM, ",\"each\":{\"rounds\":%ld,\"clock_ns\":%.1f,\"quantiles\":[",
		run->each, cost * tick);
	for (int part = 10; part <= 1000; part += part < 990 ? 10 : 1)
		used += snprintf(text + used, (size_t)(ROOM - used), "%s[%.3f,%.1f]",
			part == 10 ? "" : ",", part / 1000.0, quantile(took, run->each, part / 1000.0));
	snprintf(text + used, (size_t)(ROOM - used), "]}");
	free(took);
	return text;
}

void measure(const struct run *run, rounds_fn *rounds, void *context, const uint64_t *lost)
{
	size_t n = (size_t)run->batches;
	uint64_t per_batch = (uint64_t)(run->rounds / run->batches), done = (uint64_t)run->warmup;
	double *batch = calloc(n, sizeof *batch), sum = 0;
	if (batch == NULL)
		give_up("no memory for %zu batches", n);
	rounds(context, 0, done);
	rounds_done++;
	double clock = clock_cost();
	uint64_t cpu = cpu_ns(), before = now_ns();
	for (size_t i = 0; i < n; i++, done += per_batch) {
		rounds(context, done, per_batch);
		uint64_t after = now_ns();
		rounds_done++;
		if (deadline_passed)
			give_up("broken off, or nothing was done for %d seconds", run->timeout);
		double spent = (double)(after - before) - clock;
		batch[i] = (spent > 0 ? spent : 0) / (double)per_batch;
		sum += batch[i];
		before = after;
	}
	cpu = cpu_ns() - cpu;
	sort(batch, (long)n);
	struct reading reading = {
		.rounds = (uint64_t)run->rounds,
		.lost = lost ? *lost : 0,
		.batches = n,
		.median = n % 2 ? batch[n / 2] : (batch[n / 2 - 1] + batch[n / 2]) / 2,
		.min = batch[0],
		.p99 = batch[(n * 99 + 99) / 100 - 1],
		.mean = sum / (double)n,
		.clock = clock,
	};
	char *each = each_round(run, rounds, context, done), more[4200];
	snprintf(more, sizeof more, ",\"cpu_ns\":%.1f%s", (double)cpu / (double)run->rounds, each);
	print_reading(run, &reading, more);
	free(each);
	free(batch);
}
