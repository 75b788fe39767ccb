/* What may come from a lane, and stand in a record: anything. Random messages are handed to the
 * whole provider over a stand-in of the pool, among them true answers, repeated ones, and ones that
 * are true but for a few bytes; in between operations of every kind are started, lanes fill and
 * break, regions are registered and closed, peers end and others come. Texts lie in memory of
 * exactly their size, so that the sanitizers see each byte too far.
 *
 *   incoming [SEED [SECONDS]]      without SECONDS so many steps as take a few
 *
 * In the end all honest answers are given: each operation that was started must have ended once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../fi_ext_vshmem.h"
#include "../regions.h"
#include "../vshmem_fi.h"
#include "answers.h"
#include "offers.h"
#include "one_endpoint.h"

enum { OPERATIONS = 1 << 12, REGIONS = 6 };

/* flood.c: a peer that reads nothing; nothing else is under way. */
void flood(struct fid_ep *ep, struct fid_cq *cq, uint32_t peer, uint64_t address);

static uint64_t own_nonce;

/* Operations under way. */
static struct operation {
	char *buffer;
	enum { UNUSED, STARTED } state;
	bool receives;
} operations[OPERATIONS];
static size_t started, ended, failed, receives, copied;

static void end(struct operation *operation, bool error)
{
	must(operation >= operations && operation < operations + OPERATIONS);
	must(operation->state == STARTED);
	operation->state = UNUSED;
	free(operation->buffer);
	ended++;
	failed += error;
	receives -= operation->receives;
}

static void look_here(void)
{
	struct fi_cq_tagged_entry entry;
	ssize_t got;
	while ((got = fi_cq_read(cq, &entry, 1)) != -FI_EAGAIN) {
		struct fi_cq_err_entry error = { 0 };
		if (got == 1) {
			struct operation *operation = entry.op_context;
			if (!operation)
				continue;
			copied += operation->receives && was_offered(operation->buffer, entry.len);
			end(operation, false);
			continue;
		}
		must(got == -FI_EAVAIL && fi_cq_readerr(cq, &error, 0) == 1);
		if (error.op_context)
			end(error.op_context, true);
	}
}

/* Where a message lies in the pool: in memory that is held, or beyond the pool. */
static struct vfi_pool_place any_place(const struct vshmem_wire *header)
{
	enum { HELD = 16384 };
	static void *held;
	if (!held)
		must(vshmem_hold(NULL, HELD, &held) == 0);
	uint64_t start = (uint64_t)((char *)held - (char *)vshmem_base(NULL));
	if (header->message.size <= HELD && any(2))
		return (struct vfi_pool_place) { start + any(HELD + 1 - header->message.size) };
	return (struct vfi_pool_place) { any(2) ? vshmem_bytes(NULL) - any(9) % header->message.size
						: UINT64_MAX - any(64) };
}

/* A message that may be read where it lies. */
static void offer(uint32_t peer, const struct vshmem_wire *header)
{
	struct vfi_offer_place place = any_offer(peer, header, own_nonce);
	if (any(4) == 0 && header->message.size) {
		struct vfi_pool_place there = any_place(header);
		deliver_bytes(peer, VFI_READY_TO_SEND, header, &there, sizeof(there));
	} else {
		deliver_bytes(peer, VFI_READY_TO_SEND, header, &place, sizeof(place));
	}
}

static struct region {
	char *memory;
	uint64_t bytes;
	struct fid_mr *mr;
	bool in_pool;
} regions[REGIONS];
static struct fi_vshmem_memory_ops *pool_memory;

static void give_or_take(void)
{
	struct region *region = &regions[any(REGIONS)];
	if (region->mr) {
		fi_close(&region->mr->fid);
		if (region->in_pool)
			pool_memory->give_back(domain, region->memory);
		else
			free(region->memory);
		region->mr = NULL;
		return;
	}
	void *memory = NULL;
	region->bytes = any(4) ? any(500) + 1 : any(20000) + 1;
	region->in_pool = any(2) && pool_memory->take(domain, region->bytes, &memory) == 0;
	if (!region->in_pool)
		memory = aligned_alloc(16, (region->bytes + 15) & ~UINT64_C(15));
	region->memory = memory;
	uint64_t access = any(2) ? FI_REMOTE_READ | FI_REMOTE_WRITE
		: any(2)         ? FI_REMOTE_READ
				 : FI_REMOTE_WRITE;
	must(fi_mr_reg(domain, memory, region->bytes, access, 0, 0, 0, &region->mr, NULL) == 0);
	memset(region->memory, 1, region->bytes);
}

/* What a peer asks, rightly or nearly so. */
static void ask(void)
{
	static const uint8_t kinds[] = { VSHMEM_PUT, VSHMEM_GET, VSHMEM_ATOMIC, VSHMEM_REMOTE_DONE,
		VFI_EAGER, VFI_EAGER_TAGGED, VFI_READY_TO_SEND };
	const struct region *region = &regions[any(REGIONS)];
	uint8_t kind = kinds[any(7)];
	struct vshmem_wire header = { .flags = (uint8_t)any(16), .token = any(1000) };
	uint64_t bytes = any(10) ? any(300) : any(MOST_BYTES - sizeof(header));
	if (region->mr && kind <= VSHMEM_REMOTE_DONE && kind >= VSHMEM_PUT) {
		header.put.key = fi_mr_key(region->mr);
		header.put.address = (uint64_t)(uintptr_t)region->memory
			+ (any(4) ? any(region->bytes / 4 + 1) : any(region->bytes * 2));
		header.put.left = any(3) ? any(300) : any(30000);
	} else {
		header.message.tag = any(4);
		header.message.size = any(10) ? any(20000) : UINT64_MAX - any(3000);
	}
	if (kind == VSHMEM_ATOMIC) {
		header.datatype = (uint8_t)any(12);
		header.op = (uint16_t)any(20);
		header.atomic.length = any(20) * 8;
		header.atomic.address &= any(4) ? ~UINT64_C(7) : ~UINT64_C(0);
		bytes = header.op == FI_ATOMIC_READ ? 0
			: header.op >= FI_CSWAP     ? 2 * header.atomic.length
						    : header.atomic.length;
	}
	if (any(3) == 0)
		mutate(&header);
	if (kind == VFI_READY_TO_SEND && any(8)) {
		offer((uint32_t)any(PEERS), &header);
		return;
	}
	deliver((uint32_t)any(PEERS + 2), kind, &header, any(10) ? bytes : any(600), (int)any(256));
}

static void noise(void)
{
	struct vshmem_wire header;
	for (size_t at = 0; at < sizeof(header); at++)
		((uint8_t *)&header)[at] = (uint8_t)any(256);
	deliver((uint32_t)any(PEERS + 2), (uint8_t)any(any(2) ? 24 : 256), &header, any(200), 9);
}

/* A peer's record says anything. */
static void scribble(void)
{
	const struct check_peer *peer = &peers[any(PEERS)];
	struct vfi_entry entry = { .sequence = any(4) ? 2 * any(100) : any(100),
		.key = any(6),
		.base = any(3) ? 4096 : any(UINT64_MAX),
		.bytes = any(3) ? any(20000) : UINT64_MAX - any(9000),
		.offset = any(2) ? any(9000) : UINT64_MAX - any(9000),
		.memory = any(4) ? peer->memory : (int32_t)any(UINT32_MAX),
		.access = (uint32_t)any(16) };
	struct vfi_record *record = (struct vfi_record *)memory_of(peer->record);
	if (vshmem_id(NULL, record) <= 0)
		return;
	for (int times = 0; times < 40; times++)
		record->entries[any(VFI_ENTRIES)] = entry;
	record->published += any(2);
	record->withdrawn += any(2);
	record->notify = (uint32_t)any(16);
}

static ssize_t begin(struct operation *operation, uint64_t bytes)
{
	fi_addr_t to = addresses[any(PEERS)];
	uint64_t address = any(8) ? 4096 + any(1000) * 8 : any(UINT64_MAX), key = any(6);
	char *buffer = operation->buffer;
	uint64_t words = bytes / 8 < 60 ? bytes / 8 : 60;
	switch (any(10)) {
	case 0: return fi_write(ep, buffer, bytes, NULL, to, address, key, operation);
	case 1: return fi_read(ep, buffer, bytes, NULL, to, address, key, operation);
	case 2:
		return fi_atomic(
			ep, buffer, words, NULL, to, address, key, FI_UINT64, FI_SUM, operation);
	case 3:
		return fi_fetch_atomic(ep, buffer, words, NULL, buffer, NULL, to, address, key,
			FI_DOUBLE, FI_MAX, operation);
	case 4:
		return fi_compare_atomic(ep, buffer, words, NULL, buffer, NULL, buffer, NULL, to,
			address, key, FI_UINT64, FI_CSWAP, operation);
	case 5: return fi_send(ep, buffer, bytes, NULL, to, operation);
	case 6: return fi_tsend(ep, buffer, bytes, NULL, to, any(4), operation);
	case 7: return fi_writedata(ep, buffer, bytes, NULL, 5, to, address, key, operation);
	default: break;
	}
	fi_addr_t from = any(3) ? FI_ADDR_UNSPEC : to;
	operation->receives = true;
	return any(2) ? fi_recv(ep, buffer, bytes, NULL, from, operation)
		      : fi_trecv(ep, buffer, bytes, NULL, from, any(4), any(2), operation);
}

static void start(void)
{
	struct operation *operation = &operations[any(OPERATIONS)];
	uint64_t bytes = any(10) ? any(300) + 1 : any(60000) + 1;
	if (operation->state == STARTED)
		return;
	operation->buffer = malloc(bytes);
	memset(operation->buffer, 7, bytes);
	operation->state = STARTED;
	operation->receives = false;
	started++;
	ssize_t rc = begin(operation, bytes);
	if (rc == 0) {
		receives += operation->receives;
		return;
	}
	must(rc == -FI_EAGAIN || rc == -FI_EINVAL);
	operation->state = UNUSED;
	started--;
	free(operation->buffer);
}

/* Another process takes a peer's place. */
static void replace(uint32_t nth)
{
	struct check_peer *peer = &peers[nth];
	fi_addr_t gone = addresses[nth];
	bool was_there = peer->nonce != 0;
	for (size_t at = 0; at < sent_count;)
		if (sent[at].peer == nth)
			sent[at] = sent[--sent_count];
		else
			at++;
	forget_pieces(nth);
	if (!was_there) {
		peer->record = foreign_memory(sizeof(struct vfi_record));
		peer->memory = foreign_memory(20000);
	}
	come(nth, peer->record);
	peer_offers(nth, peer->nonce);
	if (!was_there)
		return;
	give_end(nth);
	while (!taken())
		look();
	must(fi_av_remove(av, &gone, 1, 0) == 0);
}

static void go(uint64_t steps)
{
	for (uint64_t last = step + steps; step < last; step++) {
		uint64_t choice = any(100);
		if (choice < 30)
			start();
		else if (choice < 50)
			answer(any(5) == 0);
		else if (choice < 60)
			answer_wrongly();
		else if (choice < 75)
			ask();
		else if (choice < 80)
			noise();
		else if (choice < 83)
			give_or_take();
		else if (choice < 86)
			scribble();
		else if (choice < 96)
			acknowledge();
		else if (any(12) == 0)
			replace((uint32_t)any(PEERS));
		else
			peers[any(PEERS)].state = any(3) ? OPEN : any(200) ? FULL : BROKEN;
		look();
	}
	/* All is answered: all ends. Peers that got false answers are replaced in the end. */
	for (int turn = 0; started - receives != ended; turn++) {
		must(turn < 10000000); /* some ends are noticed by the clock */
		for (uint32_t peer = 0; peer < PEERS; peer++) {
			if (peers[peer].state == BROKEN || turn % 1000 == 999)
				replace(peer);
			peers[peer].state = OPEN;
		}
		look();
		for (size_t count = sent_count; count > 0; count--)
			answer(false);
		acknowledge();
	}
	for (int nth = 0; nth < OPERATIONS; nth++)
		if (operations[nth].state == STARTED)
			fi_cancel(&ep->fid, &operations[nth]);
	look();
	must(container_of(ep, struct vfi_endpoint, fid)->offers.used == 0);
}

static void open_everything(void)
{
	look = look_here;
	open_all(note_sent);
	own_nonce = container_of(ep, struct vfi_endpoint, fid)->address.nonce;
	must(fi_open_ops(&domain->fid, FI_VSHMEM_MEMORY_OPS, 0, (void **)&pool_memory, NULL) == 0);
	for (uint32_t peer = 0; peer < PEERS; peer++)
		replace(peer);
}

static void close_everything(void)
{
	for (int nth = 0; nth < REGIONS; nth++) {
		if (!regions[nth].mr)
			continue;
		must(fi_close(&regions[nth].mr->fid) == 0);
		if (!regions[nth].in_pool)
			free(regions[nth].memory);
		else
			must(pool_memory->give_back(domain, regions[nth].memory) == 0);
	}
	close_all();
}

int main(int argc, char **argv)
{
	first_seed = seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	seed = seed * 0x9e3779b97f4a7c15u | 1;
	time_t until = argc > 2 ? time(NULL) + strtol(argv[2], NULL, 0) : 0;
	open_everything();
	do
		go(20000);
	while (until ? time(NULL) < until : step < 200000);
	replace(0);
	flood(ep, cq, 0, addresses[0]);
	close_everything();
	end_offers();
	must(copied > 0);
	printf("%llu steps, %zu operations, of which %zu failed, %zu messages copied: 1 passed, 0 failed\n",
		(unsigned long long)step, started, failed, copied);
	return 0;
}
