/* A communicator's teams: made when it has made enough calls that could use one, given back with
 * the communicator. */
#include "coll_vshmem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "opal/runtime/opal_progress.h"

#include "user.h"

static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT;
static vshmem_pool *pool;
static bool warned; /* that there is no room */
static int teams;
static uint64_t taken; /* by them, of what this process may take */
static uint64_t calls, ever;
static bool apart; /* this process has left the pool, or is about to */

/* All teams of a job leave so much of the pool to others: each process may take its share of the
 * rest. */
#define OF_THE_POOL 8

static bool leave(bool leaving)
{
	bool done = vshmem_stop_step(leaving);
	if (!done || !leaving)
		return done;
	/* One that is being made has memory of the pool, perhaps. */
	OPAL_THREAD_LOCK(&lock);
	done = teams == 0;
	apart |= done;
	OPAL_THREAD_UNLOCK(&lock);
	return done;
}

static void left(void)
{
	OPAL_THREAD_LOCK(&lock);
	if (pool)
		vshmem_close(pool);
	pool = NULL;
	OPAL_THREAD_UNLOCK(&lock);
}

static void joined(void) { apart = false; }

static struct vshmem_user user = { .leave = leave, .left = left, .joined = joined };

static bool open_pool(const uint8_t wanted[16])
{
	uint8_t found[16];
	vshmem_user_enter(&user);
	OPAL_THREAD_LOCK(&lock);
	/* mpirun passes parameters on in the environment. The BTL says what is wrong, if anything
	 * is. */
	if (!pool
		&& (apart || vshmem_open(getenv("OMPI_MCA_btl_vshmem_pool"), &pool, NULL, 0) != 0))
		pool = NULL;
	bool open = pool != NULL;
	OPAL_THREAD_UNLOCK(&lock);
	if (!open)
		return false;
	vshmem_identify(pool, found);
	return memcmp(found, wanted, sizeof(found)) == 0;
}

static void progress(void *use)
{
	vshmem_stop_look(use);
	opal_progress();
}

size_t vshmem_gathering_piece(void)
{
	size_t most = vshmem_coll_parameters.most_bytes, bytes = vshmem_coll_parameters.piece_bytes;
	bytes = bytes < most ? bytes : most;
	return bytes < LARGEST_THING ? LARGEST_THING : bytes;
}

/* Of a team's memory, with what says when it ends. */
static size_t bytes_of(uint32_t members)
{
	size_t of_team = vshmem_team_bytes(members, vshmem_gathering_piece());
	return (of_team + 63) / 64 * 64 + sizeof(struct vshmem_stop)
		+ members * sizeof(((struct vshmem_stop *)0)->members[0]);
}

/* Joins as a member, in memory of its own (id 0) or that of another member. Tells its name: 0 when
 * it could not. */
static int join(struct vshmem_use *use, uint32_t members, uint32_t rank, int id)
{
	size_t of_team = vshmem_team_bytes(members, vshmem_gathering_piece());
	size_t bytes = bytes_of(members);
	int rc = of_team == 0 ? -EINVAL
		: id == 0     ? vshmem_hold(pool, bytes, &use->memory)
			      : vshmem_attach(pool, id, bytes, &use->memory);
	if (rc != 0) {
		use->memory = NULL;
		if (rc == -EIDRM)
			return 0;
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
	use->stop = (void *)((char *)use->memory + (of_team + 63) / 64 * 64);
	use->members = members;
	use->rank = rank;
	use->calls = 0;
	use->said = false;
	/* A member may compute for as long as it likes before it comes. */
	vshmem_team_patience(use->team, UINT32_MAX);
	vshmem_team_idle(use->team, progress, use);
	return id;
}

/* What this process takes of the pool as a member. */
static uint64_t share(uint32_t members) { return bytes_of(members) / members; }

static bool one_more(uint32_t members)
{
	uint64_t job = (uint64_t)ompi_comm_size(&ompi_mpi_comm_world.comm),
		 most = vshmem_bytes(pool) / OF_THE_POOL / job;
	OPAL_THREAD_LOCK(&lock);
	bool fits = !apart && teams < vshmem_coll_parameters.most_teams
		&& taken + share(members) <= most;
	if (fits) {
		teams++;
		taken += share(members);
	}
	OPAL_THREAD_UNLOCK(&lock);
	return fits;
}

static void one_less(uint32_t members, uint64_t made)
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
	use->stop = NULL;
	if (use->way == BY_TEAM || use->way == STOPPED) {
		one_less(members, use->calls);
		use->way = BY_MESSAGES;
	}
}

static void give_back(struct vshmem_use *use)
{
	end(use, use->members);
	use->way = UNDECIDED;
}

/* What a member can do; the least that any of them can. */
enum { NEVER, LATER, NOW };

/* What all can, when each has tried to join. */
static int agree(vshmem_gathering *gathering, struct vshmem_use *use,
	struct ompi_communicator_t *comm, bool fits)
{
	uint32_t members = (uint32_t)ompi_comm_size(comm), rank = (uint32_t)ompi_comm_rank(comm);
	int id = 0, own = NEVER, all = NEVER;
	if (rank == 0 && fits)
		id = join(use, members, rank, 0);
	int rc = gathering->bcast(&id, 1, &ompi_mpi_int.dt, 0, comm, gathering->bcast_module);
	bool joined = rank == 0
		? id > 0
		: rc == OMPI_SUCCESS && id > 0 && fits && join(use, members, rank, id);
	/* A member that leaves, or has left, may come back. */
	if (joined)
		own = NOW;
	else if (apart || (pool && vshmem_leaving(pool) != 0) || (rank != 0 && id <= 0))
		own = LATER;
	if (rc == OMPI_SUCCESS)
		rc = gathering->allreduce(&own, &all, 1, &ompi_mpi_int.dt, &ompi_mpi_op_min.op,
			comm, gathering->allreduce_module);
	/* The least of what all have said: of one that is hostile, anything. */
	all = rc == OMPI_SUCCESS ? all : NEVER;
	return all >= NOW && !joined ? NEVER : all;
}

void vshmem_gathering_decide(
	vshmem_gathering *gathering, struct vshmem_use *use, struct ompi_communicator_t *comm)
{
	uint32_t members = (uint32_t)ompi_comm_size(comm);
	uint8_t wanted[16];
	vshmem_stop_wait(use);
	use->way = DECIDING;
	gathering->members = members;
	if (!vshmem_coll_all_share(comm->c_local_group, wanted)) {
		use->way = BY_MESSAGES;
		return;
	}
	/* From here on all go through all of it. */
	bool fits = open_pool(wanted) && one_more(members);
	int all = agree(gathering, use, comm, fits);
	if (all >= NOW) {
		use->way = BY_TEAM;
		use->give_back = give_back;
		vshmem_stop_enter(use);
		return;
	}
	end(use, members);
	if (fits)
		one_less(members, 0);
	use->before = vshmem_stop_before();
	use->way = all == LATER ? UNDECIDED : BY_MESSAGES;
}

void vshmem_gathering_end(vshmem_gathering *gathering)
{
	vshmem_stop_forget(&gathering->blocking);
	vshmem_stop_forget(&gathering->nonblocking);
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
