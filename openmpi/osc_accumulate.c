/* Accumulates: each holds the target's lock while it is made, so all of them, of whatever datatype
 * and number, are atomic for each other. What is laid out with gaps is combined in a copy without
 * them; Open MPI's convertors make it. */
#include "osc_vshmem.h"

#include <stdlib.h>
#include <string.h>

#include "ompi/request/request.h"

/* Bytes of such a copy that need no memory of their own. */
#define SHORT 1024

static inline void lock(struct vshmem_window_state *state)
{
	unsigned looks = 0;
	while (OPAL_UNLIKELY(__atomic_exchange_n(&state->accumulating, 1, __ATOMIC_ACQUIRE)))
		do
			vshmem_window_wait(&looks);
		while (__atomic_load_n(&state->accumulating, __ATOMIC_RELAXED));
}

static inline void unlock(struct vshmem_window_state *state)
{ __atomic_store_n(&state->accumulating, 0, __ATOMIC_RELEASE); }

/* `count` elements of a predefined type, one behind the other. */
struct elements {
	char *memory;
	void *allocated;
	_Alignas(16) char few[SHORT];
};

static bool make_room(struct elements *elements, struct ompi_datatype_t *of, size_t count)
{
	size_t bytes = (size_t)(of->super.ub - of->super.lb) * count;
	elements->allocated = bytes > sizeof(elements->few) ? malloc(bytes) : NULL;
	elements->memory = bytes > sizeof(elements->few) ? elements->allocated : elements->few;
	return elements->memory;
}

/* One accumulate. Without a type of the result, nothing is fetched. */
struct accumulate {
	const void *origin;
	int count;
	struct ompi_datatype_t *type;
	void *result;
	int result_count;
	struct ompi_datatype_t *result_type;
	void *there;
	int target_count;
	struct ompi_datatype_t *target_type;
	struct ompi_op_t *op;
	struct vshmem_window_state *state;
};

/* All layouts are of elements one behind the other. */
static inline int combine_plainly(const struct accumulate *all)
{
	int rc = OMPI_SUCCESS;
	lock(all->state);
	if (all->result_type)
		rc = vshmem_window_copy(all->there, all->target_count, all->target_type,
			all->result, all->result_count, all->result_type);
	if (all->op == &ompi_mpi_op_replace.op)
		rc = vshmem_window_copy(all->origin, all->count, all->type, all->there,
			all->target_count, all->target_type);
	else if (all->op != &ompi_mpi_op_no_op.op)
		ompi_op_reduce(all->op, (void *)(uintptr_t)all->origin, all->there,
			(size_t)all->target_count, all->target_type);
	unlock(all->state);
	return rc;
}

/* The elements that the origin gives, and those that the target has. */
static int combine_copies(const struct accumulate *all, struct ompi_datatype_t *of, int count,
	struct elements *given, struct elements *found)
{
	bool looks_at_origin = all->op != &ompi_mpi_op_no_op.op;
	int rc = looks_at_origin ? vshmem_window_copy(all->origin, all->count, all->type,
					   given->memory, count, of)
				 : OMPI_SUCCESS;
	if (rc != OMPI_SUCCESS)
		return rc;
	lock(all->state);
	rc = vshmem_window_copy(
		all->there, all->target_count, all->target_type, found->memory, count, of);
	if (rc == OMPI_SUCCESS && all->result_type)
		rc = vshmem_window_copy(found->memory, count, of, all->result, all->result_count,
			all->result_type);
	if (rc == OMPI_SUCCESS && looks_at_origin) {
		char *now = found->memory;
		if (all->op == &ompi_mpi_op_replace.op)
			now = given->memory;
		else
			ompi_op_reduce(all->op, given->memory, now, (size_t)count, of);
		rc = vshmem_window_copy(
			now, count, of, all->there, all->target_count, all->target_type);
	}
	unlock(all->state);
	return rc;
}

static int combine_laid_out(const struct accumulate *all)
{
	struct ompi_datatype_t *of =
		ompi_datatype_get_single_predefined_type_from_args(all->target_type);
	/* MPI wants elements of one predefined type. */
	if (!of || of->super.size == 0)
		return MPI_ERR_TYPE;
	size_t count = all->target_type->super.size * (size_t)all->target_count / of->super.size;
	if (count > INT_MAX)
		return MPI_ERR_COUNT;
	struct elements given, found;
	if (!make_room(&given, of, count))
		return OMPI_ERR_OUT_OF_RESOURCE;
	int rc = make_room(&found, of, count)
		? combine_copies(all, of, (int)count, &given, &found)
		: OMPI_ERR_OUT_OF_RESOURCE;
	free(given.allocated);
	free(found.allocated);
	return rc;
}

static inline bool plain(struct ompi_datatype_t *type, int count, const struct accumulate *all)
{
	return ompi_datatype_is_predefined(type) && count == all->target_count
	        && type->super.size == all->target_type->super.size;
}

static inline int combine(struct ompi_win_t *win, int target, ptrdiff_t at, struct accumulate *all)
{
	struct vshmem_window *window = vshmem_window_of(win);
	all->there = vshmem_window_place(
		window, target, at, all->target_type, (size_t)all->target_count);
	if (OPAL_UNLIKELY(!all->there))
		return all->target_count == 0 ? OMPI_SUCCESS : OMPI_ERR_RMA_RANGE;
	if (OPAL_UNLIKELY(all->target_count == 0))
		return OMPI_SUCCESS;
	all->state = &window->states[target];
	if (OPAL_LIKELY(plain(all->target_type, all->target_count, all)
		    && (all->op == &ompi_mpi_op_no_op.op || plain(all->type, all->count, all))
		    && (!all->result_type || plain(all->result_type, all->result_count, all))))
		return combine_plainly(all);
	return combine_laid_out(all);
}

int vshmem_window_accumulate(const void *origin, int count, struct ompi_datatype_t *type,
	int target, ptrdiff_t at, int target_count, struct ompi_datatype_t *target_type,
	struct ompi_op_t *op, struct ompi_win_t *win)
{
	struct accumulate all = { .origin = origin,
		.count = count,
		.type = type,
		.target_count = target_count,
		.target_type = target_type,
		.op = op };
	return combine(win, target, at, &all);
}

int vshmem_window_get_accumulate(const void *origin, int count, struct ompi_datatype_t *type,
	void *result, int result_count, struct ompi_datatype_t *result_type, int target,
	ptrdiff_t at, int target_count, struct ompi_datatype_t *target_type, struct ompi_op_t *op,
	struct ompi_win_t *win)
{
	struct accumulate all = { .origin = origin,
		.count = count,
		.type = type,
		.result = result,
		.result_count = result_count,
		.result_type = result_type,
		.target_count = target_count,
		.target_type = target_type,
		.op = op };
	return combine(win, target, at, &all);
}

int vshmem_window_raccumulate(const void *origin, int count, struct ompi_datatype_t *type,
	int target, ptrdiff_t at, int target_count, struct ompi_datatype_t *target_type,
	struct ompi_op_t *op, struct ompi_win_t *win, struct ompi_request_t **request)
{
	*request = &ompi_request_empty;
	return vshmem_window_accumulate(
		origin, count, type, target, at, target_count, target_type, op, win);
}

int vshmem_window_rget_accumulate(const void *origin, int count, struct ompi_datatype_t *type,
	void *result, int result_count, struct ompi_datatype_t *result_type, int target,
	ptrdiff_t at, int target_count, struct ompi_datatype_t *target_type, struct ompi_op_t *op,
	struct ompi_win_t *win, struct ompi_request_t **request)
{
	*request = &ompi_request_empty;
	return vshmem_window_get_accumulate(origin, count, type, result, result_count, result_type,
		target, at, target_count, target_type, op, win);
}

int vshmem_window_fetch_and_op(const void *origin, void *result, struct ompi_datatype_t *type,
	int target, ptrdiff_t at, struct ompi_op_t *op, struct ompi_win_t *win)
{
	vshmem_window_pass();
	struct accumulate all = { .origin = origin,
		.count = 1,
		.type = type,
		.result = result,
		.result_count = 1,
		.result_type = type,
		.target_count = 1,
		.target_type = type,
		.op = op };
	return combine(win, target, at, &all);
}

int vshmem_window_compare_and_swap(const void *origin, const void *compare, void *result,
	struct ompi_datatype_t *type, int target, ptrdiff_t at, struct ompi_win_t *win)
{
	vshmem_window_pass();
	struct vshmem_window *window = vshmem_window_of(win);
	void *there = vshmem_window_place(window, target, at, type, 1);
	size_t bytes = type->super.size;
	if (OPAL_UNLIKELY(!there))
		return OMPI_ERR_RMA_RANGE;
	struct vshmem_window_state *state = &window->states[target];
	lock(state);
	memcpy(result, there, bytes);
	if (memcmp(result, compare, bytes) == 0)
		memcpy(there, origin, bytes);
	unlock(state);
	return OMPI_SUCCESS;
}
