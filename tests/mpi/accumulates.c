/* Accumulates of every kind: what is in the window afterwards, and what was fetched, is what the
 * operation makes of what was there, or the call has given an error and changed nothing. Then all
 * at once, on the same numbers.
 *
 * With an argument: all of it on each kind of window. Ends with `N passed, 0 failed`, and says
 * before how many calls were refused. */
#include <stdint.h>
#include <string.h>

#include "pattern.h"

/* Elements of each origin's part of a window. */
enum { ROOM = 512 };
enum { ACCUMULATE, GET_ACCUMULATE, RGET_ACCUMULATE, RACCUMULATE, FETCH, CALLS };
enum { INTEGER, FLOATING, PAIR };

static uint64_t state = 88172645463325252u;
static unsigned any(unsigned below)
{
	state ^= state << 13, state ^= state >> 7, state ^= state << 17;
	return (unsigned)(state >> 33) % below;
}

struct kind {
	MPI_Datatype type;
	const char *name;
	int family;
	size_t extent, first; /* bytes of the value */
	int index;       /* where a pair has its index */
};
struct shape { /* count elements, so many apart */
	int count, stride;
};

static struct kind kinds[24];
static int kind_count;

static void element(const struct kind *kind, char *at)
{
	memset(at, 0, kind->extent);
	if (kind->family == INTEGER) {
		/* Short ones do not overflow: Open MPI's own operations then differ by how many
		 * there are. */
		for (size_t byte = 0; byte < kind->extent; byte++)
			at[byte] = (char)(kind->extent < 4 ? (byte ? 0 : any(6))
					: any(3)           ? any(256)
							   : 0);
		return;
	}
	int value = (int)any(5);
	if (kind->type == MPI_FLOAT || kind->type == MPI_FLOAT_INT)
		*(float *)at = (float)value;
	else if (kind->type == MPI_DOUBLE || kind->type == MPI_DOUBLE_INT)
		*(double *)at = value;
	else if (kind->type == MPI_LONG_DOUBLE_INT)
		*(long double *)at = value;
	else if (kind->type == MPI_SHORT_INT)
		*(short *)at = (short)value;
	else if (kind->type == MPI_LONG_INT)
		*(long *)at = value;
	else
		*(int *)at = value;
	if (kind->family == PAIR)
		*(int *)(at + kind->index) = (int)any(1000);
}

/* The same values, whatever is in the holes. */
static int same(const struct kind *kind, const char *one, const char *other)
{
	size_t value = kind->type == MPI_LONG_DOUBLE_INT ? 10 : kind->first;
	return memcmp(one, other, value) == 0
	        && (kind->family != PAIR || memcmp(one + kind->index, other + kind->index, 4) == 0);
}

static MPI_Datatype laid_out(const struct kind *kind, struct shape shape)
{
	MPI_Datatype type;
	MPI_Type_vector(shape.count, 1, shape.stride, kind->type, &type);
	MPI_Type_commit(&type);
	return type;
}

/* Calls, by the kind of window. */
static long refused[3];
static int window;

static void once(MPI_Win win, const struct kind *kind, MPI_Op op, const char *name, int call,
	int target, struct shape from, struct shape there, struct shape to)
{
	static char origin[ROOM * 32], before[ROOM * 32], after[ROOM * 32], wanted[ROOM * 32],
		result[ROOM * 32], fetched[ROOM * 32];
	size_t extent = kind->extent;
	int bytes = (int)(ROOM * extent), fetches = call != ACCUMULATE && call != RACCUMULATE;
	MPI_Aint part = (MPI_Aint)rank * ROOM * 32;
	for (int nth = 0; nth < ROOM; nth++) {
		element(kind, origin + (size_t)nth * extent);
		element(kind, before + (size_t)nth * extent);
		element(kind, result + (size_t)nth * extent);
	}
	memcpy(wanted, before, (size_t)bytes);
	memcpy(fetched, result, (size_t)bytes);
	for (int nth = 0; nth < there.count; nth++) {
		char *at = wanted + (size_t)(nth * there.stride) * extent,
		     *with = origin + (size_t)(nth * from.stride) * extent;
		memcpy(fetched + (size_t)(nth * to.stride) * extent, at, extent);
		if (op == MPI_REPLACE)
			memcpy(at, with, extent);
		else if (op != MPI_NO_OP)
			MPI_Reduce_local(with, at, 1, kind->type, op);
	}
	/* Plain calls for what is in one piece, the types of layouts else. */
	MPI_Datatype types[3];
	int counts[3];
	struct shape shapes[3] = { from, there, to };
	for (int nth = 0; nth < 3; nth++) {
		types[nth] = shapes[nth].stride == 1 ? kind->type : laid_out(kind, shapes[nth]);
		counts[nth] = shapes[nth].stride == 1 ? shapes[nth].count : 1;
	}
	MPI_Put(before, bytes, MPI_BYTE, target, part, bytes, MPI_BYTE, win);
	MPI_Win_flush(target, win);
	MPI_Request request = MPI_REQUEST_NULL;
	int rc = call == ACCUMULATE   ? MPI_Accumulate(origin, counts[0], types[0], target, part,
						counts[1], types[1], op, win)
		: call == RACCUMULATE ? MPI_Raccumulate(origin, counts[0], types[0], target, part,
						counts[1], types[1], op, win, &request)
		: call == GET_ACCUMULATE
		? MPI_Get_accumulate(origin, counts[0], types[0], result, counts[2], types[2],
			  target, part, counts[1], types[1], op, win)
		: call == RGET_ACCUMULATE
		? MPI_Rget_accumulate(origin, counts[0], types[0], result, counts[2], types[2],
			  target, part, counts[1], types[1], op, win, &request)
		: MPI_Fetch_and_op(origin, result, kind->type, target, part, op, win);
	if (rc == MPI_SUCCESS && request != MPI_REQUEST_NULL)
		rc = MPI_Wait(&request, MPI_STATUS_IGNORE);
	int also = MPI_Win_flush(target, win);
	rc = rc == MPI_SUCCESS ? also : rc;
	MPI_Get(after, bytes, MPI_BYTE, target, part, bytes, MPI_BYTE, win);
	MPI_Win_flush(target, win);
	refused[window] += rc != MPI_SUCCESS;
	static const char *const calls[] = { "accumulate", "get_accumulate", "rget_accumulate",
		"raccumulate", "fetch_and_op" };
	for (int nth = 0; nth < ROOM; nth++) {
		size_t at = (size_t)nth * extent;
		must(same(kind, after + at, (rc == MPI_SUCCESS ? wanted : before) + at),
			"%s of %d %s, %s, to rank %d, strides %d %d %d: element %d of the window is wrong (the call gave %d)",
			calls[call], there.count, kind->name, name, target, from.stride,
			there.stride, to.stride, nth, rc);
		must(rc != MPI_SUCCESS || !fetches || same(kind, result + at, fetched + at),
			"%s of %d %s, %s, to rank %d, strides %d %d %d: element %d that was fetched is wrong",
			calls[call], there.count, kind->name, name, target, from.stride,
			there.stride, to.stride, nth);
	}
	for (int nth = 0; nth < 3; nth++)
		if (shapes[nth].stride != 1)
			MPI_Type_free(&types[nth]);
}

static void alone(MPI_Win win, int family, int thorough)
{
	static const struct {
		MPI_Op op;
		const char *name;
		int families;
	} ops[] = {
		{ MPI_SUM, "sum", 1 << INTEGER | 1 << FLOATING },
		{ MPI_PROD, "product", 1 << INTEGER | 1 << FLOATING },
		{ MPI_MAX, "max", 1 << INTEGER | 1 << FLOATING },
		{ MPI_MIN, "min", 1 << INTEGER | 1 << FLOATING },
		{ MPI_LAND, "land", 1 << INTEGER },
		{ MPI_LOR, "lor", 1 << INTEGER },
		{ MPI_LXOR, "lxor", 1 << INTEGER },
		{ MPI_BAND, "band", 1 << INTEGER },
		{ MPI_BOR, "bor", 1 << INTEGER },
		{ MPI_BXOR, "bxor", 1 << INTEGER },
		{ MPI_MAXLOC, "maxloc", 1 << PAIR },
		{ MPI_MINLOC, "minloc", 1 << PAIR },
		{ MPI_REPLACE, "replace", 1 << INTEGER | 1 << FLOATING | 1 << PAIR },
		{ MPI_NO_OP, "no-op", 1 << INTEGER | 1 << FLOATING | 1 << PAIR },
	};
	static const int counts[] = { 1, 5, 200 };
	MPI_Win_lock_all(0, win);
	for (int row = 0; row < kind_count; row++) {
		if (kinds[row].family != family)
			continue;
		for (size_t op = 0; op < sizeof(ops) / sizeof(ops[0]); op++) {
			if (!(ops[op].families & 1 << family))
				continue;
			for (int call = 0; call < CALLS; call++) {
				if (ops[op].op == MPI_NO_OP
				        && (call == ACCUMULATE || call == RACCUMULATE))
					continue;
				/* A sixth in each kind of window, unless there is time. */
				if (!thorough
				        && ((size_t)row + op + (size_t)call + 2 * (size_t)window)
				                        % 6
				                != 0)
					continue;
				for (int count = 0; count < (call == FETCH ? 1 : 3); count++) {
					int target = thorough ? (int)any((unsigned)ranks)
							      : (rank + 1 + row) % ranks;
					int layout = call == FETCH ? 0 : (int)any(4);
					struct shape shape[3];
					for (int nth = 0; nth < 3; nth++)
						shape[nth] = (struct shape) { counts[count],
							layout == 0 || (layout - 1) == nth ? 1
											   : 2 };
					once(win, &kinds[row], ops[op].op, ops[op].name, call,
						target, shape[0], shape[1], shape[2]);
				}
			}
		}
	}
	MPI_Win_unlock_all(win);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* All add to the same numbers at once: each value on the way is fetched by one of them. */
static void together(MPI_Win win, int64_t *base, int count, int call)
{
	enum { ROUNDS = 4 };
	int64_t *ones = malloc((size_t)count * 8), *got = malloc((size_t)count * 8), sum = 0, all;
	for (int nth = 0; nth < count; nth++)
		ones[nth] = 1;
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
	memset(base, 0, (size_t)count * 8);
	MPI_Win_unlock(rank, win);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, win);
	for (int round = 0; round < ROUNDS; round++) {
		for (int target = 0; target < ranks; target++) {
			MPI_Request request = MPI_REQUEST_NULL;
			if (call == ACCUMULATE)
				MPI_Accumulate(ones, count, MPI_INT64_T, target, 0, count,
					MPI_INT64_T, MPI_SUM, win);
			else if (call == GET_ACCUMULATE)
				MPI_Get_accumulate(ones, count, MPI_INT64_T, got, count,
					MPI_INT64_T, target, 0, count, MPI_INT64_T, MPI_SUM, win);
			else
				MPI_Rget_accumulate(ones, count, MPI_INT64_T, got, count,
					MPI_INT64_T, target, 0, count, MPI_INT64_T, MPI_SUM, win,
					&request);
			if (request != MPI_REQUEST_NULL)
				MPI_Wait(&request, MPI_STATUS_IGNORE);
			else
				MPI_Win_flush(target, win);
			for (int nth = 0; call != ACCUMULATE && nth < count; nth++)
				sum += got[nth];
		}
	}
	MPI_Win_unlock_all(win);
	MPI_Allreduce(&sum, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
	int64_t turns = (int64_t)ROUNDS * ranks;
	for (int nth = 0; nth < count; nth++)
		must(base[nth] == turns, "%d at once: number %d is %ld", count, nth,
			(long)base[nth]);
	MPI_Win_unlock(rank, win);
	must(call == ACCUMULATE || all == ranks * (int64_t)count * (turns * (turns - 1) / 2),
		"%d at once: fetched %ld", count, (long)all);
	free(ones);
	free(got);
	MPI_Barrier(MPI_COMM_WORLD);
}

static void kind(MPI_Datatype type, const char *name, int family, size_t first, int index)
{
	MPI_Aint low, extent;
	MPI_Type_get_extent(type, &low, &extent);
	kinds[kind_count++] = (struct kind) { type, name, family, (size_t)extent, first, index };
}

int main(int argc, char **argv)
{
	begin(&argc, &argv, MPI_THREAD_SINGLE);
	state += (uint64_t)rank * 7919;
	kind(MPI_INT, "int", INTEGER, 4, 0);
	kind(MPI_INT64_T, "int64", INTEGER, 8, 0);
	kind(MPI_UINT32_T, "uint32", INTEGER, 4, 0);
	kind(MPI_UINT64_T, "uint64", INTEGER, 8, 0);
	kind(MPI_SHORT, "short", INTEGER, 2, 0);
	kind(MPI_UINT8_T, "uint8", INTEGER, 1, 0);
	kind(MPI_FLOAT, "float", FLOATING, 4, 0);
	kind(MPI_DOUBLE, "double", FLOATING, 8, 0);
	kind(MPI_2INT, "pair of ints", PAIR, 4, 4);
	kind(MPI_FLOAT_INT, "float and int", PAIR, 4, 4);
	kind(MPI_DOUBLE_INT, "double and int", PAIR, 8, 8);
	kind(MPI_LONG_INT, "long and int", PAIR, 8, 8);
	kind(MPI_SHORT_INT, "short and int", PAIR, 2, 4);
	kind(MPI_LONG_DOUBLE_INT, "long double and int", PAIR, 16, 16);
	static const char *const families[] = { "integers", "floating numbers", "pairs" };
	for (window = 0; window < 3; window++) {
		MPI_Win win;
		char *base;
		MPI_Aint bytes = (MPI_Aint)ranks * ROOM * 32;
		if (window == 2)
			MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
		else
			MPI_Win_create(base = room((size_t)bytes, window), bytes, 1, MPI_INFO_NULL,
				MPI_COMM_WORLD, &win);
		MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
		for (int family = INTEGER; family <= PAIR; family++) {
			alone(win, family, argc > 1);
			passed(families[family]);
		}
		for (int call = ACCUMULATE; call <= RGET_ACCUMULATE; call++)
			for (int count = 1; count < 3000; count = count * 7 + 1)
				together(win, (int64_t *)base, count, call);
		passed("at once");
		MPI_Win_free(&win);
		if (window != 2)
			no_room(base, window);
	}
	long all[3];
	MPI_Reduce(refused, all, 3, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("calls refused: private memory %ld, MPI_Alloc_mem %ld, MPI_Win_allocate %ld\n",
			all[0], all[1], all[2]);
	return end();
}
