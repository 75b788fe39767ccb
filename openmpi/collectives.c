/* The four calls: by the team if there is one and it is good for them, else by what is below. */
#include "coll_vshmem.h"

#include <errno.h>
#include <stdlib.h>

#include "opal/datatype/opal_convertor.h"
#include "opal/runtime/opal_progress.h"

/* Calls after which progress is made even if there was nothing to wait for: others may need this
 * process's. */
#define CALLS_WITHOUT_PROGRESS 32

/* Whether a call of so many bytes goes by the team. */
static inline bool by_team(
	vshmem_gathering *gathering, struct ompi_communicator_t *comm, size_t bytes)
{
	if (bytes > vshmem_coll_parameters.most_bytes)
		return false;
	if (OPAL_UNLIKELY(gathering->way != BY_TEAM)) {
		/* What is below may call us while it is decided. */
		if (gathering->way == UNDECIDED
		        && ++gathering->before > vshmem_coll_parameters.after)
			vshmem_gathering_decide(gathering, comm);
		if (gathering->way != BY_TEAM)
			return false;
	}
	if (OPAL_UNLIKELY(++gathering->calls % CALLS_WITHOUT_PROGRESS == 0))
		opal_progress();
	return true;
}

static inline int answer(vshmem_gathering *gathering, int rc)
{
	if (OPAL_LIKELY(rc == 0))
		return MPI_SUCCESS;
	char why[256] = "";
	if (vshmem_team_failure(gathering->team, why, sizeof(why)) >= 0 && !gathering->warned) {
		gathering->warned = true;
		vshmem_say("a collective call of a communicator has failed: %s", why);
	}
	return rc == -EPROTO ? MPI_ERR_TRUNCATE : MPI_ERR_OTHER;
}

int vshmem_coll_barrier(struct ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
	vshmem_gathering *gathering = (vshmem_gathering *)module;
	if (!by_team(gathering, comm, 0))
		return gathering->barrier(comm, gathering->barrier_module);
	return answer(gathering, vshmem_team_barrier(gathering->team));
}

/* Data with holes: other members may have it without, so it must go the same way. */
static int bcast_packed(vshmem_gathering *gathering, void *data, int count,
	struct ompi_datatype_t *type, size_t bytes, uint32_t root, bool is_root)
{
	void *packed = malloc(bytes);
	if (!packed)
		return MPI_ERR_NO_MEM;
	struct iovec part = { packed, bytes };
	uint32_t parts = 1;
	size_t size = bytes;
	opal_convertor_t convertor;
	OBJ_CONSTRUCT(&convertor, opal_convertor_t);
	int rc = MPI_SUCCESS;
	if (is_root) {
		opal_convertor_copy_and_prepare_for_send(
			ompi_mpi_local_convertor, &type->super, (size_t)count, data, 0, &convertor);
		if (opal_convertor_pack(&convertor, &part, &parts, &size) < 0)
			rc = MPI_ERR_INTERN;
	}
	/* The others wait for it, whatever it is. */
	int went = answer(gathering, vshmem_team_broadcast(gathering->team, root, packed, bytes));
	if (rc == MPI_SUCCESS)
		rc = went;
	if (!is_root && rc == MPI_SUCCESS) {
		opal_convertor_copy_and_prepare_for_recv(
			ompi_mpi_local_convertor, &type->super, (size_t)count, data, 0, &convertor);
		if (opal_convertor_unpack(&convertor, &part, &parts, &size) < 0)
			rc = MPI_ERR_INTERN;
	}
	OBJ_DESTRUCT(&convertor);
	free(packed);
	return rc;
}

int vshmem_coll_bcast(void *data, int count, struct ompi_datatype_t *type, int root,
	struct ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
	vshmem_gathering *gathering = (vshmem_gathering *)module;
	size_t bytes;
	/* The same for all, however their datatypes lay it out. */
	ompi_datatype_type_size(type, &bytes);
	bytes *= (size_t)count;
	if (bytes == 0)
		return MPI_SUCCESS;
	if (!by_team(gathering, comm, bytes))
		return gathering->bcast(data, count, type, root, comm, gathering->bcast_module);
	if (!ompi_datatype_is_contiguous_memory_layout(type, count))
		return bcast_packed(gathering, data, count, type, bytes, (uint32_t)root,
			ompi_comm_rank(comm) == root);
	ptrdiff_t first, extent;
	ompi_datatype_get_true_extent(type, &first, &extent);
	return answer(gathering,
		vshmem_team_broadcast(
			gathering->team, (uint32_t)root, (char *)data + first, bytes));
}

/* Operations of MPI's own, on its own datatypes without holes: bytes of one thing, else 0. The
 * arguments are the same for all members, so this is, too. */
static inline size_t thing(struct ompi_datatype_t *type, struct ompi_op_t *op)
{
	size_t size;
	ptrdiff_t extent;
	if (!ompi_op_is_intrinsic(op) || !ompi_datatype_is_predefined(type))
		return 0;
	ompi_datatype_type_size(type, &size);
	ompi_datatype_type_extent(type, &extent);
	return size == (size_t)extent && size <= LARGEST_THING ? size : 0;
}

struct reduction {
	struct ompi_op_t *op;
	struct ompi_datatype_t *type;
};

static void combine(const void *earlier, void *later, size_t count, void *argument)
{
	struct reduction *reduction = argument;
	ompi_op_reduce(reduction->op, (void *)(uintptr_t)earlier, later, count, reduction->type);
}

int vshmem_coll_reduce(const void *mine, void *result, int count, struct ompi_datatype_t *type,
	struct ompi_op_t *op, int root, struct ompi_communicator_t *comm,
	mca_coll_base_module_t *module)
{
	vshmem_gathering *gathering = (vshmem_gathering *)module;
	size_t unit = thing(type, op);
	if (count == 0)
		return MPI_SUCCESS;
	if (unit == 0 || !by_team(gathering, comm, unit * (size_t)count))
		return gathering->reduce(
			mine, result, count, type, op, root, comm, gathering->reduce_module);
	struct reduction reduction = { op, type };
	return answer(gathering,
		vshmem_team_reduce_by(gathering->team, (uint32_t)root,
			mine == MPI_IN_PLACE ? result : mine, result, (size_t)count, unit, combine,
			&reduction));
}

int vshmem_coll_allreduce(const void *mine, void *result, int count, struct ompi_datatype_t *type,
	struct ompi_op_t *op, struct ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
	vshmem_gathering *gathering = (vshmem_gathering *)module;
	size_t unit = thing(type, op);
	if (count == 0)
		return MPI_SUCCESS;
	if (unit == 0 || !by_team(gathering, comm, unit * (size_t)count))
		return gathering->allreduce(
			mine, result, count, type, op, comm, gathering->allreduce_module);
	struct reduction reduction = { op, type };
	return answer(gathering,
		vshmem_team_allreduce_by(gathering->team, mine == MPI_IN_PLACE ? result : mine,
			result, (size_t)count, unit, combine, &reduction));
}
