/* Noise of the operating system: the same work again and again, and how much longer than the
 * fastest each took. */
#include <stdio.h>
#include <stdlib.h>

#include "named.h"
#include "run.h"
#include "ticks.h"

/* Nothing that a compiler can shorten, and nothing that touches memory. */
static uint64_t work(long steps, uint64_t seed)
{
	for (long i = 0; i < steps; i++) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
	}
	return seed;
}

int main(int argc, char **argv)
{
	long quanta = 100000, quantum = 10000, cpu = -1, timeout = 600;
	const struct named options[] = { { "quanta", "N", "how often (default 100000)",
						 .value = &quanta, .least = 10 },
		{ "work", "NS", "how long the work takes alone (default 10000)", .value = &quantum,
			.least = 100 },
		{ "cpu", "N", "pin to CPU N", .value = &cpu, .least = 0 },
		{ "timeout", "S", "give up after S seconds (default 600)", .value = &timeout,
			.least = 1 },
		{ NULL } };
	read_named(argc, argv,
		"Fixed work quanta: a histogram of what the system takes from a program that only computes.",
		options);
	pin((int)cpu);
	start_deadline((int)timeout);
	double tick = ns_per_tick(), *took = malloc((size_t)quanta * sizeof *took);
	if (took == NULL)
		give_up("no memory for %ld readings", quanta);
	/* So many steps that the fastest of some attempts takes what it should. */
	uint64_t seed = 88172645463325252u;
	double fastest = 1e18;
	enum { STEPS = 10000 };
	for (int attempt = 0; attempt < 200; attempt++) {
		uint64_t before = ticks();
		seed = work(STEPS, seed);
		double spent = (double)(ticks() - before) * tick;
		fastest = spent < fastest ? spent : fastest;
	}
	long steps = (long)(STEPS * (double)quantum / fastest);
	steps = steps < 1 ? 1 : steps;
	uint64_t start = seed, right = work(steps, seed);
	for (long i = 0; i < quanta; i++)
		took[i] = 0;
	long wrong = 0;
	uint64_t began = now_ns(), before = ticks();
	for (long i = 0; i < quanta; i++) {
		wrong += work(steps, start) != right;
		uint64_t after = ticks();
		took[i] = (double)(after - before) * tick;
		before = after;
		/* The compiler knows nothing of it: all quanta are computed. */
		__asm__ volatile("" : "+r"(start));
	}
	uint64_t ended = now_ns();
	if (deadline_passed)
		give_up("broken off, or not done within %ld seconds", timeout);
	if (wrong)
		give_up("%ld of %ld quanta came to another result", wrong, quanta);
	sort(took, quanta);
	double least = took[0], sum = 0;
	/* Buckets by powers of two: below 1 ns, below 2, below 4 ... */
	long buckets[64] = { 0 };
	int most = 0;
	for (long i = 0; i < quanta; i++) {
		double excess = took[i] - least;
		sum += excess;
		int bucket = 0;
		for (double edge = 1; excess >= edge && bucket < 63; edge *= 2)
			bucket++;
		buckets[bucket]++;
		most = bucket > most ? bucket : most;
	}
	printf("{\"bench\":\"noise\",\"model\":\"none\",\"n\":%ld,\"ranks\":1,\"seconds\":%.9f,\"work\":%ld,\"unit\":\"quantum\",\"check\":0,"
	       "\"quantum_ns\":%.1f,\"median_ns\":%.1f,\"p99_ns\":%.1f,\"max_ns\":%.1f,\"mean_ns\":%.1f,\"lost_part\":%.6f,\"histogram\":[",
		quanta, (double)(ended - began) / 1e9, quanta, least,
		quantile(took, quanta, 0.5) - least, quantile(took, quanta, 0.99) - least,
		took[quanta - 1] - least, sum / (double)quanta,
		sum / (sum + least * (double)quanta));
	for (int bucket = 0; bucket <= most; bucket++)
		printf("%s{\"below_ns\":%.0f,\"count\":%ld}", bucket ? "," : "",
			(double)(UINT64_C(1) << bucket), buckets[bucket]);
	printf("]}\n");
	return 0;
}
