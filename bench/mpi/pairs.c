/* Pairs of MPI processes: rank r of the first half and rank r + n/2. Prints one line for each
 * measurement:
 *
 *   pingpong BYTES private|pool NANOSECONDS    one way, the mean over pairs
 *   stream BYTES private NANOSECONDS           per message, 64 under way at a time, one direction
 *   exchange BYTES private|pool NANOSECONDS    the same in both directions at once
 *   CALL BYTES private NANOSECONDS             a collective call, a nonblocking one with its wait
 *   transpose BYTES private NANOSECONDS        of a matrix, as an FFT of several dimensions has it:
 *                                              written anew by each process, then exchanged
 *
 * BYTES of a collective call are those from one process to another. Each figure is that of the
 * fastest of up to sixty short repetitions: how fast it is while no other program takes the CPUs.
 * The clock is read once for each repetition: in a User Mode Linux guest that takes 14 to 18 us.
 *
 *   pairs [quick|full|collectives|exchange|transpose]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "repeat.h"

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

static void exchange(char *out, char *in, int bytes, int rounds)
{
	enum { BOTH = 2 };
	MPI_Request requests[BOTH * UNDER_WAY];
	for (int round = 0; round < rounds; round += UNDER_WAY) {
		for (int nth = 0; nth < UNDER_WAY; nth++)
			MPI_Irecv(in, bytes, MPI_BYTE, partner, 1, MPI_COMM_WORLD, &requests[nth]);
		for (int nth = UNDER_WAY; nth < BOTH * UNDER_WAY; nth++)
			MPI_Isend(out, bytes, MPI_BYTE, partner, 1, MPI_COMM_WORLD, &requests[nth]);
		MPI_Waitall(BOTH * UNDER_WAY, requests, MPI_STATUSES_IGNORE);
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

static void alltoall(char *out, char *in, int bytes, int rounds)
{
	for (int round = 0; round < rounds; round++)
		MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void allgather(char *out, char *in, int bytes, int rounds)
{
	for (int round = 0; round < rounds; round++)
		MPI_Allgather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

/* Of complex numbers, by tiles that a cache holds. */
static void transpose(char *out, char *in, int bytes, int rounds)
{
	enum { NUMBER = 16, TILE = 16, COLUMNS = 256 };
	int rows = bytes * ranks / NUMBER / COLUMNS;
	for (int round = 0; round < rounds; round++) {
		for (int row = 0; row < rows; row += TILE)
			for (int column = 0; column < COLUMNS; column++)
				for (int nth = row; nth < row + TILE; nth++)
					memcpy(in + ((size_t)column * rows + nth) * NUMBER,
						out + ((size_t)nth * COLUMNS + column) * NUMBER,
						NUMBER);
		MPI_Alltoall(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, MPI_COMM_WORLD);
	}
}

static void gather(char *out, char *in, int bytes, int rounds)
{
	for (int round = 0; round < rounds; round++)
		MPI_Gather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, round % ranks,
			MPI_COMM_WORLD);
}

static void scatter(char *out, char *in, int bytes, int rounds)
{
	for (int round = 0; round < rounds; round++)
		MPI_Scatter(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, round % ranks,
			MPI_COMM_WORLD);
}

static void iallreduce(char *out, char *in, int bytes, int rounds)
{
	MPI_Request request;
	for (int round = 0; round < rounds; round++) {
		MPI_Iallreduce(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
}

static void ialltoall(char *out, char *in, int bytes, int rounds)
{
	MPI_Request request;
	for (int round = 0; round < rounds; round++) {
		MPI_Ialltoall(
			out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
}

static void iallgather(char *out, char *in, int bytes, int rounds)
{
	MPI_Request request;
	for (int round = 0; round < rounds; round++) {
		MPI_Iallgather(
			out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
}

typedef void work(char *out, char *in, int bytes, int rounds);

struct call {
	work *todo;
	char *out, *in;
	int bytes;
};

static double timed(const void *what, int rounds)
{
	const struct call *call = what;
	MPI_Barrier(MPI_COMM_WORLD);
	double began = MPI_Wtime();
	call->todo(call->out, call->in, call->bytes, rounds);
	double mine = MPI_Wtime() - began, all;
	MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	return all / ranks;
}

static void measure(const char *name, work *todo, int bytes, int pool)
{
	char *out, *in;
	size_t room = (bytes ? (size_t)bytes : 8) * (size_t)ranks;
	if (pool) {
		MPI_Alloc_mem((MPI_Aint)room, MPI_INFO_NULL, &out);
		MPI_Alloc_mem((MPI_Aint)room, MPI_INFO_NULL, &in);
	} else {
		out = malloc(room);
		in = malloc(room);
	}
	memset(out, 0, room);
	memset(in, 0, room);
	struct call call = { todo, out, in, bytes };
	double fastest = fastest_of(timed, &call) / (todo == pingpong ? 2 : 1);
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

static void pairwise(int full, int only_exchange)
{
	static const int sizes[] = { 8, 1024, 65536, 1 << 20, 4 << 20 };
	for (size_t nth = 0; nth < sizeof(sizes) / sizeof(sizes[0]) - !full; nth++) {
		for (int pool = 0; pool < 2 && !only_exchange; pool++)
			measure("pingpong", pingpong, sizes[nth], pool);
		if (!only_exchange)
			measure("stream", stream, sizes[nth], 0);
		for (int pool = 0; pool < 2; pool++)
			measure("exchange", exchange, sizes[nth], pool);
	}
}

static void collectives(int full)
{
	static const struct {
		const char *name;
		work *todo;
	} calls[] = {
		{ "bcast", bcast },
		{ "reduce", reduce },
		{ "allreduce", allreduce },
		{ "alltoall", alltoall },
		{ "allgather", allgather },
		{ "gather", gather },
		{ "scatter", scatter },
		{ "iallreduce", iallreduce },
		{ "ialltoall", ialltoall },
		{ "iallgather", iallgather },
	};
	measure("barrier", barrier, 0, 0);
	for (int bytes = 8; bytes <= (full ? 1 << 20 : 65536); bytes *= bytes == 8 ? 128 : 8)
		for (size_t nth = 0; nth < sizeof(calls) / sizeof(calls[0]); nth++)
			measure(calls[nth].name, calls[nth].todo, bytes, 0);
	measure("transpose", transpose, 1 << 20, 0);
}

int main(int argc, char **argv)
{
	const char *length = argc > 1 ? argv[1] : "quick";
	int full = strcmp(length, "full") == 0, only_exchange = strcmp(length, "exchange") == 0;
	begin(&argc, &argv, "pairs", full);
	if (strcmp(length, "transpose") == 0) {
		for (int bytes = 1 << 18; bytes <= 4 << 20; bytes *= 4)
			measure("transpose", transpose, bytes, 0);
		MPI_Finalize();
		return 0;
	}
	if (strcmp(length, "collectives") != 0)
		pairwise(full, only_exchange);
	if (!only_exchange)
		collectives(full);
	MPI_Finalize();
}
