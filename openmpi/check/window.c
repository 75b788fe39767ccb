/* Windows in the pool whose other processes say and write anything: where they say that their
 * memory lies, and the words by which all synchronise. A pool lies between pages that cannot be
 * touched, and the caller's buffers have exactly their size, so each byte too far ends the program.
 *
 *   window [SEED [SECONDS]]      without SECONDS so many steps as take a few
 */
#include "osc_vshmem.h"
#include "../../transport/check/random_steps.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "opal/runtime/opal.h"

#include "ompi/mca/coll/coll.h"

uint64_t first_seed, step, seed;

enum { PAGE = 4096, POOL = 64 * PAGE, RANKS = 4 };
static uint8_t *pool;
static uint64_t made, refused, done;

/* The library. */
#define LEAST_PAYLOAD 1
#include "teams.h"

int vshmem_open(const char *name, vshmem_pool **opened, char *message, size_t bytes)
{
	(void)name, (void)message, (void)bytes;
	*opened = (vshmem_pool *)pool;
	return 0;
}
void vshmem_close(vshmem_pool *closed) { must((uint8_t *)closed == pool && !held && !joined); }
void vshmem_identify(const vshmem_pool *of, uint8_t uuid[16])
{
	(void)of;
	memset(uuid, 1, 16);
}
void *vshmem_base(const vshmem_pool *of) { return (void *)(uintptr_t)of; }
uint64_t vshmem_bytes(const vshmem_pool *of)
{
	(void)of;
	return POOL;
}
int vshmem_hold(vshmem_pool *of, uint64_t bytes, void **memory)
{
	(void)of;
	if (bytes > POOL || any(5) == 0)
		return -ENOMEM;
	uint64_t pages = (bytes + PAGE - 1) / PAGE;
	*memory = pool + any(POOL / PAGE - pages + 1) * PAGE;
	held++;
	return 0;
}
/* What is attached by an id: once, and as long as it is. */
static struct {
	void *memory;
	uint64_t bytes;
} attached[16];
int vshmem_attach(vshmem_pool *of, int id, uint64_t bytes, void **memory)
{
	must(id > 0);
	if (id >= 16 || any(8) == 0)
		return -EINVAL;
	if (attached[id].memory)
		return attached[id].bytes < bytes ? -EINVAL : -EBUSY;
	int rc = vshmem_hold(of, bytes, memory);
	if (rc == 0) {
		attached[id].memory = *memory;
		attached[id].bytes = bytes;
	}
	return rc;
}
uint32_t vshmem_attaches(const vshmem_pool *of)
{
	(void)of;
	return any(10) ? 64 * RANKS : 0;
}
int vshmem_release(vshmem_pool *of, void *memory)
{
	must(of && memory);
	bool found = false;
	for (int id = 0; id < 16 && !found; id++)
		if (attached[id].memory == memory) {
			attached[id].memory = NULL;
			found = true;
		}
	held--;
	return 0;
}
int vshmem_id(const vshmem_pool *of, const void *memory)
{
	must(of && memory);
	return any(6) ? 5 + (int)any(3) : -EIO;
}
size_t vshmem_team_bytes(uint32_t members, size_t payload) { return members * (payload + 200); }
int vshmem_team_barrier(vshmem_team *team)
{
	team->failed |= any(50) == 0;
	return team->failed ? -EPIPE : 0;
}
void vshmem_say(const char *format, ...) { (void)format; }

/* What others write: anything; when this process waits, now and then what ends that. */
static struct vshmem_window *open_window;
static void scribble(bool ends_waiting)
{
	for (uint32_t rank = 0; open_window && rank < open_window->ranks; rank++) {
		struct vshmem_window_state *state = &open_window->states[rank];
		state->accumulating = any(3) ? 0 : (uint32_t)any(UINT64_MAX);
		state->reading = state->writing = ends_waiting ? state->next - 1
							       : (uint32_t)any(UINT64_MAX);
		state->completed = (uint32_t)any(UINT64_MAX);
	}
}
__typeof__(opal_progress()) opal_progress(void)
{
	scribble(any(2));
	return (__typeof__(opal_progress()))0;
}

/* There is no memory now and then for what a process needs before it talks to the others. */
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
static bool is_making;
static uint64_t collectives; /* calls of all, for the window that is made */
void *__wrap_calloc(size_t count, size_t bytes)
{ return is_making && collectives == 0 && any(20) == 0 ? NULL : __real_calloc(count, bytes); }

/* What others say when a window is made. */
static int allgather(const void *mine, int count, struct ompi_datatype_t *type, void *all, int each,
	struct ompi_datatype_t *each_type, struct ompi_communicator_t *comm,
	mca_coll_base_module_t *module)
{
	(void)type, (void)each_type, (void)module;
	must(count == each && count % 8 == 0);
	collectives++;
	for (int rank = 0; rank < ompi_comm_size(comm); rank++) {
		uint64_t *part = (uint64_t *)((char *)all + (size_t)rank * (size_t)count);
		memcpy(part, mine, (size_t)count);
		if (rank == ompi_comm_rank(comm))
			continue;
		/* Its place, its length; and a bit of anything. */
		if (any(2))
			part[2] = any(2) ? any(POOL) : any(UINT64_MAX);
		if (any(2))
			part[3] = any(3) ? any(POOL / 4) : any(UINT64_MAX);
		if (any(4) == 0)
			part[any((uint64_t)count / 8)] ^= UINT64_C(1) << any(64);
	}
	return any(20) ? OMPI_SUCCESS : OMPI_ERROR;
}
static int bcast(void *data, int count, struct ompi_datatype_t *type, int root,
	struct ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
	(void)type, (void)module;
	must(count == 1);
	if (ompi_comm_rank(comm) != root)
		*(int *)data = any(8) ? 7 : (int)any(UINT64_MAX);
	return any(20) ? OMPI_SUCCESS : OMPI_ERROR;
}
static int allreduce(const void *mine, void *result, int count, struct ompi_datatype_t *type,
	struct ompi_op_t *op, struct ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
	(void)type, (void)op, (void)comm, (void)module;
	must(count == 1);
	collectives++;
	*(int *)result = any(6) ? *(const int *)mine : (int)any(UINT64_MAX);
	return any(20) ? OMPI_SUCCESS : OMPI_ERROR;
}

static ompi_op_t operation;

/* Layouts of numbers, forwards and backwards, and what they are of. */
static const int strides[] = { 3, -2, 1, 7 };
static ompi_datatype_t *types[6];
static void make_types(void)
{
	types[0] = &ompi_mpi_byte.dt;
	types[1] = &ompi_mpi_int.dt;
	for (size_t nth = 0; nth < 4; nth++) {
		ompi_datatype_t **type = &types[2 + nth], *of = types[nth % 2];
		const int count = 3, length = 1, *sizes[] = { &count, &length, &strides[nth] };
		must(ompi_datatype_create_vector(count, length, strides[nth], of, type)
		        == OMPI_SUCCESS);
		ompi_datatype_set_args(*type, 3, sizes, 0, NULL, 1, &of, MPI_COMBINER_VECTOR);
		ompi_datatype_commit(type);
	}
}

/* A buffer of exactly the size of so many things, and where they begin in it. */
static void *buffer(ompi_datatype_t *type, int count, char **begin)
{
	ptrdiff_t extent = type->super.ub - type->super.lb, last = extent * (count - 1);
	if (count == 0)
		return *begin = calloc(1, 1);
	ptrdiff_t first = type->super.true_lb + (last < 0 ? last : 0),
		  end = type->super.true_ub + (last > 0 ? last : 0);
	char *memory = calloc(1, (size_t)(end - first));
	*begin = memory - first;
	return memory;
}

/* All of them lie in the target's memory, looked at one by one. */
static bool inside(int target, ptrdiff_t at, int kind, int count)
{
	const struct vshmem_target *there = &open_window->targets[target];
	__int128 size = kind % 2 ? 4 : 1, begin = (__int128)at * there->unit;
	for (int nth = 0; nth < count; nth++)
		for (int block = 0; block < (kind < 2 ? 1 : 3); block++) {
			ptrdiff_t extent = types[kind]->super.ub - types[kind]->super.lb;
			__int128 first = begin + extent * nth
			        + (kind < 2 ? 0 : strides[kind - 2] * block * size);
			if (first < 0 || first + size > there->bytes)
				return false;
		}
	return true;
}

static void call(struct ompi_win_t *win)
{
	struct vshmem_window *window = open_window;
	int kind = (int)any(6), count = (int)any(any(4) ? 8 : 900),
	    target = (int)any(window->ranks);
	ompi_datatype_t *there = types[kind], *here = types[any(2) ? kind : kind % 2];
	int here_count = (int)(there->super.size * (size_t)count / here->super.size);
	uint64_t bytes = window->targets[target].bytes;
	ptrdiff_t at = (ptrdiff_t)(any(9) ? any(bytes + 64) - 32 : any(UINT64_MAX));
	char *origin, *result, *memory = buffer(here, here_count, &origin),
			       *other = buffer(here, here_count, &result);
	ompi_op_t *ops[] = { &operation, &ompi_mpi_op_replace.op, &ompi_mpi_op_no_op.op };
	ompi_op_t *op = ops[any(3)];
	int rc = OMPI_SUCCESS, flag;
	must(count == 0
	        || inside(target, at, kind, count)
	                == (vshmem_window_place(window, target, at, there, (size_t)count) != NULL));
	scribble(any(2));
	switch (any(10)) {
	case 0:
		rc = vshmem_window_put(origin, here_count, here, target, at, count, there, win);
		break;
	case 1:
		rc = vshmem_window_get(origin, here_count, here, target, at, count, there, win);
		break;
	case 2:
		rc = vshmem_window_accumulate(
			origin, here_count, here, target, at, count, there, op, win);
		break;
	case 3:
		rc = vshmem_window_get_accumulate(origin, here_count, here, result, here_count,
			here, target, at, count, there, op, win);
		break;
	case 4:
		if (here_count > 0 && here == types[kind % 2])
			rc = vshmem_window_fetch_and_op(origin, result, here, target, at, op, win);
		break;
	case 5:
		if (here_count > 0 && here == types[kind % 2])
			rc = vshmem_window_compare_and_swap(
				origin, origin, result, here, target, at, win);
		break;
	case 6: rc = vshmem_window_lock((int)any(3), target, 0, win); break;
	case 7: rc = vshmem_window_unlock(target, win); break;
	case 8: rc = any(2) ? vshmem_window_lock_all(0, win) : vshmem_window_unlock_all(win); break;
	default: rc = any(2) ? vshmem_window_fence(0, win) : vshmem_window_test(win, &flag);
	}
	must(rc == OMPI_SUCCESS || rc == OMPI_ERR_RMA_RANGE || rc == OMPI_ERR_RMA_SYNC
	        || rc == MPI_ERR_OTHER);
	done += rc == OMPI_SUCCESS;
	refused += rc == OMPI_ERR_RMA_RANGE;
	free(memory);
	free(other);
}

static void window(void)
{
	static mca_coll_base_comm_coll_t coll = {
		.coll_allgather = allgather, .coll_bcast = bcast, .coll_allreduce = allreduce
	};
	ompi_group_t group = { .grp_proc_count = 1 + (int)any(RANKS) };
	ompi_communicator_t comm = { .c_local_group = &group, .c_coll = &coll };
	comm.c_my_rank = (int)any((uint64_t)group.grp_proc_count);
	ompi_win_t win = { .w_group = &group };
	int flavor = any(2) ? MPI_WIN_FLAVOR_ALLOCATE : MPI_WIN_FLAVOR_CREATE, model;
	/* What a program gives may lie anywhere. */
	void *base = any(10) ? pool + any(POOL) : (void *)(uintptr_t)any(UINT64_MAX);
	size_t size = any(10) ? any(POOL / 4) : any(UINT64_MAX);
	is_making = true;
	collectives = 0;
	int rc = vshmem_window_make(&win, &base, size, 1 + (int)any(3) * 3, &comm, flavor, &model);
	is_making = false;
	/* The others make the first one in any case, and wait for this process there. */
	must(collectives > 0);
	if (rc != OMPI_SUCCESS) {
		must(win.w_osc_module == NULL);
		return;
	}
	made++;
	open_window = vshmem_window_of(&win);
	for (uint64_t calls = any(400); calls > 0; calls--)
		call(&win);
	open_window = NULL;
	vshmem_window_of(&win)->super.osc_free(&win);
}

/* Its processes are in several kernels. */
bool ompi_group_have_remote_peers(struct ompi_group_t *group)
{
	must(group);
	return true;
}

int main(int argc, char **argv)
{
	first_seed = seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	seed = seed * 0x9e3779b97f4a7c15u | 1;
	time_t until = argc > 2 ? time(NULL) + strtol(argv[2], NULL, 0) : 0;
	must(opal_init(&argc, &argv) == OPAL_SUCCESS && ompi_datatype_init() == OMPI_SUCCESS);
	uint8_t *room = mmap(NULL, POOL + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(room != MAP_FAILED && mprotect(room + PAGE, POOL, PROT_READ | PROT_WRITE) == 0);
	pool = room + PAGE;
	make_types();
	static ompi_group_t world = { .grp_proc_count = RANKS };
	ompi_mpi_comm_world.comm.c_local_group = &world;
	operation.o_flags = OMPI_OP_FLAGS_INTRINSIC;
	for (int nth = 0; nth < OMPI_OP_BASE_TYPE_MAX; nth++)
		operation.o_func.intrinsic.fns[nth] = exclusive_or;
	vshmem_osc_parameters.direct = 1;
	for (; until ? time(NULL) < until : step < 4000; step++)
		window();
	/* What was taken is given back, and calls are carried out to the end. */
	must(held == 0 && joined == 0 && made > step / 100 && refused > 0 && done > made);
	vshmem_window_close();
	printf("%llu windows, %llu calls carried out: 1 passed, 0 failed\n",
		(unsigned long long)made, (unsigned long long)done);
	return 0;
}
