/* Collective calls whose team, pool and other members answer anything: the way each call goes, what
 * is taken and given back, that each nonblocking one ends, and that no byte beyond a buffer is
 * touched. Buffers have exactly their size, so that the sanitizers see each byte too far. What a
 * team itself reads from others is held by crates/vshmem_team/tests/hostile.
 *
 *   collective [SEED [SECONDS]]      without SECONDS so many steps as take a few
 */
#include "coll_vshmem.h"
#include "../../transport/check/random_steps.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ompi/request/request.h"
#include "opal/runtime/opal.h"
#include "opal/runtime/opal_progress.h"

#include "answers.h"

uint64_t first_seed, step, seed;

/* A communicator, of which this process is one member. */
struct member {
	ompi_communicator_t comm;
	ompi_group_t group;
	vshmem_gathering gathering;
};

static void open_member(struct member *member)
{
	memset(member, 0, sizeof(*member));
	member->group.grp_proc_count = 2 + (int)any(6);
	member->comm.c_local_group = &member->group;
	member->comm.c_my_rank = (int)any((uint64_t)member->group.grp_proc_count);
	member->gathering = (vshmem_gathering) {
		.barrier = barrier,
		.bcast = bcast,
		.reduce = reduce_below,
		.allreduce = allreduce,
		.allgather = blocks_below,
		.alltoall = blocks_below,
		.gather = rooted_below,
		.scatter = rooted_below,
		.ibarrier = ibarrier_below,
		.ibcast = ibcast_below,
		.iallreduce = iallreduce_below,
		.iallgather = blocks_started_below,
		.ialltoall = blocks_started_below,
	};
	/* Calls under way hold it. */
	opal_object_t *object = (opal_object_t *)&member->comm;
	object->obj_class = OBJ_CLASS(opal_object_t);
	object->obj_reference_count = 1;
}

static ompi_datatype_t *with_holes;
static ompi_op_t operation;

/* Nonblocking calls under way, of all members, and their memory. */
enum { MOST_UNDER_WAY = 40 };
static struct {
	ompi_request_t *request;
	struct member *member;
	void *mine, *result;
} under_way[MOST_UNDER_WAY];
static int pending;

static opal_progress_callback_t progress_of_calls;
int opal_progress_register(opal_progress_callback_t callback)
{
	progress_of_calls = callback;
	return OPAL_SUCCESS;
}
int opal_progress_unregister(opal_progress_callback_t callback)
{
	must(callback == progress_of_calls);
	return OPAL_SUCCESS;
}

/* Waits for all of a member's, or of all; NULL: of all. */
static void finish(struct member *member)
{
	for (int nth = 0; nth < pending;) {
		ompi_request_t *request = under_way[nth].request;
		if (member && under_way[nth].member != member) {
			nth++;
			continue;
		}
		for (int looks = 0; !REQUEST_COMPLETE(request); looks++) {
			must(looks < 100000);
			progress_of_calls();
		}
		int rc = request->req_status.MPI_ERROR;
		must(rc == MPI_SUCCESS || rc == MPI_ERR_TRUNCATE || rc == MPI_ERR_OTHER);
		must(request->req_free(&request) == OMPI_SUCCESS && request == MPI_REQUEST_NULL);
		free(under_way[nth].mine);
		free(under_way[nth].result);
		under_way[nth] = under_way[--pending];
	}
}

/* What may be given to a call of COUNT things: so many bytes exactly. */
static size_t room_of(ompi_datatype_t *type, int count)
{
	ptrdiff_t extent;
	ompi_datatype_type_extent(type, &extent);
	return (size_t)extent * (size_t)count;
}

static int make_call(struct member *member, uint64_t what, int count, ompi_datatype_t *type,
	const void *given, void *mine, void *result, ompi_request_t **request)
{
	mca_coll_base_module_t *module = &member->gathering.super;
	ompi_communicator_t *comm = &member->comm;
	int size = ompi_comm_size(comm), root = (int)any((uint64_t)size);
	bool is_root = root == ompi_comm_rank(comm);
	members_of_call = (size_t)size;
	rank_of_call = (uint32_t)ompi_comm_rank(comm);
	switch (what) {
	case 0: return vshmem_coll_barrier(comm, module);
	case 1: return vshmem_coll_bcast(mine, count, type, root, comm, module);
	case 2:
		return vshmem_coll_reduce(
			given, result, count, type, &operation, root, comm, module);
	case 3:
		return vshmem_coll_allreduce(given, result, count, type, &operation, comm, module);
	case 4:
		return vshmem_coll_allgather(
			given, count, type, result, count, type, comm, module);
	case 5:
		return vshmem_coll_alltoall(given, count, type, result, count, type, comm, module);
	case 6:
		return vshmem_coll_gather(is_root ? given : mine, count, type, result, count, type,
			root, comm, module);
	case 7:
		return vshmem_coll_scatter(mine, count, type,
			is_root && given == MPI_IN_PLACE ? MPI_IN_PLACE : result, count, type,
			root, comm, module);
	case 8: return vshmem_coll_ibarrier(comm, request, module);
	case 9: return vshmem_coll_ibcast(mine, count, type, root, comm, request, module);
	case 10:
		return vshmem_coll_iallreduce(
			given, result, count, type, &operation, comm, request, module);
	case 11:
		return vshmem_coll_iallgather(
			given, count, type, result, count, type, comm, request, module);
	default:
		return vshmem_coll_ialltoall(
			given, count, type, result, count, type, comm, request, module);
	}
}

static void call(struct member *member)
{
	ompi_datatype_t *types[] = { &ompi_mpi_byte.dt, &ompi_mpi_int.dt, &ompi_mpi_double.dt,
		with_holes };
	uint64_t what = any(13);
	bool reduces = what == 2 || what == 3 || what == 10;
	ompi_datatype_t *type = types[any(reduces ? 3 : 4)];
	int count = (int)any(any(10) ? 60 : 2000), size = ompi_comm_size(&member->comm);
	bool blocks = what >= 4 && what != 8 && what != 9 && what != 10;
	size_t room = room_of(type, blocks ? count * size : count);
	void *mine = calloc(1, room ? room : 1), *result = calloc(1, room ? room : 1);
	const void *given = any(3) ? mine : MPI_IN_PLACE;
	ompi_request_t *request = NULL;
	if (what >= 8 && pending == MOST_UNDER_WAY)
		finish(NULL);
	int rc = make_call(member, what, count, type, given, mine, result, &request);
	must(rc == MPI_SUCCESS || rc == OMPI_ERROR || rc == MPI_ERR_TRUNCATE || rc == MPI_ERR_OTHER
	        || rc == MPI_ERR_INTERN);
	struct vshmem_use *uses[] = { &member->gathering.blocking,
		&member->gathering.nonblocking };
	for (int nth = 0; nth < 2; nth++) {
		must(uses[nth]->way != DECIDING);
		must((uses[nth]->way == BY_TEAM || uses[nth]->way == STOPPED)
			== (uses[nth]->team != NULL));
	}
	if (request) {
		under_way[pending].request = request;
		under_way[pending].member = member;
		under_way[pending].mine = mine;
		under_way[pending++].result = result;
		return;
	}
	free(mine);
	free(result);
}

int main(int argc, char **argv)
{
	enum { MEMBERS = 12 };
	static struct member members[MEMBERS];
	first_seed = seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	seed = seed * 0x9e3779b97f4a7c15u | 1;
	time_t until = argc > 2 ? time(NULL) + strtol(argv[2], NULL, 0) : 0;
	must(opal_init(&argc, &argv) == OPAL_SUCCESS && ompi_datatype_init() == OMPI_SUCCESS);
	must(ompi_datatype_create_vector(2, 1, 3, &ompi_mpi_int.dt, &with_holes) == OMPI_SUCCESS);
	ompi_datatype_commit(&with_holes);
	operation.o_flags = OMPI_OP_FLAGS_INTRINSIC;
	for (int nth = 0; nth < OMPI_OP_BASE_TYPE_MAX; nth++)
		operation.o_func.intrinsic.fns[nth] = exclusive_or;
	static ompi_group_t world = { .grp_proc_count = 4 };
	ompi_mpi_comm_world.comm.c_local_group = &world;
	for (int nth = 0; nth < MEMBERS; nth++)
		open_member(&members[nth]);
	for (; until ? time(NULL) < until : step < 300000; step++) {
		struct member *member = &members[any(MEMBERS)];
		if (any(200) == 0) {
			finish(member);
			vshmem_gathering_end(&member->gathering);
			open_member(member);
		}
		/* This process leaves, or another one does. */
		if (any(1000) == 0)
			vshmem_stop_step(any(2));
		call(member);
	}
	finish(NULL);
	for (int nth = 0; nth < MEMBERS; nth++)
		vshmem_gathering_end(&members[nth].gathering);
	/* What was taken of the pool is given back: teams are made to the end. */
	must(held == 0 && joined == 0 && by_team > step / 100);
	vshmem_coll_close();
	printf("%llu calls, %llu by teams: 1 passed, 0 failed\n", (unsigned long long)step,
		(unsigned long long)by_team);
	return 0;
}
