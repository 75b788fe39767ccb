/* What ranks that share their arrays get of each other's parts: nothing is copied. */
#include "team.h"

void team_gather(struct team *team, void *array, size_t element_bytes, long n)
{
	/* More than the first cache holds is fetched as it is used. */
	enum { LINE = 64, MOST = 32768 };
	team_barrier(team);
	if (team->ranks == 1 || (size_t)n * element_bytes > MOST)
		return;
	/* What others wrote is in their caches, and asked for all at once it comes in the time of a
	 * few lines. */
	struct part own = own_part(team, n);
	const char *at = array, *end = at + (size_t)n * element_bytes;
	const char *own_first = at + (size_t)own.first * element_bytes,
		   *own_end = at + (size_t)own.end * element_bytes;
	for (; at < own_first; at += LINE)
		__builtin_prefetch(at);
	for (at = own_end; at < end; at += LINE)
		__builtin_prefetch(at);
}

/* The sum or the barrier before it was all that was needed. */
void team_halo(struct team *team, void *rows, size_t row_bytes, long n)
{ (void)team, (void)rows, (void)row_bytes, (void)n; }
