/* What processes that work side by side for a while tell each other. */
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include "calls.h"

struct arena *make_arena(long processes, size_t more)
{
	if (processes > MOST_PROCESSES)
		give_up("--processes is at most %d", MOST_PROCESSES);
	struct arena *arena = mmap(NULL, sizeof *arena + more, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (arena == MAP_FAILED)
		give_up_call("mmap");
	return arena;
}

uint64_t let_work(struct arena *arena, long milliseconds)
{
	uint64_t begin = now_ns();
	struct timespec left = { milliseconds / 1000, milliseconds % 1000 * 1000000 };
	while (nanosleep(&left, &left) != 0)
		if (deadline_passed)
			give_up_call("nanosleep");
	atomic_store(&arena->stop, true);
	return now_ns() - begin;
}

uint64_t sum_of_done(const struct tally *tallies, long n)
{
	uint64_t sum = 0;
	for (long i = 0; i < n; i++)
		sum += tallies[i].done;
	return sum;
}

double smallest_share(const struct tally *tallies, long n)
{
	uint64_t least = UINT64_MAX, sum = sum_of_done(tallies, n);
	for (long i = 0; i < n; i++)
		least = tallies[i].done < least ? tallies[i].done : least;
	return sum == 0 ? 0 : (double)least * (double)n / (double)sum;
}

void tell_shared(const struct request *request, uint64_t wall, uint64_t done, double share)
{
	if (done == 0)
		give_up("no client got anything done in %ld ms", request->milliseconds);
	double each = (double)wall / (double)done;
	struct reading reading = {
		.rounds = done, .batches = 1, .median = each, .mean = each, .min = each, .p99 = each
	};
	char more[128];
	snprintf(more, sizeof more, ",\"cpu_ns\":%.1f,\"smallest_share\":%.4f",
		(double)cpu_ns_of_children() / (double)done, share);
	print_reading(&request->run, &reading, more);
}
