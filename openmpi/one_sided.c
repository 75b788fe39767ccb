/* put, get and atomics on private memory of a peer (on memory of the pool: rdma.c). Its owner is
 * asked by a message, and does them when it makes progress; what it is asked is checked against
 * what it has registered.
 *
 * An operation is asked for in parts, a message each. A part is in a table until it is answered;
 * its index and the generation of that entry are the token that the answer must bear. So an answer
 * is matched to one part that is outstanding, and to each once, whatever comes. Operations that are
 * not asked for in full wait in a queue of their endpoint, in order; when too many do, the caller
 * is asked to come back (it then makes progress), so neither memory nor the time for each grows
 * with their number.
 *
 * Locking: an endpoint's queues are used under its lock, the table and an operation's count of what
 * is left under the module's, which is taken inside the endpoint's.
 */
#include "atomics.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
	opal_free_list_item_t super;
	struct request request; /* as it is sent; address and bytes are those of the whole */
	vshmem_endpoint *endpoint;
	char *local;
	uint64_t asked; /* bytes */
	uint64_t left; /* bytes that no answer has come for */
	int status;
	mca_btl_base_registration_handle_t *local_handle;
	mca_btl_base_rdma_completion_fn_t done;
	void *context, *data;
};
typedef struct operation operation_t;
OBJ_CLASS_DECLARATION(operation_t);
OBJ_CLASS_INSTANCE(operation_t, opal_free_list_item_t, NULL, NULL);

/* A reply that found no room. */
struct reply {
	opal_free_list_item_t super;
	struct request reply;
};
typedef struct reply reply_t;
OBJ_CLASS_DECLARATION(reply_t);
OBJ_CLASS_INSTANCE(reply_t, opal_free_list_item_t, NULL, NULL);

/* Parts that are asked for and not answered. A peer that is asked for more at once keeps as many
 * answers at most. */
#define PARTS 4096
/* Bits of a token that tell the entry; the others are its generation. */
#define INDEX_BITS 12
/* Operations that wait to be asked for, before callers are asked to come back. */
#define QUEUED 1024
#define NONE   UINT32_MAX
_Static_assert(PARTS == 1 << INDEX_BITS, "an index is the low bits of a token");

static struct part {
	operation_t *operation; /* NULL: free */
	uint64_t at, bytes; /* of the operation */
	uint64_t generation; /* as far as there is room for it in a token */
	uint32_t next; /* free entry */
} *parts;
/* The one that was freed longest ago is taken next: generations then last longest. */
static uint32_t first_free, last_free;
static opal_free_list_t operations, replies;
static uint32_t queued;

bool vshmem_one_sided_open(void)
{
	parts = calloc(PARTS, sizeof(*parts));
	if (!parts)
		return false;
	for (uint32_t index = 0; index < PARTS; index++)
		parts[index].next = index + 1 < PARTS ? index + 1 : NONE;
	first_free = 0;
	last_free = PARTS - 1;
	queued = 0;
	struct {
		opal_free_list_t *list;
		size_t bytes;
		opal_class_t *class;
	} rows[] = {
		{ &operations, sizeof(operation_t), OBJ_CLASS(operation_t) },
		{ &replies, sizeof(reply_t), OBJ_CLASS(reply_t) },
	};
	for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
		OBJ_CONSTRUCT(rows[row].list, opal_free_list_t);
		if (opal_free_list_init(rows[row].list, rows[row].bytes, 64, rows[row].class, 0, 0,
			    0, -1, 64, NULL, 0, NULL, NULL, NULL)
		        != OPAL_SUCCESS)
			return false;
	}
	return true;
}

static uint64_t chunk(void)
{ return (vshmem_btl.super.btl_max_send_size - sizeof(struct request)) & ~UINT64_C(63); }

static bool is_atomic(uint8_t what) { return what == VSHMEM_ATOMIC || what == VSHMEM_SWAP_IF; }

/* Under the module's lock: an entry for a part; NONE when the table is full. */
static uint32_t enter(operation_t *operation, uint64_t at, uint64_t bytes, uint64_t *token)
{
	uint32_t index = first_free;
	if (index != NONE) {
		struct part *part = &parts[index];
		first_free = part->next;
		if (first_free == NONE)
			last_free = NONE;
		part->operation = operation;
		part->at = at;
		part->bytes = bytes;
		part->generation = (part->generation + 1) & UINT64_MAX >> INDEX_BITS;
		*token = part->generation << INDEX_BITS | index;
	}
	return index;
}

/* Under the module's lock. */
static void leave(uint32_t index)
{
	parts[index].operation = NULL;
	parts[index].next = NONE;
	if (last_free == NONE)
		first_free = index;
	else
		parts[last_free].next = index;
	last_free = index;
}

/* With the endpoint's lock held: one message. The order of messages does not matter to those that
 * wait, but what was sent before is there first. */
static int send_now(
	vshmem_endpoint *endpoint, const struct request *request, const void *data, uint64_t bytes)
{
	if (!opal_list_is_empty(&endpoint->waiting))
		return -EAGAIN;
	struct iovec parts[2] = { { (void *)(uintptr_t)request, sizeof(*request) },
		{ (void *)(uintptr_t)data, (size_t)bytes } };
	return vshmem_send(endpoint->lane, parts, bytes ? 2 : 1, VSHMEM_TAG);
}

/* With the endpoint's lock held: asks for as much of an operation as there is room for. 0: all is
 * asked for, and the operation may have been answered in full, and be another's. */
static int ask(operation_t *operation)
{
	vshmem_endpoint *endpoint = operation->endpoint;
	struct request part = operation->request;
	uint64_t whole = part.bytes, base = part.address;
	char *local = operation->local;
	bool atomic = is_atomic(part.what);
	for (uint64_t at = operation->asked; at < whole; at += part.bytes) {
		uint64_t left = whole - at;
		part.bytes = atomic || left < chunk() ? left : chunk();
		part.address = base + at;
		/* Until it is sent, no answer is taken: a token can be guessed. */
		OPAL_THREAD_LOCK(&vshmem_btl.lock);
		uint32_t index = enter(operation, at, part.bytes, &part.token);
		uint64_t sent = part.what == VSHMEM_PUT ? part.bytes : 0;
		int rc = index == NONE ? -EAGAIN : send_now(endpoint, &part, local + at, sent);
		if (rc == 0)
			operation->asked = at + part.bytes;
		else if (index != NONE)
			leave(index);
		OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
		if (rc != 0)
			return rc;
	}
	return 0;
}

int vshmem_one_sided_start(struct mca_btl_base_endpoint_t *endpoint, enum vshmem_one_sided what,
	void *local, uint64_t address, mca_btl_base_registration_handle_t *local_handle,
	const mca_btl_base_registration_handle_t *remote, uint64_t bytes, uint16_t op, int flags,
	uint64_t first, uint64_t second, mca_btl_base_rdma_completion_fn_t done, void *context,
	void *data)
{
	if (!remote)
		return OPAL_ERR_BAD_PARAM;
	if (endpoint->broken)
		return OPAL_ERR_UNREACH;
	/* A caller inside progress cannot make any: it is not asked to come back. */
	if (__atomic_load_n(&queued, __ATOMIC_RELAXED) >= QUEUED && !vshmem_makes_progress())
		return OPAL_ERR_OUT_OF_RESOURCE;
	operation_t *operation = (operation_t *)opal_free_list_get(&operations);
	if (!operation)
		return OPAL_ERR_OUT_OF_RESOURCE;
	operation->request = (struct request) { .what = what,
		.op = op,
		.flags = (uint32_t)flags,
		.slot = remote->slot,
		.key = remote->key,
		.address = address,
		.bytes = bytes,
		.operand = { first, second } };
	operation->endpoint = endpoint;
	operation->local = local;
	operation->local_handle = local_handle;
	operation->asked = 0;
	operation->left = bytes;
	operation->status = OPAL_SUCCESS;
	operation->done = done;
	operation->context = context;
	operation->data = data;
	OPAL_THREAD_LOCK(&endpoint->lock);
	int rc = opal_list_is_empty(&endpoint->unasked) ? ask(operation) : -EAGAIN;
	if (rc != 0) {
		/* A lane that is of no use any more fails all operations of its endpoint when
		 * progress is made. */
		endpoint->broken |= rc != -EAGAIN;
		opal_list_append(&endpoint->unasked, (opal_list_item_t *)operation);
		OPAL_THREAD_ADD_FETCH32(&vshmem_btl.waiting, 1);
		__atomic_add_fetch(&queued, 1, __ATOMIC_RELAXED);
	}
	OPAL_THREAD_UNLOCK(&endpoint->lock);
	return OPAL_SUCCESS;
}

/* With the endpoint's lock held: sends a reply with what a get asked for. */
static int answer(vshmem_endpoint *endpoint, const struct request *reply)
{
	void *data = NULL;
	struct request sent = *reply;
	if (reply->op == VSHMEM_GET && reply->status == 0) {
		/* Its memory may have been given back while the reply waited. */
		data = vshmem_registered(reply->slot, reply->key, reply->address, reply->bytes,
			MCA_BTL_REG_FLAG_REMOTE_READ);
		if (!data)
			sent.status = 1;
	}
	return send_now(endpoint, &sent, data, data ? reply->bytes : 0);
}

/* Does what a peer asks for. */
static void serve(uint32_t lane, const struct request *request, const void *data, uint64_t bytes)
{
	static const uint32_t access[] = { [VSHMEM_PUT] = MCA_BTL_REG_FLAG_REMOTE_WRITE,
		[VSHMEM_GET] = MCA_BTL_REG_FLAG_REMOTE_READ,
		[VSHMEM_ATOMIC] = MCA_BTL_REG_FLAG_REMOTE_ATOMIC,
		[VSHMEM_SWAP_IF] = MCA_BTL_REG_FLAG_REMOTE_ATOMIC };
	vshmem_endpoint *endpoint = vshmem_endpoint_of_lane(lane);
	/* A peer that does not read its answers gets none. An honest peer has no more outstanding
	 * than this. */
	if (!endpoint || opal_list_get_size(&endpoint->unanswered) >= PARTS)
		return;
	struct request reply = *request;
	reply.what = VSHMEM_REPLY;
	reply.op = request->what;
	reply.status = 1;
	uint64_t size = request->bytes;
	bool word = is_atomic(request->what);
	bool sane = word ? size == (request->flags & MCA_BTL_ATOMIC_FLAG_32BIT ? 4u : 8u)
	                && request->address % size == 0
		: request->what == VSHMEM_PUT ? size == bytes
					      : size <= chunk();
	void *there = sane ? vshmem_registered(request->slot, request->key, request->address, size,
				     access[request->what])
			   : NULL;
	if (there && word && request->what == VSHMEM_ATOMIC && !is_supported(request->op))
		there = NULL;
	if (there) {
		reply.status = 0;
		if (request->what == VSHMEM_PUT)
			memcpy(there, data, size);
		else if (word)
			reply.operand[1] = apply_atomic(there, request->what, request->op,
				(int)request->flags, request->operand[0], request->operand[1]);
	}
	OPAL_THREAD_LOCK(&endpoint->lock);
	int rc = opal_list_is_empty(&endpoint->unanswered) ? answer(endpoint, &reply) : -EAGAIN;
	reply_t *later = rc == -EAGAIN ? (reply_t *)opal_free_list_get(&replies) : NULL;
	if (later) {
		later->reply = reply;
		opal_list_append(&endpoint->unanswered, (opal_list_item_t *)later);
		OPAL_THREAD_ADD_FETCH32(&vshmem_btl.waiting, 1);
	}
	OPAL_THREAD_UNLOCK(&endpoint->lock);
}

/* An operation of which nothing is in the table nor in a queue. */
static void finish(operation_t *operation)
{
	mca_btl_base_rdma_completion_fn_t done = operation->done;
	vshmem_endpoint *endpoint = operation->endpoint;
	mca_btl_base_registration_handle_t *handle = operation->local_handle;
	void *local = operation->local, *context = operation->context, *data = operation->data;
	int status = operation->status;
	opal_free_list_return(&operations, &operation->super);
	if (done)
		done(&vshmem_btl.super, endpoint, local, handle, context, data, status);
}

/* A peer has answered. */
static void complete_part(
	uint32_t lane, const struct request *reply, const void *data, uint64_t bytes)
{
	uint32_t index = (uint32_t)(reply->token % PARTS);
	uint64_t generation = reply->token >> INDEX_BITS;
	struct vshmem_sender sender;
	if (vshmem_sender(vshmem_btl.port, lane, &sender) != 0)
		return;
	OPAL_THREAD_LOCK(&vshmem_btl.lock);
	struct part part = parts[index];
	operation_t *operation = part.operation;
	/* It is outstanding, it is what was asked for, and it was asked of this peer. */
	bool matched = operation && part.generation == generation
	        && operation->request.what == reply->op
	        && operation->endpoint->nonce == sender.port.nonce;
	if (matched)
		leave(index);
	OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
	if (!matched)
		return;
	/* From here on only this call finishes it: this part is still left. */
	bool good = reply->status == 0;
	if (is_atomic(operation->request.what)) {
		if (good)
			store_result(
				operation->local, (int)operation->request.flags, reply->operand[1]);
	} else if (operation->request.what == VSHMEM_GET) {
		good = good && bytes == part.bytes;
		if (good)
			memcpy(operation->local + part.at, data, part.bytes);
	}
	OPAL_THREAD_LOCK(&vshmem_btl.lock);
	if (!good)
		operation->status = OPAL_ERROR;
	operation->left -= part.bytes;
	bool last = operation->left == 0;
	OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
	if (last)
		finish(operation);
}

void vshmem_one_sided_arrived(uint32_t lane, const void *text, uint32_t bytes)
{
	struct request request;
	if (bytes < sizeof(request))
		return;
	memcpy(&request, text, sizeof(request));
	const void *data = (const char *)text + sizeof(request);
	if (request.what == VSHMEM_REPLY)
		complete_part(lane, &request, data, bytes - sizeof(request));
	else if (request.what >= VSHMEM_PUT && request.what <= VSHMEM_SWAP_IF)
		serve(lane, &request, data, bytes - sizeof(request));
}

/* With the endpoint's lock held: what was at the head of a queue. */
static opal_list_item_t *dequeue(opal_list_t *queue)
{
	OPAL_THREAD_ADD_FETCH32(&vshmem_btl.waiting, -1);
	return opal_list_remove_first(queue);
}

/* Tells the callers of all operations of an endpoint that they have failed: its peer can no longer
 * be asked, nor answered. Called where progress is made, by one thread at a time. */
int vshmem_one_sided_fail(vshmem_endpoint *endpoint)
{
	opal_list_t failed;
	int done = 0;
	OBJ_CONSTRUCT(&failed, opal_list_t);
	OPAL_THREAD_LOCK(&endpoint->lock);
	endpoint->broken = true;
	while (!opal_list_is_empty(&endpoint->unanswered))
		opal_free_list_return(
			&replies, (opal_free_list_item_t *)dequeue(&endpoint->unanswered));
	OPAL_THREAD_LOCK(&vshmem_btl.lock);
	while (!opal_list_is_empty(&endpoint->unasked)) {
		operation_t *operation = (operation_t *)dequeue(&endpoint->unasked);
		__atomic_sub_fetch(&queued, 1, __ATOMIC_RELAXED);
		operation->left -= operation->request.bytes - operation->asked;
		operation->status = OPAL_ERR_UNREACH;
		if (operation->left == 0)
			opal_list_append(&failed, (opal_list_item_t *)operation);
	}
	for (uint32_t index = 0; index < PARTS; index++) {
		operation_t *operation = parts[index].operation;
		if (!operation || operation->endpoint != endpoint)
			continue;
		operation->left -= parts[index].bytes;
		operation->status = OPAL_ERR_UNREACH;
		leave(index);
		if (operation->left == 0)
			opal_list_append(&failed, (opal_list_item_t *)operation);
	}
	OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
	OPAL_THREAD_UNLOCK(&endpoint->lock);
	opal_list_item_t *item;
	for (; (item = opal_list_remove_first(&failed)); done++)
		finish((operation_t *)item);
	OBJ_DESTRUCT(&failed);
	return done;
}

int vshmem_one_sided_waiting(vshmem_endpoint *endpoint)
{
	int done = 0, rc = 0;
	OPAL_THREAD_LOCK(&endpoint->lock);
	while (rc == 0 && !opal_list_is_empty(&endpoint->unanswered)) {
		rc = answer(
			endpoint, &((reply_t *)opal_list_get_first(&endpoint->unanswered))->reply);
		if (rc == 0) {
			opal_free_list_return(
				&replies, (opal_free_list_item_t *)dequeue(&endpoint->unanswered));
			done++;
		}
	}
	while (rc == 0 && !opal_list_is_empty(&endpoint->unasked)) {
		/* Asked for in full, it may be another's: it leaves the queue before. */
		operation_t *operation = (operation_t *)dequeue(&endpoint->unasked);
		rc = ask(operation);
		if (rc == 0) {
			__atomic_sub_fetch(&queued, 1, __ATOMIC_RELAXED);
			done++;
		} else {
			opal_list_prepend(&endpoint->unasked, (opal_list_item_t *)operation);
			OPAL_THREAD_ADD_FETCH32(&vshmem_btl.waiting, 1);
		}
	}
	endpoint->broken |= rc != 0 && rc != -EAGAIN;
	bool failed = endpoint->broken
	        && !(opal_list_is_empty(&endpoint->unasked)
	                && opal_list_is_empty(&endpoint->unanswered));
	OPAL_THREAD_UNLOCK(&endpoint->lock);
	return failed ? done + vshmem_one_sided_fail(endpoint) : done;
}

static void forget(vshmem_endpoint *endpoint)
{
	while (!opal_list_is_empty(&endpoint->unanswered))
		opal_free_list_return(
			&replies, (opal_free_list_item_t *)dequeue(&endpoint->unanswered));
	while (!opal_list_is_empty(&endpoint->unasked))
		opal_free_list_return(
			&operations, (opal_free_list_item_t *)dequeue(&endpoint->unasked));
}

void vshmem_one_sided_close(void)
{
	vshmem_endpoint *endpoint;
	OPAL_LIST_FOREACH(endpoint, &vshmem_btl.endpoints, vshmem_endpoint)
	forget(endpoint);
	OBJ_DESTRUCT(&operations);
	OBJ_DESTRUCT(&replies);
	free(parts);
	parts = NULL;
}
