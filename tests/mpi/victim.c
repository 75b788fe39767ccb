/* The last rank is killed in the middle of an exchange of all with all that would never end; with
 * the argument "collectives", of calls that all make; with "lock", while it has a window of its own
 * locked for itself alone; with "fence", while all wait for all in a window. With the argument
 * "guest" (after it) none is: somebody else kills its machine, as soon as rank 0 has said that it is
 * going. With "silent" that rank has never been heard of by then, and all wait for it. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "pattern.h"

static void in_window(int lock, int guest)
{
	MPI_Win win;
	int *base, last = ranks - 1;
	MPI_Win_allocate(sizeof(int), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
	for (unsigned round = 0;; round++) {
		int value = (int)round;
		if (rank == 0 && round == 200 && guest)
			fprintf(stderr, "going\n");
		if (lock)
			MPI_Win_lock(MPI_LOCK_EXCLUSIVE, last, 0, win);
		MPI_Put(&value, 1, MPI_INT, last, 0, 1, MPI_INT, win);
		if (rank == last && round == 300 && !guest)
			raise(SIGKILL);
		if (lock)
			MPI_Win_unlock(last, win);
		else
			MPI_Win_fence(0, win);
	}
}

int main(int argc, char **argv)
{
	int collective = 0, guest = 0, silent = 0, lock = 0, fence = 0;
	for (int nth = 1; nth < argc; nth++) {
		collective |= strcmp(argv[nth], "collectives") == 0;
		guest |= strcmp(argv[nth], "guest") == 0;
		silent |= strcmp(argv[nth], "silent") == 0;
		lock |= strcmp(argv[nth], "lock") == 0;
		fence |= strcmp(argv[nth], "fence") == 0;
	}
	begin(&argc, &argv, MPI_THREAD_SINGLE);
	static char out[20000], in[20000];
	if (silent) {
		if (rank == 0)
			fprintf(stderr, "going\n");
		if (rank == ranks - 1)
			pause();
		MPI_Recv(in, 1, MPI_BYTE, ranks - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	if (lock || fence)
		in_window(lock, guest);
	for (unsigned round = 0;; round++) {
		int distance = 1 + (int)round % (ranks - 1), mine = (int)round, all;
		if (rank == ranks - 1 && round == 1000 && !guest)
			raise(SIGKILL);
		if (rank == 0 && round == 200 && guest)
			fprintf(stderr, "going\n");
		if (!collective) {
			MPI_Sendrecv(out, 1 + (int)(round * 37) % 20000, MPI_BYTE,
				(rank + distance) % ranks, 1, in, 20000, MPI_BYTE,
				(rank + ranks - distance) % ranks, 1, MPI_COMM_WORLD,
				MPI_STATUS_IGNORE);
		} else if (round % 4 == 1) {
			MPI_Barrier(MPI_COMM_WORLD);
		} else if (round % 4 == 2) {
			MPI_Alltoall(out, 100, MPI_BYTE, in, 100, MPI_BYTE, MPI_COMM_WORLD);
		} else if (round % 4 == 3) {
			MPI_Request request;
			MPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
			MPI_Wait(&request, MPI_STATUS_IGNORE);
			must(all == mine * ranks, "round %u", round);
		} else {
			MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
			must(all == mine * ranks, "round %u", round);
		}
	}
}
