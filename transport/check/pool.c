/* See pool.h. */
#include "pool.h"

#include <errno.h>
#include <sanitizer/asan_interface.h>
#include <stdlib.h>
#include <string.h>

#include "vshmem.h"

struct vshmem_pool {
	char nothing;
};
struct vshmem_port {
	char nothing;
};
struct vshmem_lane {
	uint32_t peer;
	uint64_t nonce;
};

struct check_peer peers[PEERS];
struct sent sent[SENT];
size_t sent_count;

static struct vshmem_pool the_pool;
static struct vshmem_port the_port;
static char *arena;
static struct {
	uint64_t bytes; /* 0: free */
	bool here; /* held or attached by this process */
	bool foreign; /* by a peer */
} slots[SLOTS];

static struct {
	int state; /* 0: none; 1: a message; 2: an end */
	uint32_t lane;
	uint8_t operation;
	char *text;
	uint32_t bytes;
} next;

static void (*was_sent)(
	uint32_t peer, uint8_t operation, const struct vshmem_wire *header, uint32_t bytes);

void pool_begin(void (*called)(
	uint32_t peer, uint8_t operation, const struct vshmem_wire *header, uint32_t bytes))
{
	was_sent = called;
	arena = aligned_alloc(4096, (size_t)SLOTS * SLOT_BYTES);
	memset(arena, 0, (size_t)SLOTS * SLOT_BYTES);
	ASAN_POISON_MEMORY_REGION(arena, (size_t)SLOTS * SLOT_BYTES);
}

static void set_poison(int slot)
{
	char *memory = arena + (size_t)slot * SLOT_BYTES;
	if (slots[slot].here)
		ASAN_UNPOISON_MEMORY_REGION(memory, slots[slot].bytes);
	else
		ASAN_POISON_MEMORY_REGION(memory, SLOT_BYTES);
}

static int new_slot(uint64_t bytes)
{
	for (int slot = 0; slot < SLOTS && bytes <= SLOT_BYTES; slot++)
		if (slots[slot].bytes == 0) {
			slots[slot].bytes = bytes;
			return slot;
		}
	return -1;
}

/* An id is the number of a slot, and one more. */
int foreign_memory(uint64_t bytes)
{
	int slot = new_slot(bytes);
	slots[slot].foreign = true;
	return slot + 1;
}

char *memory_of(int id) { return arena + (size_t)(id - 1) * SLOT_BYTES; }

int vshmem_open(const char *name, vshmem_pool **pool, char *message, size_t bytes)
{
	(void)name, (void)message, (void)bytes;
	*pool = &the_pool;
	return 0;
}
void vshmem_close(vshmem_pool *pool) { (void)pool; }
void vshmem_identify(const vshmem_pool *pool, uint8_t uuid[16])
{
	(void)pool;
	memset(uuid, 7, 16);
}
void vshmem_whoami(const vshmem_pool *pool, char name[64], uint32_t *domain, uint32_t *client)
{
	(void)pool;
	strcpy(name, "check");
	*domain = *client = 0;
}
void *vshmem_base(const vshmem_pool *pool)
{
	(void)pool;
	return arena;
}
uint64_t vshmem_bytes(const vshmem_pool *pool)
{
	(void)pool;
	return (uint64_t)SLOTS * SLOT_BYTES;
}
int vshmem_neighbours(const vshmem_pool *pool)
{
	(void)pool;
	return 1;
}
int vshmem_domain(const vshmem_pool *pool, struct vshmem_domain *domain)
{
	(void)pool;
	*domain = (struct vshmem_domain) { 0, 1 };
	return 0;
}
int vshmem_leaving(const vshmem_pool *pool)
{
	(void)pool;
	return 0;
}

int vshmem_domain_alive(const vshmem_pool *pool, const struct vshmem_domain *domain)
{
	(void)pool, (void)domain;
	return 1;
}
uint64_t vshmem_team_arrivals(void) { return 0; }

int vshmem_hold(vshmem_pool *pool, uint64_t bytes, void **memory)
{
	(void)pool;
	int slot = new_slot((bytes + 4095) & ~UINT64_C(4095));
	if (slot < 0)
		return -ENOSPC;
	slots[slot].here = true;
	*memory = memory_of(slot + 1);
	set_poison(slot);
	memset(*memory, 0, slots[slot].bytes);
	return 0;
}

int vshmem_id(const vshmem_pool *pool, const void *memory)
{
	(void)pool;
	uint64_t into = (uint64_t)((const char *)memory - arena);
	if (into >= (uint64_t)SLOTS * SLOT_BYTES || into % SLOT_BYTES != 0)
		return -EINVAL;
	int slot = (int)(into / SLOT_BYTES);
	return slots[slot].here ? slot + 1 : -EINVAL;
}

int vshmem_attach(vshmem_pool *pool, int id, uint64_t bytes, void **memory)
{
	(void)pool;
	if (id < 1 || id > SLOTS || slots[id - 1].bytes == 0 || bytes > slots[id - 1].bytes)
		return -EINVAL;
	if (slots[id - 1].here)
		return -EBUSY;
	if (any(50) == 0)
		return -ENOMEM;
	slots[id - 1].here = true;
	*memory = memory_of(id);
	set_poison(id - 1);
	return 0;
}

int vshmem_release(vshmem_pool *pool, void *memory)
{
	int id = vshmem_id(pool, memory);
	must(id > 0);
	slots[id - 1].here = false;
	if (!slots[id - 1].foreign)
		slots[id - 1].bytes = 0;
	set_poison(id - 1);
	return 0;
}

int vshmem_port_make(vshmem_pool *pool, uint32_t senders, uint64_t budget, uint32_t most_lane,
	vshmem_port **port)
{
	(void)pool, (void)senders, (void)budget, (void)most_lane;
	*port = &the_port;
	return 0;
}
void vshmem_port_close(vshmem_port *port) { (void)port; }
void vshmem_port_address(const vshmem_port *port, struct vshmem_address *address)
{
	(void)port;
	*address = (struct vshmem_address) { UINT64_MAX, 1000, MOST_BYTES };
}

void give(uint32_t lane, uint8_t operation, const struct vshmem_wire *header, const void *payload,
	uint32_t bytes)
{
	next.state = 1;
	next.lane = lane;
	next.operation = operation;
	next.bytes = (uint32_t)sizeof(*header) + bytes;
	next.text = malloc(next.bytes);
	memcpy(next.text, header, sizeof(*header));
	if (bytes)
		memcpy(next.text + sizeof(*header), payload, bytes);
}

void give_end(uint32_t peer)
{
	next.state = 2;
	next.lane = peer;
}

bool taken(void) { return next.state == 0; }

int vshmem_receive(vshmem_port *port, struct vshmem_message *message)
{
	(void)port;
	if (next.state == 0)
		return 0;
	message->lane = next.lane;
	message->tag = next.operation;
	message->text = next.text;
	message->bytes = next.bytes;
	if (next.state == 1)
		return 1;
	next.state = 0;
	return -EPIPE;
}
int vshmem_receive_soon(vshmem_port *port, struct vshmem_message *message, uint32_t looks)
{
	(void)looks;
	return vshmem_receive(port, message);
}
void vshmem_receive_done(vshmem_port *port, const struct vshmem_message *message)
{
	(void)port, (void)message;
	free(next.text);
	next.state = 0;
}

int vshmem_sender(const vshmem_port *port, uint32_t lane, struct vshmem_sender *sender)
{
	(void)port;
	if (lane > PEERS)
		return -ENOENT;
	/* The last one does not tell where it may be answered. */
	*sender = (struct vshmem_sender) { .client = lane, .mark = lane };
	if (lane < PEERS)
		sender->port = (struct vshmem_address) { peers[lane].nonce, lane + 1, MOST_BYTES };
	return 0;
}

int vshmem_lane_claim(vshmem_pool *pool, const struct vshmem_address *to, const vshmem_port *own,
	uint64_t mark, vshmem_lane **lane)
{
	(void)pool, (void)own, (void)mark;
	for (uint32_t peer = 0; peer < PEERS; peer++) {
		if (peers[peer].nonce != to->nonce)
			continue;
		*lane = malloc(sizeof(**lane));
		**lane = (struct vshmem_lane) { peer, to->nonce };
		return 0;
	}
	return -ENOENT;
}
void vshmem_lane_close(vshmem_lane *lane) { free(lane); }
uint32_t vshmem_lane_most_bytes(const vshmem_lane *lane)
{
	(void)lane;
	return MOST_BYTES;
}
int vshmem_lane_alive(const vshmem_lane *lane) { return lane->nonce == peers[lane->peer].nonce; }
int vshmem_lane_closed(const vshmem_lane *lane)
{
	(void)lane;
	return 0;
}
int vshmem_port_grow(vshmem_port *port)
{
	(void)port;
	return 0;
}

int vshmem_send(vshmem_lane *lane, const struct iovec *parts, int count, uint8_t tag)
{
	static volatile uint8_t sum;
	uint32_t bytes = 0;
	must(parts[0].iov_len == sizeof(struct vshmem_wire));
	if (peers[lane->peer].nonce != lane->nonce || peers[lane->peer].state == BROKEN)
		return -EIO;
	if (peers[lane->peer].state == FULL || sent_count > SENT - 100)
		return -EAGAIN;
	for (int nth = 0; nth < count; nth++) {
		for (size_t at = 0; at < parts[nth].iov_len; at++)
			sum += ((const uint8_t *)parts[nth].iov_base)[at];
		bytes += (uint32_t)parts[nth].iov_len;
	}
	must(bytes <= MOST_BYTES);
	struct vshmem_wire header;
	memcpy(&header, parts[0].iov_base, sizeof(header));
	was_sent(lane->peer, tag, &header, bytes - (uint32_t)sizeof(header));
	return 0;
}
int vshmem_post(vshmem_lane *lane, const void *head, uint32_t head_bytes, const void *text,
	uint32_t text_bytes, uint8_t tag)
{
	struct iovec parts[2] = { { (void *)(uintptr_t)head, head_bytes },
		{ (void *)(uintptr_t)text, text_bytes } };
	return vshmem_send(lane, parts, text_bytes ? 2 : 1, tag);
}

int vshmem_key(const char *name)
{
	(void)name;
	return 1;
}
int vshmem_semget(vshmem_pool *pool, int key, int count, int flags)
{
	(void)pool, (void)key, (void)count, (void)flags;
	return -ENOSPC;
}
int vshmem_semop(vshmem_pool *pool, int id, const struct sembuf *operations, size_t count,
	const struct timespec *timeout)
{
	(void)pool, (void)id, (void)operations, (void)count, (void)timeout;
	return -EINVAL;
}
