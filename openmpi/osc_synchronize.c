/* Synchronisation of a window in the pool, by the words that its processes share there. Calls that
 * move data have done so when they return, so nothing is left to be waited for but other processes.
 *
 * Memory ordering: what a process has written before it lets another one in (unlock, complete,
 * post, a fence) is seen by that one after it has come in. Each such pair is a release of a word
 * below and an acquire of the same word.
 */
#include "osc_vshmem.h"

#include <errno.h>
#include <stdlib.h>

#include "opal/runtime/opal_progress.h"

#include "ompi/group/group.h"

int vshmem_window_meet(struct vshmem_window *window)
{
	int rc = vshmem_team_barrier(window->team);
	if (OPAL_LIKELY(rc == 0))
		return OMPI_SUCCESS;
	char why[256] = "";
	if (vshmem_team_failure(window->team, why, sizeof(why)) >= 0 && !window->warned) {
		window->warned = true;
		vshmem_say("processes of a window cannot wait for each other: %s", why);
	}
	return MPI_ERR_OTHER;
}

int vshmem_window_fence(int assert, struct ompi_win_t *win)
{
	(void)assert;
	return vshmem_window_meet(vshmem_window_of(win));
}

/* Ranks in the window of a group's members, to be freed; NULL when there is no memory. */
static int *ranks_of(struct ompi_group_t *group, struct ompi_win_t *win)
{
	int size = ompi_group_size(group);
	int *theirs = calloc(2 * ((size_t)size + 1), sizeof(*theirs));
	if (!theirs)
		return NULL;
	int *ours = theirs + size + 1;
	for (int nth = 0; nth < size; nth++)
		ours[nth] = nth;
	if (ompi_group_translate_ranks(group, size, ours, win->w_group, theirs) != OMPI_SUCCESS) {
		free(theirs);
		return NULL;
	}
	for (int nth = 0; nth < size; nth++)
		if (theirs[nth] < 0) {
			free(theirs);
			return NULL;
		}
	return theirs;
}

/* The word, and the bit in it, by which a target tells an origin that it has posted. */
static uint64_t *post_of(
	const struct vshmem_window *window, int origin, int target, uint64_t *bit)
{
	*bit = UINT64_C(1) << (target % 64);
	return &window->posts[(size_t)origin * window->row + (size_t)target / 64];
}

int vshmem_window_post(struct ompi_group_t *group, int assert, struct ompi_win_t *win)
{
	struct vshmem_window *window = vshmem_window_of(win);
	if (window->posted)
		return OMPI_ERR_RMA_SYNC;
	int *origins = ranks_of(group, win);
	if (!origins)
		return MPI_ERR_GROUP;
	OBJ_RETAIN(group);
	window->posted = group;
	for (int nth = 0; !(assert & MPI_MODE_NOCHECK) && nth < ompi_group_size(group); nth++) {
		uint64_t bit, *word = post_of(window, origins[nth], (int)window->rank, &bit);
		/* Pairs with the acquire in vshmem_window_start. */
		__atomic_fetch_or(word, bit, __ATOMIC_RELEASE);
	}
	free(origins);
	return OMPI_SUCCESS;
}

int vshmem_window_start(struct ompi_group_t *group, int assert, struct ompi_win_t *win)
{
	struct vshmem_window *window = vshmem_window_of(win);
	if (window->started)
		return OMPI_ERR_RMA_SYNC;
	int *targets = ranks_of(group, win);
	if (!targets)
		return MPI_ERR_GROUP;
	OBJ_RETAIN(group);
	window->started = group;
	for (int nth = 0; !(assert & MPI_MODE_NOCHECK) && nth < ompi_group_size(group); nth++) {
		uint64_t bit, *word = post_of(window, (int)window->rank, targets[nth], &bit);
		unsigned looks = 0;
		while (!(__atomic_load_n(word, __ATOMIC_ACQUIRE) & bit))
			vshmem_window_wait(&looks);
		/* It posts again only when this epoch is complete. */
		__atomic_fetch_and(word, ~bit, __ATOMIC_RELAXED);
	}
	free(targets);
	return OMPI_SUCCESS;
}

int vshmem_window_complete(struct ompi_win_t *win)
{
	struct vshmem_window *window = vshmem_window_of(win);
	if (!window->started)
		return OMPI_ERR_RMA_SYNC;
	int *targets = ranks_of(window->started, win);
	if (!targets)
		return OMPI_ERR_OUT_OF_RESOURCE;
	/* Pairs with the acquire in all_complete. */
	for (int nth = 0; nth < ompi_group_size(window->started); nth++)
		__atomic_fetch_add(
			&window->states[targets[nth]].completed, 1, __ATOMIC_RELEASE);
	free(targets);
	OBJ_RELEASE(window->started);
	window->started = NULL;
	return OMPI_SUCCESS;
}

/* Ends the epoch that this process has posted, if all its origins have completed. */
static bool all_complete(struct vshmem_window *window)
{
	uint32_t origins = (uint32_t)ompi_group_size(window->posted);
	uint32_t *completed = &window->states[window->rank].completed;
	if (__atomic_load_n(completed, __ATOMIC_ACQUIRE) < origins)
		return false;
	__atomic_fetch_sub(completed, origins, __ATOMIC_RELAXED);
	OBJ_RELEASE(window->posted);
	window->posted = NULL;
	return true;
}

int vshmem_window_wait_for_origins(struct ompi_win_t *win)
{
	struct vshmem_window *window = vshmem_window_of(win);
	unsigned looks = 0;
	if (!window->posted)
		return OMPI_ERR_RMA_SYNC;
	while (!all_complete(window))
		vshmem_window_wait(&looks);
	return OMPI_SUCCESS;
}

int vshmem_window_test(struct ompi_win_t *win, int *done)
{
	struct vshmem_window *window = vshmem_window_of(win);
	if (!window->posted)
		return OMPI_ERR_RMA_SYNC;
	*done = all_complete(window);
	if (!*done)
		opal_progress();
	return OMPI_SUCCESS;
}

/* Tickets are drawn in turn. One who wants to read waits until `reading` has come to its ticket,
 * and moves it on at once, for the next one may read, too; it moves `writing` on when it has done.
 * One who wants to write waits for `writing`, and moves both when it has done. */
static void enter(struct vshmem_window_state *state, bool alone)
{
	uint32_t ticket = __atomic_fetch_add(&state->next, 1, __ATOMIC_RELAXED);
	const uint32_t *turn = alone ? &state->writing : &state->reading;
	unsigned looks = 0;
	/* Pairs with the releases in leave. */
	while (__atomic_load_n(turn, __ATOMIC_ACQUIRE) != ticket)
		vshmem_window_wait(&looks);
	if (!alone)
		__atomic_fetch_add(&state->reading, 1, __ATOMIC_ACQ_REL);
}

static void leave(struct vshmem_window_state *state, bool alone)
{
	__atomic_fetch_add(&state->writing, 1, __ATOMIC_ACQ_REL);
	if (alone)
		__atomic_fetch_add(&state->reading, 1, __ATOMIC_ACQ_REL);
}

static void take(struct vshmem_window *window, int type, int target, int assert)
{
	bool alone = type == MPI_LOCK_EXCLUSIVE, checked = !(assert & MPI_MODE_NOCHECK);
	if (checked)
		enter(&window->states[target], alone);
	window->held[target] = !checked ? HELD_UNCHECKED : alone ? HELD_EXCLUSIVE : HELD_SHARED;
}

static void give_back(struct vshmem_window *window, int target)
{
	enum vshmem_held held = window->held[target];
	window->held[target] = NOT_HELD;
	if (held == HELD_UNCHECKED)
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	else
		leave(&window->states[target], held == HELD_EXCLUSIVE);
}

int vshmem_window_lock(int type, int target, int assert, struct ompi_win_t *win)
{
	struct vshmem_window *window = vshmem_window_of(win);
	if (window->held[target] != NOT_HELD)
		return OMPI_ERR_RMA_SYNC;
	take(window, type, target, assert);
	vshmem_window_pass();
	return OMPI_SUCCESS;
}

int vshmem_window_unlock(int target, struct ompi_win_t *win)
{
	struct vshmem_window *window = vshmem_window_of(win);
	if (window->held[target] == NOT_HELD || window->all_held)
		return OMPI_ERR_RMA_SYNC;
	give_back(window, target);
	return OMPI_SUCCESS;
}

int vshmem_window_lock_all(int assert, struct ompi_win_t *win)
{
	struct vshmem_window *window = vshmem_window_of(win);
	for (uint32_t target = 0; target < window->ranks; target++)
		if (window->held[target] != NOT_HELD)
			return OMPI_ERR_RMA_SYNC;
	for (uint32_t target = 0; target < window->ranks; target++)
		take(window, MPI_LOCK_SHARED, (int)target, assert);
	window->all_held = true;
	vshmem_window_pass();
	return OMPI_SUCCESS;
}

int vshmem_window_unlock_all(struct ompi_win_t *win)
{
	struct vshmem_window *window = vshmem_window_of(win);
	if (!window->all_held)
		return OMPI_ERR_RMA_SYNC;
	window->all_held = false;
	for (uint32_t target = 0; target < window->ranks; target++)
		give_back(window, (int)target);
	return OMPI_SUCCESS;
}

int vshmem_window_sync(struct ompi_win_t *win)
{
	(void)win;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	vshmem_window_pass();
	return OMPI_SUCCESS;
}

int vshmem_window_flush(int target, struct ompi_win_t *win)
{
	(void)target;
	return vshmem_window_sync(win);
}
