/* What the programs here share: two halves of processes with a partner in the other half, and how
 * often a call is repeated. */
#ifndef REPEAT_H
#define REPEAT_H

#include <mpi.h>
#include <stdio.h>
#include <string.h>

/* Rounds are a multiple of UNDER_WAY: so many calls are begun before any has to end. */
enum { REPETITIONS = 60, UNDER_WAY = 64 };
/* Seconds after which a measurement is not repeated any more. */
#define LONG_ENOUGH 0.25
static int rank, ranks, partner, first;
static double repetition; /* seconds for a repetition */

/* Rank r of the first half and rank r + n/2 are partners. FULL: longer repetitions. */
static void begin(int *argc, char ***argv, const char *program, int full)
{
	MPI_Init(argc, argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (ranks % 2) {
		if (rank == 0)
			fprintf(stderr, "%s: the number of processes must be even\n", program);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	first = rank < ranks / 2;
	partner = (rank + ranks / 2) % ranks;
	repetition = full ? 0.002 : 0.001;
}

/* Seconds that so many rounds take: the same on all ranks. */
typedef double once(const void *what, int rounds);

/* Seconds of a round, by the fastest repetition. */
static double fastest_of(once *timed, const void *what)
{
	/* So many rounds that a repetition takes as long as it may; all ranks agree. */
	int rounds = UNDER_WAY;
	double took;
	timed(what, rounds);
	while ((took = timed(what, rounds)) < repetition / 4 && rounds < 1 << 22)
		rounds *= 2;
	rounds = (int)(rounds * (repetition / took));
	rounds = rounds < UNDER_WAY ? UNDER_WAY : rounds / UNDER_WAY * UNDER_WAY;
	MPI_Bcast(&rounds, 1, MPI_INT, 0, MPI_COMM_WORLD);
	double fastest = 1e9, spent = 0;
	for (int nth = 0; nth < REPETITIONS && spent < LONG_ENOUGH; nth++) {
		/* The same on all ranks, so all end at once. */
		took = timed(what, rounds);
		fastest = took < fastest ? took : fastest;
		spent += took;
	}
	return fastest / rounds;
}

#endif
