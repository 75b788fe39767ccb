/* One-sided: every kind of window under every kind of synchronisation; counters that all raise, and
 * every byte looked at.
 *
 * With an argument: dynamic windows instead. Open MPI 4.1.4's osc/rdma cannot do them between
 * machines over any network: it takes a lock exclusively and then, holding it, waits to share it
 * (ompi_osc_rdma_find_dynamic_region).
 */
#include <stdint.h>
#include <string.h>

#include "pattern.h"

enum { CREATED, CREATED_IN_POOL, ALLOCATED, DYNAMIC, KINDS };
static const char *const names[] = { "created", "created in the pool", "allocated", "dynamic" };

struct window {
	MPI_Win win;
	int64_t *base;
	MPI_Aint *at; /* of each rank's memory: addresses in dynamic windows, else 0 */
	size_t words;
	int kind;
};

static MPI_Aint place(const struct window *window, int target, size_t word)
{ return window->at[target] + (MPI_Aint)(word * sizeof(int64_t)); }

static struct window open_window(int kind, size_t words)
{
	struct window window = { .words = words, .kind = kind };
	MPI_Aint bytes = (MPI_Aint)(words * sizeof(int64_t)), mine = 0;
	window.at = calloc((size_t)ranks, sizeof(*window.at));
	if (kind == ALLOCATED) {
		MPI_Win_allocate(
			bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window.base, &window.win);
	} else {
		window.base = (int64_t *)room((size_t)bytes, kind == CREATED_IN_POOL);
		if (kind == DYNAMIC) {
			MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window.win);
			MPI_Win_attach(window.win, window.base, bytes);
			MPI_Get_address(window.base, &mine);
		} else {
			MPI_Win_create(
				window.base, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window.win);
		}
	}
	MPI_Allgather(&mine, 1, MPI_AINT, window.at, 1, MPI_AINT, MPI_COMM_WORLD);
	memset(window.base, 0, (size_t)bytes);
	MPI_Barrier(MPI_COMM_WORLD);
	return window;
}

static void close_window(struct window *window)
{
	if (window->kind == DYNAMIC)
		MPI_Win_detach(window->win, window->base);
	MPI_Win_free(&window->win);
	if (window->kind != ALLOCATED)
		no_room((char *)window->base, window->kind == CREATED_IN_POOL);
	free(window->at);
}

/* Each rank owns a stripe of every rank's memory. */
static void fences(struct window *window)
{
	size_t stripe = window->words / (size_t)ranks;
	int64_t *out = malloc(stripe * sizeof(*out)), *in = malloc(stripe * sizeof(*in));
	for (unsigned round = 0; round < 3; round++) {
		MPI_Win_fence(0, window->win);
		fill(out, stripe * sizeof(*out), (unsigned)rank, round);
		for (int target = 0; target < ranks; target++)
			MPI_Put(out, (int)stripe, MPI_INT64_T, target,
				place(window, target, stripe * (size_t)rank), (int)stripe,
				MPI_INT64_T, window->win);
		MPI_Win_fence(0, window->win);
		for (int origin = 0; origin < ranks; origin++)
			verify(window->base + stripe * (size_t)origin, stripe * sizeof(*out),
				(unsigned)origin, round, "put and fence");
		MPI_Win_fence(0, window->win);
		int target = (rank + 1) % ranks;
		MPI_Get(in, (int)stripe, MPI_INT64_T, target,
			place(window, target, stripe * (size_t)target), (int)stripe, MPI_INT64_T,
			window->win);
		MPI_Win_fence(0, window->win);
		verify(in, stripe * sizeof(*in), (unsigned)target, round, "get and fence");
	}
	free(out);
	free(in);
}

/* All raise the same counters, so often on each rank. */
enum { ROUNDS = 40 };

/* Under locks of one rank's memory. */
static void locks_of_one(struct window *window)
{
	int64_t one = 1;
	for (int round = 0; round < ROUNDS; round++) {
		int target = (rank + round) % ranks;
		/* Read, add, write: only an exclusive lock makes that safe. */
		int64_t value;
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window->win);
		MPI_Get(&value, 1, MPI_INT64_T, target, place(window, target, 0), 1, MPI_INT64_T,
			window->win);
		MPI_Win_flush(target, window->win);
		value++;
		MPI_Put(&value, 1, MPI_INT64_T, target, place(window, target, 0), 1, MPI_INT64_T,
			window->win);
		MPI_Win_unlock(target, window->win);
		MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window->win);
		MPI_Accumulate(&one, 1, MPI_INT64_T, target, place(window, target, 1), 1,
			MPI_INT64_T, MPI_SUM, window->win);
		MPI_Win_unlock(target, window->win);
	}
}

/* Under locks of all ranks' memory. */
static void locks_of_all(struct window *window)
{
	int64_t one = 1, old = 0;
	for (int round = 0; round < ROUNDS; round++) {
		int target = (rank + round) % ranks;
		MPI_Win_lock_all(0, window->win);
		MPI_Fetch_and_op(&one, &old, MPI_INT64_T, target, place(window, target, 2), MPI_SUM,
			window->win);
		MPI_Win_flush(target, window->win);
		must(old >= 0 && old < (int64_t)ROUNDS * ranks, "fetch and add gave %ld",
			(long)old);
		/* A lock made of compare and swap. */
		int64_t free_word = 0, mine = rank + 1, found, value;
		do {
			MPI_Compare_and_swap(&mine, &free_word, &found, MPI_INT64_T, target,
				place(window, target, 3), window->win);
			MPI_Win_flush(target, window->win);
		} while (found != 0);
		MPI_Get(&value, 1, MPI_INT64_T, target, place(window, target, 4), 1, MPI_INT64_T,
			window->win);
		MPI_Win_flush(target, window->win);
		value++;
		MPI_Put(&value, 1, MPI_INT64_T, target, place(window, target, 4), 1, MPI_INT64_T,
			window->win);
		MPI_Win_flush(target, window->win);
		MPI_Accumulate(&free_word, 1, MPI_INT64_T, target, place(window, target, 3), 1,
			MPI_INT64_T, MPI_REPLACE, window->win);
		MPI_Win_unlock_all(window->win);
	}
}

/* Not both at the same time: a library that grants locks in turn, as MPICH does, can come to a
 * standstill then. Two ranks each have locked one memory for MPI_Win_lock_all, and want the
 * other's, for which another rank waits before them that wants it alone. */
static void locks(struct window *window)
{
	memset(window->base, 0, window->words * sizeof(int64_t));
	MPI_Barrier(MPI_COMM_WORLD);
	locks_of_one(window);
	MPI_Barrier(MPI_COMM_WORLD);
	locks_of_all(window);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window->win);
	for (int counter = 0; counter < 5; counter++)
		if (counter != 3)
			must(window->base[counter] == ROUNDS, "%s: counter %d is %ld",
				names[window->kind], counter, (long)window->base[counter]);
	MPI_Win_unlock(rank, window->win);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Post, start, complete, wait: round a ring. */
static void ring(struct window *window)
{
	MPI_Group world, next, previous;
	int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, 1, &to, &next);
	MPI_Group_incl(world, 1, &from, &previous);
	int words = (int)(window->words < 8000 ? window->words : 8000);
	int64_t *out = malloc((size_t)words * sizeof(*out));
	for (unsigned round = 0; round < 5; round++) {
		fill(out, (size_t)words * sizeof(*out), (unsigned)rank, round);
		MPI_Win_post(previous, 0, window->win);
		MPI_Win_start(next, 0, window->win);
		MPI_Put(out, words, MPI_INT64_T, to, place(window, to, 0), words, MPI_INT64_T,
			window->win);
		MPI_Win_complete(window->win);
		MPI_Win_wait(window->win);
		verify(window->base, (size_t)words * sizeof(*out), (unsigned)from, round,
			"post and start");
	}
	free(out);
	MPI_Group_free(&world);
	MPI_Group_free(&next);
	MPI_Group_free(&previous);
}

int main(int argc, char **argv)
{
	begin(&argc, &argv, MPI_THREAD_SINGLE);
	for (int kind = argc > 1 ? DYNAMIC : CREATED; kind < (argc > 1 ? KINDS : DYNAMIC); kind++) {
		for (size_t words = 64; words <= 100000; words *= 32) {
			struct window window = open_window(kind, words * (size_t)ranks);
			fences(&window);
			passed("fences");
			locks(&window);
			passed("locks");
			ring(&window);
			passed("post and start");
			close_window(&window);
		}
	}
	return end();
}
