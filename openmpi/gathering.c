/* A communicator's team: made when it has made enough calls that could use it, given back with the
 * communicator. */
#include "coll_vshmem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "opal/runtime/opal_progress.h"
#include "opal/threads/mutex.h"

static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT;
static vshmem_pool *pool;
static bool warned; /* that there is no room */
static int teams;
static uint64_t taken; /* by them, of what this process may take */
static uint64_t calls, ever;

/* All teams of a job leave so much of the pool to others: each process may take its share of the
 * rest. */
#define OF_THE_POOL 8

static bool open_pool(const uint8_t wanted[16])
{
	uint8_t found[16];
	OPAL_THREAD_LOCK(&lock);
	/* mpirun passes parameters on in the environment. The BTL says what is wrong, if anything
	 * is. */
	if (!pool && vshmem_open(getenv("OMPI_MCA_btl_vshmem_pool"), &pool, NULL, 0) != 0)
		pool = NULL;
	bool open = pool != NULL;
	OPAL_THREAD_UNLOCK(&lock);
	if (!open)
		return false;
	vshmem_identify(pool, found);
	return memcmp(found, wanted, sizeof(found)) == 0;
}

static void progress(void *argument)
{
	(void)argument;
	opal_progress();
}

static size_t piece(void)
{
	size_t most = vshmem_coll_parameters.most_bytes, bytes = vshmem_coll_parameters.piece_bytes;
	bytes = bytes < most ? bytes : most;
	return bytes < LARGEST_THING ? LARGEST_THING : bytes;
}

/* Joins as a member, in memory of its own (id 0) or that of another member. Tells its name: 0 when
 * it could not. */
static int join(vshmem_gathering *gathering, uint32_t members, uint32_t rank, int id)
{
	size_t bytes = vshmem_team_bytes(members, piece());
	int rc = bytes == 0 ? -EINVAL
		: id == 0   ? vshmem_hold(pool, bytes, &gathering->memory)
			    : vshmem_attach(pool, id, bytes, &gathering->memory);
	if (rc != 0) {
		gathering->memory = NULL;
		if (!warned)
			vshmem_say(
				"a communicator of %u processes makes its collective calls by messages: the pool has no "
				"room for %zu KiB more that they share, or for one more to attach them (%s)",
				members, bytes >> 10, strerror(-rc));
		warned = true;
		return 0;
	}
	id = id == 0 ? vshmem_id(pool, gathering->memory) : id;
	if (id <= 0
	        || vshmem_team_join(gathering->memory, members, piece(), rank, &gathering->team)
	                != 0)
		return 0;
	/* A member may compute for as long as it likes before it comes. */
	vshmem_team_patience(gathering->team, UINT32_MAX);
	vshmem_team_idle(gathering->team, progress, NULL);
	return id;
}

/* What this process takes of the pool as a member. */
static uint64_t share(uint32_t members) { return vshmem_team_bytes(members, piece()) / members; }

static bool one_more(uint32_t members)
{
	uint64_t job = (uint64_t)ompi_comm_size(&ompi_mpi_comm_world.comm),
		 most = vshmem_bytes(pool) / OF_THE_POOL / job;
	OPAL_THREAD_LOCK(&lock);
	bool fits = teams < vshmem_coll_parameters.most_teams && taken + share(members) <= most;
	if (fits) {
		teams++;
		taken += share(members);
	}
	OPAL_THREAD_UNLOCK(&lock);
	return fits;
}

static void one_less(uint32_t members, uint32_t made)
{
	OPAL_THREAD_LOCK(&lock);
	calls += made;
	ever += made > 0;
	teams--;
	taken -= share(members);
	OPAL_THREAD_UNLOCK(&lock);
}

void vshmem_gathering_decide(vshmem_gathering *gathering, struct ompi_communicator_t *comm)
{
	uint32_t members = (uint32_t)ompi_comm_size(comm), rank = (uint32_t)ompi_comm_rank(comm);
	uint8_t wanted[16];
	gathering->way = DECIDING;
	if (!vshmem_coll_all_share(comm->c_local_group, wanted)) {
		gathering->way = BY_MESSAGES;
		return;
	}
	/* From here on all go through all of it. */
	bool fits = open_pool(wanted) && one_more(members);
	int id = 0, joined, all = 0;
	if (rank == 0 && fits)
		id = join(gathering, members, rank, 0);
	int rc = gathering->bcast(&id, 1, &ompi_mpi_int.dt, 0, comm, gathering->bcast_module);
	joined = rank == 0
		? id > 0
		: rc == OMPI_SUCCESS && id > 0 && fits && join(gathering, members, rank, id);
	if (rc == OMPI_SUCCESS)
		rc = gathering->allreduce(&joined, &all, 1, &ompi_mpi_int.dt, &ompi_mpi_op_min.op,
			comm, gathering->allreduce_module);
	/* The least of what all have said: of one that is hostile, anything. */
	if (rc == OMPI_SUCCESS && joined && all > 0) {
		gathering->way = BY_TEAM;
		gathering->members = members;
		return;
	}
	vshmem_gathering_end(gathering);
	if (fits)
		one_less(members, 0);
	gathering->way = BY_MESSAGES;
}

void vshmem_gathering_end(vshmem_gathering *gathering)
{
	if (gathering->team)
		vshmem_team_leave(gathering->team);
	if (gathering->memory)
		vshmem_release(pool, gathering->memory);
	gathering->team = NULL;
	gathering->memory = NULL;
	if (gathering->way == BY_TEAM) {
		one_less(gathering->members, gathering->calls);
		gathering->way = BY_MESSAGES;
	}
}

void vshmem_coll_close(void)
{
	if (vshmem_coll_parameters.verbose)
		vshmem_say("%llu collective calls by %llu teams", (unsigned long long)calls,
			(unsigned long long)ever);
	if (pool)
		vshmem_close(pool);
	pool = NULL;
}
