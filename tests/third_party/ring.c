/* An MPI program that checks what it gets: messages of all sizes around a ring, and sums of all. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	int rank, ranks, wrong = 0;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
	for (int size = 1; size <= 1 << 20; size *= 4) {
		unsigned char *out = malloc((size_t)size), *in = malloc((size_t)size);
		memset(out, rank + size % 251, (size_t)size);
		MPI_Sendrecv(out, size, MPI_UNSIGNED_CHAR, next, 7, in, size, MPI_UNSIGNED_CHAR,
			before, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int i = 0; i < size; i++)
			wrong += in[i] != (unsigned char)(before + size % 251);
		free(out);
		free(in);
	}
	long mine = rank + 1, sum = 0;
	MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	wrong += sum != (long)ranks * (ranks + 1) / 2;
	int all = 0;
	MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%d ranks, %d wrong\n", ranks, all);
	MPI_Finalize();
	return wrong != 0;
}
