/* Every one-sided call, on a window of MPI_Win_allocate and on one that MPI_Win_create makes of
 * MPI_Alloc_mem's memory: what each does, what it gives back, and what it refuses.
 *
 * With an argument: the processes are not all in one kernel. */
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "pattern.h"

enum { BYTES = 4096, UNITS = 3 };
static const int units[UNITS] = { 1, 8, 4 };
static const char *kind;

/* Each process's memory has a size and a unit of its own. */
static MPI_Aint bytes_of(int target) { return BYTES + 64 * target; }
static MPI_Aint at(int target, size_t byte)
{ return (MPI_Aint)(byte / (size_t)units[target % UNITS]); }

static int class_of(int rc)
{
	int class = MPI_SUCCESS;
	if (rc != MPI_SUCCESS)
		MPI_Error_class(rc, &class);
	return class;
}
#define gives(class, call) \
	must(class_of(call) == (class), "%s: %s gave %d", kind, #call, class_of(call))

static MPI_Win open_window(int allocate, MPI_Comm comm, int bytes, int unit, char **base)
{
	MPI_Win win;
	if (allocate) {
		MPI_Win_allocate(bytes, unit, MPI_INFO_NULL, comm, base, &win);
	} else {
		*base = bytes ? room((size_t)bytes, 1) : NULL;
		MPI_Win_create(*base, bytes, unit, MPI_INFO_NULL, comm, &win);
	}
	MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
	return win;
}

static void close_window(MPI_Win *win, int allocate, char *base)
{
	MPI_Win_free(win);
	must(*win == MPI_WIN_NULL, "%s: not freed", kind);
	if (!allocate && base)
		no_room(base, 1);
}

static void attributes(MPI_Win win, int allocate, char *base)
{
	void *value;
	int found;
	MPI_Win_get_attr(win, MPI_WIN_BASE, &value, &found);
	must(found && value == base, "%s: base", kind);
	MPI_Win_get_attr(win, MPI_WIN_SIZE, &value, &found);
	must(found && *(MPI_Aint *)value == bytes_of(rank), "%s: size", kind);
	MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &value, &found);
	must(found && *(int *)value == units[rank % UNITS], "%s: unit", kind);
	MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &value, &found);
	must(found && *(int *)value == (allocate ? MPI_WIN_FLAVOR_ALLOCATE : MPI_WIN_FLAVOR_CREATE),
		"%s: flavor", kind);
	MPI_Win_get_attr(win, MPI_WIN_MODEL, &value, &found);
	must(found && *(int *)value == MPI_WIN_UNIFIED, "%s: model", kind);
	MPI_Group world, group;
	MPI_Win_get_group(win, &group);
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_compare(world, group, &found);
	must(found == MPI_IDENT, "%s: group", kind);
	MPI_Group_free(&world);
	MPI_Group_free(&group);
	must(!allocate || (uintptr_t)base % 64 == 0, "%s: not aligned", kind);
	for (MPI_Aint byte = 0; byte < bytes_of(rank); byte++)
		must(!allocate || base[byte] == 0, "%s: the memory was not zeroed", kind);
	passed("attributes");
}

/* What is wrong is said, and nothing is done. */
static void refusals(MPI_Win win, char *base)
{
	int64_t word = 7, other = 0;
	int flag, unit, to = (rank + 1) % ranks;
	MPI_Aint size, end = at(to, (size_t)bytes_of(to));
	void *memory;
	memset(base, 0, BYTES);
	MPI_Barrier(MPI_COMM_WORLD);
	gives(MPI_ERR_RMA_SYNC, MPI_Win_unlock(to, win));
	gives(MPI_ERR_RMA_SYNC, MPI_Win_unlock_all(win));
	gives(MPI_ERR_RMA_SYNC, MPI_Win_complete(win));
	gives(MPI_ERR_RMA_SYNC, MPI_Win_wait(win));
	gives(MPI_ERR_RMA_SYNC, MPI_Win_test(win, &flag));
	must(MPI_Win_shared_query(win, 0, &size, &unit, &memory), "%s: it is shared", kind);
	gives(MPI_ERR_RMA_ATTACH, MPI_Win_attach(win, &word, 8));
	gives(MPI_ERR_RMA_ATTACH, MPI_Win_detach(win, &word));
	gives(MPI_SUCCESS, MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win));
	gives(MPI_ERR_RMA_SYNC, MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win));
	gives(MPI_ERR_RMA_SYNC, MPI_Win_lock_all(0, win));
	gives(MPI_SUCCESS, MPI_Win_unlock(to, win));
	gives(MPI_SUCCESS, MPI_Win_lock_all(0, win));
	gives(MPI_ERR_RMA_SYNC, MPI_Win_unlock(to, win));
	gives(MPI_ERR_RMA_SYNC, MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win));
	const MPI_Aint beyond[] = { end, end + 1000, INT64_MAX / 4, INT64_MAX,
		end - (units[to % UNITS] < 8) };
	for (size_t nth = 0; nth < sizeof(beyond) / sizeof(beyond[0]); nth++) {
		MPI_Aint to_there = beyond[nth];
		gives(MPI_ERR_RMA_RANGE,
			MPI_Put(&word, 8, MPI_BYTE, to, to_there, 8, MPI_BYTE, win));
		gives(MPI_ERR_RMA_RANGE,
			MPI_Get(&word, 8, MPI_BYTE, to, to_there, 8, MPI_BYTE, win));
		gives(MPI_ERR_RMA_RANGE,
			MPI_Accumulate(
				&word, 1, MPI_INT64_T, to, to_there, 1, MPI_INT64_T, MPI_SUM, win));
		gives(MPI_ERR_RMA_RANGE,
			MPI_Fetch_and_op(&word, &other, MPI_INT64_T, to, to_there, MPI_SUM, win));
		gives(MPI_ERR_RMA_RANGE,
			MPI_Compare_and_swap(
				&word, &other, &other, MPI_INT64_T, to, to_there, win));
	}
	/* Nothing, to nowhere. */
	gives(MPI_SUCCESS, MPI_Put(&word, 0, MPI_BYTE, to, end, 0, MPI_BYTE, win));
	gives(MPI_SUCCESS, MPI_Put(&word, 1, MPI_INT64_T, MPI_PROC_NULL, 0, 1, MPI_INT64_T, win));
	gives(MPI_SUCCESS,
		MPI_Fetch_and_op(&word, &other, MPI_INT64_T, MPI_PROC_NULL, 0, MPI_SUM, win));
	must(word == 7 && other == 0, "%s: something was fetched", kind);
	gives(MPI_SUCCESS, MPI_Win_unlock_all(win));
	MPI_Barrier(MPI_COMM_WORLD);
	for (int byte = 0; byte < BYTES; byte++)
		must(base[byte] == 0, "%s: refused, and byte %d was written", kind, byte);
	passed("refusals");
}

static void requests(MPI_Win win, char *base)
{
	enum { EACH = 8 };
	int64_t out[EACH], in[EACH], old[EACH], one = 1;
	MPI_Request all[4 * EACH];
	int to = (rank + 1) % ranks;
	MPI_Barrier(MPI_COMM_WORLD);
	memset(base, 0, BYTES);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
	for (int nth = 0; nth < EACH; nth++) {
		out[nth] = rank * 100 + nth;
		MPI_Rput(&out[nth], 1, MPI_INT64_T, to, at(to, 8 * (size_t)nth), 1, MPI_INT64_T,
			win, &all[nth]);
	}
	MPI_Waitall(EACH, all, MPI_STATUSES_IGNORE);
	MPI_Win_flush(to, win);
	for (int nth = 0; nth < EACH; nth++) {
		MPI_Rget(&in[nth], 1, MPI_INT64_T, to, at(to, 8 * (size_t)nth), 1, MPI_INT64_T, win,
			&all[nth]);
		MPI_Raccumulate(&one, 1, MPI_INT64_T, to, at(to, 1024), 1, MPI_INT64_T, MPI_SUM,
			win, &all[EACH + nth]);
		MPI_Rget_accumulate(&one, 1, MPI_INT64_T, &old[nth], 1, MPI_INT64_T, to,
			at(to, 2048), 1, MPI_INT64_T, MPI_SUM, win, &all[2 * EACH + nth]);
		MPI_Rput(&one, 1, MPI_INT64_T, MPI_PROC_NULL, 0, 1, MPI_INT64_T, win,
			&all[3 * EACH + nth]);
	}
	MPI_Waitall(4 * EACH, all, MPI_STATUSES_IGNORE);
	for (int nth = 0; nth < EACH; nth++)
		must(in[nth] == out[nth] && old[nth] == nth, "%s: request %d: %ld, %ld", kind, nth,
			(long)in[nth], (long)old[nth]);
	MPI_Win_unlock(to, win);
	MPI_Barrier(MPI_COMM_WORLD);
	must(((int64_t *)base)[128] == EACH && ((int64_t *)base)[256] == EACH, "%s: sums", kind);
	passed("requests");
}

/* Compare and swap of each size, and fetching without changing. */
static void swaps(MPI_Win win, char *base)
{
	static const MPI_Datatype types[] = { MPI_INT8_T, MPI_UINT16_T, MPI_INT, MPI_INT64_T,
		MPI_BYTE, MPI_AINT, MPI_C_BOOL, MPI_UNSIGNED_LONG_LONG };
	int to = (rank + 1) % ranks;
	MPI_Barrier(MPI_COMM_WORLD);
	memset(base, 0, BYTES);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
	for (size_t nth = 0; nth < sizeof(types) / sizeof(types[0]); nth++) {
		int size;
		int64_t one = 1, zero = 0, result = -1, whole = -1;
		MPI_Type_size(types[nth], &size);
		MPI_Compare_and_swap(&zero, &one, &result, types[nth], to, at(to, 8 * nth), win);
		MPI_Win_flush(to, win);
		must(memcmp(&result, &zero, (size_t)size) == 0, "%s: found of %zu", kind, nth);
		MPI_Compare_and_swap(&one, &zero, &result, types[nth], to, at(to, 8 * nth), win);
		MPI_Compare_and_swap(&zero, &zero, &result, types[nth], to, at(to, 8 * nth), win);
		MPI_Win_flush(to, win);
		must(memcmp(&result, &one, (size_t)size) == 0, "%s: swapped %zu", kind, nth);
		MPI_Fetch_and_op(NULL, &whole, MPI_INT64_T, to, at(to, 8 * nth), MPI_NO_OP, win);
		MPI_Win_flush(to, win);
		must(whole == 1, "%s: swap of %zu left %ld", kind, nth, (long)whole);
		MPI_Fetch_and_op(&zero, &whole, MPI_INT64_T, to, at(to, 8 * nth), MPI_REPLACE, win);
		MPI_Get_accumulate(NULL, 0, MPI_BYTE, &result, 1, MPI_INT64_T, to, at(to, 8 * nth),
			1, MPI_INT64_T, MPI_NO_OP, win);
		MPI_Win_flush(to, win);
		must(whole == 1 && result == 0, "%s: replace of %zu", kind, nth);
	}
	MPI_Win_unlock_all(win);
	passed("swaps");
}

/* Writers change two numbers, one after the other, and are alone; readers never see them differ. */
static void exclusion(MPI_Win win, char *base)
{
	int64_t numbers[2], after;
	MPI_Barrier(MPI_COMM_WORLD);
	memset(base, 0, BYTES);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int round = 0; round < 60; round++) {
		int target = round % ranks;
		if ((round + rank) % 3 == 0) {
			MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
			MPI_Get(numbers, 2, MPI_INT64_T, target, 0, 2, MPI_INT64_T, win);
			MPI_Win_flush(target, win);
			must(numbers[0] == numbers[1], "%s: not alone", kind);
			numbers[0]++;
			MPI_Put(numbers, 1, MPI_INT64_T, target, 0, 1, MPI_INT64_T, win);
			MPI_Win_flush(target, win);
			MPI_Put(numbers, 1, MPI_INT64_T, target, at(target, 8), 1, MPI_INT64_T,
				win);
			MPI_Win_unlock(target, win);
			continue;
		}
		if (round % 2)
			MPI_Win_lock_all(0, win);
		else
			MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
		MPI_Get(&numbers[1], 1, MPI_INT64_T, target, at(target, 8), 1, MPI_INT64_T, win);
		MPI_Win_flush(target, win);
		MPI_Get(&after, 1, MPI_INT64_T, target, 0, 1, MPI_INT64_T, win);
		MPI_Win_flush(target, win);
		must(numbers[1] == after, "%s: a reader saw a writer", kind);
		if (round % 2)
			MPI_Win_unlock_all(win);
		else
			MPI_Win_unlock(target, win);
	}
	passed("exclusion");
}

/* Post, start, complete, wait: all with all others at once. Every other time it is known that they
 * have posted, and the end is asked for again and again. */
static void epochs(MPI_Win win, char *base)
{
	MPI_Group world, others;
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_excl(world, 1, &rank, &others);
	int64_t *words = (int64_t *)base;
	for (int round = 1; round <= 20; round++) {
		int assert = round % 2 ? 0 : MPI_MODE_NOCHECK, done = 0;
		int64_t value = round * 1000 + rank;
		MPI_Win_post(others, assert, win);
		gives(MPI_ERR_RMA_SYNC, MPI_Win_post(others, assert, win));
		if (assert)
			MPI_Barrier(MPI_COMM_WORLD);
		MPI_Win_start(others, assert, win);
		gives(MPI_ERR_RMA_SYNC, MPI_Win_start(others, assert, win));
		for (int target = 0; target < ranks; target++)
			if (target != rank)
				MPI_Put(&value, 1, MPI_INT64_T, target,
					at(target, 8 * (size_t)rank), 1, MPI_INT64_T, win);
		MPI_Win_complete(win);
		if (assert)
			while (!done)
				MPI_Win_test(win, &done);
		else
			MPI_Win_wait(win);
		for (int origin = 0; origin < ranks; origin++)
			must(origin == rank || words[origin] == round * 1000 + origin,
				"%s: round %d, from %d: %ld", kind, round, origin,
				(long)words[origin]);
	}
	MPI_Win_post(MPI_GROUP_EMPTY, 0, win);
	MPI_Win_start(MPI_GROUP_EMPTY, 0, win);
	MPI_Win_complete(win);
	MPI_Win_wait(win);
	MPI_Group_free(&others);
	MPI_Group_free(&world);
	passed("epochs");
}

/* A process that looks at its own memory sees what others put there. */
static void looking(MPI_Win win, char *base)
{
	volatile int64_t *words = (volatile int64_t *)base;
	int to = (rank + 1) % ranks;
	MPI_Barrier(MPI_COMM_WORLD);
	memset(base, 0, BYTES);
	MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
	MPI_Win_fence(MPI_MODE_NOSUCCEED | MPI_MODE_NOPUT, win);
	MPI_Win_lock_all(0, win);
	for (int64_t round = 1; round <= 50; round++) {
		int64_t value = -round;
		MPI_Put(&value, 1, MPI_INT64_T, to, at(to, 64), 1, MPI_INT64_T, win);
		MPI_Win_flush(to, win);
		MPI_Accumulate(
			&round, 1, MPI_INT64_T, to, 0, 1, MPI_INT64_T, MPI_REPLACE, win);
		MPI_Win_flush(to, win);
		while (words[0] < round)
			MPI_Win_sync(win);
		must(words[8] <= -round, "%s: round %ld overtook what was before it", kind,
			(long)round);
	}
	MPI_Win_unlock_all(win);
	passed("looking");
}

enum { THREADS = 3, TIMES = 300 };
static MPI_Win counted;
static void *count(void *argument)
{
	int64_t one = 1, old, *sum = argument;
	for (int nth = 0; nth < TIMES; nth++) {
		MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, 0, MPI_SUM, counted);
		MPI_Win_flush(0, counted);
		*sum += old;
	}
	return NULL;
}

static void threads(MPI_Win win, char *base)
{
	pthread_t thread[THREADS];
	int64_t sums[THREADS] = { 0 }, sum = 0, all, turns = (int64_t)ranks * THREADS * TIMES;
	counted = win;
	memset(base, 0, BYTES);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, win);
	for (int nth = 0; nth < THREADS; nth++)
		must(pthread_create(&thread[nth], NULL, count, &sums[nth]) == 0, "no thread");
	for (int nth = 0; nth < THREADS; nth++) {
		pthread_join(thread[nth], NULL);
		sum += sums[nth];
	}
	MPI_Win_unlock_all(win);
	MPI_Allreduce(&sum, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	must(all == turns * (turns - 1) / 2, "%s: counted %ld", kind, (long)all);
	must(rank != 0 || *(int64_t *)base == turns, "%s: counted to %ld", kind,
		(long)*(int64_t *)base);
	passed("threads");
}

/* Several windows at once, of part of the processes, in another order, some without memory. */
static void several(int allocate)
{
	MPI_Comm reversed, part;
	MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &part);
	enum { COUNT = 5 };
	MPI_Comm comms[COUNT] = { reversed, part, MPI_COMM_SELF, reversed, MPI_COMM_WORLD };
	MPI_Win wins[COUNT];
	char *bases[COUNT];
	for (int nth = 0; nth < COUNT; nth++) {
		int me;
		MPI_Comm_rank(comms[nth], &me);
		/* The fourth: only the last has memory. The fifth: nobody. */
		int bytes = nth == 4 || (nth == 3 && rank) ? 0 : 64 * (me + 1);
		wins[nth] = open_window(allocate, comms[nth], bytes, 1, &bases[nth]);
	}
	for (int nth = 0; nth < COUNT; nth++) {
		int me, size;
		MPI_Comm_rank(comms[nth], &me);
		MPI_Comm_size(comms[nth], &size);
		unsigned char mine[64], *there = (unsigned char *)bases[nth];
		memset(mine, 10 * nth + me, sizeof(mine));
		MPI_Win_fence(0, wins[nth]);
		if (nth < 3)
			MPI_Put(mine, 64, MPI_BYTE, (me + 1) % size,
				64 * ((me + 1) % size), 64, MPI_BYTE, wins[nth]);
		if (nth == 3 && me == 0)
			MPI_Put(mine, 64, MPI_BYTE, size - 1, 0, 64, MPI_BYTE, wins[nth]);
		MPI_Win_fence(0, wins[nth]);
		int from = nth == 3 ? 0 : (me + size - 1) % size;
		for (int byte = 0; byte < 64 && (nth < 3 || (nth == 3 && rank == 0)); byte++)
			must(there[(nth < 3 ? 64 * me : 0) + byte] == 10 * nth + from,
				"%s: window %d of several", kind, nth);
	}
	static const int order[COUNT] = { 3, 0, 4, 2, 1 };
	for (int nth = 0; nth < COUNT; nth++)
		close_window(&wins[order[nth]], allocate, bases[order[nth]]);
	MPI_Comm_free(&reversed);
	MPI_Comm_free(&part);
	passed("several");
}

int main(int argc, char **argv)
{
	begin(&argc, &argv, MPI_THREAD_MULTIPLE);
	for (int allocate = 1; allocate >= 0; allocate--) {
		char *base;
		kind = allocate ? "allocated" : "created in the pool";
		MPI_Win win = open_window(allocate, MPI_COMM_WORLD, (int)bytes_of(rank),
			units[rank % UNITS], &base);
		attributes(win, allocate, base);
		refusals(win, base);
		requests(win, base);
		swaps(win, base);
		exclusion(win, base);
		epochs(win, base);
		looking(win, base);
		threads(win, base);
		several(allocate);
		close_window(&win, allocate, base);
	}
	/* Memory of several kernels is no shared window. */
	MPI_Win win;
	void *base;
	MPI_Comm world = MPI_COMM_WORLD;
	MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
	kind = "shared";
	if (argc > 1)
		gives(MPI_ERR_RMA_SHARED,
			MPI_Win_allocate_shared(64, 1, MPI_INFO_NULL, world, &base, &win));
	passed("shared");
	return end();
}
