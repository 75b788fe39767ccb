/* A communicator's teams: made when it has made enough calls that could use one, given back with
 * the communicator. */
#include "coll_vshmem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "opal/runtime/opal_progress.h"

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

size_t vshmem_gathering_piece(void)
{
	size_t most = vshmem_coll_parameters.most_bytes, bytes = vshmem_coll_parameters.piece_bytes;
	bytes = bytes < most ? bytes : most;
	return bytes < LARGEST_THING ? LARGEST_THING : bytes;
}

/* Joins as a member, in memory of its own (id 0) or that of another member. Tells its name: 0 when
 * it could not. */
static int join(struct vshmem_use *use, uint32_t members, uint32_t rank, int id)
{
	size_t bytes = vshmem_team_bytes(members, vshmem_gathering_piece());
	int rc = bytes == 0 ? -EINVAL
		: id == 0   ? vshmem_hold(pool, bytes, &use->memory)
			    : vshmem_attach(pool, id, bytes, &use->memory);
	if (rc != 0) {
		use->memory = NULL;
		if (!warned)
			vshmem_say(
				"a communicator of %u processes makes its collective calls by messages: the pool has no "
				"room for %zu KiB more that they share, or for one more to attach them (%s)",
				members, bytes >> 10, strerror(-rc));
		warned = true;
		return 0;
	}
	id = id == 0 ? vshmem_id(pool, use->memory) : id;
	if (id <= 0
	        || vshmem_team_join(use->memory, members, vshmem_gathering_piece(), rank,
			&use->team) != 0)
		return 0;
	/* A member may compute for as long as it likes before it comes. */
	vshmem_team_patience(use->team, UINT32_MAX);
	vshmem_team_idle(use->team, progress, NULL);
	return id;
}

/* What this process takes of the pool as a member. */
static uint64_t share(uint32_t members)
{ return vshmem_team_bytes(members, vshmem_gathering_piece()) / members; }

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

static void end(struct vshmem_use *use, uint32_t members)
{
	if (use->team)
		vshmem_team_leave(use->team);
	if (use->memory)
		vshmem_release(pool, use->memory);
	use->team = NULL;
	use->memory = NULL;
	if (use->way == BY_TEAM) {
		one_less(members, use->calls);
		use->way = BY_MESSAGES;
	}
}

void vshmem_gathering_decide(
	vshmem_gathering *gathering, struct vshmem_use *use, struct ompi_communicator_t *comm)
{
	uint32_t members = (uint32_t)ompi_comm_size(comm), rank = (uint32_t)ompi_comm_rank(comm);
	uint8_t wanted[16];
	use->way = DECIDING;
	gathering->members = members;
	if (!vshmem_coll_all_share(comm->c_local_group, wanted)) {
		use->way = BY_MESSAGES;
		return;
	}
	/* From here on all go through all of it. */
	bool fits = open_pool(wanted) && one_more(members);
	int id = 0, joined, all = 0;
	if (rank == 0 && fits)
		id = join(use, members, rank, 0);
	int rc = gathering->bcast(&id, 1, &ompi_mpi_int.dt, 0, comm, gathering->bcast_module);
	joined = rank == 0
		? id > 0
		: rc == OMPI_SUCCESS && id > 0 && fits && join(use, members, rank, id);
	if (rc == OMPI_SUCCESS)
		rc = gathering->allreduce(&joined, &all, 1, &ompi_mpi_int.dt, &ompi_mpi_op_min.op,
			comm, gathering->allreduce_module);
	/* The least of what all have said: of one that is hostile, anything. */
	if (rc == OMPI_SUCCESS && joined && all > 0) {
		use->way = BY_TEAM;
		return;
	}
	end(use, members);
	if (fits)
		one_less(members, 0);
	use->way = BY_MESSAGES;
}

void vshmem_gathering_end(vshmem_gathering *gathering)
{
	end(&gathering->blocking, gathering->members);
	end(&gathering->nonblocking, gathering->members);
}

int vshmem_gathering_answer(vshmem_gathering *gathering, const struct vshmem_use *use, int rc)
{
	char why[256] = "";
	if (vshmem_team_failure(use->team, why, sizeof(why)) >= 0 && !gathering->warned) {
		gathering->warned = true;
		vshmem_say("a collective call of a communicator has failed: %s", why);
	}
	return rc == -EPROTO ? MPI_ERR_TRUNCATE : MPI_ERR_OTHER;
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
