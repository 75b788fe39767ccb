/* What storm.c and its reader agree on (../soak/journal.rs, objects.rs, message.rs): the pages of
 * the journal, the ids that it is given, the shared segment, and messages. */
#ifndef STORM_H
#define STORM_H

#include <stdint.h>

enum { MOST_WORKERS = 32, MOST_TEXT = 8192, TOKENS = 4, MOVED = 6, KEYS = 3 };

/* One worker's place in the journal; a page each. The order is that of `Word` in journal.rs. */
struct page {
	_Atomic uint64_t operations;
	/* Messages of the two queues, numbered from 1. */
	_Atomic uint64_t sending[2], sent[2];
	/* Calls of msgrcv; one that has returned is in the log before it counts as done. */
	_Atomic uint64_t receiving, received;
	/* Single operations without SEM_UNDO. */
	_Atomic uint64_t lowering, lowered, raising, raised;
	/* Critical sections. */
	_Atomic uint64_t entering, left;
	char filling[4096 - 13 * 8];
};

struct objects {
	int tokens, moved, fast, mutex, strict, mixed, segment, first_key;
};

/* What the mutex protects, at the start of the shared segment. */
struct shared {
	uint64_t magic;
	volatile uint64_t inside, count, twice;
};

struct message {
	long type;
	uint32_t sender, number, bytes, sum;
	unsigned char text[MOST_TEXT];
};

#endif
