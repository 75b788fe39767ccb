/* A team of OpenMP's threads over one memory. */
#include "team.h"
#include "team_openmp.h"

/* Two rooms in turns, so that one barrier is enough: a thread writes to a room again only after the
 * barrier between, and by then all have read it. */
void team_sum(struct team *team, double *values, int count)
{
	if (team->ranks == 1)
		return;
	struct openmp_line(*lines)[MOST_RANKS] =
		&((struct openmp_room *)team->model)->lines[++team->sequence % 2];
	for (int i = 0; i < count; i++)
		(*lines)[team->rank].values[i] = values[i];
#pragma omp barrier
	double sums[MOST_VALUES] = { 0 };
	for (int rank = 0; rank < team->ranks; rank++) {
		const double *summand = rank == team->rank ? values : (*lines)[rank].values;
		for (int i = 0; i < count; i++)
			sums[i] += summand[i];
	}
	for (int i = 0; i < count; i++)
		values[i] = sums[i];
}

void team_barrier(struct team *team)
{
	if (team->ranks == 1)
		return;
#pragma omp barrier
}
