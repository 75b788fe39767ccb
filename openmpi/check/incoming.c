/* What may come from a ring: anything. Random messages are handed to the receive path of
 * btl/vshmem, among them true answers, repeated ones, and ones that are true but for a few bytes;
 * in between operations are started, lanes fill and break, memory is registered and given back.
 * Texts lie in memory of exactly their size, so that the sanitizers see each byte too far.
 *
 *   incoming [SEED [SECONDS]]      without SECONDS so many steps as take a few
 *
 * In the end all honest answers are given: each operation that was started must have ended once.
 */
#include "../../transport/check/answers.h"
#include "library.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t first_seed, step, seed;

enum { OPERATIONS = 1 << 14, REGIONS = 8 };

/* Of a put in parts the last one is answered. */
static void note_sent(
	uint32_t peer, uint8_t operation, const struct vshmem_wire *header, uint32_t bytes)
{
	bool answered = operation != VSHMEM_PUT || (header->flags & VSHMEM_WIRE_ACK);
	if (operation != VSHMEM_ANSWER && answered)
		sent[sent_count++] = (struct sent) { peer, operation, *header, bytes };
}

bool vshmem_makes_progress(void) { return any(8) == 0; }

static vshmem_endpoint *endpoints[PEERS];

/* Operations under way. */
static struct operation {
	char *local;
	enum { UNUSED, STARTED, ENDED } state;
} operations[OPERATIONS];
static size_t started, ended, failed;

static void done(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
	void *local, struct mca_btl_base_registration_handle_t *handle, void *context, void *data,
	int status)
{
	(void)btl, (void)endpoint, (void)handle, (void)data;
	struct operation *operation = context;
	must(operation->state == STARTED && operation->local == local);
	operation->state = ENDED;
	ended++;
	failed += status != OPAL_SUCCESS;
	free(operation->local);
	operation->local = NULL;
}

static void start(void)
{
	struct operation *operation = &operations[any(OPERATIONS)];
	if (operation->state == STARTED)
		return;
	uint64_t whats = any(5), bytes = whats < 2 ? any(10) ? any(300) + 1 : any(200000) + 1 : 8;
	vshmem_endpoint *endpoint = endpoints[any(PEERS)];
	mca_btl_base_registration_handle_t remote = {
		.base = 4096, .bytes = 1 << 20, .offset = NOT_IN_POOL, .slot = 1, .key = 1
	};
	uint64_t address = 4096 + any(1000) * 8;
	int flags = any(2) ? MCA_BTL_ATOMIC_FLAG_32BIT : 0;
	operation->local = malloc(bytes);
	memset(operation->local, 7, bytes);
	operation->state = STARTED;
	started++;
	struct mca_btl_base_module_t *btl = &vshmem_btl.super;
	int rc = whats == 0  ? vshmem_btl_put(btl, endpoint, operation->local, address, NULL,
				       &remote, bytes, 0, 0, done, operation, NULL)
		: whats == 1 ? vshmem_btl_get(btl, endpoint, operation->local, address, NULL,
				       &remote, bytes, 0, 0, done, operation, NULL)
		: whats == 2
		? vshmem_btl_afop(btl, endpoint, operation->local, address, NULL, &remote,
			  MCA_BTL_ATOMIC_ADD, 1, flags, 0, done, operation, NULL)
		: whats == 3
		? vshmem_btl_acswap(btl, endpoint, operation->local, address, NULL, &remote, 1, 2,
			  flags, 0, done, operation, NULL)
		: vshmem_btl_afop(btl, endpoint, operation->local, address, NULL, &remote,
			  MCA_BTL_ATOMIC_MAX, 1, flags, 0, done, operation, NULL);
	if (rc != OPAL_SUCCESS) {
		must(rc == OPAL_ERR_OUT_OF_RESOURCE || rc == OPAL_ERR_UNREACH
			|| (rc == OPAL_ERR_NOT_SUPPORTED && whats == 4));
		must(operation->state == STARTED);
		operation->state = UNUSED;
		started--;
		free(operation->local);
		operation->local = NULL;
	}
}

/* A text of exactly its size, as it lies in a ring. */
void deliver(uint32_t lane, uint8_t operation, const struct vshmem_wire *header, uint64_t bytes,
	int fill)
{
	char *text = malloc(sizeof(*header) + bytes);
	memcpy(text, header, sizeof(*header));
	memset(text + sizeof(*header), fill, bytes);
	vshmem_one_sided_arrived(lane, operation, text, (uint32_t)(sizeof(*header) + bytes));
	free(text);
}

static void answer(bool honest)
{
	if (sent_count == 0)
		return;
	size_t nth = any(sent_count);
	struct sent was = sent[nth];
	struct vshmem_wire reply = { .answered = was.operation, .token = was.header.token };
	if (honest) {
		sent[nth] = sent[--sent_count];
		answer_request(&was);
		/* A second time. */
		if (any(4) == 0)
			answer_request(&was);
		return;
	}
	mutate(&reply);
	deliver((uint32_t)any(PEERS + 2), VSHMEM_ANSWER, &reply, any(500), (int)any(256));
}

static struct region {
	char *memory;
	uint64_t bytes;
	mca_btl_base_registration_handle_t *handle;
} regions[REGIONS];

static void give_or_take(void)
{
	struct region *region = &regions[any(REGIONS)];
	if (region->handle) {
		vshmem_deregister_mem(&vshmem_btl.super, region->handle);
		free(region->memory);
		region->handle = NULL;
		return;
	}
	region->bytes = any(500) + 1;
	region->memory = aligned_alloc(16, (region->bytes + 15) & ~UINT64_C(15));
	region->handle = vshmem_register_mem(&vshmem_btl.super, NULL, region->memory, region->bytes,
		(uint32_t)(any(MCA_BTL_REG_FLAG_ACCESS_ANY) | MCA_BTL_REG_FLAG_REMOTE_WRITE));
	must(region->handle);
	memset(region->memory, 1, region->bytes);
}

static void ask(void)
{
	const struct region *region = &regions[any(REGIONS)];
	uint8_t tag = (uint8_t)(VSHMEM_PUT + any(3));
	struct vshmem_wire request = { .flags = (uint8_t)any(16), .token = any(UINT64_MAX) };
	uint64_t data = any(any(10) ? 300 : 30000);
	request.get.length = any(any(10) ? 300 : 100000);
	if (tag == VSHMEM_ATOMIC) {
		request.datatype = (uint8_t)any(12);
		request.op = (uint16_t)any(20);
		request.atomic.length = any(4) * 8;
		data = request.op >= VSHMEM_WIRE_SWAP_IF ? 2 * request.atomic.length
							 : request.atomic.length;
	}
	if (region->handle) {
		request.get.key = (uint64_t)region->handle->slot << 32 | region->handle->key;
		request.get.address = (uint64_t)(uintptr_t)region->memory
			+ (any(4) ? any(region->bytes / 4 + 1) : any(region->bytes * 2));
		if (tag == VSHMEM_ATOMIC && any(2))
			request.get.address &= ~UINT64_C(7);
	}
	if (any(3) == 0)
		mutate(&request);
	deliver((uint32_t)any(PEERS + 2), tag, &request,
		tag == VSHMEM_GET ? 0
			: any(10) ? data
				  : any(600),
		(int)any(256));
}

static void noise(void)
{
	struct vshmem_wire request;
	for (size_t at = 0; at < sizeof(request); at++)
		((uint8_t *)&request)[at] = (uint8_t)any(256);
	vshmem_one_sided_arrived(0, VSHMEM_PUT, &request, (uint32_t)any(sizeof(request)));
	deliver((uint32_t)any(PEERS + 2), (uint8_t)(VSHMEM_PUT + any(16)), &request, any(200), 9);
}

/* A peer is gone, and another with the same number comes. */
static void replace(uint32_t peer)
{
	peers[peer].state = BROKEN;
	vshmem_one_sided_fail(endpoints[peer]);
	for (size_t nth = 0; nth < sent_count;)
		if (sent[nth].peer == peer)
			sent[nth] = sent[--sent_count];
		else
			nth++;
	peers[peer].state = OPEN;
	endpoints[peer]->peer.error = 0;
}

static void go(uint64_t steps)
{
	for (uint64_t end = step + steps; step < end; step++) {
		uint64_t choice = any(100);
		if (choice < 30)
			start();
		else if (choice < 55)
			answer(true);
		else if (choice < 65)
			answer(false);
		else if (choice < 80)
			ask();
		else if (choice < 85)
			noise();
		else if (choice < 88)
			give_or_take();
		else if (choice < 96)
			vshmem_one_sided_waiting();
		else if (any(300) == 0)
			replace((uint32_t)any(PEERS));
		else
			peers[any(PEERS)].state = any(3) ? OPEN : any(200) ? FULL : BROKEN;
		for (uint32_t peer = 0; peer < PEERS; peer++)
			if (endpoints[peer]->peer.error && any(20) == 0)
				replace(peer);
	}
	/* All is answered: all ends. */
	for (int turn = 0; started != ended; turn++) {
		must(turn < 100000);
		for (uint32_t peer = 0; peer < PEERS; peer++) {
			if (endpoints[peer]->peer.error)
				replace(peer);
			peers[peer].state = OPEN;
		}
		vshmem_one_sided_waiting();
		for (size_t count = sent_count; count > 0; count--)
			answer(true);
	}
}

int main(int argc, char **argv)
{
	first_seed = seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	seed = seed * 0x9e3779b97f4a7c15u | 1;
	time_t until = argc > 2 ? time(NULL) + strtol(argv[2], NULL, 0) : 0;
	pool_begin(note_sent);
	open_module(endpoints);
	do
		go(20000);
	while (until ? time(NULL) < until : step < 200000);
	must(vshmem_btl.waiting >= 0);
	printf("%llu steps, %zu operations, of which %zu failed: 1 passed, 0 failed\n",
		(unsigned long long)step, started, failed);
	close_module();
	return 0;
}
