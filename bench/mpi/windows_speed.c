/* One-sided calls on a window of MPI_Win_allocate, from each process of the first half to its
 * partner in the other. Prints one line for each measurement:
 *
 *   put|get|accumulate|get_accumulate|fetch_and_op|compare_and_swap BYTES window NANOSECONDS
 *       one call and a flush, between MPI_Win_lock_all and MPI_Win_unlock_all
 *   puts BYTES window NANOSECONDS         a call of 64 before a flush
 *   lock|fence|post BYTES window NANOSECONDS        one put between two of these
 *
 * Each is that of the fastest of up to sixty short repetitions, and is timed by the CPU's counter:
 * reading a clock takes 15 us in some guests. Usage: windows_speed [quick|full]
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../ticks.h"
#include "repeat.h"

enum { LARGEST = 4 << 20 };
static double per_second; /* ticks of the counter */
static MPI_Win win;
static char *own, *result;
static MPI_Group with_partner;

static void calibrate(void)
{
	double began = MPI_Wtime(), now;
	uint64_t from = ticks();
	while ((now = MPI_Wtime()) - began < 0.05)
		;
	per_second = (double)(ticks() - from) / (now - began);
}

static void put(int bytes)
{
	MPI_Put(own, bytes, MPI_BYTE, partner, 0, bytes, MPI_BYTE, win);
	MPI_Win_flush(partner, win);
}

static void get(int bytes)
{
	MPI_Get(own, bytes, MPI_BYTE, partner, 0, bytes, MPI_BYTE, win);
	MPI_Win_flush(partner, win);
}

static void accumulate(int bytes)
{
	MPI_Accumulate(own, bytes / 8, MPI_INT64_T, partner, 0, bytes / 8, MPI_INT64_T, MPI_SUM,
		win);
	MPI_Win_flush(partner, win);
}

static void get_accumulate(int bytes)
{
	MPI_Get_accumulate(own, bytes / 8, MPI_INT64_T, result, bytes / 8, MPI_INT64_T, partner, 0,
		bytes / 8, MPI_INT64_T, MPI_SUM, win);
	MPI_Win_flush(partner, win);
}

static void fetch_and_op(int bytes)
{
	(void)bytes;
	MPI_Fetch_and_op(own, result, MPI_INT64_T, partner, 0, MPI_SUM, win);
	MPI_Win_flush(partner, win);
}

static void compare_and_swap(int bytes)
{
	(void)bytes;
	MPI_Compare_and_swap(own, own + 8, result, MPI_INT64_T, partner, 0, win);
	MPI_Win_flush(partner, win);
}

static void puts_in_flight(int bytes)
{
	static int under_way;
	MPI_Put(own, bytes, MPI_BYTE, partner, 0, bytes, MPI_BYTE, win);
	if (++under_way % UNDER_WAY == 0)
		MPI_Win_flush(partner, win);
}

static void lock(int bytes)
{
	MPI_Win_lock(MPI_LOCK_SHARED, partner, 0, win);
	MPI_Put(own, bytes, MPI_BYTE, partner, 0, bytes, MPI_BYTE, win);
	MPI_Win_unlock(partner, win);
}

static void fence(int bytes)
{
	if (first)
		MPI_Put(own, bytes, MPI_BYTE, partner, 0, bytes, MPI_BYTE, win);
	MPI_Win_fence(0, win);
}

static void post(int bytes)
{
	if (first) {
		MPI_Win_start(with_partner, 0, win);
		MPI_Put(own, bytes, MPI_BYTE, partner, 0, bytes, MPI_BYTE, win);
		MPI_Win_complete(win);
	} else {
		MPI_Win_post(with_partner, 0, win);
		MPI_Win_wait(win);
	}
}

typedef void work(int bytes);
enum { PASSIVE, LOCKING, TOGETHER };

struct call {
	work *todo;
	int how, bytes;
};

/* Seconds of so many calls, the mean of those who make them. */
static double timed(const void *what, int rounds)
{
	const struct call *call = what;
	double mine = 0, all;
	MPI_Barrier(MPI_COMM_WORLD);
	if (first || call->how == TOGETHER) {
		uint64_t began = ticks();
		for (int round = 0; round < rounds; round++)
			call->todo(call->bytes);
		mine = (double)(ticks() - began) / per_second;
	}
	if (!first)
		mine = 0;
	MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	return all / (ranks / 2);
}

static void measure(const char *name, work *todo, int how, int bytes)
{
	if (how == PASSIVE)
		MPI_Win_lock_all(0, win);
	if (how == TOGETHER && todo == fence)
		MPI_Win_fence(0, win);
	struct call call = { todo, how, bytes };
	double fastest = fastest_of(timed, &call);
	if (how == PASSIVE)
		MPI_Win_unlock_all(win);
	if (rank == 0) {
		printf("%s %d window %.1f\n", name, bytes, fastest * 1e9);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	int full = argc > 1 && strcmp(argv[1], "full") == 0;
	begin(&argc, &argv, "windows_speed", full);
	calibrate();
	char *base;
	MPI_Group world;
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, 1, &partner, &with_partner);
	MPI_Win_allocate(LARGEST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
	own = calloc(1, LARGEST);
	result = calloc(1, LARGEST);
	memset(base, 0, LARGEST);
	memset(own, 1, LARGEST);
	memset(result, 1, LARGEST);
	MPI_Barrier(MPI_COMM_WORLD);
	static const int sizes[] = { 8, 1024, 65536, 1 << 20, 4 << 20 };
	for (size_t nth = 0; nth < sizeof(sizes) / sizeof(sizes[0]) - !full; nth++) {
		int bytes = sizes[nth];
		measure("put", put, PASSIVE, bytes);
		measure("get", get, PASSIVE, bytes);
		measure("accumulate", accumulate, PASSIVE, bytes);
		measure("get_accumulate", get_accumulate, PASSIVE, bytes);
		if (bytes != 8)
			continue;
		measure("fetch_and_op", fetch_and_op, PASSIVE, bytes);
		measure("puts", puts_in_flight, PASSIVE, bytes);
		measure("lock", lock, LOCKING, bytes);
		measure("fence", fence, TOGETHER, bytes);
		measure("post", post, TOGETHER, bytes);
	}
	/* Last: over btl/vader osc/rdma of Open MPI 4.1.4 crashes in it. */
	measure("compare_and_swap", compare_and_swap, PASSIVE, 8);
	MPI_Group_free(&with_partner);
	MPI_Group_free(&world);
	MPI_Win_free(&win);
	free(own);
	free(result);
	MPI_Finalize();
}
