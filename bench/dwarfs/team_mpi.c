/* A team of MPI's processes: each has arrays of its own, and what others need of them is sent. */
#include <limits.h>
#include <mpi.h>

#include "../run.h"
#include "team.h"

void team_barrier(struct team *team)
{
	if (team->ranks > 1)
		MPI_Barrier(MPI_COMM_WORLD);
}

void team_sum(struct team *team, double *values, int count)
{
	if (team->ranks > 1)
		MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

void team_gather(struct team *team, void *array, size_t element_bytes, long n)
{
	if (team->ranks == 1)
		return;
	/* In words of which all elements consist, as counts are ints. */
	size_t word = element_bytes % 8 == 0 ? 8 : 4, words = element_bytes / word;
	if ((double)words * (double)n > INT_MAX)
		give_up("MPI cannot gather %ld elements of %zu bytes", n, element_bytes);
	int counts[MOST_RANKS], begins[MOST_RANKS];
	for (int rank = 0; rank < team->ranks; rank++) {
		struct part part = part_of(n, rank, team->ranks);
		begins[rank] = (int)(part.first * (long)words);
		counts[rank] = (int)((part.end - part.first) * (long)words);
	}
	MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, array, counts, begins,
		word == 8 ? MPI_DOUBLE : MPI_FLOAT, MPI_COMM_WORLD);
}

void team_halo(struct team *team, void *rows, size_t row_bytes, long n)
{
	if (team->ranks == 1)
		return;
	struct part own = own_part(team, n);
	char *first = (char *)rows + (size_t)(own.first + 1) * row_bytes,
	     *last = (char *)rows + (size_t)own.end * row_bytes;
	/* More ranks than rows: a rank that has none is no neighbour, and neither is one that has
	 * none beyond. */
	int up = MPI_PROC_NULL, down = MPI_PROC_NULL;
	if (own.first < own.end) {
		for (int rank = 0; rank < team->ranks; rank++) {
			struct part part = part_of(n, rank, team->ranks);
			if (part.first < part.end && part.end == own.first)
				up = rank;
			if (part.first < part.end && part.first == own.end)
				down = rank;
		}
	}
	int bytes = (int)row_bytes;
	MPI_Sendrecv(first, bytes, MPI_BYTE, up, 1, last + row_bytes, bytes, MPI_BYTE, down, 1,
		MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Sendrecv(last, bytes, MPI_BYTE, down, 2, first - row_bytes, bytes, MPI_BYTE, up, 2,
		MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
