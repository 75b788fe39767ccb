/* Ibarrier, ibcast, iallreduce, iallgather and ialltoall: by a team of their own if there is one
 * and it is good for them, else by what is below. A call is started, and looked after whenever the
 * process makes progress.
 *
 * Locking: `lock` is held while calls are looked after. What is called then makes no progress, and
 * takes no other lock of ours but that of the requests' list.
 */
#include "coll_vshmem.h"

#include <string.h>

#include "ompi/mca/coll/base/coll_base_util.h"
#include "ompi/request/request.h"
#include "opal/runtime/opal_progress.h"

/* A member reads what all others have in an allreduce: with more, by messages. */
#define MOST_READ 4

/* A call that is under way. MPI keeps datatypes in the structure that it begins with. */
typedef struct vshmem_call {
	ompi_coll_base_nbc_request_t super;
	enum vshmem_kind { ALLGATHER, ALLTOALL, BROADCAST, ALLREDUCE } kind;
	vshmem_gathering *gathering;
	struct vshmem_started started;
	struct vshmem_flat given, got;
	size_t bytes; /* of a block, or of all */
	size_t unit;
	uint32_t root;
	struct vshmem_reduction reduction;
} vshmem_call;
static OBJ_CLASS_INSTANCE(vshmem_call, ompi_coll_base_nbc_request_t, NULL, NULL);

static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT;
static opal_free_list_t unused;
static opal_list_t under_way; /* in the order in which they were started */
static volatile int32_t count;
static bool ready;

static int look(vshmem_call *call)
{
	vshmem_team *team = call->gathering->nonblocking.team;
	struct vshmem_started *started = &call->started;
	switch (call->kind) {
	case ALLGATHER:
		return vshmem_team_poll_allgather(team, started, call->got.bytes, call->bytes);
	case ALLTOALL:
		return vshmem_team_poll_alltoall(
			team, started, call->given.bytes, call->got.bytes, call->bytes);
	case BROADCAST:
		return vshmem_team_poll_broadcast(
			team, started, call->root, call->got.bytes, call->bytes);
	default:
		return vshmem_team_poll_allreduce_by(team, started, call->got.bytes,
			call->bytes / call->unit, call->unit, vshmem_coll_combine,
			&call->reduction);
	}
}

static void complete(vshmem_call *call, int rc)
{
	int status = rc == 1 ? MPI_SUCCESS
			     : vshmem_gathering_answer(
				       call->gathering, &call->gathering->nonblocking, rc);
	vshmem_flat_close(&call->given, false);
	int closed = vshmem_flat_close(&call->got, status == MPI_SUCCESS);
	call->super.super.req_status.MPI_ERROR = status == MPI_SUCCESS ? closed : status;
	call->gathering->nonblocking.under_way--;
	ompi_request_complete(&call->super.super, true);
}

/* With the lock held. */
static int look_after_all(void)
{
	int done = 0;
	vshmem_call *call, *next;
	OPAL_LIST_FOREACH_SAFE(call, next, &under_way, vshmem_call)
	{
		int rc = look(call);
		if (rc == 0)
			continue;
		opal_list_remove_item(&under_way, (opal_list_item_t *)call);
		count--;
		complete(call, rc);
		done++;
	}
	return done;
}

static int progress(void)
{
	if (count == 0)
		return 0;
	if (!opal_using_threads())
		return look_after_all();
	if (opal_mutex_trylock(&lock))
		return 0;
	int done = look_after_all();
	opal_mutex_unlock(&lock);
	return done;
}

static int free_call(ompi_request_t **request)
{
	vshmem_call *call = (vshmem_call *)*request;
	if (!REQUEST_COMPLETE(&call->super.super))
		return MPI_ERR_REQUEST;
	struct ompi_communicator_t *comm = call->super.super.req_mpi_object.comm;
	OMPI_REQUEST_FINI(&call->super.super);
	opal_free_list_return(&unused, &call->super.super.super);
	OBJ_RELEASE(comm);
	*request = MPI_REQUEST_NULL;
	return OMPI_SUCCESS;
}

static int cancel_call(ompi_request_t *request, int complete)
{
	(void)request, (void)complete;
	return MPI_ERR_REQUEST;
}

static bool make_ready(void)
{
	if (ready)
		return true;
	OBJ_CONSTRUCT(&unused, opal_free_list_t);
	OBJ_CONSTRUCT(&under_way, opal_list_t);
	ready = opal_free_list_init(&unused, sizeof(vshmem_call), 64, OBJ_CLASS(vshmem_call), 0, 0,
			8, -1, 8, NULL, 0, NULL, NULL, NULL)
	                == OPAL_SUCCESS
	        && opal_progress_register(progress) == OPAL_SUCCESS;
	return ready;
}

void vshmem_coll_nonblocking_close(void)
{
	if (!ready)
		return;
	opal_progress_unregister(progress);
	OBJ_DESTRUCT(&under_way);
	OBJ_DESTRUCT(&unused);
	ready = false;
}

/* Whether a call that passes on so many bytes goes by the team. It must not wait for others, so
 * calls that do decide. */
static bool by_team(vshmem_gathering *gathering, size_t bytes)
{
	struct vshmem_use *use = &gathering->nonblocking;
	if (bytes > vshmem_coll_parameters.most_bytes || bytes > vshmem_gathering_piece())
		return false;
	if (use->way == BY_TEAM) {
		use->inside = true;
		if (vshmem_stop_count(use))
			return true;
	}
	if (use->way != BY_TEAM && use->way != BY_MESSAGES
		&& use->before <= vshmem_coll_parameters.after)
		use->before++;
	return false;
}

/* A call that is not started yet, on so many bytes; NULL: no memory. */
static vshmem_call *make(vshmem_gathering *gathering, struct ompi_communicator_t *comm,
	enum vshmem_kind kind, size_t bytes)
{
	OPAL_THREAD_LOCK(&lock);
	vshmem_call *call = make_ready() ? (vshmem_call *)opal_free_list_get(&unused) : NULL;
	OPAL_THREAD_UNLOCK(&lock);
	if (!call)
		return NULL;
	OMPI_REQUEST_INIT(&call->super.super, false);
	OBJ_RETAIN(comm);
	call->super.super.req_type = OMPI_REQUEST_COLL;
	call->super.super.req_status = ompi_status_empty;
	call->super.super.req_state = OMPI_REQUEST_ACTIVE;
	call->super.super.req_free = free_call;
	call->super.super.req_cancel = cancel_call;
	call->super.super.req_mpi_object.comm = comm;
	call->gathering = gathering;
	call->kind = kind;
	call->bytes = bytes;
	call->given.bytes = call->got.bytes = NULL;
	call->given.packed = call->got.packed = 0;
	return call;
}

static int fail(vshmem_call *call)
{
	call->gathering->nonblocking.inside = false;
	vshmem_flat_close(&call->given, false);
	call->super.super.req_complete = REQUEST_COMPLETED;
	ompi_request_t *request = &call->super.super;
	free_call(&request);
	return MPI_ERR_NO_MEM;
}

static int start(vshmem_call *call, ompi_request_t **request)
{
	*request = &call->super.super;
	OPAL_THREAD_LOCK(&lock);
	call->gathering->nonblocking.under_way++;
	call->gathering->nonblocking.inside = false;
	vshmem_team_start(call->gathering->nonblocking.team, &call->started);
	opal_list_append(&under_way, (opal_list_item_t *)call);
	count++;
	look_after_all();
	OPAL_THREAD_UNLOCK(&lock);
	return MPI_SUCCESS;
}

int vshmem_coll_ibarrier(struct ompi_communicator_t *comm, ompi_request_t **request,
	mca_coll_base_module_t *module)
{
	vshmem_gathering *gathering = (vshmem_gathering *)module;
	if (!by_team(gathering, 0))
		return gathering->ibarrier(comm, request, gathering->ibarrier_module);
	vshmem_call *call = make(gathering, comm, ALLGATHER, 0);
	if (!call)
		return MPI_ERR_NO_MEM;
	return start(call, request);
}

int vshmem_coll_ibcast(void *data, int count, struct ompi_datatype_t *type, int root,
	struct ompi_communicator_t *comm, ompi_request_t **request, mca_coll_base_module_t *module)
{
	vshmem_gathering *gathering = (vshmem_gathering *)module;
	size_t bytes = vshmem_flat_bytes(type, count);
	if (bytes == 0 || !by_team(gathering, bytes))
		return gathering->ibcast(
			data, count, type, root, comm, request, gathering->ibcast_module);
	vshmem_call *call = make(gathering, comm, BROADCAST, bytes);
	if (!call)
		return MPI_ERR_NO_MEM;
	call->root = (uint32_t)root;
	if (!vshmem_flat_open(
		    &call->got, data, (size_t)count, type, ompi_comm_rank(comm) == root))
		return fail(call);
	return start(call, request);
}

/* As MPI_Comm_idup makes them inside of progress: each process makes its next one at a time of its
 * own, perhaps when the others have begun to make a team. So they neither count nor go by one. */
static bool is_of_idup(int count, struct ompi_datatype_t *type, struct ompi_op_t *op)
{
	return count == 1 && type == &ompi_mpi_int.dt
	        && (op == &ompi_mpi_op_max.op || op == &ompi_mpi_op_min.op);
}

int vshmem_coll_iallreduce(const void *mine, void *result, int count, struct ompi_datatype_t *type,
	struct ompi_op_t *op, struct ompi_communicator_t *comm, ompi_request_t **request,
	mca_coll_base_module_t *module)
{
	vshmem_gathering *gathering = (vshmem_gathering *)module;
	size_t unit = vshmem_coll_thing(type, op), bytes = unit * (size_t)count;
	size_t others = (size_t)ompi_comm_size(comm) - 1;
	if (bytes == 0 || is_of_idup(count, type, op)
	        || bytes * others > MOST_READ * vshmem_coll_parameters.most_bytes
	        || !by_team(gathering, bytes))
		return gathering->iallreduce(mine, result, count, type, op, comm, request,
			gathering->iallreduce_module);
	vshmem_call *call = make(gathering, comm, ALLREDUCE, bytes);
	if (!call)
		return MPI_ERR_NO_MEM;
	if (mine != MPI_IN_PLACE)
		memcpy(result, mine, bytes);
	call->unit = unit;
	call->got.bytes = result;
	call->reduction = (struct vshmem_reduction) { op, type };
	return start(call, request);
}

int vshmem_coll_iallgather(const void *mine, int count, struct ompi_datatype_t *type, void *all,
	int all_count, struct ompi_datatype_t *all_type, struct ompi_communicator_t *comm,
	ompi_request_t **request, mca_coll_base_module_t *module)
{
	vshmem_gathering *gathering = (vshmem_gathering *)module;
	size_t bytes = vshmem_flat_bytes(all_type, all_count), size = (size_t)ompi_comm_size(comm);
	if (bytes == 0 || !by_team(gathering, bytes))
		return gathering->iallgather(mine, count, type, all, all_count, all_type, comm,
			request, gathering->iallgather_module);
	vshmem_call *call = make(gathering, comm, ALLGATHER, bytes);
	if (!call)
		return MPI_ERR_NO_MEM;
	/* What this member has goes to its place. */
	if (!vshmem_flat_open(&call->given, mine, (size_t)count, type, true)
	        || !vshmem_flat_open(&call->got, all, (size_t)all_count * size, all_type,
			mine == MPI_IN_PLACE))
		return fail(call);
	if (call->given.bytes)
		memcpy(call->got.bytes + bytes * (size_t)ompi_comm_rank(comm), call->given.bytes,
			bytes);
	return start(call, request);
}

int vshmem_coll_ialltoall(const void *given, int count, struct ompi_datatype_t *type, void *got,
	int got_count, struct ompi_datatype_t *got_type, struct ompi_communicator_t *comm,
	ompi_request_t **request, mca_coll_base_module_t *module)
{
	vshmem_gathering *gathering = (vshmem_gathering *)module;
	size_t bytes = vshmem_flat_bytes(got_type, got_count), size = (size_t)ompi_comm_size(comm);
	if (bytes == 0 || !by_team(gathering, bytes * (size - 1)))
		return gathering->ialltoall(given, count, type, got, got_count, got_type, comm,
			request, gathering->ialltoall_module);
	vshmem_call *call = make(gathering, comm, ALLTOALL, bytes);
	if (!call)
		return MPI_ERR_NO_MEM;
	if (!vshmem_flat_open(&call->given, given, (size_t)count * size, type, true)
	        || !vshmem_flat_open(&call->got, got, (size_t)got_count * size, got_type,
			given == MPI_IN_PLACE))
		return fail(call);
	return start(call, request);
}
