/* Barrier, bcast, reduce and allreduce: all roots, sizes around the bounds between one way and
 * another, all operations, and every byte looked at; also on communicators that come and go, and
 * while others want to be served.
 *
 * With the argument "one": without threads. */
#include <complex.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "pattern.h"

/* Where ways change: pieces of a team, what goes by it at all, and protocols of messages. */
static const size_t bounds[] = { 0, 8, 64, 1024, 4096, 8192, 16384, 32768, 65536, 262144 };
#define BOUNDS (sizeof(bounds) / sizeof(bounds[0]))

/* Of many processes some are roots. */
#define MANY 8

static void bcasts(MPI_Comm comm)
{
	int size, me;
	MPI_Comm_size(comm, &size);
	MPI_Comm_rank(comm, &me);
	char *data = malloc(bounds[BOUNDS - 1] + 2);
	for (size_t nth = 0; nth < BOUNDS; nth++) {
		for (int more = nth ? -1 : 0; more <= 1; more++) {
			size_t bytes = bounds[nth] + (size_t)more;
			for (int root = 0; root<size; root += size> MANY ? size / MANY : 1) {
				unsigned message = (unsigned)(bytes + (size_t)root);
				memset(data, 99, bytes + 1);
				if (me == root)
					fill(data, bytes, (unsigned)root, message);
				MPI_Bcast(data, (int)bytes, MPI_BYTE, root, comm);
				verify(data, bytes, (unsigned)root, message, "bcast");
				must(data[bytes] == 99,
					"bcast of %zu bytes has written past the end", bytes);
			}
		}
	}
	free(data);
}

/* The same integers with holes at some, without at others: MPI wants equal signatures, not equal
 * layouts. */
static void layouts(void)
{
	enum { MOST = 20000, APART = 3 };
	static int data[MOST * APART];
	for (int count = 1; count <= MOST; count *= 11) {
		MPI_Datatype spaced;
		MPI_Type_vector(count, 1, APART, MPI_INT, &spaced);
		MPI_Type_commit(&spaced);
		for (int root = 0; root<ranks; root += ranks> MANY ? ranks / MANY : 1) {
			int distance = (rank + root) % 2 ? APART : 1;
			for (int at = 0; at < MOST * APART; at++)
				data[at] = -1;
			for (int at = 0; rank == root && at < count; at++)
				data[at * distance] = at * 7 + root;
			if (distance == 1)
				MPI_Bcast(data, count, MPI_INT, root, MPI_COMM_WORLD);
			else
				MPI_Bcast(data, 1, spaced, root, MPI_COMM_WORLD);
			for (int at = 0; at < count * distance; at++)
				must(data[at] == (at % distance ? -1 : at / distance * 7 + root),
					"layouts: %d integers from %d: number %d is %d", count,
					root, at, data[at]);
		}
		MPI_Type_free(&spaced);
	}
}

/* What each rank has at a place: small, so that sums and products are exact for all types. */
static int number(int of, int at)
{ return at % 4 ? 1 + (of + at) % 2 + (of % 5 == 0 && at % 3 == 0) : (of + at / 4) % 3; }

struct operation {
	MPI_Op op;
	const char *name;
	int integers; /* only */
	int64_t (*of)(int64_t, int64_t);
};
static int64_t sum(int64_t a, int64_t b) { return a + b; }
static int64_t product(int64_t a, int64_t b) { return a * b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t greatest(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t both(int64_t a, int64_t b) { return a && b; }
static int64_t either(int64_t a, int64_t b) { return a || b; }
static int64_t one_of(int64_t a, int64_t b) { return !a != !b; }
static int64_t bits_and(int64_t a, int64_t b) { return a & b; }
static int64_t bits_or(int64_t a, int64_t b) { return a | b; }
static int64_t bits_xor(int64_t a, int64_t b) { return a ^ b; }

/* All ranks' numbers, in the bounds of a type of so many bits. */
static int64_t wanted(const struct operation *operation, int size, int at)
{
	int64_t result = number(0, at);
	for (int of = 1; of < size; of++)
		result = operation->of(result, number(of, at));
	return result;
}

/* The calls for one type and one operation. */
#define TYPE(calls_of, c, mpi)                                                                   \
	static void calls_of(                                                                    \
		MPI_Comm comm, const struct operation *operation, int count, int root)           \
	{                                                                                        \
		int size, me;                                                                    \
		MPI_Comm_size(comm, &size);                                                      \
		MPI_Comm_rank(comm, &me);                                                        \
		c *mine = calloc((size_t)count + 1, sizeof(c)),                                  \
		  *result = calloc((size_t)count + 1, sizeof(c));                                \
		for (int at = 0; at < count; at++)                                               \
			mine[at] = (c)number(me, at);                                            \
		result[count] = (c)77;                                                           \
		for (int call = 0; call < 4; call++) {                                           \
			int has = call % 2 || me == root;                                        \
			if (call == 0) {                                                         \
				MPI_Reduce(mine, result, count, mpi, operation->op, root, comm); \
			} else if (call == 1) {                                                  \
				MPI_Allreduce(mine, result, count, mpi, operation->op, comm);    \
			} else {                                                                 \
				memcpy(result, mine, (size_t)count * sizeof(c));                 \
				if (call == 2)                                                   \
					MPI_Reduce(me == root ? MPI_IN_PLACE : mine,             \
						me == root ? result : NULL, count, mpi,          \
						operation->op, root, comm);                      \
				else                                                             \
					MPI_Allreduce(MPI_IN_PLACE, result, count, mpi,          \
						operation->op, comm);                            \
			}                                                                        \
			for (int at = 0; has && at < count; at++)                                \
				must(result[at] == (c)wanted(operation, size, at),               \
					#calls_of ", %s, call %d: number %d of %d",              \
					operation->name, call, at, count);                       \
			for (int at = 0; at < count; at++)                                       \
				must(mine[at] == (c)number(me, at),                              \
					#calls_of ": what was given has changed");               \
			must(result[count] == (c)77, #calls_of ": written past the end");        \
		}                                                                                \
		free(mine);                                                                      \
		free(result);                                                                    \
	}
TYPE(bytes_1, signed char, MPI_SIGNED_CHAR)
TYPE(bytes_2, short, MPI_SHORT)
TYPE(integers, int, MPI_INT)
TYPE(longs, long, MPI_LONG)
TYPE(unsigned_longs, unsigned long, MPI_UNSIGNED_LONG)
TYPE(fixed, int64_t, MPI_INT64_T)
TYPE(floats, float, MPI_FLOAT)
TYPE(doubles, double, MPI_DOUBLE)
TYPE(long_doubles, long double, MPI_LONG_DOUBLE)
TYPE(complexes, double complex, MPI_C_DOUBLE_COMPLEX)

static const struct {
	void (*calls)(MPI_Comm, const struct operation *, int, int);
	int integers, ordered;
	size_t bytes;
} types[] = {
	{ bytes_1, 1, 1, 1 },
	{ bytes_2, 1, 1, 2 },
	{ integers, 1, 1, 4 },
	{ longs, 1, 1, 8 },
	{ unsigned_longs, 1, 1, 8 },
	{ fixed, 1, 1, 8 },
	{ floats, 0, 1, 4 },
	{ doubles, 0, 1, 8 },
	{ long_doubles, 0, 1, sizeof(long double) },
	{ complexes, 0, 0, 16 },
};

static void reductions(MPI_Comm comm)
{
	const struct operation operations[] = {
		{ MPI_SUM, "sum", 0, sum },
		{ MPI_PROD, "product", 0, product },
		{ MPI_MIN, "min", 0, least },
		{ MPI_MAX, "max", 0, greatest },
		{ MPI_LAND, "land", 1, both },
		{ MPI_LOR, "lor", 1, either },
		{ MPI_LXOR, "lxor", 1, one_of },
		{ MPI_BAND, "band", 1, bits_and },
		{ MPI_BOR, "bor", 1, bits_or },
		{ MPI_BXOR, "bxor", 1, bits_xor },
	};
	int size;
	MPI_Comm_size(comm, &size);
	for (size_t type = 0; type < sizeof(types) / sizeof(types[0]); type++) {
		for (size_t nth = 0; nth < sizeof(operations) / sizeof(operations[0]); nth++) {
			const struct operation *operation = &operations[nth];
			int orders = operation->op == MPI_MIN || operation->op == MPI_MAX;
			if ((operation->integers && !types[type].integers)
			        || (orders && !types[type].ordered))
				continue;
			/* All sizes for one operation; a few for the others. */
			for (size_t bound = 0; bound < BOUNDS - 2; bound++) {
				int count = (int)(bounds[bound] / types[type].bytes);
				for (int more = count ? -1 : 0; more <= 1; more++)
					if (nth == 0 || bound == 2 || (bound == 5 && more == 1))
						types[type].calls(comm, operation, count + more,
							(int)(bound + nth) % size);
			}
		}
	}
}

/* The least, and who has it: without holes (two integers) and with them (a double and an integer).
 */
static void places(void)
{
	enum { COUNT = 500 };
	static struct {
		int value, of;
	} integers[COUNT], least_integers[COUNT];
	static struct {
		double value;
		int of;
	} numbers[COUNT], greatest_numbers[COUNT];
	for (int at = 0; at < COUNT; at++) {
		integers[at].value = (rank + at) % ranks;
		numbers[at].value = (rank * 3 + at) % ranks == 0 ? 9.5 : -1;
		integers[at].of = numbers[at].of = rank;
	}
	MPI_Allreduce(integers, least_integers, COUNT, MPI_2INT, MPI_MINLOC, MPI_COMM_WORLD);
	MPI_Allreduce(numbers, greatest_numbers, COUNT, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
	for (int at = 0; at < COUNT; at++) {
		must(least_integers[at].value == 0 && (least_integers[at].of + at) % ranks == 0,
			"minloc, %d", at);
		int first = 0;
		while (first < ranks && (first * 3 + at) % ranks)
			first++;
		must(greatest_numbers[at].of == (first < ranks ? first : 0), "maxloc, %d", at);
	}
}

/* A user's operation that depends on the order: x -> a x + b, one after the other. */
static void chain(void *earlier, void *later, int *count, MPI_Datatype *type)
{
	(void)type;
	uint32_t *first = earlier, *second = later;
	for (int at = 0; at < *count; at++) {
		second[2 * at + 1] += second[2 * at] * first[2 * at + 1];
		second[2 * at] *= first[2 * at];
	}
}

static void users(void)
{
	MPI_Op op;
	MPI_Datatype pair;
	uint32_t mine[2 * 50], result[2 * 50], a = 1, b = 0;
	MPI_Op_create(chain, 0, &op);
	MPI_Type_contiguous(2, MPI_UINT32_T, &pair);
	MPI_Type_commit(&pair);
	for (int at = 0; at < 50; at++) {
		mine[2 * at] = (uint32_t)rank + 2;
		mine[2 * at + 1] = (uint32_t)(rank * 10 + 1);
	}
	MPI_Allreduce(mine, result, 50, pair, op, MPI_COMM_WORLD);
	for (int of = 0; of < ranks; of++) {
		b = ((uint32_t)of + 2) * b + (uint32_t)(of * 10 + 1);
		a *= (uint32_t)of + 2;
	}
	for (int at = 0; at < 50; at++)
		must(result[2 * at] == a && result[2 * at + 1] == b, "a user's operation");
	MPI_Op_free(&op);
	MPI_Type_free(&pair);
}

/* Sums that depend on the order are the same bytes for all. */
static void same_for_all(void)
{
	double mine[100], result[100], first[100];
	for (int at = 0; at < 100; at++)
		mine[at] = 0.1 * (rank + 1) * (rank + 1) * (at + 1) / 3;
	MPI_Allreduce(mine, result, 100, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	memcpy(first, result, sizeof(first));
	MPI_Bcast(first, 100, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	must(memcmp(first, result, sizeof(first)) == 0, "sums differ");
}

static void splits(void)
{
	MPI_Comm half, reversed;
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
	MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
	bcasts(half);
	bcasts(reversed);
	reductions(half);
	for (int round = 0; round < 100; round++) {
		int parts[3];
		MPI_Comm comms[] = { half, MPI_COMM_WORLD, reversed };
		for (int nth = 0; nth < 3; nth++) {
			int size, one = 1;
			MPI_Allreduce(&one, &parts[nth], 1, MPI_INT, MPI_SUM, comms[nth]);
			MPI_Comm_size(comms[nth], &size);
			must(parts[nth] == size, "split");
			MPI_Barrier(comms[nth]);
		}
	}
	MPI_Comm_free(&half);
	MPI_Comm_free(&reversed);
}

/* Many, one after the other, and then more at once than there may be teams. */
static void coming_and_going(void)
{
	enum { MANY_COMMS = 200, AT_ONCE = 80 };
	static MPI_Comm comms[AT_ONCE];
	int one = 1, all;
	for (int nth = 0; nth < MANY_COMMS; nth++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
		/* Some never make a call. */
		if (nth % 3)
			MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, comms[0]);
		must(nth % 3 == 0 || all == ranks, "duplicate %d", nth);
		MPI_Comm_free(&comms[0]);
	}
	for (int nth = 0; nth < AT_ONCE; nth++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[nth]);
		MPI_Barrier(comms[nth]);
	}
	for (int nth = 0; nth < AT_ONCE; nth++) {
		MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, comms[nth]);
		must(all == ranks, "duplicate %d of many", nth);
		MPI_Comm_free(&comms[nth]);
	}
}

/* Rank 0 waits in a call while the others want it: for one-sided operations on its private memory,
 * and for the rest of a message that it has begun to send. */
static void served_meanwhile(void)
{
	enum { ROUNDS = 50, LONG = 1 << 20 };
	int64_t counter = 0, one = 1;
	char *message = room(LONG, 0);
	MPI_Win win;
	MPI_Win_create(&counter, sizeof(counter), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	for (int round = 0; round < ROUNDS; round++) {
		MPI_Request request = MPI_REQUEST_NULL;
		if (rank == 0) {
			fill(message, LONG, 0, (unsigned)round);
			MPI_Isend(message, LONG, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
		} else {
			MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
			MPI_Accumulate(&one, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, MPI_SUM, win);
			MPI_Win_unlock(0, win);
		}
		if (rank == 1) {
			MPI_Recv(message, LONG, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			verify(message, LONG, 0, (unsigned)round, "served meanwhile");
		}
		int64_t seen = -1;
		if (round % 2) {
			MPI_Barrier(MPI_COMM_WORLD);
		} else {
			MPI_Allreduce(&one, &seen, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
			must(seen == ranks, "served meanwhile: %ld", (long)seen);
		}
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		if (rank == 0) {
			MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
			must(counter == (int64_t)(round + 1) * (ranks - 1),
				"round %d: the counter is %ld", round, (long)counter);
			MPI_Win_unlock(0, win);
		}
		MPI_Barrier(MPI_COMM_WORLD);
	}
	MPI_Win_free(&win);
	free(message);
}

static void *of_one_thread(void *argument)
{
	MPI_Comm comm = *(MPI_Comm *)argument;
	bcasts(comm);
	for (int round = 0; round < 300; round++) {
		int mine = rank + round, all = 0;
		MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, comm);
		must(all == ranks * round + ranks * (ranks - 1) / 2, "threads: round %d", round);
		MPI_Barrier(comm);
	}
	return NULL;
}

/* A communicator for each thread. */
static void threads(void)
{
	pthread_t two[2];
	MPI_Comm comms[2];
	for (int nth = 0; nth < 2; nth++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[nth]);
	for (int nth = 0; nth < 2; nth++)
		must(pthread_create(&two[nth], NULL, of_one_thread, &comms[nth]) == 0, "no thread");
	for (int nth = 0; nth < 2; nth++)
		pthread_join(two[nth], NULL);
	for (int nth = 0; nth < 2; nth++)
		MPI_Comm_free(&comms[nth]);
}

int main(int argc, char **argv)
{
	int alone = argc > 1 && strcmp(argv[1], "one") == 0;
	begin(&argc, &argv, alone ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE);
	must(ranks > 1, "needs two processes");
	for (int round = 0; round < 1000; round++)
		MPI_Barrier(MPI_COMM_WORLD);
	passed("barrier");
	bcasts(MPI_COMM_WORLD);
	passed("bcast");
	layouts();
	passed("layouts");
	reductions(MPI_COMM_WORLD);
	passed("reductions");
	places();
	passed("places");
	users();
	passed("users' operations");
	same_for_all();
	passed("the same for all");
	splits();
	passed("splits");
	coming_and_going();
	passed("communicators that come and go");
	served_meanwhile();
	passed("served meanwhile");
	if (!alone) {
		threads();
		passed("threads");
	}
	return end();
}
