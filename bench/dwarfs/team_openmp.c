/* A team of OpenMP's threads over one memory. */
#include "team.h"
#include "team_openmp.h"

/* Two rooms in turns, so that one barrier is enough: a thread writes to a room again only after the barrier between, and by then
 * all have read it. */
void team_sum(struct team *team, double *values, int count)
{
	if (team->ranks == 1)
		return;
	struct openmp_line(*lines)[MOST_RANKS] = &((struct openmp_room *)team->model)->lines[++team->sequence % 2];
	for (int i = 0; i < count; i++)
		(*lines)[team->rank].values[i] = values[i];
#pragma omp barrier
	double sums[MOST_VALUES] = { 0 };
	for (int rank = 0; rank < team->ranks; rank++)
		for (int i = 0; i < count; i++)
			sums[i] += (*lines)[rank].values[i];
	for (int i = 0; i < count; i++)
		values[i] = sums[i];
}

void team_barrier(struct team *team)
{
	if (team->ranks == 1)
		return;
#pragma omp barrier
}

void team_gather(struct team *team, void *array, size_t element_bytes, long n)
{
	(void)array, (void)element_bytes, (void)n;
	team_barrier(team);
}

void team_halo(struct team *team, void *rows, size_t row_bytes, long n)
{
	(void)team, (void)rows, (void)row_bytes, (void)n;
}
