/* Allgather, alltoall, gather and scatter: by the team if there is one and it is good for them,
 * else by what is below. Counts that differ (allgatherv, ...) are always left to what is below. */
#include "coll_vshmem.h"

/* What a member gives and what it gets, without holes. */
struct blocks {
	struct vshmem_flat given, got;
};

static bool open_blocks(struct blocks *blocks, const void *given, size_t given_count,
	struct ompi_datatype_t *given_type, void *got, size_t got_count,
	struct ompi_datatype_t *got_type)
{
	if (!vshmem_flat_open(&blocks->given, given, given_count, given_type, true))
		return false;
	/* What it gives may be there, too. */
	if (vshmem_flat_open(&blocks->got, got, got_count, got_type, given == MPI_IN_PLACE))
		return true;
	vshmem_flat_close(&blocks->given, false);
	return false;
}

static int close_blocks(struct blocks *blocks, vshmem_gathering *gathering, int rc)
{
	gathering->blocking.inside = false;
	int answer = rc == 0 ? MPI_SUCCESS
			     : vshmem_gathering_answer(gathering, &gathering->blocking, rc);
	vshmem_flat_close(&blocks->given, false);
	int closed = vshmem_flat_close(&blocks->got, answer == MPI_SUCCESS);
	return answer == MPI_SUCCESS ? closed : answer;
}

int vshmem_coll_allgather(const void *mine, int count, struct ompi_datatype_t *type, void *all,
	int all_count, struct ompi_datatype_t *all_type, struct ompi_communicator_t *comm,
	mca_coll_base_module_t *module)
{
	vshmem_gathering *gathering = (vshmem_gathering *)module;
	size_t bytes = vshmem_flat_bytes(all_type, all_count), size = (size_t)ompi_comm_size(comm);
	struct blocks blocks;
	if (bytes == 0)
		return MPI_SUCCESS;
	if (!vshmem_coll_by_team(gathering, comm, bytes))
		return gathering->allgather(mine, count, type, all, all_count, all_type, comm,
			gathering->allgather_module);
	if (!open_blocks(&blocks, mine, (size_t)count, type, all, (size_t)all_count * size,
		    all_type))
		return MPI_ERR_NO_MEM;
	return close_blocks(&blocks, gathering,
		vshmem_team_allgather(gathering->blocking.team, blocks.given.bytes,
			blocks.got.bytes, bytes));
}

int vshmem_coll_alltoall(const void *given, int count, struct ompi_datatype_t *type, void *got,
	int got_count, struct ompi_datatype_t *got_type, struct ompi_communicator_t *comm,
	mca_coll_base_module_t *module)
{
	vshmem_gathering *gathering = (vshmem_gathering *)module;
	size_t bytes = vshmem_flat_bytes(got_type, got_count), size = (size_t)ompi_comm_size(comm);
	struct blocks blocks;
	if (bytes == 0)
		return MPI_SUCCESS;
	if (!vshmem_coll_by_team(gathering, comm, bytes * (size - 1)))
		return gathering->alltoall(given, count, type, got, got_count, got_type, comm,
			gathering->alltoall_module);
	if (!open_blocks(&blocks, given, (size_t)count * size, type, got, (size_t)got_count * size,
		    got_type))
		return MPI_ERR_NO_MEM;
	return close_blocks(&blocks, gathering,
		vshmem_team_alltoall(gathering->blocking.team, blocks.given.bytes,
			blocks.got.bytes, bytes));
}

int vshmem_coll_gather(const void *mine, int count, struct ompi_datatype_t *type, void *all,
	int all_count, struct ompi_datatype_t *all_type, int root,
	struct ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
	vshmem_gathering *gathering = (vshmem_gathering *)module;
	bool is_root = ompi_comm_rank(comm) == root;
	/* Only the root knows its own side, and only the others need know theirs. */
	size_t bytes = is_root ? vshmem_flat_bytes(all_type, all_count)
			       : vshmem_flat_bytes(type, count);
	size_t all_things = is_root ? (size_t)all_count * (size_t)ompi_comm_size(comm) : 0;
	struct blocks blocks;
	if (bytes == 0)
		return MPI_SUCCESS;
	if (!vshmem_coll_by_team(gathering, comm, bytes))
		return gathering->gather(mine, count, type, all, all_count, all_type, root, comm,
			gathering->gather_module);
	if (!open_blocks(&blocks, mine, (size_t)count, type, is_root ? all : MPI_IN_PLACE,
		    all_things, all_type))
		return MPI_ERR_NO_MEM;
	return close_blocks(&blocks, gathering,
		vshmem_team_gather(gathering->blocking.team, (uint32_t)root, blocks.given.bytes,
			blocks.got.bytes, bytes));
}

int vshmem_coll_scatter(const void *all, int count, struct ompi_datatype_t *type, void *mine,
	int mine_count, struct ompi_datatype_t *mine_type, int root,
	struct ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
	vshmem_gathering *gathering = (vshmem_gathering *)module;
	bool is_root = ompi_comm_rank(comm) == root;
	size_t bytes = is_root ? vshmem_flat_bytes(type, count)
			       : vshmem_flat_bytes(mine_type, mine_count);
	size_t size = (size_t)ompi_comm_size(comm), all_things = is_root ? (size_t)count * size : 0;
	struct blocks blocks;
	if (bytes == 0)
		return MPI_SUCCESS;
	if (!vshmem_coll_by_team(gathering, comm, bytes * (size - 1)))
		return gathering->scatter(all, count, type, mine, mine_count, mine_type, root, comm,
			gathering->scatter_module);
	if (!open_blocks(&blocks, is_root ? all : MPI_IN_PLACE, all_things, type, mine,
		    (size_t)mine_count, mine_type))
		return MPI_ERR_NO_MEM;
	return close_blocks(&blocks, gathering,
		vshmem_team_scatter(gathering->blocking.team, (uint32_t)root, blocks.given.bytes,
			blocks.got.bytes, bytes));
}
