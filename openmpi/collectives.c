/* Barrier, bcast, reduce and allreduce: by the team if there is one and it is good for them, else
 * by what is below. */
#include "coll_vshmem.h"

#include "opal/runtime/opal_progress.h"

/* Calls after which progress is made even if there was nothing to wait for: others may need this
 * process's. */
#define CALLS_WITHOUT_PROGRESS 32

static bool undecided(const struct vshmem_use *use)
{
	return use->way == UNDECIDED || use->way == STOPPED;
}

bool vshmem_coll_by_team(
	vshmem_gathering *gathering, struct ompi_communicator_t *comm, size_t bytes)
{
	struct vshmem_use *use = &gathering->blocking, *other = &gathering->nonblocking;
	/* A nonblocking call must not wait for others, so it is decided here for them. All members
	 * have started as many. */
	if (OPAL_UNLIKELY(other->before > vshmem_coll_parameters.after && undecided(other)))
		vshmem_gathering_decide(gathering, other, comm);
	if (bytes > vshmem_coll_parameters.most_bytes)
		return false;
	if (OPAL_UNLIKELY(use->way != BY_TEAM)) {
		if (use->way == STOPPED)
			vshmem_stop_step(false);
		/* What is below may call us while it is decided. */
		if (undecided(use) && ++use->before > vshmem_coll_parameters.after)
			vshmem_gathering_decide(gathering, use, comm);
		if (use->way != BY_TEAM)
			return false;
	}
	use->inside = true;
	if (!vshmem_stop_count(use)) {
		/* The first by messages, as it is for those whose team has ended before. */
		use->before++;
		return false;
	}
	if (OPAL_UNLIKELY(use->calls % CALLS_WITHOUT_PROGRESS == 0))
		opal_progress();
	return true;
}

static inline int answer(vshmem_gathering *gathering, int rc)
{
	gathering->blocking.inside = false;
	return OPAL_LIKELY(rc == 0)
		? MPI_SUCCESS
		: vshmem_gathering_answer(gathering, &gathering->blocking, rc);
}

int vshmem_coll_barrier(struct ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
	vshmem_gathering *gathering = (vshmem_gathering *)module;
	if (!vshmem_coll_by_team(gathering, comm, 0))
		return gathering->barrier(comm, gathering->barrier_module);
	return answer(gathering, vshmem_team_barrier(gathering->blocking.team));
}

int vshmem_coll_bcast(void *data, int count, struct ompi_datatype_t *type, int root,
	struct ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
	vshmem_gathering *gathering = (vshmem_gathering *)module;
	/* The same for all, however their datatypes lay it out. */
	size_t bytes = vshmem_flat_bytes(type, count);
	bool is_root = ompi_comm_rank(comm) == root;
	struct vshmem_flat flat;
	if (bytes == 0)
		return MPI_SUCCESS;
	if (!vshmem_coll_by_team(gathering, comm, bytes))
		return gathering->bcast(data, count, type, root, comm, gathering->bcast_module);
	if (!vshmem_flat_open(&flat, data, (size_t)count, type, is_root))
		return MPI_ERR_NO_MEM;
	int rc = answer(gathering,
		vshmem_team_broadcast(
			gathering->blocking.team, (uint32_t)root, flat.bytes, bytes));
	int closed = vshmem_flat_close(&flat, !is_root && rc == MPI_SUCCESS);
	return rc == MPI_SUCCESS ? closed : rc;
}

size_t vshmem_coll_thing(struct ompi_datatype_t *type, struct ompi_op_t *op)
{
	size_t size;
	ptrdiff_t extent;
	if (!ompi_op_is_intrinsic(op) || !ompi_datatype_is_predefined(type))
		return 0;
	ompi_datatype_type_size(type, &size);
	ompi_datatype_type_extent(type, &extent);
	return size == (size_t)extent && size <= LARGEST_THING ? size : 0;
}

void vshmem_coll_combine(const void *earlier, void *later, size_t count, void *argument)
{
	struct vshmem_reduction *reduction = argument;
	ompi_op_reduce(reduction->op, (void *)(uintptr_t)earlier, later, count, reduction->type);
}

int vshmem_coll_reduce(const void *mine, void *result, int count, struct ompi_datatype_t *type,
	struct ompi_op_t *op, int root, struct ompi_communicator_t *comm,
	mca_coll_base_module_t *module)
{
	vshmem_gathering *gathering = (vshmem_gathering *)module;
	size_t unit = vshmem_coll_thing(type, op);
	if (count == 0)
		return MPI_SUCCESS;
	if (unit == 0 || !vshmem_coll_by_team(gathering, comm, unit * (size_t)count))
		return gathering->reduce(
			mine, result, count, type, op, root, comm, gathering->reduce_module);
	struct vshmem_reduction reduction = { op, type };
	return answer(gathering,
		vshmem_team_reduce_by(gathering->blocking.team, (uint32_t)root,
			mine == MPI_IN_PLACE ? result : mine, result, (size_t)count, unit,
			vshmem_coll_combine,
			&reduction));
}

int vshmem_coll_allreduce(const void *mine, void *result, int count, struct ompi_datatype_t *type,
	struct ompi_op_t *op, struct ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
	vshmem_gathering *gathering = (vshmem_gathering *)module;
	size_t unit = vshmem_coll_thing(type, op);
	if (count == 0)
		return MPI_SUCCESS;
	if (unit == 0 || !vshmem_coll_by_team(gathering, comm, unit * (size_t)count))
		return gathering->allreduce(
			mine, result, count, type, op, comm, gathering->allreduce_module);
	struct vshmem_reduction reduction = { op, type };
	return answer(gathering,
		vshmem_team_allreduce_by(gathering->blocking.team,
			mine == MPI_IN_PLACE ? result : mine, result, (size_t)count, unit,
			vshmem_coll_combine, &reduction));
}
