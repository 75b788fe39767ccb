/* What collective.c is answered: by the library, by other members, and by the component below. All
 * of it is anything. Included once, after random_steps.h.
 */
#ifndef ANSWERS_H
#define ANSWERS_H

#define LEAST_PAYLOAD LARGEST_THING
#include "teams.h"

/* The library: a pool that has room or not, memory that is held, teams that are joined. */
struct vshmem_pool {
	int id;
};
static struct vshmem_pool the_pool;
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

/* Memory of teams: others write what they like there. */
enum { REGIONS = 64 };
static struct {
	uint32_t *words;
	size_t count;
} regions[REGIONS];

static void write_words(void)
{
	for (int nth = 0; nth < REGIONS; nth++)
		for (size_t at = 0; regions[nth].words && at < regions[nth].count; at++)
			regions[nth].words[at] = any(4) ? (uint32_t)any(9)
							: (uint32_t)any(UINT64_MAX);
}

int vshmem_leaving(const vshmem_pool *pool)
{
	must(pool == &the_pool);
	return any(20) == 0;
}

static int give(uint64_t bytes, void **memory)
{
	static const int refusals[] = { -ENOMEM, -EINVAL, -EBUSY, -EIO };
	if (any(5) == 0)
		return refusals[any(4)];
	*memory = calloc(1, bytes);
	held++;
	for (int nth = 0; nth < REGIONS; nth++)
		if (!regions[nth].words) {
			regions[nth].words = *memory;
			regions[nth].count = bytes / sizeof(uint32_t);
			break;
		}
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
	for (int nth = 0; nth < REGIONS; nth++)
		if (regions[nth].words == memory)
			regions[nth].words = NULL;
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

static int answered(vshmem_team *team)
{
	static const int failures[] = { -ETIMEDOUT, -EOWNERDEAD, -EPIPE, -EPROTO, -EIO };
	by_team++;
	team->failed |= any(12) == 0;
	return team->failed ? failures[any(5)] : 0;
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

/* Blocks: all that is read is read, and all that is written is written. */
static uint8_t sum;
static void read_all(const void *memory, size_t bytes)
{
	for (size_t at = 0; memory && at < bytes; at++)
		sum ^= ((const uint8_t *)memory)[at];
}

static void write_all(void *memory, size_t bytes)
{
	for (size_t at = 0; memory && at < bytes; at++)
		((uint8_t *)memory)[at] ^= (uint8_t)any(256);
}

/* Of the communicator that makes the call. */
static size_t members_of_call;
static uint32_t rank_of_call;

int vshmem_team_allgather(vshmem_team *team, const void *mine, void *all, size_t bytes)
{
	must(bytes > 0 && bytes <= vshmem_coll_parameters.most_bytes && all);
	read_all(mine, bytes);
	write_all(all, bytes * members_of_call);
	return answered(team);
}

int vshmem_team_alltoall(vshmem_team *team, const void *given, void *got, size_t bytes)
{
	must(bytes * (members_of_call - 1) <= vshmem_coll_parameters.most_bytes && got);
	read_all(given, bytes * members_of_call);
	write_all(got, bytes * members_of_call);
	return answered(team);
}

int vshmem_team_gather(
	vshmem_team *team, uint32_t root, const void *mine, void *all, size_t bytes)
{
	must(bytes > 0 && bytes <= vshmem_coll_parameters.most_bytes);
	must((all != NULL) == (root == rank_of_call) && (mine || all));
	read_all(mine, bytes);
	write_all(all, bytes * members_of_call);
	return answered(team);
}

int vshmem_team_scatter(
	vshmem_team *team, uint32_t root, const void *all, void *mine, size_t bytes)
{
	must(bytes * (members_of_call - 1) <= vshmem_coll_parameters.most_bytes);
	must((all != NULL) == (root == rank_of_call) && (mine || all));
	read_all(all, bytes * members_of_call);
	write_all(mine, bytes);
	return answered(team);
}

/* Calls under way: each is looked after in its order, until it is done or has failed. */
void vshmem_team_start(vshmem_team *team, struct vshmem_started *started)
{
	must(team);
	started->words[0] = ++team->started;
}

static int looked_at(vshmem_team *team, const struct vshmem_started *started)
{
	must(started->words[0] > team->done && started->words[0] <= team->started);
	if (!team->failed && (started->words[0] != team->done + 1 || any(3)))
		return 0;
	int rc = answered(team);
	team->done = rc == 0 ? started->words[0] : team->done;
	return rc == 0 ? 1 : rc;
}

int vshmem_team_poll_allgather(
	vshmem_team *team, struct vshmem_started *started, void *all, size_t bytes)
{
	must(bytes <= vshmem_coll_parameters.piece_bytes);
	int rc = looked_at(team, started);
	/* At the least what this one has for itself. */
	write_all(all, rc == 1 ? bytes : 0);
	return rc;
}

int vshmem_team_poll_alltoall(vshmem_team *team, struct vshmem_started *started,
	const void *given, void *got, size_t bytes)
{
	must(bytes <= vshmem_coll_parameters.piece_bytes && got);
	int rc = looked_at(team, started);
	read_all(given, bytes);
	write_all(got, rc == 1 ? bytes : 0);
	return rc;
}

int vshmem_team_poll_broadcast(vshmem_team *team, struct vshmem_started *started, uint32_t root,
	void *data, size_t bytes)
{
	(void)root;
	must(bytes > 0 && bytes <= vshmem_coll_parameters.piece_bytes && data);
	int rc = looked_at(team, started);
	write_all(data, rc == 1 ? bytes : 0);
	return rc;
}

int vshmem_team_poll_allreduce_by(vshmem_team *team, struct vshmem_started *started, void *result,
	size_t count, size_t unit, vshmem_combine *combine_things, void *argument)
{
	must(unit > 0 && count * unit <= vshmem_coll_parameters.piece_bytes && result);
	int rc = looked_at(team, started);
	if (rc == 1) {
		uint8_t *earlier = malloc(count * unit);
		memset(earlier, (int)any(256), count * unit);
		combine_things(earlier, result, count, argument);
		free(earlier);
	}
	return rc;
}

void vshmem_say(const char *format, ...) { (void)format; }

/* Open MPI 5.0 tells whether there was any. */
__typeof__(opal_progress()) opal_progress(void)
{
	if (any(50) == 0)
		write_words();
	return (__typeof__(opal_progress()))0;
}

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

/* What else goes by messages: all of these do nothing, and nonblocking ones are done at once. */
static int below(mca_coll_base_module_t *module)
{
	must(module == NULL);
	by_messages++;
	return OMPI_SUCCESS;
}

static int done_below(ompi_request_t **request, mca_coll_base_module_t *module)
{
	*request = NULL;
	return below(module);
}

#define BLOCKS_BELOW                                                                          \
	const void *mine, int count, struct ompi_datatype_t *type, void *all, int all_count,  \
		struct ompi_datatype_t *all_type
#define UNUSED_BLOCKS \
	(void)mine, (void)count, (void)type, (void)all, (void)all_count, (void)all_type

static int blocks_below(
	BLOCKS_BELOW, struct ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
	UNUSED_BLOCKS, (void)comm;
	return below(module);
}

static int rooted_below(
	BLOCKS_BELOW, int root, struct ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
	UNUSED_BLOCKS, (void)root, (void)comm;
	return below(module);
}

static int blocks_started_below(BLOCKS_BELOW, struct ompi_communicator_t *comm,
	ompi_request_t **request, mca_coll_base_module_t *module)
{
	UNUSED_BLOCKS, (void)comm;
	return done_below(request, module);
}

static int ibarrier_below(
	struct ompi_communicator_t *comm, ompi_request_t **request, mca_coll_base_module_t *module)
{
	(void)comm;
	return done_below(request, module);
}

static int ibcast_below(void *data, int count, struct ompi_datatype_t *type, int root,
	struct ompi_communicator_t *comm, ompi_request_t **request, mca_coll_base_module_t *module)
{
	(void)data, (void)count, (void)type, (void)root, (void)comm;
	return done_below(request, module);
}

static int iallreduce_below(const void *mine, void *result, int count,
	struct ompi_datatype_t *type, struct ompi_op_t *op, struct ompi_communicator_t *comm,
	ompi_request_t **request, mca_coll_base_module_t *module)
{
	(void)mine, (void)result, (void)count, (void)type, (void)op, (void)comm;
	return done_below(request, module);
}

#endif
