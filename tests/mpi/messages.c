/* Messages between all pairs: every size around the switches of protocol, in every mode, and every
 * byte looked at.
 *
 * Of many processes each talks to some only: work and memory that grow with the square of their
 * number would take too long. */
#include <string.h>

#include "pattern.h"

/* Where the protocols switch: inline sends, eager, fragments, ring sizes. */
static const size_t switches[] = { 0, 48, 256, 1024, 4032, 4096, 8192, 16384, 32768, 65536, 131072,
	262144, 1 << 20 };
#define SWITCHES (sizeof(switches) / sizeof(switches[0]))

/* So many talk to each other at once. */
#define MANY 8

/* Those that come after this one, all of them or nearer and farther ones. */
static int next_distance(int distance)
{
	return ranks <= MANY || distance == ranks - 1 ? distance + 1
		: distance * 2 < ranks                ? distance * 2
						      : ranks - 1;
}

static void pairs(size_t bytes, int pool, int mode)
{
	char *out = room(bytes + 1, pool), *in = room(bytes + 1, pool);
	unsigned message = (unsigned)bytes + (unsigned)mode;
	for (int distance = 1; distance < ranks; distance = next_distance(distance)) {
		int to = (rank + distance) % ranks, from = (rank + ranks - distance) % ranks;
		MPI_Request request;
		MPI_Status status;
		int count;
		fill(out, bytes, (unsigned)rank, message);
		in[bytes] = 77;
		MPI_Irecv(in, (int)bytes + 1, MPI_BYTE, from, mode, MPI_COMM_WORLD, &request);
		if (mode == 0)
			MPI_Send(out, (int)bytes, MPI_BYTE, to, mode, MPI_COMM_WORLD);
		else
			MPI_Ssend(out, (int)bytes, MPI_BYTE, to, mode, MPI_COMM_WORLD);
		MPI_Wait(&request, &status);
		MPI_Get_count(&status, MPI_BYTE, &count);
		must(count == (int)bytes && status.MPI_SOURCE == from && status.MPI_TAG == mode,
			"status");
		verify(in, bytes, (unsigned)from, message, "pairs");
		must(in[bytes] == 77, "written past the end");
	}
	no_room(out, pool);
	no_room(in, pool);
}

/* Messages are taken as they come, and order from each rank is kept. */
static void wildcards(void)
{
	enum { EACH = 200, MOST = 9000 };
	static char memory[MOST];
	if (rank != 0) {
		for (unsigned nth = 0; nth < EACH; nth++) {
			size_t bytes = (nth * 997 + (unsigned)rank * 31) % MOST;
			fill(memory, bytes, (unsigned)rank, nth);
			MPI_Send(memory, (int)bytes, MPI_BYTE, 0, (int)(nth % 7), MPI_COMM_WORLD);
		}
	} else {
		unsigned *next = calloc((size_t)ranks, sizeof(*next));
		for (int left = EACH * (ranks - 1); left > 0; left--) {
			MPI_Status status;
			int count;
			if (left % 3 == 0)
				MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
			MPI_Recv(memory, MOST, MPI_BYTE,
				left % 3 == 0 ? status.MPI_SOURCE : MPI_ANY_SOURCE, MPI_ANY_TAG,
				MPI_COMM_WORLD, &status);
			MPI_Get_count(&status, MPI_BYTE, &count);
			unsigned from = (unsigned)status.MPI_SOURCE, nth = next[from]++;
			must((size_t)count == (nth * 997 + from * 31) % MOST
			                && status.MPI_TAG == (int)(nth % 7),
				"message %u of %u came out of order", nth, from);
			verify(memory, (size_t)count, from, nth, "wildcards");
		}
		free(next);
	}
	passed("wildcard receives, in order");
}

/* All send to one at once, more than any ring holds, and nobody is received from before all is
 * sent. */
static void flood(size_t bytes, unsigned each)
{
	if (rank == 0) {
		char *in = room(bytes, 0);
		/* Nothing is expected yet: all of it arrives unexpected. */
		MPI_Barrier(MPI_COMM_WORLD);
		for (unsigned nth = 0; nth < each; nth++) {
			for (int from = ranks - 1; from > 0; from--) {
				MPI_Recv(in, (int)bytes, MPI_BYTE, from, 5, MPI_COMM_WORLD,
					MPI_STATUS_IGNORE);
				verify(in, bytes, (unsigned)from, nth, "flood");
			}
		}
		free(in);
	} else {
		char *out = room(bytes * each, 0);
		MPI_Request *requests = calloc(each, sizeof(*requests));
		for (unsigned nth = 0; nth < each; nth++) {
			fill(out + nth * bytes, bytes, (unsigned)rank, nth);
			MPI_Isend(out + nth * bytes, (int)bytes, MPI_BYTE, 0, 5, MPI_COMM_WORLD,
				&requests[nth]);
		}
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Waitall((int)each, requests, MPI_STATUSES_IGNORE);
		free(requests);
		free(out);
	}
	passed("flood");
}

/* Many of several sizes under way in both directions at once, to itself among others. */
static void crossing(int pool)
{
	enum { EACH = 24 };
	int peers = ranks < MANY ? ranks : MANY;
	MPI_Request *requests = calloc((size_t)peers * EACH * 2, sizeof(*requests));
	char *out = room((size_t)EACH * 70000, pool);
	char *in = room((size_t)peers * EACH * 70000, pool);
	int count = 0;
	for (int peer = 0; peer < peers; peer++) {
		int to = (rank + peer) % ranks, from = (rank + ranks - peer) % ranks;
		for (unsigned nth = 0; nth < EACH; nth++) {
			size_t bytes = nth % 3 == 0 ? 70000 : nth % 3 == 1 ? 5000 : 30;
			if (peer == 0)
				fill(out + nth * 70000, bytes, (unsigned)rank, nth);
			MPI_Irecv(in + ((size_t)peer * EACH + nth) * 70000, 70000, MPI_BYTE, from,
				(int)nth, MPI_COMM_WORLD, &requests[count++]);
			MPI_Isend(out + nth * 70000, (int)bytes, MPI_BYTE, to, (int)nth,
				MPI_COMM_WORLD, &requests[count++]);
			if (peer == 0 && nth == EACH - 1)
				MPI_Barrier(MPI_COMM_SELF);
		}
	}
	MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
	for (int peer = 0; peer < peers; peer++)
		for (unsigned nth = 0; nth < EACH; nth++)
			verify(in + ((size_t)peer * EACH + nth) * 70000,
				nth % 3 == 0           ? 70000
					: nth % 3 == 1 ? 5000
						       : 30,
				(unsigned)((rank + ranks - peer) % ranks), nth, "crossing");
	no_room(out, pool);
	no_room(in, pool);
	free(requests);
	passed("crossing");
}

/* Data with holes, on one side, on the other, and on both. */
static void datatypes(int rows)
{
	enum { WIDTH = 37, TAKEN = 5 };
	int bytes = rows * WIDTH;
	unsigned char *matrix = malloc((size_t)bytes), *got = malloc((size_t)bytes);
	MPI_Datatype column;
	MPI_Type_vector(rows, TAKEN, WIDTH, MPI_UNSIGNED_CHAR, &column);
	MPI_Type_commit(&column);
	int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
	for (int kind = 0; kind < 3; kind++) {
		fill(matrix, (size_t)bytes, (unsigned)rank, (unsigned)kind);
		memset(got, 99, (size_t)bytes);
		/* 0: holes to holes; 1: holes to one piece; 2: one piece to holes. */
		MPI_Sendrecv(matrix, kind == 2 ? rows * TAKEN : 1,
			kind == 2 ? MPI_UNSIGNED_CHAR : column, to, 3, got,
			kind == 1 ? rows * TAKEN : 1, kind == 1 ? MPI_UNSIGNED_CHAR : column, from,
			3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int row = 0; row < rows; row++) {
			for (int at = 0; at < (kind == 1 ? TAKEN : WIDTH); at++) {
				size_t packed = (size_t)(row * TAKEN + at),
				       spread = (size_t)(row * WIDTH + at);
				unsigned char found = got[kind == 1 ? packed : spread];
				unsigned char wanted = at >= TAKEN
					? 99
					: byte_of((unsigned)from, (unsigned)kind,
						  kind == 2 ? packed : spread);
				must(found == wanted, "datatypes: kind %d, row %d of %d, byte %d",
					kind, row, rows, at);
			}
		}
	}
	MPI_Type_free(&column);
	free(matrix);
	free(got);
}

static void collectives(int count)
{
	long *all = calloc((size_t)count * (size_t)ranks, sizeof(*all)),
	     *mine = calloc((size_t)count * (size_t)ranks, sizeof(*mine));
	for (int root = 0; root < ranks; root += 1 + ranks / 3) {
		for (int at = 0; at < count; at++)
			mine[at] = rank == root ? at * 3 + root : -1;
		MPI_Bcast(mine, count, MPI_LONG, root, MPI_COMM_WORLD);
		for (int at = 0; at < count; at++)
			must(mine[at] == at * 3 + root, "bcast");
		for (int at = 0; at < count; at++)
			mine[at] = (long)rank * count + at;
		MPI_Reduce(mine, all, count, MPI_LONG, MPI_SUM, root, MPI_COMM_WORLD);
		for (int at = 0; rank == root && at < count; at++)
			must(all[at] == (long)count * ranks * (ranks - 1) / 2 + (long)at * ranks,
				"reduce");
	}
	MPI_Allreduce(mine, all, count, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
	for (int at = 0; at < count; at++)
		must(all[at] == (long)(ranks - 1) * count + at, "allreduce");
	MPI_Allgather(mine, count, MPI_LONG, all, count, MPI_LONG, MPI_COMM_WORLD);
	for (int at = 0; at < count * ranks; at++)
		must(all[at] == at, "allgather");
	for (int at = 0; at < count * ranks; at++)
		mine[at] = (long)rank * 1000003 + at;
	MPI_Alltoall(mine, count, MPI_LONG, all, count, MPI_LONG, MPI_COMM_WORLD);
	for (int peer = 0; peer < ranks; peer++)
		for (int at = 0; at < count; at++)
			must(all[peer * count + at] == (long)peer * 1000003 + rank * count + at,
				"alltoall");
	free(all);
	free(mine);
}

static void communicators(void)
{
	MPI_Comm half, back;
	int size, place;
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
	MPI_Comm_size(half, &size);
	MPI_Comm_rank(half, &place);
	long sum = 0, one = rank;
	MPI_Allreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, half);
	long wanted = 0;
	for (int other = rank % 2; other < ranks; other += 2)
		wanted += other;
	must(sum == wanted, "sum over a half");
	/* The same tag and partner in two communicators are two conversations. */
	MPI_Comm_dup(MPI_COMM_WORLD, &back);
	int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks, first = rank,
	    second = rank + 1000, in[2];
	MPI_Request requests[4];
	MPI_Irecv(&in[1], 1, MPI_INT, from, 1, back, &requests[1]);
	MPI_Irecv(&in[0], 1, MPI_INT, from, 1, MPI_COMM_WORLD, &requests[0]);
	MPI_Isend(&first, 1, MPI_INT, to, 1, MPI_COMM_WORLD, &requests[2]);
	MPI_Isend(&second, 1, MPI_INT, to, 1, back, &requests[3]);
	MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
	must(in[0] == from && in[1] == from + 1000, "two communicators");
	MPI_Comm_free(&half);
	MPI_Comm_free(&back);
	passed("communicators");
}

int main(int argc, char **argv)
{
	begin(&argc, &argv, MPI_THREAD_SINGLE);
	int thorough = argc > 1;
	for (size_t nth = 0; nth < SWITCHES; nth++) {
		int reach = thorough ? 20 : ranks > MANY ? 1 : 2;
		for (int off = -reach; off <= reach; off++) {
			if (off < 0 && switches[nth] < (size_t)-off)
				continue;
			size_t bytes = switches[nth] + (size_t)off;
			for (int pool = 0; pool < 2; pool++)
				for (int mode = 0; mode < 2; mode++)
					pairs(bytes, pool, mode);
		}
		passed("a switch of protocol");
	}
	wildcards();
	unsigned senders = ranks > MANY ? (unsigned)ranks / MANY : 1;
	flood(100, 3000 / senders);
	flood(4000, 300 / senders);
	flood(100000, 20 / senders + 1);
	crossing(0);
	crossing(1);
	for (int rows = 1; rows < 200000; rows = rows * 5 + 1)
		datatypes(rows);
	passed("datatypes");
	for (int count = 1; count < 100000 && count * ranks < 1 << 18; count = count * 7 + 1)
		collectives(count);
	passed("collectives");
	communicators();
	return end();
}
