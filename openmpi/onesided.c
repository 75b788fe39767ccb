/* put, get and atomics. On memory of the pool they are done at once, by whoever asks: it is mapped
 * here, too. On private memory its owner is asked by a message, and does them when it makes
 * progress; what it is asked is checked against what it has registered.
 */
#include "btl_vshmem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum what { PUT = 1, GET, ATOMIC, SWAP_IF, REPLY };

/* A request or a reply, followed by data. */
struct request {
	uint8_t what;
	uint8_t status; /* of a reply: 0 is done */
	uint16_t op;
	uint32_t flags;
	uint32_t slot, key;
	uint64_t address;
	uint64_t bytes;
	uint64_t operand[2];
	uint64_t token;
};

/* An operation of this process that is under way. */
struct operation {
	opal_list_item_t super;
	struct request request; /* as it is sent; address and bytes are those of the whole */
	vshmem_endpoint *endpoint;
	char *local;
	uint64_t asked, answered; /* bytes, or for atomics 0 and 1 */
	int status;
	uint32_t index, turn;
	mca_btl_base_registration_handle_t *local_handle;
	mca_btl_base_rdma_completion_fn_t done;
	void *context, *data;
	bool listed;
};
OBJ_CLASS_DECLARATION(operation_t);
typedef struct operation operation_t;
OBJ_CLASS_INSTANCE(operation_t, opal_list_item_t, NULL, NULL);

/* A reply that found no room. */
struct reply {
	opal_list_item_t super;
	struct request reply;
	vshmem_endpoint *endpoint;
};
typedef struct reply reply_t;
OBJ_CLASS_DECLARATION(reply_t);
OBJ_CLASS_INSTANCE(reply_t, opal_list_item_t, NULL, NULL);

static struct operation **table; /* by index; a token is turn and index */
static uint32_t table_size, turns;
static opal_list_t unasked, unanswered;
static bool ready;

static uint64_t chunk(void)
{
	return (vshmem_btl.super.btl_max_send_size - sizeof(struct request)) & ~UINT64_C(63);
}

/* Under the module's lock. */
static bool enter(struct operation *operation)
{
	if (!ready) {
		OBJ_CONSTRUCT(&unasked, opal_list_t);
		OBJ_CONSTRUCT(&unanswered, opal_list_t);
		ready = true;
	}
	uint32_t index = 0;
	while (index < table_size && table[index])
		index++;
	if (index == table_size) {
		uint32_t more = table_size ? table_size * 2 : 64;
		struct operation **grown = realloc(table, more * sizeof(*grown));
		if (!grown)
			return false;
		memset(grown + table_size, 0, (more - table_size) * sizeof(*grown));
		table = grown;
		table_size = more;
	}
	table[index] = operation;
	operation->index = index;
	operation->turn = ++turns;
	operation->request.token = (uint64_t)operation->turn << 32 | index;
	return true;
}

/* With the endpoint's lock held: one message. The order of messages does not matter to those that
 * wait, but what was sent before is there first. */
static int tell(vshmem_endpoint *endpoint, const struct request *request, const void *data, uint64_t bytes)
{
	if (!opal_list_is_empty(&endpoint->waiting))
		return -EAGAIN;
	struct iovec parts[2] = { { (void *)(uintptr_t)request, sizeof(*request) },
				  { (void *)(uintptr_t)data, (size_t)bytes } };
	return vshmem_send(endpoint->lane, parts, bytes ? 2 : 1, VSHMEM_TAG);
}

/* Asks for as much of an operation as there is room for. True when all is asked for. */
static bool ask(struct operation *operation)
{
	vshmem_endpoint *endpoint = operation->endpoint;
	struct request *whole = &operation->request;
	bool atomic = whole->what == ATOMIC || whole->what == SWAP_IF;
	OPAL_THREAD_LOCK(&endpoint->lock);
	int rc = 0;
	while (rc == 0 && operation->asked < (atomic ? 1 : whole->bytes)) {
		struct request part = *whole;
		uint64_t left = whole->bytes - operation->asked;
		if (!atomic) {
			part.address += operation->asked;
			part.bytes = left < chunk() ? left : chunk();
			/* Where a reply's data goes. */
			part.operand[0] = operation->asked;
		}
		rc = tell(endpoint, &part, operation->local + operation->asked, whole->what == PUT ? part.bytes : 0);
		if (rc == 0)
			operation->asked += atomic ? 1 : part.bytes;
	}
	OPAL_THREAD_UNLOCK(&endpoint->lock);
	return rc != -EAGAIN;
}

static int start(struct mca_btl_base_endpoint_t *endpoint, enum what what, void *local, uint64_t address,
		 mca_btl_base_registration_handle_t *local_handle,
		 const mca_btl_base_registration_handle_t *remote, uint64_t bytes, uint16_t op, int flags,
		 uint64_t first, uint64_t second, mca_btl_base_rdma_completion_fn_t done, void *context, void *data)
{
	if (!remote)
		return OPAL_ERR_BAD_PARAM;
	struct operation *operation = OBJ_NEW(operation_t);
	if (!operation)
		return OPAL_ERR_OUT_OF_RESOURCE;
	operation->request = (struct request){ .what = what, .op = op, .flags = (uint32_t)flags, .slot = remote->slot,
					       .key = remote->key, .address = address, .bytes = bytes,
					       .operand = { first, second } };
	operation->endpoint = endpoint;
	operation->local = local;
	operation->local_handle = local_handle;
	operation->asked = operation->answered = 0;
	operation->status = OPAL_SUCCESS;
	operation->done = done;
	operation->context = context;
	operation->data = data;
	operation->listed = false;
	OPAL_THREAD_LOCK(&vshmem_btl.lock);
	bool entered = enter(operation);
	OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
	if (!entered) {
		OBJ_RELEASE(operation);
		return OPAL_ERR_OUT_OF_RESOURCE;
	}
	/* All asking is done where progress is made: an answer cannot overtake it. */
	OPAL_THREAD_LOCK(&vshmem_btl.lock);
	opal_list_append(&unasked, &operation->super);
	vshmem_btl.waiting++;
	OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
	return OPAL_SUCCESS;
}

/* What an operation makes of two numbers; numbers of 32 bits come with their sign extended. */
static uint64_t combined(int op, uint64_t old, uint64_t operand)
{
	switch (op) {
	case MCA_BTL_ATOMIC_ADD: return old + operand;
	case MCA_BTL_ATOMIC_AND: return old & operand;
	case MCA_BTL_ATOMIC_OR: return old | operand;
	case MCA_BTL_ATOMIC_XOR: return old ^ operand;
	case MCA_BTL_ATOMIC_SWAP: return operand;
	case MCA_BTL_ATOMIC_MIN: return (int64_t)operand < (int64_t)old ? operand : old;
	case MCA_BTL_ATOMIC_MAX: return (int64_t)operand > (int64_t)old ? operand : old;
	default: return old;
	}
}

static uint64_t atomically64(uint64_t *word, int op, uint64_t operand)
{
	uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(word, &old, combined(op, old, operand), false, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED))
		;
	return old;
}

static uint32_t atomically32(uint32_t *word, int op, uint32_t operand)
{
	uint32_t old = __atomic_load_n(word, __ATOMIC_RELAXED), new;
	do
		new = (uint32_t)combined(op, (uint64_t)(int32_t)old, (uint64_t)(int32_t)operand);
	while (!__atomic_compare_exchange_n(word, &old, new, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
	return old;
}

/* Does an atomic operation on memory that is mapped here; returns what was there. */
static uint64_t act(void *word, enum what what, int op, int flags, uint64_t first, uint64_t second)
{
	if (flags & MCA_BTL_ATOMIC_FLAG_32BIT) {
		uint32_t expected = (uint32_t)first;
		if (what != SWAP_IF)
			return atomically32(word, op, (uint32_t)first);
		__atomic_compare_exchange_n((uint32_t *)word, &expected, (uint32_t)second, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_SEQ_CST);
		return expected;
	}
	uint64_t expected = first;
	if (what != SWAP_IF)
		return atomically64(word, op, first);
	__atomic_compare_exchange_n((uint64_t *)word, &expected, second, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return expected;
}

static void store(void *local, int flags, uint64_t value)
{
	if (!local)
		return;
	if (flags & MCA_BTL_ATOMIC_FLAG_32BIT)
		*(uint32_t *)local = (uint32_t)value;
	else
		*(uint64_t *)local = value;
}

int vshmem_btl_put(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint, void *local_address,
		   uint64_t remote_address, mca_btl_base_registration_handle_t *local_handle,
		   mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags, int order,
		   mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
	(void)order;
	void *there = vshmem_in_pool(remote_handle, remote_address, size);
	if (!there && size)
		return start(endpoint, PUT, local_address, remote_address, local_handle, remote_handle, size, 0, flags,
			     0, 0, cbfunc, cbcontext, cbdata);
	memcpy(there, local_address, size);
	cbfunc(btl, endpoint, local_address, local_handle, cbcontext, cbdata, OPAL_SUCCESS);
	return OPAL_SUCCESS;
}

int vshmem_btl_get(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint, void *local_address,
		   uint64_t remote_address, mca_btl_base_registration_handle_t *local_handle,
		   mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags, int order,
		   mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
	(void)order;
	void *there = vshmem_in_pool(remote_handle, remote_address, size);
	if (!there && size)
		return start(endpoint, GET, local_address, remote_address, local_handle, remote_handle, size, 0, flags,
			     0, 0, cbfunc, cbcontext, cbdata);
	memcpy(local_address, there, size);
	cbfunc(btl, endpoint, local_address, local_handle, cbcontext, cbdata, OPAL_SUCCESS);
	return OPAL_SUCCESS;
}

static int atomic(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint, enum what what,
		  void *local, uint64_t address, mca_btl_base_registration_handle_t *local_handle,
		  mca_btl_base_registration_handle_t *remote, mca_btl_base_atomic_op_t op, int flags, uint64_t first,
		  uint64_t second, mca_btl_base_rdma_completion_fn_t done, void *context, void *data)
{
	uint64_t bytes = flags & MCA_BTL_ATOMIC_FLAG_32BIT ? 4 : 8;
	void *there = address % bytes == 0 ? vshmem_in_pool(remote, address, bytes) : NULL;
	if (!there)
		return start(endpoint, what, local, address, local_handle, remote, bytes, (uint16_t)op, flags, first,
			     second, done, context, data);
	store(local, flags, act(there, what, op, flags, first, second));
	done(btl, endpoint, local, local_handle, context, data, OPAL_SUCCESS);
	return OPAL_SUCCESS;
}

int vshmem_btl_aop(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
		   uint64_t remote_address, mca_btl_base_registration_handle_t *remote_handle,
		   mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
		   mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
	(void)order;
	return atomic(btl, endpoint, ATOMIC, NULL, remote_address, NULL, remote_handle, op, flags, operand, 0, cbfunc,
		      cbcontext, cbdata);
}

int vshmem_btl_afop(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint, void *local_address,
		    uint64_t remote_address, mca_btl_base_registration_handle_t *local_handle,
		    mca_btl_base_registration_handle_t *remote_handle, mca_btl_base_atomic_op_t op, uint64_t operand,
		    int flags, int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
	(void)order;
	return atomic(btl, endpoint, ATOMIC, local_address, remote_address, local_handle, remote_handle, op, flags,
		      operand, 0, cbfunc, cbcontext, cbdata);
}

int vshmem_btl_acswap(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
		      void *local_address, uint64_t remote_address, mca_btl_base_registration_handle_t *local_handle,
		      mca_btl_base_registration_handle_t *remote_handle, uint64_t compare, uint64_t value, int flags,
		      int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
	(void)order;
	return atomic(btl, endpoint, SWAP_IF, local_address, remote_address, local_handle, remote_handle, 0, flags,
		      compare, value, cbfunc, cbcontext, cbdata);
}

/* Sends a reply with what a GET asked for. True when it is sent, or never can be. */
static bool answer(vshmem_endpoint *endpoint, const struct request *reply)
{
	void *data = NULL;
	struct request sent = *reply;
	if (reply->op == GET && reply->status == 0) {
		/* Its memory may have been given back while the reply waited. */
		data = vshmem_registered(reply->slot, reply->key, reply->address, reply->bytes,
					 MCA_BTL_REG_FLAG_REMOTE_READ);
		if (!data)
			sent.status = 1;
	}
	OPAL_THREAD_LOCK(&endpoint->lock);
	int rc = tell(endpoint, &sent, data, data ? reply->bytes : 0);
	OPAL_THREAD_UNLOCK(&endpoint->lock);
	return rc != -EAGAIN;
}

/* Does what a peer asks for. */
static void serve(uint32_t lane, const struct request *request, const void *data, uint64_t bytes)
{
	static const uint32_t access[] = { [PUT] = MCA_BTL_REG_FLAG_REMOTE_WRITE, [GET] = MCA_BTL_REG_FLAG_REMOTE_READ,
					   [ATOMIC] = MCA_BTL_REG_FLAG_REMOTE_ATOMIC,
					   [SWAP_IF] = MCA_BTL_REG_FLAG_REMOTE_ATOMIC };
	vshmem_endpoint *endpoint = vshmem_endpoint_of_lane(lane);
	if (!endpoint)
		return;
	struct request reply = *request;
	reply.what = REPLY;
	reply.op = request->what;
	reply.status = 1;
	uint64_t size = request->bytes;
	bool word = request->what == ATOMIC || request->what == SWAP_IF;
	bool sane = word ? size == (request->flags & MCA_BTL_ATOMIC_FLAG_32BIT ? 4u : 8u) && request->address % size == 0 :
		    request->what == PUT ? size == bytes : size <= chunk();
	void *there = sane ? vshmem_registered(request->slot, request->key, request->address, size,
					       access[request->what]) : NULL;
	if (there) {
		reply.status = 0;
		if (request->what == PUT)
			memcpy(there, data, size);
		else if (word)
			reply.operand[1] = act(there, request->what, request->op, (int)request->flags,
					       request->operand[0], request->operand[1]);
	}
	if (answer(endpoint, &reply))
		return;
	struct reply *later = OBJ_NEW(reply_t);
	if (!later)
		return;
	later->reply = reply;
	later->endpoint = endpoint;
	OPAL_THREAD_LOCK(&vshmem_btl.lock);
	if (!ready) {
		OBJ_CONSTRUCT(&unasked, opal_list_t);
		OBJ_CONSTRUCT(&unanswered, opal_list_t);
		ready = true;
	}
	opal_list_append(&unanswered, &later->super);
	vshmem_btl.waiting++;
	OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
}

static void finish(struct operation *operation)
{
	OPAL_THREAD_LOCK(&vshmem_btl.lock);
	table[operation->index] = NULL;
	OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
	if (operation->done)
		operation->done(&vshmem_btl.super, operation->endpoint, operation->local, operation->local_handle,
				operation->context, operation->data, operation->status);
	OBJ_RELEASE(operation);
}

/* A peer has answered. */
static void settle(const struct request *reply, const void *data, uint64_t bytes)
{
	uint32_t index = (uint32_t)reply->token;
	OPAL_THREAD_LOCK(&vshmem_btl.lock);
	struct operation *operation = index < table_size ? table[index] : NULL;
	OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
	if (!operation || operation->request.token != reply->token || operation->request.what != reply->op)
		return;
	uint64_t whole = operation->request.bytes;
	if (reply->op == ATOMIC || reply->op == SWAP_IF) {
		if (reply->status == 0)
			store(operation->local, (int)operation->request.flags, reply->operand[1]);
		whole = operation->answered = 1;
	} else {
		uint64_t at = reply->operand[0], size = reply->bytes;
		/* Nobody may be answered more than was asked for, nor elsewhere. */
		if (at > operation->asked || size > operation->asked - at || size > whole - operation->answered)
			return;
		if (reply->op == GET && reply->status == 0) {
			if (size != bytes)
				return;
			memcpy(operation->local + at, data, size);
		}
		operation->answered += size;
	}
	if (reply->status != 0)
		operation->status = OPAL_ERROR;
	if (operation->answered >= whole)
		finish(operation);
}

void vshmem_onesided_arrived(uint32_t lane, const void *text, uint32_t bytes)
{
	struct request request;
	if (bytes < sizeof(request))
		return;
	memcpy(&request, text, sizeof(request));
	const void *data = (const char *)text + sizeof(request);
	if (request.what == REPLY)
		settle(&request, data, bytes - sizeof(request));
	else if (request.what >= PUT && request.what <= SWAP_IF)
		serve(lane, &request, data, bytes - sizeof(request));
}

int vshmem_onesided_waiting(void)
{
	int done = 0;
	if (!ready)
		return 0;
	/* Each once: one that finds no room does not keep those to other peers waiting. */
	OPAL_THREAD_LOCK(&vshmem_btl.lock);
	size_t replies = opal_list_get_size(&unanswered), asks = opal_list_get_size(&unasked);
	OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
	while (replies-- > 0) {
		OPAL_THREAD_LOCK(&vshmem_btl.lock);
		struct reply *reply = (struct reply *)opal_list_remove_first(&unanswered);
		OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
		if (!reply)
			break;
		bool sent = answer(reply->endpoint, &reply->reply);
		OPAL_THREAD_LOCK(&vshmem_btl.lock);
		if (sent)
			vshmem_btl.waiting--, done++;
		else
			opal_list_append(&unanswered, &reply->super);
		OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
		if (sent)
			OBJ_RELEASE(reply);
	}
	while (asks-- > 0) {
		OPAL_THREAD_LOCK(&vshmem_btl.lock);
		struct operation *operation = (struct operation *)opal_list_remove_first(&unasked);
		OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
		if (!operation)
			break;
		/* Answers are taken by this thread alone, after this. */
		bool asked = ask(operation);
		OPAL_THREAD_LOCK(&vshmem_btl.lock);
		if (asked)
			vshmem_btl.waiting--, done++;
		else
			opal_list_append(&unasked, &operation->super);
		OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
	}
	return done;
}

void vshmem_onesided_close(void)
{
	if (ready) {
		opal_list_item_t *item;
		while ((item = opal_list_remove_first(&unasked)))
			OBJ_RELEASE(item);
		while ((item = opal_list_remove_first(&unanswered)))
			OBJ_RELEASE(item);
		OBJ_DESTRUCT(&unasked);
		OBJ_DESTRUCT(&unanswered);
		ready = false;
	}
	free(table);
	table = NULL;
	table_size = 0;
}
