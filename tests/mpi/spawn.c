/* Processes that come later: two are spawned, and all send to each other what is larger than any
 * lane. */
#include <string.h>

#include "pattern.h"

int main(int argc, char **argv)
{
	enum { BYTES = 1600000 };
	MPI_Comm parent, between, all;
	begin(&argc, &argv, MPI_THREAD_SINGLE);
	MPI_Comm_get_parent(&parent);
	if (parent == MPI_COMM_NULL)
		MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
			&between, MPI_ERRCODES_IGNORE);
	MPI_Intercomm_merge(
		parent == MPI_COMM_NULL ? between : parent, parent != MPI_COMM_NULL, &all);
	MPI_Comm_rank(all, &rank);
	MPI_Comm_size(all, &ranks);
	char *out = room(BYTES, 0), *in = room(BYTES, 0);
	for (int root = 0; root < ranks; root++) {
		if (rank == root)
			fill(in, BYTES, (unsigned)root, 1);
		MPI_Bcast(in, BYTES, MPI_BYTE, root, all);
		verify(in, BYTES, (unsigned)root, 1, "bcast");
	}
	for (int distance = 1; distance < ranks; distance++) {
		int to = (rank + distance) % ranks, from = (rank + ranks - distance) % ranks;
		fill(out, BYTES, (unsigned)rank, 2);
		MPI_Sendrecv(out, BYTES, MPI_BYTE, to, 2, in, BYTES, MPI_BYTE, from, 2, all,
			MPI_STATUS_IGNORE);
		verify(in, BYTES, (unsigned)from, 2, "all pairs");
	}
	no_room(out, 0);
	no_room(in, 0);
	MPI_Barrier(all);
	if (rank == 0)
		printf("1 passed, 0 failed\n");
	MPI_Comm_free(&all);
	MPI_Finalize();
	return 0;
}
