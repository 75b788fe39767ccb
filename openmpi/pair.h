/* How the messages of two processes go over from lanes of a pool to sockets, and back, when one of
 * them leaves the pool and joins one again: what each has to say, and when.
 *
 * Each direction of a pair goes by a lane or by a connection of its own, which its sender makes.
 * Who sends says where it ends: OVER is the last message in a lane, BACK the last text on a
 * connection. So nothing is lost, doubled or reordered, also when others move meanwhile
 * (docs/internals/decisions/0055-messages-go-over-to-sockets-of-our-own.md). This file knows
 * nothing of lanes and sockets: vshmem_pair_calls does.
 *
 * Locking: the caller holds a lock for each pair.
 */
#ifndef VSHMEM_PAIR_H
#define VSHMEM_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vshmem.h"

/* Where a process can be reached by lanes. */
struct vshmem_stay {
	uint8_t pool[16];
	struct vshmem_address port;
	struct vshmem_domain domain;
};

/* What is said on a connection beside texts. */
enum vshmem_word {
	VSHMEM_TEXT, /* a message, as it would be in a lane */
	VSHMEM_LEAVE, /* I leave the pool: send to me by the connection */
	VSHMEM_LEAVE_SEEN, /* I do, and go on so until you are HERE */
	VSHMEM_HERE, /* struct vshmem_stay: you may send by a lane of this port */
	VSHMEM_ARRIVED, /* uint64_t: your lane was read up to OVER, with so many messages in all */
	VSHMEM_BACK, /* no more texts come here */
	VSHMEM_READY, /* your lane is read from now on */
	VSHMEM_END, /* nothing follows by this connection, which is closed */
};

enum vshmem_way { BY_LANE, BY_SOCKET, HELD /* BACK is said, READY is awaited: nothing is sent */ };

/* All zero at first: both ways by lanes. */
struct vshmem_pair {
	enum vshmem_way out, in;
	uint64_t sent, got; /* messages by lanes, OVER not counted; got: before the present lane */
	bool leave_said, leave_seen; /* mine */
	bool they_leave; /* and wait for LEAVE_SEEN */
	bool they_left; /* and were not HERE since */
	bool unarrived; /* ARRIVED is awaited */
	bool owes_arrived, owes_ready;
	bool claimed; /* a lane of theirs, by which nothing is sent yet */
	bool known; /* they said HERE, and nothing else since */
	struct vshmem_stay they;
	uint32_t told; /* the number of my stay that they were told */
};

/* This process. */
struct vshmem_me {
	uint32_t rank;
	uint32_t number; /* of its stay: from 1 */
	bool leaving, here;
	struct vshmem_stay stay;
};

/* 0; -EAGAIN: not yet; else it never will be. */
struct vshmem_pair_calls {
	/* Sends OVER by the lane, the last message there, when the connection is ready for what
	 * comes after it. */
	int (*over)(struct vshmem_pair *pair, uint64_t sent);
	int (*say)(struct vshmem_pair *pair, enum vshmem_word word, const void *text, size_t bytes);
	/* Claims a lane of the port where they are. */
	int (*claim)(struct vshmem_pair *pair);
	/* What was claimed is not used; or all in the lane before was read. */
	void (*close)(struct vshmem_pair *pair);
};

/* Says what is to be said now. 0, or what a call has answered. */
int vshmem_pair_step(struct vshmem_pair *pair, const struct vshmem_me *me,
	const struct vshmem_pair_calls *calls);
/* OVER has come by the lane, behind GOT messages of it. False: it makes no sense. */
bool vshmem_pair_over(struct vshmem_pair *pair, uint64_t sent, uint64_t got);
/* Another word than TEXT has come. False: it makes no sense. */
bool vshmem_pair_hear(struct vshmem_pair *pair, const struct vshmem_pair_calls *calls,
	enum vshmem_word word, const void *text, size_t bytes);
/* Both ways go by lanes, and nothing is to be said. */
bool vshmem_pair_settled(const struct vshmem_pair *pair);
/* Of a process that leaves: nothing is in lanes any more, and the peer will use none. */
bool vshmem_pair_parted(const struct vshmem_pair *pair);

#endif
