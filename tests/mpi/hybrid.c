/* Each rank sends each other so many messages of a thousand bytes. Which way they go is counted
 * outside. */
#include "pattern.h"

int main(int argc, char **argv)
{
	begin(&argc, &argv, MPI_THREAD_SINGLE);
	enum { BYTES = 1000 };
	int each = argc > 1 ? atoi(argv[1]) : 1000;
	static char out[BYTES], in[BYTES];
	for (int distance = 1; distance < ranks; distance++) {
		int to = (rank + distance) % ranks, from = (rank + ranks - distance) % ranks;
		for (int nth = 0; nth < each; nth++) {
			fill(out, BYTES, (unsigned)rank, (unsigned)nth);
			MPI_Sendrecv(out, BYTES, MPI_BYTE, to, 1, in, BYTES, MPI_BYTE, from, 1,
				MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			verify(in, BYTES, (unsigned)from, (unsigned)nth, "hybrid");
		}
	}
	passed("each rank to each");
	return end();
}
