/* The ranks that compute together. What a dwarf's source knows of a programming model is this page.
 * The models, of which a program links one: team.c (System V and pools), team_vshmem.c (the same by
 * the library's calls), team_openmp.c, and team_mpi.c. */
#ifndef TEAM_H
#define TEAM_H

#include <stddef.h>

enum { MOST_RANKS = 64, MOST_VALUES = 7 };

struct team {
	int rank, ranks;
	unsigned char
		*arena; /* where arrays lie: one for all ranks, or with messages one for each */
	size_t used, bytes;
	void *model; /* its own */
	unsigned long sequence;
};

/* The next piece of the arena, on a cache line. All ranks take the same pieces in the same order.
 */
void *team_array(struct team *team, size_t bytes);
/* Bytes of the arena that an array of so many takes. */
size_t array_bytes(size_t bytes);

/* What a rank does of n: first <= i < end. */
struct part {
	long first, end;
};
struct part part_of(long n, int rank, int ranks);
struct part own_part(const struct team *team, long n);

/* Of these a team of one does nothing, in every model. What a rank wrote to arrays before any of
 * them, others that share its arena see after it. */

/* Returns when all ranks have called it. */
void team_barrier(struct team *team);
/* Adds up to MOST_VALUES values over all ranks, in each; a barrier as well. */
void team_sum(struct team *team, double *values, int count);
/* Every rank gets what the others have in their parts of an array of n elements; a barrier as well.
 */
void team_gather(struct team *team, void *array, size_t element_bytes, long n);
/* Every rank gets the row before its part of rows 1 .. n and the row after it; row 0 and n + 1 are
 * the array's edge. To be called after a barrier or a sum. */
void team_halo(struct team *team, void *rows, size_t row_bytes, long n);

#endif
