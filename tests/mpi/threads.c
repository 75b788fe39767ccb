/* Many threads of each rank talk at once, each with its likeness in every other rank. */
#include <pthread.h>

#include "pattern.h"

enum { THREADS = 4, ROUNDS = 150 };

static void *talk(void *argument)
{
	int thread = (int)(long)argument;
	static const size_t sizes[] = { 8, 300, 5000, 70000 };
	char *out = room(70000, 0), *in = room(70000, 0);
	for (unsigned round = 0; round < ROUNDS; round++) {
		size_t bytes = sizes[(round + (unsigned)thread) % 4];
		for (int distance = 1; distance < ranks; distance++) {
			int to = (rank + distance) % ranks,
			    from = (rank + ranks - distance) % ranks;
			fill(out, bytes, (unsigned)(rank * THREADS + thread), round);
			MPI_Sendrecv(out, (int)bytes, MPI_BYTE, to, thread, in, 70000, MPI_BYTE,
				from, thread, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			verify(in, bytes, (unsigned)(from * THREADS + thread), round, "threads");
		}
	}
	free(out);
	free(in);
	return NULL;
}

int main(int argc, char **argv)
{
	begin(&argc, &argv, MPI_THREAD_MULTIPLE);
	pthread_t threads[THREADS];
	for (long thread = 0; thread < THREADS; thread++)
		must(pthread_create(&threads[thread], NULL, talk, (void *)thread) == 0,
			"no thread");
	for (int thread = 0; thread < THREADS; thread++)
		pthread_join(threads[thread], NULL);
	passed("threads");
	return end();
}
