/* The last rank is killed in the middle of an exchange of all with all that would never end; with the argument
 * "collectives", of calls that all make. */
#include <signal.h>
#include <string.h>

#include "pattern.h"

int main(int argc, char **argv)
{
	int collective = argc > 1 && strcmp(argv[1], "collectives") == 0;
	begin(&argc, &argv, MPI_THREAD_SINGLE);
	static char out[20000], in[20000];
	for (unsigned round = 0;; round++) {
		int distance = 1 + (int)round % (ranks - 1), mine = (int)round, all;
		if (rank == ranks - 1 && round == 1000)
			raise(SIGKILL);
		if (!collective) {
			MPI_Sendrecv(out, 1 + (int)(round * 37) % 20000, MPI_BYTE, (rank + distance) % ranks, 1, in, 20000,
				     MPI_BYTE, (rank + ranks - distance) % ranks, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else if (round % 2) {
			MPI_Barrier(MPI_COMM_WORLD);
		} else {
			MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
			must(all == mine * ranks, "round %u", round);
		}
	}
}
