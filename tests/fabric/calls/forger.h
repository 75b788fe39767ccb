/* A member of the pool that sends in the names of two others. */
#ifndef FABRIC_FORGER_H
#define FABRIC_FORGER_H

#include <stdint.h>

#include "../../../libfabric/wire.h"

/* A message to be forged: for the process of this rank, in the name of the other one. */
struct order {
	int to;
	uint8_t operation;
	struct vshmem_wire header;
	uint32_t bytes; /* of the payload */
	uint64_t payload[3];
};

/* Forges what it is told at the socket, with an empty answer to each order, until the other end is
 * closed. It finds the two by the files of their addresses (endpoints.h). */
void forge(const char *directory, int orders);
/* What the other end does. Until the forger has its lanes, nobody may make progress: the first look
 * at a lane tells a receiver who sends there. */
void await_forger(int orders);
/* The message is sent when this returns. */
void order_message(int orders, const struct order *order);

#endif
