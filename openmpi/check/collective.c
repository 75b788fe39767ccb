/* Collective calls whose team, pool and other members answer anything: the way each call goes, what
 * is taken and given back, and that no byte beyond a buffer is touched. Buffers have exactly their
 * size, so that the sanitizers see each byte too far. What a team itself reads from others is held
 * by crates/vshmem_team/tests/hostile.
 *
 *   collective [SEED [SECONDS]]      without SECONDS so many steps as take a few
 */
#include "coll_vshmem.h"
#include "random_steps.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "opal/runtime/opal.h"

/* The library: a pool that has room or not, memory that is held, teams that are joined. */
struct vshmem_pool {
	int id;
};
struct vshmem_team {
	bool failed;
};
static struct vshmem_pool the_pool;
static int held, joined;
static uint64_t by_team, by_messages;
struct vshmem_coll_parameters vshmem_coll_parameters = {
	.most_members = 64,
	.most_teams = 6,
	.after = 2,
	.most_bytes = 900,
	.piece_bytes = 256,
};

int vshmem_open(const char *name, vshmem_pool **pool, char *message, size_t bytes)
{
	(void)name, (void)message, (void)bytes;
	*pool = &the_pool;
	return any(3) ? 0 : -ENOENT;
}

void vshmem_close(vshmem_pool *pool) { must(pool == &the_pool && held == 0 && joined == 0); }

void vshmem_identify(const vshmem_pool *pool, uint8_t uuid[16])
{
	must(pool == &the_pool);
	memset(uuid, any(10) ? 1 : 2, 16);
}

uint64_t vshmem_bytes(const vshmem_pool *pool)
{
	must(pool == &the_pool);
	return 1 << 20;
}

static int give(uint64_t bytes, void **memory)
{
	static const int refusals[] = { -ENOMEM, -EINVAL, -EBUSY, -EIO };
	if (any(5) == 0)
		return refusals[any(4)];
	*memory = malloc(bytes);
	held++;
	return 0;
}

int vshmem_hold(vshmem_pool *pool, uint64_t bytes, void **memory)
{
	must(pool == &the_pool);
	return give(bytes, memory);
}

int vshmem_attach(vshmem_pool *pool, int id, uint64_t bytes, void **memory)
{
	must(pool == &the_pool && id > 0);
	return give(bytes, memory);
}

int vshmem_release(vshmem_pool *pool, void *memory)
{
	must(pool == &the_pool);
	free(memory);
	held--;
	return 0;
}

int vshmem_id(const vshmem_pool *pool, const void *memory)
{
	must(pool == &the_pool && memory);
	return any(6) ? 1 + (int)any(100) : -(int)any(3);
}

size_t vshmem_team_bytes(uint32_t members, size_t payload)
{
	/* The same each time; none for the largest. */
	return members < 7 ? members * (payload + 16) : 0;
}

int vshmem_team_join(
	void *memory, uint32_t members, size_t payload, uint32_t rank, vshmem_team **team)
{
	must(memory && rank < members && payload >= LARGEST_THING);
	if (any(6) == 0)
		return -EIO;
	*team = calloc(1, sizeof(**team));
	joined++;
	return 0;
}

void vshmem_team_leave(vshmem_team *team)
{
	free(team);
	joined--;
}

void vshmem_team_patience(vshmem_team *team, uint32_t milliseconds)
{ must(team && milliseconds == UINT32_MAX); }

void vshmem_team_idle(vshmem_team *team, void (*idle)(void *argument), void *argument)
{
	must(team);
	idle(argument);
}

static int answered(vshmem_team *team)
{
	static const int failures[] = { -ETIMEDOUT, -EOWNERDEAD, -EPIPE, -EPROTO, -EIO };
	by_team++;
	team->failed |= any(12) == 0;
	return team->failed ? failures[any(5)] : 0;
}

int vshmem_team_failure(const vshmem_team *team, char *message, size_t bytes)
{
	memset(message, 'x', bytes);
	message[bytes - 1] = '\0';
	return team->failed ? (int)any(8) : -1;
}

int vshmem_team_barrier(vshmem_team *team) { return answered(team); }

int vshmem_team_broadcast(vshmem_team *team, uint32_t root, void *data, size_t bytes)
{
	(void)root;
	must(bytes > 0 && bytes <= vshmem_coll_parameters.most_bytes);
	/* All of it, with anything. */
	for (size_t at = 0; at < bytes; at++)
		((uint8_t *)data)[at] ^= (uint8_t)any(256);
	return answered(team);
}

static int reduce(vshmem_team *team, const void *mine, void *result, size_t count, size_t unit,
	void (*combine)(const void *, void *, size_t, void *), void *argument)
{
	must(unit > 0 && unit <= LARGEST_THING);
	must(count * unit <= vshmem_coll_parameters.most_bytes);
	uint8_t *earlier = malloc(count * unit), *later = malloc(count * unit);
	memcpy(earlier, mine, count * unit);
	memset(later, (int)any(256), count * unit);
	combine(earlier, later, count, argument);
	if (result)
		memcpy(result, later, count * unit);
	free(earlier);
	free(later);
	return answered(team);
}

int vshmem_team_reduce_by(vshmem_team *team, uint32_t root, const void *mine, void *result,
	size_t count, size_t unit, void (*combine)(const void *, void *, size_t, void *),
	void *argument)
{ return reduce(team, mine, root == 0 ? result : NULL, count, unit, combine, argument); }

int vshmem_team_allreduce_by(vshmem_team *team, const void *mine, void *result, size_t count,
	size_t unit, void (*combine)(const void *, void *, size_t, void *), void *argument)
{ return reduce(team, mine, result, count, unit, combine, argument); }

void vshmem_say(const char *format, ...) { (void)format; }

void opal_progress(void) {}

/* What members have sent each other at the start. */
bool vshmem_coll_all_share(struct ompi_group_t *group, uint8_t pool[16])
{
	must(group);
	memset(pool, 1, 16);
	return any(8) != 0;
}

/* The component below: brings what other members say, or fails. */
static int bcast(void *data, int count, struct ompi_datatype_t *type, int root,
	struct ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
	must(module == NULL && root >= 0 && root < ompi_comm_size(comm));
	by_messages++;
	if (type == &ompi_mpi_int.dt && count == 1 && ompi_comm_rank(comm) != root && any(8))
		*(int *)data = any(2) ? (int)any(5) : (int)any(UINT64_MAX);
	return any(20) ? OMPI_SUCCESS : OMPI_ERROR;
}

static int allreduce(const void *mine, void *result, int count, struct ompi_datatype_t *type,
	struct ompi_op_t *op, struct ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
	(void)op, (void)comm;
	must(module == NULL);
	by_messages++;
	if (type == &ompi_mpi_int.dt && count == 1 && mine != MPI_IN_PLACE)
		*(int *)result = any(6) ? *(const int *)mine : (int)any(UINT64_MAX);
	return any(20) ? OMPI_SUCCESS : OMPI_ERROR;
}

static int reduce_below(const void *mine, void *result, int count, struct ompi_datatype_t *type,
	struct ompi_op_t *op, int root, struct ompi_communicator_t *comm,
	mca_coll_base_module_t *module)
{
	(void)mine, (void)result, (void)count, (void)type, (void)op, (void)root, (void)comm;
	must(module == NULL);
	by_messages++;
	return OMPI_SUCCESS;
}

static int barrier(struct ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
	(void)comm;
	must(module == NULL);
	by_messages++;
	return OMPI_SUCCESS;
}

static void exclusive_or(const void *source, void *target, int *count,
	struct ompi_datatype_t **type, struct ompi_op_base_module_1_0_0_t *module)
{
	(void)module;
	size_t size;
	ompi_datatype_type_size(*type, &size);
	for (size_t at = 0; at < size * (size_t)*count; at++)
		((uint8_t *)target)[at] ^= ((const uint8_t *)source)[at];
}

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
		.way = UNDECIDED,
		.barrier = barrier,
		.bcast = bcast,
		.reduce = reduce_below,
		.allreduce = allreduce,
	};
}

static ompi_datatype_t *with_holes;
static ompi_op_t operation;

static void call(struct member *member)
{
	mca_coll_base_module_t *module = &member->gathering.super;
	ompi_datatype_t *types[] = { &ompi_mpi_byte.dt, &ompi_mpi_int.dt, &ompi_mpi_double.dt,
		with_holes };
	uint64_t what = any(4);
	ompi_datatype_t *type = types[any(what == 1 ? 4 : 3)];
	int count = (int)any(any(10) ? 60 : 2000), size = ompi_comm_size(&member->comm);
	int root = (int)any((uint64_t)size);
	size_t bytes;
	ptrdiff_t extent;
	ompi_datatype_type_size(type, &bytes);
	ompi_datatype_type_extent(type, &extent);
	size_t room = (size_t)extent * (size_t)count;
	void *mine = calloc(1, room), *result = calloc(1, room);
	const void *given = any(3) ? mine : MPI_IN_PLACE;
	ompi_communicator_t *comm = &member->comm;
	int rc;
	switch (what) {
	case 0: rc = vshmem_coll_barrier(comm, module); break;
	case 1: rc = vshmem_coll_bcast(mine, count, type, root, comm, module); break;
	case 2:
		rc = vshmem_coll_reduce(given, result, count, type, &operation, root, comm, module);
		break;
	default: rc = vshmem_coll_allreduce(given, result, count, type, &operation, comm, module);
	}
	must(rc == MPI_SUCCESS || rc == OMPI_ERROR || rc == MPI_ERR_TRUNCATE || rc == MPI_ERR_OTHER
	        || rc == MPI_ERR_INTERN);
	must(member->gathering.way != DECIDING);
	must((member->gathering.way == BY_TEAM) == (member->gathering.team != NULL));
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
	must(opal_init_util(&argc, &argv) == OPAL_SUCCESS && ompi_datatype_init() == OMPI_SUCCESS);
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
			vshmem_gathering_end(&member->gathering);
			open_member(member);
		}
		call(member);
	}
	for (int nth = 0; nth < MEMBERS; nth++)
		vshmem_gathering_end(&members[nth].gathering);
	/* What was taken of the pool is given back: teams are made to the end. */
	must(held == 0 && joined == 0 && by_team > step / 100);
	vshmem_coll_close();
	printf("%llu calls, %llu by teams: 1 passed, 0 failed\n", (unsigned long long)step,
		(unsigned long long)by_team);
	return 0;
}
