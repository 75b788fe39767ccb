/* The last rank is killed in the middle of an exchange of all with all that would never end. */
#include <signal.h>

#include "pattern.h"

int main(int argc, char **argv)
{
	begin(&argc, &argv, MPI_THREAD_SINGLE);
	static char out[20000], in[20000];
	for (unsigned round = 0;; round++) {
		int distance = 1 + (int)round % (ranks - 1);
		if (rank == ranks - 1 && round == 1000)
			raise(SIGKILL);
		MPI_Sendrecv(out, 1 + (int)(round * 37) % 20000, MPI_BYTE, (rank + distance) % ranks, 1, in, 20000, MPI_BYTE,
			     (rank + ranks - distance) % ranks, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
}
