/* How long messages take while one of two processes leaves the pool and joins it again.
 *
 *   gap FILE      goes on until FILE is there
 *
 * Rank 0 and rank 1 send 8 bytes to and fro. Rank 0 prints, for every 20 ms or so, half the median
 * of its rounds, and the longest, in microseconds: "round MEDIAN LONGEST".
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLES = 2000 };

/* A guest's clock takes longer than a message. */
static uint64_t ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

static double ticks_per_microsecond(void)
{
	double began = MPI_Wtime();
	uint64_t from = ticks();
	while (MPI_Wtime() - began < 0.2)
		continue;
	return (double)(ticks() - from) / ((MPI_Wtime() - began) * 1e6);
}

static int compare(const void *left, const void *right)
{
	uint64_t one = *(const uint64_t *)left, other = *(const uint64_t *)right;
	return (one > other) - (one < other);
}

static void ask(double each)
{
	static uint64_t samples[SAMPLES];
	long word = 1;
	uint64_t longest = 0, began = ticks(), at = began;
	size_t count = 0;
	while ((double)(at - began) < 20000 * each) {
		MPI_Send(&word, 1, MPI_LONG, 1, 0, MPI_COMM_WORLD);
		MPI_Recv(&word, 1, MPI_LONG, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		uint64_t now = ticks(), took = now - at;
		at = now;
		longest = took > longest ? took : longest;
		if (count < SAMPLES)
			samples[count++] = took;
	}
	qsort(samples, count, sizeof(samples[0]), compare);
	printf("round %.3f %.1f\n", (double)samples[count / 2] / each / 2, (double)longest / each);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int rank;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	long word = 1;
	if (argc > 1 && rank == 0) {
		double each = ticks_per_microsecond();
		while (access(argv[1], F_OK) != 0)
			ask(each);
		word = 0;
		MPI_Send(&word, 1, MPI_LONG, 1, 0, MPI_COMM_WORLD);
	}
	while (rank == 1 && word) {
		MPI_Recv(&word, 1, MPI_LONG, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (word)
			MPI_Send(&word, 1, MPI_LONG, 0, 0, MPI_COMM_WORLD);
	}
	MPI_Finalize();
	return 0;
}
