/* put and get: the caller's CPU copies, and it is done when the call returns. */
#include "osc_vshmem.h"

#include <string.h>

#include "ompi/request/request.h"

void *vshmem_window_place(const struct vshmem_window *window, int target, ptrdiff_t at,
	struct ompi_datatype_t *type, size_t count)
{
	const struct vshmem_target *there = &window->targets[target];
	const opal_datatype_t *data = &type->super;
	if (count == 0 || data->size == 0)
		return there->base;
	ptrdiff_t extent = data->ub - data->lb, last, begin, first = data->true_lb,
		  end = data->true_ub;
	if (__builtin_mul_overflow(at, (ptrdiff_t)there->unit, &begin)
	        || __builtin_mul_overflow(extent, (ptrdiff_t)(count - 1), &last))
		return NULL;
	/* A type may be laid out backwards. */
	if (__builtin_add_overflow(last < 0 ? last : 0, first, &first)
	        || __builtin_add_overflow(last > 0 ? last : 0, end, &end)
	        || __builtin_add_overflow(begin, first, &first)
	        || __builtin_add_overflow(begin, end, &end))
		return NULL;
	if (first < 0 || end < first || (uint64_t)end > there->bytes)
		return NULL;
	return there->base + begin;
}

/* A number by itself is written at once: another process may look at it meanwhile. */
static inline void copy_bytes(void *to, const void *from, size_t bytes)
{
	switch (bytes) {
	case 8: memcpy(to, from, 8); break;
	case 4: memcpy(to, from, 4); break;
	default: memcpy(to, from, bytes);
	}
}

static inline bool in_one_piece(struct ompi_datatype_t *type, int count)
{ return opal_datatype_is_contiguous_memory_layout(&type->super, count); }

int vshmem_window_copy(const void *from, int count, struct ompi_datatype_t *type, void *to,
	int to_count, struct ompi_datatype_t *to_type)
{
	size_t bytes = type->super.size * (size_t)count;
	if (OPAL_LIKELY(in_one_piece(type, count) && in_one_piece(to_type, to_count)
		    && bytes == to_type->super.size * (size_t)to_count)) {
		copy_bytes((char *)to + to_type->super.true_lb,
			(const char *)from + type->super.true_lb, bytes);
		return OMPI_SUCCESS;
	}
	return ompi_datatype_sndrcv(from, count, type, to, to_count, to_type);
}

int vshmem_window_put(const void *origin, int count, struct ompi_datatype_t *type, int target,
	ptrdiff_t at, int target_count, struct ompi_datatype_t *target_type, struct ompi_win_t *win)
{
	void *there = vshmem_window_place(
		vshmem_window_of(win), target, at, target_type, (size_t)target_count);
	if (OPAL_UNLIKELY(!there))
		return target_count == 0 ? OMPI_SUCCESS : OMPI_ERR_RMA_RANGE;
	return vshmem_window_copy(origin, count, type, there, target_count, target_type);
}

int vshmem_window_get(void *origin, int count, struct ompi_datatype_t *type, int target,
	ptrdiff_t at, int target_count, struct ompi_datatype_t *target_type, struct ompi_win_t *win)
{
	const void *there = vshmem_window_place(
		vshmem_window_of(win), target, at, target_type, (size_t)target_count);
	if (OPAL_UNLIKELY(!there))
		return target_count == 0 ? OMPI_SUCCESS : OMPI_ERR_RMA_RANGE;
	return vshmem_window_copy(there, target_count, target_type, origin, count, type);
}

int vshmem_window_rput(const void *origin, int count, struct ompi_datatype_t *type, int target,
	ptrdiff_t at, int target_count, struct ompi_datatype_t *target_type, struct ompi_win_t *win,
	struct ompi_request_t **request)
{
	*request = &ompi_request_empty;
	return vshmem_window_put(
		origin, count, type, target, at, target_count, target_type, win);
}

int vshmem_window_rget(void *origin, int count, struct ompi_datatype_t *type, int target,
	ptrdiff_t at, int target_count, struct ompi_datatype_t *target_type, struct ompi_win_t *win,
	struct ompi_request_t **request)
{
	*request = &ompi_request_empty;
	return vshmem_window_get(
		origin, count, type, target, at, target_count, target_type, win);
}
