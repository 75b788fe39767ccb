/* Pairs of MPI processes: rank r of the first half and rank r + n/2. Prints one line for each
 * measurement: pingpong BYTES private|pool NANOSECONDS        one way, the mean over pairs stream
 * BYTES private|pool NANOSECONDS          per message, 64 under way at a time, one direction
 * barrier|bcast|reduce|allreduce BYTES private NANOSECONDS Each is that of the fastest of up to
 * sixty short repetitions: how fast it is while no other program takes the CPUs. Usage: pairs
 * [quick|full|collectives]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPETITIONS = 60, UNDER_WAY = 64 };
/* Seconds after which a measurement is not repeated any more. */
#define LONG_ENOUGH 0.25
static int rank, ranks, partner, first;
static double repetition; /* seconds for a repetition */

static void pingpong(char *out, char *in, int bytes, int rounds)
{
	for (int round = 0; round < rounds; round++) {
		if (first) {
			MPI_Send(out, bytes, MPI_BYTE, partner, 1, MPI_COMM_WORLD);
			MPI_Recv(
				in, bytes, MPI_BYTE, partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			MPI_Recv(
				in, bytes, MPI_BYTE, partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(out, bytes, MPI_BYTE, partner, 1, MPI_COMM_WORLD);
		}
	}
}

static void stream(char *out, char *in, int bytes, int rounds)
{
	MPI_Request requests[UNDER_WAY];
	char done;
	for (int round = 0; round < rounds; round += UNDER_WAY) {
		for (int nth = 0; nth < UNDER_WAY; nth++) {
			if (first)
				MPI_Isend(out, bytes, MPI_BYTE, partner, 1, MPI_COMM_WORLD,
					&requests[nth]);
			else
				MPI_Irecv(in, bytes, MPI_BYTE, partner, 1, MPI_COMM_WORLD,
					&requests[nth]);
		}
		MPI_Waitall(UNDER_WAY, requests, MPI_STATUSES_IGNORE);
		if (first)
			MPI_Recv(&done, 1, MPI_BYTE, partner, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		else
			MPI_Send(&done, 1, MPI_BYTE, partner, 2, MPI_COMM_WORLD);
	}
}

static void barrier(char *out, char *in, int bytes, int rounds)
{
	(void)out, (void)in, (void)bytes;
	for (int round = 0; round < rounds; round++)
		MPI_Barrier(MPI_COMM_WORLD);
}

static void bcast(char *out, char *in, int bytes, int rounds)
{
	(void)in;
	for (int round = 0; round < rounds; round++)
		MPI_Bcast(out, bytes, MPI_BYTE, round % ranks, MPI_COMM_WORLD);
}

static void reduce(char *out, char *in, int bytes, int rounds)
{
	for (int round = 0; round < rounds; round++)
		MPI_Reduce(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, round % ranks, MPI_COMM_WORLD);
}

static void allreduce(char *out, char *in, int bytes, int rounds)
{
	for (int round = 0; round < rounds; round++)
		MPI_Allreduce(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

typedef void work(char *out, char *in, int bytes, int rounds);

static double once(work *todo, char *out, char *in, int bytes, int rounds)
{
	MPI_Barrier(MPI_COMM_WORLD);
	double began = MPI_Wtime();
	todo(out, in, bytes, rounds);
	double mine = MPI_Wtime() - began, all;
	MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	return all / ranks;
}

static void measure(const char *name, work *todo, int bytes, int pool)
{
	char *out, *in;
	size_t room = bytes ? (size_t)bytes : 8;
	if (pool) {
		MPI_Alloc_mem((MPI_Aint)room, MPI_INFO_NULL, &out);
		MPI_Alloc_mem((MPI_Aint)room, MPI_INFO_NULL, &in);
	} else {
		out = malloc(room);
		in = malloc(room);
	}
	memset(out, 0, room);
	memset(in, 0, room);
	/* So many rounds that a repetition takes as long as it may; all ranks agree. */
	int rounds = UNDER_WAY, one_way = todo == pingpong ? 2 : 1;
	double took;
	once(todo, out, in, bytes, rounds);
	while ((took = once(todo, out, in, bytes, rounds)) < repetition / 4 && rounds < 1 << 22)
		rounds *= 2;
	rounds = (int)(rounds * (repetition / took));
	rounds = rounds < UNDER_WAY ? UNDER_WAY : rounds / UNDER_WAY * UNDER_WAY;
	MPI_Bcast(&rounds, 1, MPI_INT, 0, MPI_COMM_WORLD);
	double fastest = 1e9, spent = 0;
	for (int nth = 0; nth < REPETITIONS && spent < LONG_ENOUGH; nth++) {
		/* The same on all ranks, so all end at once. */
		took = once(todo, out, in, bytes, rounds);
		fastest = took < fastest ? took : fastest;
		spent += took;
	}
	fastest /= rounds * one_way;
	if (rank == 0) {
		printf("%s %d %s %.1f\n", name, bytes, pool ? "pool" : "private", fastest * 1e9);
		fflush(stdout);
	}
	if (pool) {
		MPI_Free_mem(out);
		MPI_Free_mem(in);
	} else {
		free(out);
		free(in);
	}
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (ranks % 2) {
		if (rank == 0)
			fprintf(stderr, "pairs: the number of processes must be even\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	first = rank < ranks / 2;
	partner = (rank + ranks / 2) % ranks;
	int full = argc > 1 && strcmp(argv[1], "full") == 0;
	repetition = full ? 0.002 : 0.001;
	static const int sizes[] = { 8, 1024, 65536, 1 << 20, 4 << 20 };
	int pairwise = argc < 2 || strcmp(argv[1], "collectives") != 0;
	for (size_t nth = 0; pairwise && nth < sizeof(sizes) / sizeof(sizes[0]) - !full; nth++) {
		for (int pool = 0; pool < 2; pool++)
			measure("pingpong", pingpong, sizes[nth], pool);
		measure("stream", stream, sizes[nth], 0);
	}
	measure("barrier", barrier, 0, 0);
	for (int bytes = 8; bytes <= (full ? 1 << 20 : 65536); bytes *= bytes == 8 ? 128 : 64) {
		measure("bcast", bcast, bytes, 0);
		measure("reduce", reduce, bytes, 0);
		measure("allreduce", allreduce, bytes, 0);
	}
	MPI_Finalize();
}
