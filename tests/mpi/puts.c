/* puts [COUNT]: so many puts of one number between two fences, to private memory, and none flushed
 * before the last; then as many gets. That each costs the same, however many there are, is counted
 * by openmpi/check/many.c. */
#include <stdint.h>

#include "pattern.h"

int main(int argc, char **argv)
{
	begin(&argc, &argv, MPI_THREAD_SINGLE);
	int count = argc > 1 ? atoi(argv[1]) : 100000, to = (rank + 1) % ranks,
	    from = (rank + ranks - 1) % ranks;
	MPI_Aint bytes = (MPI_Aint)count * 8;
	int64_t *base = calloc((size_t)count, 8), *mine = malloc((size_t)count * 8);
	MPI_Win win;
	MPI_Win_create(base, bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	for (int nth = 0; nth < count; nth++)
		mine[nth] = (int64_t)nth * 3 + rank;
	MPI_Win_fence(0, win);
	for (int nth = 0; nth < count; nth++)
		MPI_Put(&mine[nth], 1, MPI_INT64_T, to, count - 1 - nth, 1, MPI_INT64_T, win);
	MPI_Win_fence(0, win);
	for (int nth = 0; nth < count; nth++)
		must(base[count - 1 - nth] == (int64_t)nth * 3 + from, "put %d", nth);
	MPI_Win_fence(0, win);
	for (int nth = 0; nth < count; nth++)
		MPI_Get(&mine[nth], 1, MPI_INT64_T, from, nth, 1, MPI_INT64_T, win);
	MPI_Win_fence(0, win);
	for (int nth = 0; nth < count; nth++)
		must(mine[nth] == (int64_t)(count - 1 - nth) * 3 + (from + ranks - 1) % ranks,
			"get %d", nth);
	MPI_Win_free(&win);
	free(base);
	free(mine);
	passed("puts");
	return end();
}
