/* put, get and atomics on private memory of a peer (on memory of the pool: rdma.c). Its owner is
 * asked by a message, and does them when it makes progress (../transport/ask.c, serve.c); what it
 * is asked is checked against what it has registered.
 *
 * Operations that may not be asked for yet wait, in order; when too many do, the caller is asked to
 * come back (it then makes progress), so neither memory nor the time for each grows with their
 * number.
 *
 * Locking: one lock for all that is asked and served. The module's and an endpoint's may be taken
 * inside it. Callbacks are called without it.
 */
#include "btl_vshmem.h"

#include <errno.h>
#include <string.h>

/* An operation of this process that is under way. */
struct operation {
	opal_free_list_item_t super;
	struct vshmem_request request;
	struct iovec given, got;
	uint64_t operands[2];
	vshmem_endpoint *endpoint;
	void *local;
	int status;
	mca_btl_base_registration_handle_t *local_handle;
	mca_btl_base_rdma_completion_fn_t done;
	void *context, *data;
};
typedef struct operation operation_t;
OBJ_CLASS_DECLARATION(operation_t);
OBJ_CLASS_INSTANCE(operation_t, opal_free_list_item_t, NULL, NULL);

/* Operations that wait to be asked for, before callers are asked to come back. */
#define UNASKED 1024

static opal_mutex_t lock;
static struct vshmem_peers peers;
static opal_free_list_t operations;
static opal_list_t unasked, ended;

/* What a peer may do is said when memory is registered. */
static char *hold(struct vshmem_peers *all, uint8_t what, uint64_t access, uint64_t key,
	uint64_t address, uint64_t bytes, void **region, int *error)
{
	static const uint32_t flags[] = { [VSHMEM_PUT] = MCA_BTL_REG_FLAG_REMOTE_WRITE,
		[VSHMEM_GET] = MCA_BTL_REG_FLAG_REMOTE_READ,
		[VSHMEM_ATOMIC] = MCA_BTL_REG_FLAG_REMOTE_ATOMIC };
	(void)all, (void)access;
	*region = NULL;
	*error = EACCES;
	OPAL_THREAD_LOCK(&vshmem_btl.lock);
	char *there = vshmem_registered(
		(uint32_t)(key >> 32), (uint32_t)key, address, bytes, flags[what]);
	if (!there)
		OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
	return there;
}

static void let_go(struct vshmem_peers *all, void *region, uint64_t done)
{
	(void)all, (void)region, (void)done;
	OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
}

static void note_end(
	struct vshmem_peers *all, const struct vshmem_asked *asked, int error, int prov_errno)
{
	(void)all;
	operation_t *operation = asked->request.context;
	operation->status = error == 0 ? OPAL_SUCCESS : prov_errno ? OPAL_ERR_UNREACH : OPAL_ERROR;
	opal_list_append(&ended, (opal_list_item_t *)operation);
}

static const struct vshmem_calls calls = { .ended = note_end, .hold = hold, .let_go = let_go };

/* What the program has sent before is there first. */
static int put_in_lane(
	struct vshmem_peer *peer, const struct iovec *parts, int count, uint8_t operation)
{
	vshmem_endpoint *endpoint = vshmem_endpoint_of_peer(peer);
	OPAL_THREAD_LOCK(&endpoint->lock);
	int rc = opal_list_is_empty(&endpoint->waiting)
		? vshmem_endpoint_send(endpoint, parts, count, operation)
		: -EAGAIN;
	OPAL_THREAD_UNLOCK(&endpoint->lock);
	return rc;
}

bool vshmem_one_sided_open(void)
{
	peers = (struct vshmem_peers) { .calls = &calls, .send = put_in_lane };
	OBJ_CONSTRUCT(&lock, opal_mutex_t);
	OBJ_CONSTRUCT(&unasked, opal_list_t);
	OBJ_CONSTRUCT(&ended, opal_list_t);
	OBJ_CONSTRUCT(&operations, opal_free_list_t);
	return opal_free_list_init(&operations, sizeof(operation_t), 64, OBJ_CLASS(operation_t), 0,
		       0, 0, -1, 64, NULL, 0, NULL, NULL, NULL)
		== OPAL_SUCCESS;
}

/* Gives the lock back, and tells the callers of what has ended. How many. */
static int unlock_and_tell(void)
{
	opal_list_t told;
	opal_list_item_t *item;
	int count = 0;
	OBJ_CONSTRUCT(&told, opal_list_t);
	opal_list_join(&told, opal_list_get_end(&told), &ended);
	OPAL_THREAD_UNLOCK(&lock);
	for (; (item = opal_list_remove_first(&told)); count++) {
		operation_t was = *(operation_t *)item;
		opal_free_list_return(&operations, (opal_free_list_item_t *)item);
		if (was.done)
			was.done(&vshmem_btl.super, was.endpoint, was.local, was.local_handle,
				was.context, was.data, was.status);
	}
	OBJ_DESTRUCT(&told);
	return count;
}

/* With the lock held. -EAGAIN: not yet. */
static int ask(operation_t *operation)
{
	struct vshmem_peer *peer = &operation->endpoint->peer;
	int rc = peer->error ? -EPIPE : vshmem_ask(&peers, peer, &operation->request);
	if (rc == 0 || rc == -EAGAIN)
		return rc;
	operation->status = OPAL_ERR_UNREACH;
	opal_list_append(&ended, (opal_list_item_t *)operation);
	return 0;
}

int vshmem_one_sided_start(struct mca_btl_base_endpoint_t *endpoint,
	const struct vshmem_one_sided *call, mca_btl_base_rdma_completion_fn_t done, void *context,
	void *data)
{
	if (call->bytes == 0) {
		done(&vshmem_btl.super, endpoint, call->local, call->local_handle, context, data,
			OPAL_SUCCESS);
		return OPAL_SUCCESS;
	}
	if (!call->remote)
		return OPAL_ERR_BAD_PARAM;
	if (endpoint->peer.error)
		return OPAL_ERR_UNREACH;
	/* A caller inside progress cannot make any: it is not asked to come back. */
	if (opal_list_get_size(&unasked) >= UNASKED && !vshmem_makes_progress())
		return OPAL_ERR_OUT_OF_RESOURCE;
	operation_t *operation = (operation_t *)opal_free_list_get(&operations);
	if (!operation)
		return OPAL_ERR_OUT_OF_RESOURCE;
	bool atomic = call->what == VSHMEM_ATOMIC, compares = call->op == VSHMEM_WIRE_SWAP_IF;
	operation->operands[0] = call->operand;
	operation->operands[1] = call->compare;
	operation->got = (struct iovec) { call->local, call->bytes };
	operation->given = atomic ? (struct iovec) { operation->operands, call->bytes }
				  : operation->got;
	operation->request = (struct vshmem_request) { .what = call->what,
		.number = call->bytes == 4 ? VSHMEM_WIRE_UINT32 : VSHMEM_WIRE_UINT64,
		.op = call->op,
		.address = call->address,
		.key = (uint64_t)call->remote->slot << 32 | call->remote->key,
		.bytes = call->bytes,
		.local = &operation->given,
		.count = 1,
		.compare = atomic && compares ? &operation->operands[1] : NULL,
		.result = atomic && call->local ? &operation->got : NULL,
		.result_count = atomic && call->local ? 1 : 0,
		.context = operation };
	operation->endpoint = endpoint;
	operation->local = call->local;
	operation->local_handle = call->local_handle;
	operation->done = done;
	operation->context = context;
	operation->data = data;
	OPAL_THREAD_LOCK(&lock);
	if (!opal_list_is_empty(&unasked) || ask(operation) != 0)
		opal_list_append(&unasked, (opal_list_item_t *)operation);
	/* What has failed meanwhile is told where progress is made. */
	OPAL_THREAD_UNLOCK(&lock);
	return OPAL_SUCCESS;
}

/* From a port, and what is no answer from an endpoint. */
static void arrived(
	vshmem_endpoint *endpoint, uint64_t nonce, uint8_t tag, const void *text, uint32_t bytes)
{
	struct vshmem_incoming message = { .operation = tag };
	if (bytes < sizeof(message.header))
		return;
	memcpy(&message.header, text, sizeof(message.header));
	message.payload = (const uint8_t *)text + sizeof(message.header);
	message.header.bytes = bytes - (uint32_t)sizeof(message.header);
	OPAL_THREAD_LOCK(&lock);
	if (tag == VSHMEM_ANSWER)
		vshmem_answered(&peers, &message, nonce);
	else if (endpoint && !endpoint->peer.error)
		vshmem_serve(&peers, &endpoint->peer, &message);
	unlock_and_tell();
}

void vshmem_one_sided_arrived(uint32_t lane, uint8_t tag, const void *text, uint32_t bytes)
{
	struct vshmem_sender sender;
	if (vshmem_sender(vshmem_btl.port, lane, &sender) == 0)
		arrived(tag == VSHMEM_ANSWER ? NULL : vshmem_endpoint_of_lane(lane),
			sender.port.nonce, tag, text, bytes);
}

void vshmem_one_sided_streamed(
	vshmem_endpoint *endpoint, uint8_t tag, const void *text, uint32_t bytes)
{
	arrived(endpoint, endpoint->peer.nonce, tag, text, bytes);
}

int vshmem_one_sided_waiting(void)
{
	if (!peers.busy && opal_list_is_empty(&unasked) && opal_list_is_empty(&ended))
		return 0;
	OPAL_THREAD_LOCK(&lock);
	int done = vshmem_peers_push(&peers);
	while (!opal_list_is_empty(&unasked)) {
		opal_list_item_t *first = opal_list_remove_first(&unasked);
		if (ask((operation_t *)first) == 0)
			continue;
		opal_list_prepend(&unasked, first);
		break;
	}
	return done + unlock_and_tell();
}

int vshmem_one_sided_fail(vshmem_endpoint *endpoint)
{
	OPAL_THREAD_LOCK(&lock);
	vshmem_peer_fail(&peers, &endpoint->peer, EPIPE, EPIPE);
	return unlock_and_tell();
}

void vshmem_one_sided_close(void)
{
	vshmem_endpoint *endpoint;
	opal_list_item_t *item;
	OPAL_LIST_FOREACH(endpoint, &vshmem_btl.endpoints, vshmem_endpoint)
	vshmem_peer_fail(&peers, &endpoint->peer, EPIPE, EPIPE);
	while ((item = opal_list_remove_first(&ended)) || (item = opal_list_remove_first(&unasked)))
		opal_free_list_return(&operations, (opal_free_list_item_t *)item);
	vshmem_asked_close(&peers);
	vshmem_tokens_close(&peers);
	OBJ_DESTRUCT(&operations);
	OBJ_DESTRUCT(&unasked);
	OBJ_DESTRUCT(&ended);
	OBJ_DESTRUCT(&lock);
}
