/* Making a window in the pool, and giving its memory back.
 *
 * All processes of a window attach all of its memory: it then stays when its owner dies, and nobody
 * writes into what the pool has given to somebody else.
 */
#include "osc_vshmem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "opal/runtime/opal_progress.h"

#include "ompi/communicator/communicator.h"
#include "ompi/mca/coll/coll.h"

#include "user.h"

#define PAGE 4096
/* Of a window's team nothing but its barrier is used. */
#define PAYLOAD 64
/* Pages in front of an address in which the beginning of its memory is looked for. */
#define SEARCHED_PAGES (1 << 16)
/* The windows of a job leave so much of the pool's table of attaches to its messages. */
#define OF_THE_ATTACHES 8

static opal_mutex_t mutex = OPAL_MUTEX_STATIC_INIT;
static vshmem_pool *pool;
static bool tried, warned;
static uint64_t made;
static uint32_t attaches; /* of this process's windows */
struct vshmem_osc_parameters vshmem_osc_parameters;

/* What a process tells the others of its part of the window. */
struct part {
	uint8_t pool[16];
	uint64_t bytes; /* of its memory */
	uint64_t into;  /* where this begins in memory that it holds, if it has any yet */
	int32_t id;     /* of what it holds */
	int32_t unit;
	int32_t able;
	int32_t unused;
};

static uint64_t pages(uint64_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

/* What lies in the pool and is used by loads and stores cannot go over. */
static const char *refuses(void)
{
	return attaches > 0
		? "it has windows of MPI_Win_allocate or MPI_Win_create in the pool, which end with MPI_Win_free; "
		  "with OMPI_MCA_osc_vshmem_direct=0 windows are made that can be taken along"
		: NULL;
}

static void left(void)
{
	if (pool)
		vshmem_close(pool);
	pool = NULL;
	tried = true;
}

static void joined(void) { tried = false; }

static struct vshmem_user user = { .refuses = refuses, .left = left, .joined = joined };

static bool open_pool(void)
{
	vshmem_user_enter(&user);
	OPAL_THREAD_LOCK(&mutex);
	/* mpirun passes parameters on in the environment. The BTL says what is wrong, if anything
	 * is. */
	if (!tried && vshmem_open(getenv("OMPI_MCA_btl_vshmem_pool"), &pool, NULL, 0) != 0)
		pool = NULL;
	tried = true;
	bool open = pool != NULL;
	OPAL_THREAD_UNLOCK(&mutex);
	return open;
}

static uint32_t most_attaches(void)
{
	uint32_t job = (uint32_t)ompi_comm_size(&ompi_mpi_comm_world.comm);
	return vshmem_attaches(pool) / OF_THE_ATTACHES / (job ? job : 1);
}

void vshmem_window_close(void)
{
	if (vshmem_osc_parameters.verbose)
		vshmem_say("%llu windows in the pool", (unsigned long long)made);
	if (pool)
		vshmem_close(pool);
	pool = NULL;
	tried = false;
}

/* The memory that this process holds and that an address lies in. */
static bool find_held(const void *base, struct part *part)
{
	uint64_t offset = (uint64_t)((uintptr_t)base - (uintptr_t)vshmem_base(pool));
	if (offset >= vshmem_bytes(pool) || part->bytes > vshmem_bytes(pool) - offset)
		return false;
	/* It begins on a page. Who attaches it sees whether it is as long as this wants. */
	uint64_t page = offset / PAGE;
	for (uint64_t looks = 0; looks < SEARCHED_PAGES && looks <= page; looks++) {
		uint64_t begin = (page - looks) * PAGE;
		part->id = vshmem_id(pool, (uint8_t *)vshmem_base(pool) + begin);
		part->into = offset - begin;
		if (part->id > 0)
			return true;
	}
	return false;
}

/* What this process can give to the window. */
static struct part own_part(void *base, size_t size, int unit, int flavor, uint32_t ranks)
{
	struct part part = { .bytes = size, .unit = unit };
	if (!vshmem_osc_parameters.direct || !open_pool())
		return part;
	vshmem_identify(pool, part.pool);
	bool taken = flavor == MPI_WIN_FLAVOR_ALLOCATE;
	part.able = size <= vshmem_bytes(pool) && attaches + (taken ? 1 : ranks) <= most_attaches()
	        && (taken || size == 0 || find_held(base, &part));
	return part;
}

/* All can, and of one pool; what they say lies in it. All processes get the same answer, but for
 * what a hostile one tells some and not others, which the agreement at the end sees. */
static bool fit(const struct part *parts, uint32_t ranks, uint64_t *bytes)
{
	uint64_t most = vshmem_bytes(pool);
	*bytes = 0;
	for (uint32_t rank = 0; rank < ranks; rank++) {
		const struct part *part = &parts[rank];
		if (!part->able || memcmp(part->pool, parts->pool, sizeof(part->pool)) != 0
		        || part->bytes > most || part->into > most - part->bytes)
			return false;
		*bytes += pages(part->bytes);
		if (*bytes > most)
			return false;
	}
	return true;
}

/* Where the words and the memory of a window lie. */
struct layout {
	uint64_t states, posts, data, bytes;
	size_t row;
};

static struct layout laid_out(uint32_t ranks, uint64_t data)
{
	struct layout layout = { .row = (ranks + 63) / 64 };
	layout.states = (vshmem_team_bytes(ranks, PAYLOAD) + 127) / 128 * 128;
	layout.posts = layout.states + ranks * sizeof(struct vshmem_window_state);
	layout.data = pages(layout.posts + ranks * layout.row * sizeof(uint64_t));
	layout.bytes = layout.data + data;
	return layout;
}

static void progress(void *argument)
{
	(void)argument;
	opal_progress();
}

/* Memory of other processes that windows have attached: once, however many they are. */
static struct foreign {
	struct foreign *next;
	void *memory;
	int id;
	uint32_t windows;
} *foreign;

/* With the lock held: attaches memory that has at least so many bytes. */
static void *attach_foreign(int id, uint64_t bytes)
{
	void *memory = NULL;
	/* What is attached already is busy, if it is as long. */
	int rc = vshmem_attach(pool, id, bytes, &memory);
	struct foreign *found = foreign;
	while (found && found->id != id)
		found = found->next;
	if (rc == -EBUSY && found) {
		found->windows++;
		return found->memory;
	}
	found = rc == 0 ? malloc(sizeof(*found)) : NULL;
	if (found) {
		*found = (struct foreign) { foreign, memory, id, 1 };
		foreign = found;
	} else if (rc == 0) {
		vshmem_release(pool, memory);
	}
	return found ? memory : NULL;
}

/* With the lock held. */
static void release(int id)
{
	struct foreign **link = &foreign;
	while (*link && (*link)->id != id)
		link = &(*link)->next;
	struct foreign *found = *link;
	if (!found || id == 0 || --found->windows > 0)
		return;
	*link = found->next;
	vshmem_release(pool, found->memory);
	free(found);
}

/* Finds the memory that the processes have given, and attaches that of others. */
static bool attach_all(struct vshmem_window *window, const struct part *parts)
{
	for (uint32_t rank = 0; rank < window->ranks; rank++) {
		const struct part *part = &parts[rank];
		struct vshmem_target *target = &window->targets[rank];
		void *memory = window->base;
		if (rank != window->rank && part->bytes > 0) {
			OPAL_THREAD_LOCK(&mutex);
			memory = part->id > 0 ? attach_foreign(part->id, part->into + part->bytes)
					      : NULL;
			OPAL_THREAD_UNLOCK(&mutex);
			if (!memory)
				return false;
			target->id = part->id;
			memory = (char *)memory + part->into;
		}
		target->base = memory;
	}
	return true;
}

/* Takes the memory of the window (id 0), or attaches it. Tells its name: 0 when it could not. */
static int join(struct vshmem_window *window, const struct layout *layout, int id)
{
	if (vshmem_team_bytes(window->ranks, PAYLOAD) == 0)
		return 0;
	int rc = id == 0 ? vshmem_hold(pool, layout->bytes, &window->memory)
			 : vshmem_attach(pool, id, layout->bytes, &window->memory);
	if (rc != 0) {
		window->memory = NULL;
		if (!warned)
			vshmem_say(
				"a window of %u processes is not in the pool, and its one-sided calls are slower: the pool has no room "
				"for %llu KiB more, or for one more to attach them (%s)",
				window->ranks, (unsigned long long)layout->bytes >> 10,
				strerror(-rc));
		warned = true;
		return 0;
	}
	id = id == 0 ? vshmem_id(pool, window->memory) : id;
	if (id <= 0
	        || vshmem_team_join(
			   window->memory, window->ranks, PAYLOAD, window->rank, &window->team)
	                != 0)
		return 0;
	/* A member may compute for as long as it likes before it comes. */
	vshmem_team_patience(window->team, UINT32_MAX);
	vshmem_team_idle(window->team, progress, NULL);
	return id;
}

static void leave(struct vshmem_window *window)
{
	if (window->team)
		vshmem_team_leave(window->team);
	if (window->memory)
		vshmem_release(pool, window->memory);
	OPAL_THREAD_LOCK(&mutex);
	for (uint32_t rank = 0; window->targets && rank < window->ranks; rank++)
		release(window->targets[rank].id);
	attaches -= window->attaches;
	OPAL_THREAD_UNLOCK(&mutex);
	free(window->targets);
	free(window->held);
	free(window);
}

static int free_window(struct ompi_win_t *win)
{
	struct vshmem_window *window = vshmem_window_of(win);
	/* All calls of others have been made. */
	int rc = vshmem_window_meet(window);
	if (window->started)
		OBJ_RELEASE(window->started);
	if (window->posted)
		OBJ_RELEASE(window->posted);
	leave(window);
	win->w_osc_module = NULL;
	return rc;
}

static int attach(struct ompi_win_t *win, void *base, size_t length)
{
	(void)win, (void)base, (void)length;
	return OMPI_ERR_RMA_ATTACH;
}

static int detach(struct ompi_win_t *win, const void *base)
{
	(void)win, (void)base;
	return OMPI_ERR_RMA_ATTACH;
}

static const ompi_osc_base_module_t calls = {
	.osc_win_attach = attach,
	.osc_win_detach = detach,
	.osc_free = free_window,
#define OURS(call) .osc_##call = vshmem_window_##call,
	VSHMEM_WINDOW_CALLS(OURS).osc_wait = vshmem_window_wait_for_origins,
	.osc_flush_all = vshmem_window_sync,
	.osc_flush_local = vshmem_window_flush,
	.osc_flush_local_all = vshmem_window_sync,
};

/* Points at the parts of the memory that was joined. */
static void take_up(struct vshmem_window *window, const struct layout *layout,
	const struct part *parts, int flavor)
{
	char *memory = window->memory, *data = memory + layout->data;
	window->states = (void *)(memory + layout->states);
	window->posts = (void *)(memory + layout->posts);
	window->row = layout->row;
	for (uint32_t rank = 0; rank < window->ranks; rank++) {
		bool taken = flavor == MPI_WIN_FLAVOR_ALLOCATE;
		if (taken)
			window->targets[rank].base = data;
		window->targets[rank].bytes = parts[rank].bytes;
		window->targets[rank].unit = parts[rank].unit;
		data += taken ? pages(parts[rank].bytes) : 0;
	}
}

static struct vshmem_window *new_window(struct ompi_communicator_t *comm)
{
	struct vshmem_window *window = calloc(1, sizeof(*window));
	if (!window)
		return NULL;
	window->super = calls;
	window->ranks = (uint32_t)ompi_comm_size(comm);
	window->rank = (uint32_t)ompi_comm_rank(comm);
	window->targets = calloc(window->ranks, sizeof(*window->targets));
	window->held = calloc(window->ranks, sizeof(*window->held));
	if (window->targets && window->held)
		return window;
	leave(window);
	return NULL;
}

/* All join, or none does; all know. */
static bool join_all(struct vshmem_window *window, const struct part *parts, int flavor,
	struct ompi_communicator_t *comm)
{
	mca_coll_base_comm_coll_t *coll = comm->c_coll;
	uint64_t data;
	struct layout layout;
	bool fits = window && fit(parts, (uint32_t)ompi_comm_size(comm), &data);
	if (fits)
		layout = laid_out(window->ranks, flavor == MPI_WIN_FLAVOR_ALLOCATE ? data : 0);
	int id = fits && window->rank == 0 ? join(window, &layout, 0) : 0, joined, all = 0;
	int rc = coll->coll_bcast(&id, 1, &ompi_mpi_int.dt, 0, comm, coll->coll_bcast_module);
	joined = fits && rc == OMPI_SUCCESS && id > 0
	        && (window->rank == 0 || join(window, &layout, id) > 0)
	        && (flavor == MPI_WIN_FLAVOR_ALLOCATE || attach_all(window, parts));
	if (rc == OMPI_SUCCESS)
		rc = coll->coll_allreduce(&joined, &all, 1, &ompi_mpi_int.dt, &ompi_mpi_op_min.op,
			comm, coll->coll_allreduce_module);
	/* The least of what all have said: of one that is hostile, anything. */
	if (rc != OMPI_SUCCESS || !joined || all <= 0)
		return false;
	take_up(window, &layout, parts, flavor);
	return true;
}

/* What each can give, if all can give something: one without memory for what the others tell must
 * say so in a call of all that takes none. */
static int tell(const struct part *own, struct part *parts, struct ompi_communicator_t *comm)
{
	mca_coll_base_comm_coll_t *coll = comm->c_coll;
	int able = own->able, all = 0;
	int rc = coll->coll_allreduce(&able, &all, 1, &ompi_mpi_int.dt, &ompi_mpi_op_min.op, comm,
		coll->coll_allreduce_module);
	if (rc != OMPI_SUCCESS)
		return rc;
	if (all <= 0 || !parts)
		return OMPI_ERR_NOT_AVAILABLE;
	return coll->coll_allgather(own, sizeof(*own), &ompi_mpi_byte.dt, parts, sizeof(*own),
		&ompi_mpi_byte.dt, comm, coll->coll_allgather_module);
}

int vshmem_window_make(struct ompi_win_t *win, void **base, size_t size, int unit,
	struct ompi_communicator_t *comm, int flavor, int *model)
{
	/* The same for all. Within a kernel Open MPI's own windows are left alone. */
	if ((flavor != MPI_WIN_FLAVOR_ALLOCATE && flavor != MPI_WIN_FLAVOR_CREATE)
	        || !ompi_group_have_remote_peers(comm->c_local_group))
		return OMPI_ERR_NOT_AVAILABLE;
	uint32_t ranks = (uint32_t)ompi_comm_size(comm);
	struct part own = own_part(*base, size, unit, flavor, ranks),
		    *parts = calloc(ranks, sizeof(own));
	struct vshmem_window *window = new_window(comm);
	if (window && own.able) {
		window->base = *base;
		window->attaches = flavor == MPI_WIN_FLAVOR_ALLOCATE ? 1 : ranks;
		OPAL_THREAD_LOCK(&mutex);
		attaches += window->attaches;
		OPAL_THREAD_UNLOCK(&mutex);
	}
	own.able = own.able && window && parts;
	int rc = tell(&own, parts, comm);
	bool able = rc == OMPI_SUCCESS;
	for (uint32_t rank = 0; able && rank < ranks; rank++)
		able = parts[rank].able;
	/* From here on all go through all of it. */
	able = able && join_all(window, parts, flavor, comm);
	free(parts);
	if (!able) {
		if (window)
			leave(window);
		return rc == OMPI_SUCCESS ? OMPI_ERR_NOT_AVAILABLE : rc;
	}
	if (flavor == MPI_WIN_FLAVOR_ALLOCATE)
		*base = window->targets[window->rank].bytes ? window->targets[window->rank].base
							    : NULL;
	made++;
	*model = MPI_WIN_UNIFIED;
	win->w_osc_module = &window->super;
	return OMPI_SUCCESS;
}
