/* Allgather, alltoall, gather and scatter, and the nonblocking calls: all roots, sizes around the
 * bounds between one way and another, in place and not, with and without holes, on communicators of
 * several kinds, and every byte looked at; calls with a count for each process beside them. Many
 * nonblocking calls are under way at once, while other calls are made.
 */
#include <stdint.h>
#include <string.h>

#include "pattern.h"

/* Where ways change: pieces of a team, what goes by it at all, and protocols of messages. */
static const int bounds[] = { 0, 8, 1024, 4096, 8192, 65536 };
#define BOUNDS (int)(sizeof(bounds) / sizeof(bounds[0]))
enum { LARGEST = 65536 + 1, GUARD = 0x5a };

static int size, me; /* of the communicator */

/* What one has for another: a number for FROM and TO. */
static unsigned pair(int from, int to) { return (unsigned)(from * 64 + to); }

static void fill_row(char *row, int bytes, int from, unsigned message)
{
	for (int to = 0; to < size; to++)
		fill(row + (size_t)to * (size_t)bytes, (size_t)bytes, pair(from, to), message);
}

static void verify_row(
	const char *row, int bytes, int to, int all_to, unsigned message, const char *what)
{
	for (int from = 0; from < size; from++)
		verify(row + (size_t)from * (size_t)bytes, (size_t)bytes,
			pair(from, all_to ? 0 : to), message, what);
	must(row[(size_t)size * (size_t)bytes] == GUARD, "%s of %d bytes: past the end", what,
		bytes);
}

/* Rows of blocks, and a byte behind them. */
static char *out, *in;

static void clear(int bytes)
{
	memset(in, 0x77, (size_t)size * (size_t)bytes);
	in[(size_t)size * (size_t)bytes] = GUARD;
}

/* Calls complete at once, or are started and waited for. */
static MPI_Request request;
static void wait_for(void) { MPI_Wait(&request, MPI_STATUS_IGNORE); }

static void gathers(MPI_Comm comm, int bytes, unsigned message, int nonblocking)
{
	fill(out, (size_t)bytes, pair(me, 0), message);
	for (int in_place = 0; in_place < 2; in_place++) {
		const void *mine = in_place ? MPI_IN_PLACE : out;
		clear(bytes);
		if (in_place)
			memcpy(in + (size_t)me * (size_t)bytes, out, (size_t)bytes);
		if (nonblocking) {
			MPI_Iallgather(mine, bytes, MPI_BYTE, in, bytes, MPI_BYTE, comm, &request);
			wait_for();
		} else {
			MPI_Allgather(mine, bytes, MPI_BYTE, in, bytes, MPI_BYTE, comm);
		}
		verify_row(in, bytes, me, 1, message, "allgather");
	}
	for (int root = 0; root < size && !nonblocking; root += size > 2 ? size - 1 : 1) {
		clear(bytes);
		memcpy(in + (size_t)me * (size_t)bytes, out, (size_t)bytes);
		MPI_Gather(me == root && root % 2 ? MPI_IN_PLACE : out, bytes, MPI_BYTE,
			me == root ? in : NULL, bytes, MPI_BYTE, root, comm);
		if (me == root)
			verify_row(in, bytes, me, 1, message, "gather");
	}
}

static void exchanges(MPI_Comm comm, int bytes, unsigned message, int nonblocking)
{
	fill_row(out, bytes, me, message);
	for (int in_place = 0; in_place < 2; in_place++) {
		const void *given = in_place ? MPI_IN_PLACE : out;
		clear(bytes);
		if (in_place)
			memcpy(in, out, (size_t)size * (size_t)bytes);
		/* Open MPI's own nonblocking one in place crashes on some sizes. */
		if (nonblocking && !in_place) {
			MPI_Ialltoall(given, bytes, MPI_BYTE, in, bytes, MPI_BYTE, comm, &request);
			wait_for();
		} else {
			MPI_Alltoall(given, bytes, MPI_BYTE, in, bytes, MPI_BYTE, comm);
		}
		verify_row(in, bytes, me, 0, message, "alltoall");
	}
	for (int root = 0; root < size && !nonblocking; root += size > 2 ? size - 1 : 1) {
		int keeps = me == root && root % 2;
		fill_row(out, bytes, root, message);
		clear(bytes);
		MPI_Scatter(me == root ? out : NULL, bytes, MPI_BYTE, keeps ? MPI_IN_PLACE : in,
			bytes, MPI_BYTE, root, comm);
		if (!keeps)
			verify(in, (size_t)bytes, pair(root, me), message, "scatter");
	}
}

/* As many bytes more for each next process: these go as before. */
static void different_counts(MPI_Comm comm, int bytes, unsigned message)
{
	int counts[64], places[64], sends[64], zero[64] = { 0 }, mine = bytes + me, at = 0;
	for (int of = 0; of < size; of++) {
		counts[of] = bytes + of;
		sends[of] = mine;
		places[of] = at;
		at += bytes + of;
	}
	fill(out, (size_t)mine, pair(me, 0), message);
	MPI_Allgatherv(out, mine, MPI_BYTE, in, counts, places, MPI_BYTE, comm);
	for (int of = 0; of < size; of++)
		verify(in + places[of], (size_t)counts[of], pair(of, 0), message, "allgatherv");
	memset(in, 0, (size_t)at);
	MPI_Alltoallv(out, sends, zero, MPI_BYTE, in, counts, places, MPI_BYTE, comm);
	for (int of = 0; of < size; of++)
		verify(in + places[of], (size_t)counts[of], pair(of, 0), message, "alltoallv");
}

/* Up to so many of the bounds. */
static void all_sizes(MPI_Comm comm, int most)
{
	MPI_Comm_size(comm, &size);
	MPI_Comm_rank(comm, &me);
	unsigned message = 0;
	for (int nth = 0; nth < most; nth++) {
		for (int more = nth ? -1 : 0; more <= 1; more++, message++) {
			int bytes = bounds[nth] + more;
			for (int nonblocking = 0; nonblocking < 2; nonblocking++) {
				gathers(comm, bytes, message, nonblocking);
				exchanges(comm, bytes, message, nonblocking);
			}
		}
		if (bounds[nth] < LARGEST - 100)
			different_counts(comm, bounds[nth], message);
	}
}

/* Integers that all have for all: with holes at every other process, without at the others. */
struct layout {
	int count, distance; /* of a block's integers, and from one to the next */
	int things;
	MPI_Datatype type;
};

static int integer(int from, int to, int within) { return from * 1000003 + to * 1009 + within; }

static void lay_out(const struct layout *layout)
{
	int block = layout->count * layout->distance;
	for (int at = 0; at < size * block; at++) {
		int within = at % block;
		((int *)out)[at] = within % layout->distance
			? -2
			: integer(rank, at / block, within / layout->distance);
		((int *)in)[at] = -1;
	}
}

static void call_with_layout(const struct layout *layout, int call)
{
	int n = layout->things;
	MPI_Datatype type = layout->type;
	switch (call) {
	case 0: MPI_Alltoall(out, n, type, in, n, type, MPI_COMM_WORLD); break;
	case 1: MPI_Allgather(out, n, type, in, n, type, MPI_COMM_WORLD); break;
	case 2:
		MPI_Ialltoall(out, n, type, in, n, type, MPI_COMM_WORLD, &request);
		wait_for();
		break;
	default:
		MPI_Iallgather(out, n, type, in, n, type, MPI_COMM_WORLD, &request);
		wait_for();
	}
	int block = layout->count * layout->distance;
	for (int at = 0; at < size * block; at++) {
		int within = at % block, to = call % 2 ? 0 : rank, got = ((int *)in)[at];
		int wanted = within % layout->distance
			? -1
			: integer(at / block, to, within / layout->distance);
		must(got == wanted, "layouts: call %d, %d integers: %d at %d", call, layout->count,
			got, at);
	}
}

static void layouts(void)
{
	enum { MOST = 600, APART = 3 };
	size = ranks, me = rank;
	for (int count = 1; count <= MOST; count += 119) {
		MPI_Datatype spaced, padded;
		MPI_Type_vector(count, 1, APART, MPI_INT, &spaced);
		MPI_Type_create_resized(
			spaced, 0, (MPI_Aint)sizeof(int) * count * APART, &padded);
		MPI_Type_commit(&padded);
		struct layout layout = { count, 1, count, MPI_INT };
		if (rank % 2)
			layout = (struct layout) { count, APART, 1, padded };
		for (int call = 0; call < 4; call++) {
			lay_out(&layout);
			call_with_layout(&layout, call);
		}
		MPI_Type_free(&padded);
		MPI_Type_free(&spaced);
	}
}

/* Many nonblocking calls of all kinds at once, waited for in another order, with calls that wait,
 * and messages, between them. */
enum { AT_ONCE = 25, KINDS = 5 };
struct started {
	MPI_Request request;
	char *sent, *got;
};

static void start(struct started *call, int nth, MPI_Comm comm, int bytes)
{
	size_t row = (size_t)size * (size_t)bytes;
	call->sent = calloc(1, row);
	call->got = calloc(1, row + 1);
	call->got[row] = GUARD;
	int32_t *numbers = (int32_t *)call->sent;
	int root = nth % size;
	switch (nth % KINDS) {
	case 0:
		fill(call->sent, (size_t)bytes, pair(me, 0), (unsigned)nth);
		MPI_Iallgather(call->sent, bytes, MPI_BYTE, call->got, bytes, MPI_BYTE, comm,
			&call->request);
		break;
	case 1:
		fill_row(call->sent, bytes, me, (unsigned)nth);
		MPI_Ialltoall(call->sent, bytes, MPI_BYTE, call->got, bytes, MPI_BYTE, comm,
			&call->request);
		break;
	case 2:
		for (int at = 0; at < bytes / 4; at++)
			numbers[at] = me + at + nth;
		MPI_Iallreduce(call->sent, call->got, bytes / 4, MPI_INT32_T, MPI_SUM, comm,
			&call->request);
		break;
	case 3:
		if (me == root)
			fill(call->got, (size_t)bytes, pair(root, 0), (unsigned)nth);
		MPI_Ibcast(call->got, bytes, MPI_BYTE, root, comm, &call->request);
		break;
	default: MPI_Ibarrier(comm, &call->request);
	}
}

static void check(struct started *call, int nth, int bytes)
{
	unsigned message = (unsigned)nth;
	switch (nth % KINDS) {
	case 0: verify_row(call->got, bytes, me, 1, message, "iallgather"); break;
	case 1: verify_row(call->got, bytes, me, 0, message, "ialltoall"); break;
	case 2:
		for (int at = 0; at < bytes / 4; at++)
			must(((int32_t *)call->got)[at]
					== size * (at + nth) + size * (size - 1) / 2,
				"iallreduce %d", nth);
		break;
	case 3: verify(call->got, (size_t)bytes, pair(nth % size, 0), message, "ibcast");
	}
	must(call->got[(size_t)size * (size_t)bytes] == GUARD, "call %d: past the end", nth);
	free(call->sent);
	free(call->got);
}

static void many_at_once(MPI_Comm comm, int bytes)
{
	struct started calls[AT_ONCE];
	int all = 0, one = 1;
	MPI_Comm_size(comm, &size);
	MPI_Comm_rank(comm, &me);
	for (int nth = 0; nth < AT_ONCE; nth++) {
		start(&calls[nth], nth, comm, bytes);
		if (nth % 7 == 3) {
			MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, comm);
			must(all == size, "a call between others: %d", all);
		}
		if (nth % 7 == 5)
			MPI_Sendrecv(&one, 1, MPI_INT, (me + 1) % size, 5, &all, 1, MPI_INT,
				(me + size - 1) % size, 5, comm, MPI_STATUS_IGNORE);
	}
	for (int left = AT_ONCE; left > 0; left--)
		MPI_Wait(&calls[left * 7 % AT_ONCE].request, MPI_STATUS_IGNORE);
	for (int nth = 0; nth < AT_ONCE; nth++)
		check(&calls[nth], nth, bytes);
}

/* No process passes an ibarrier before all have come to it. */
static void barriers(void)
{
	for (int round = 0; round < 50; round++) {
		int late = round % ranks, told = 0, flag = 0;
		MPI_Request token = MPI_REQUEST_NULL;
		if (rank == late && ranks > 1)
			MPI_Recv(&told, 1, MPI_INT, (late + 1) % ranks, 9, MPI_COMM_WORLD,
				MPI_STATUS_IGNORE);
		MPI_Ibarrier(MPI_COMM_WORLD, &token);
		if (rank == (late + 1) % ranks && ranks > 1) {
			MPI_Test(&token, &flag, MPI_STATUS_IGNORE);
			must(!flag, "round %d: an ibarrier did not wait", round);
			MPI_Send(&round, 1, MPI_INT, late, 9, MPI_COMM_WORLD);
		}
		MPI_Wait(&token, MPI_STATUS_IGNORE);
	}
}

/* Buffers that only a datatype names, by addresses. */
static void bottoms(void)
{
	int mine[3], lengths[2] = { 1, 2 };
	int *all = malloc((size_t)ranks * sizeof(mine));
	MPI_Aint places[2];
	MPI_Datatype type;
	MPI_Request started;
	/* Turned round: the last comes first. */
	MPI_Get_address(&mine[2], &places[0]);
	MPI_Get_address(&mine[0], &places[1]);
	MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &type);
	MPI_Type_commit(&type);
	for (int round = 0; round < 2 * ranks; round++) {
		int root = round % ranks;
		for (int nth = 0; nth < 3; nth++)
			mine[nth] = rank == root ? round + nth : -1;
		MPI_Bcast(MPI_BOTTOM, 1, type, root, MPI_COMM_WORLD);
		must(mine[0] == round && mine[2] == round + 2, "MPI_BOTTOM: bcast");
		mine[2] = rank;
		memset(all, 0x77, (size_t)ranks * sizeof(mine));
		MPI_Gather(MPI_BOTTOM, 1, type, all, 3, MPI_INT, root, MPI_COMM_WORLD);
		for (int from = 0; rank == root && from < ranks; from++)
			must(all[3 * from] == from && all[3 * from + 1] == round,
				"MPI_BOTTOM: gather");
		MPI_Allgather(MPI_BOTTOM, 1, type, all, 3, MPI_INT, MPI_COMM_WORLD);
		MPI_Scatter(all, 3, MPI_INT, MPI_BOTTOM, 1, type, root, MPI_COMM_WORLD);
		must(mine[2] == rank && mine[1] == round + 1, "MPI_BOTTOM: scatter");
		MPI_Ibcast(MPI_BOTTOM, 1, type, root, MPI_COMM_WORLD, &started);
		MPI_Wait(&started, MPI_STATUS_IGNORE);
		must(mine[2] == root && mine[0] == round, "MPI_BOTTOM: ibcast");
	}
	MPI_Type_free(&type);
	free(all);
}

/* It makes nonblocking calls inside of progress, while a barrier may be the call that makes teams.
 */
static void idups(void)
{
	for (int round = 0; round < 30; round++) {
		MPI_Comm made, again;
		MPI_Comm_dup(MPI_COMM_WORLD, &made);
		MPI_Comm_idup(made, &again, &request);
		for (int test = 0, flag; (round + rank) % 2 && test < 20; test++)
			MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
		MPI_Barrier(made);
		wait_for();
		MPI_Barrier(again);
		MPI_Comm_free(&again);
		MPI_Comm_free(&made);
	}
}

int main(int argc, char **argv)
{
	begin(&argc, &argv, argc > 1 ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE);
	must(ranks > 1 && ranks <= 64, "needs two to 64 processes");
	out = malloc((size_t)ranks * (LARGEST + 64) + 1);
	in = malloc((size_t)ranks * (LARGEST + 64) + 1);
	all_sizes(MPI_COMM_WORLD, BOUNDS);
	passed("blocks");
	layouts();
	passed("layouts");
	bottoms();
	passed("MPI_BOTTOM");
	idups();
	passed("MPI_Comm_idup");
	MPI_Comm half, reversed;
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
	MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
	all_sizes(half, 3);
	all_sizes(reversed, 3);
	passed("communicators");
	for (int round = 0; round < 8; round++) {
		many_at_once(MPI_COMM_WORLD, 8 + 250 * round);
		many_at_once(reversed, 4000);
		many_at_once(half, 40000 * (round % 2) + 16);
	}
	passed("many at once");
	MPI_Comm_free(&half);
	MPI_Comm_free(&reversed);
	barriers();
	passed("ibarrier");
	free(out);
	free(in);
	return end();
}
