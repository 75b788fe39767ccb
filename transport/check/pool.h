/* A stand-in for the pool: the functions of vshmem.h that a transport calls, as its check has them.
 *
 * Lanes take messages, have no room, or are broken. What comes is what the check says. Memory that
 * is not held or attached is poisoned.
 */
#ifndef CHECK_POOL_H
#define CHECK_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../peer.h"
#include "random_steps.h"

enum { PEERS = 3, SLOTS = 32, SLOT_BYTES = 1 << 16, SENT = 1 << 14, MOST_BYTES = 3000 };

/* A peer, as it is now: another process takes its place now and then. */
struct check_peer {
	uint64_t nonce;
	enum { OPEN, FULL, BROKEN } state;
	int record, memory; /* ids of what it has in the pool */
};
extern struct check_peer peers[PEERS];

/* What was sent and is to be answered. */
struct sent {
	uint32_t peer;
	uint8_t operation;
	struct vshmem_wire header;
	uint32_t bytes; /* of its payload */
};
extern struct sent sent[SENT];
extern size_t sent_count;

/* The next message, in memory of exactly its size; or a sender that is gone. */
void give(uint32_t lane, uint8_t operation, const struct vshmem_wire *header, const void *payload,
	uint32_t bytes);
void give_end(uint32_t peer);
/* It was taken. */
bool taken(void);

/* Memory of the pool that a peer holds: its id. */
int foreign_memory(uint64_t bytes);
char *memory_of(int id);
/* Begins; what is to be called for each message that is sent. */
void pool_begin(void (*was_sent)(
	uint32_t peer, uint8_t operation, const struct vshmem_wire *header, uint32_t bytes));

#endif
