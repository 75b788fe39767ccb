/* A team of processes over one System V segment, whichever kernel each of them runs in. */
#include "team.h"

#include "../run.h"
#include "team_shared.h"

/* Each rank says in a line of its own how far it has come, and adds what it has to say to the same line: an exchange moves one
 * line in each direction. There are two lines, used in turns: a rank writes a line again only after it has seen all others
 * in the sum between, and by then they have read it. Rounding is the same in all ranks: all add in the order of ranks. */
void team_sum(struct team *team, double *values, int count)
{
	if (team->ranks == 1)
		return;
	struct team_line(*lines)[MOST_RANKS] = &((struct team_room *)team->model)->lines[++team->sequence % 2];
	struct team_line *own = &(*lines)[team->rank];
	for (int i = 0; i < count; i++)
		own->values[i] = values[i];
	atomic_store_explicit(&own->sequence, team->sequence, memory_order_release);
	double sums[MOST_VALUES] = { 0 };
	for (int rank = 0; rank < team->ranks; rank++) {
		struct team_line *line = &(*lines)[rank];
		/* Pairs with the release above. */
		for (unsigned spins = 1; atomic_load_explicit(&line->sequence, memory_order_acquire) != team->sequence; spins++)
			spin(spins);
		for (int i = 0; i < count; i++)
			sums[i] += line->values[i];
	}
	for (int i = 0; i < count; i++)
		values[i] = sums[i];
}

void team_barrier(struct team *team)
{
	team_sum(team, NULL, 0);
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
