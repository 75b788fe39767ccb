/* What producer and consumer agree on: keys, the ring's layout, the message types.
 *
 * Either program may start first. Nothing here needs initialising by one chosen side: a new segment
 * reads as zeros and a new semaphore is 0, and every step of the protocol is a semaphore going up
 * from there. So what an earlier run has left is removed first (earlier_run.h). */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <unistd.h>

#include "earlier_run.h"

/* A file that exists in every domain: ftok makes the keys of it. */
#define KEY_PATH "/etc/passwd"

enum { RING_SEGMENT = 'r', RING_SET = 's', MESSAGE_QUEUE = 'q' };

/* The ring. The consumer grants the slots, so FREE starts at 0 and no side has to be first. */
enum { SLOTS = 16, ITEM_BYTES = 48 };
enum ring_semaphore { FREE, FULL, FINISHED, RING_SEMAPHORES };

struct item {
	uint64_t sequence;
	uint64_t sum;
	unsigned char bytes[ITEM_BYTES];
};

struct ring {
	struct item slot[SLOTS];
};

/* The queue: three kinds of goods, an end marker behind them, and the consumer's receipt. */
enum message_type { EXPRESS = 1, NORMAL = 2, BULK = 3, END = 4, RECEIPT = 5 };

struct parcel {
	long type;
	struct item item;
};

_Noreturn static inline void fail(const char *what, const char *object)
{
	int error = errno;
	fprintf(stderr, "%s of the %s failed: %s%s\n", what, object, strerror(error), advice(error));
	exit(1);
}

static inline key_t key_of(const char *path, int project)
{
	key_t key = ftok(path, project);
	if (key == (key_t)-1) {
		fprintf(stderr, "ftok of '%s' failed: %s (give an existing file with -k)\n", path,
			strerror(errno));
		exit(1);
	}
	return key;
}

static inline void step(int set, unsigned short semaphore, short by)
{
	struct sembuf operation = { .sem_num = semaphore, .sem_op = by };
	while (semop(set, &operation, 1) != 0)
		if (errno != EINTR)
			fail("semop", "semaphore set");
}

static inline uint64_t sum_of(const unsigned char *bytes, size_t n)
{
	uint64_t sum = 1469598103934665603u; /* FNV-1a */
	for (size_t i = 0; i < n; i++)
		sum = (sum ^ bytes[i]) * 1099511628211u;
	return sum;
}

static inline void fill_item(struct item *item, uint64_t sequence)
{
	item->sequence = sequence;
	for (size_t i = 0; i < ITEM_BYTES; i++)
		item->bytes[i] = (unsigned char)(sequence * 31 + i * 7);
	item->sum = sum_of(item->bytes, ITEM_BYTES);
}

static inline int item_is_whole(const struct item *item)
{
	return item->sum == sum_of(item->bytes, ITEM_BYTES)
	        && item->bytes[0] == (unsigned char)(item->sequence * 31);
}

/* The ring, and its set. `begun`: those semaphores that are above 0 only when a run has begun. */
static inline struct ring *open_ring(
	const char *program, const char *path, int attach_flags, unsigned begun, int *set)
{
	for (;;) {
		*set = set_in_use = semget(
			key_of(path, RING_SET), RING_SEMAPHORES, IPC_CREAT | 0600);
		if (*set == -1)
			fail("semget", "semaphore set");
		segment_in_use = shmget(
			key_of(path, RING_SEGMENT), sizeof(struct ring), IPC_CREAT | 0600);
		if (segment_in_use == -1)
			fail("shmget", "ring segment");
		if (!has_begun(*set, RING_SEMAPHORES, begun))
			break;
		remove_earlier_run(program);
	}
	struct ring *ring = shmat(segment_in_use, NULL, attach_flags);
	if (ring == (void *)-1)
		fail("shmat", "ring segment");
	return ring;
}

static inline int open_queue(const char *path)
{
	queue_in_use = msgget(key_of(path, MESSAGE_QUEUE), IPC_CREAT | 0600);
	if (queue_in_use == -1)
		fail("msgget", "message queue");
	return queue_in_use;
}

struct choice {
	const char *path;
	long items;
	int use_queue;
};

static inline struct choice choose(int argc, char **argv, const char *does)
{
	struct choice c = { .path = KEY_PATH, .items = 1000 };
	remove_when_broken_off();
	setlinebuf(stdout);
	int option;
	while ((option = getopt(argc, argv, "hk:m:n:")) != -1) {
		switch (option) {
		case 'k': c.path = optarg; break;
		case 'n': c.items = strtol(optarg, NULL, 10); break;
		case 'm':
			if (strcmp(optarg, "queue") != 0 && strcmp(optarg, "ring") != 0) {
				fprintf(stderr, "-m is 'ring' or 'queue', not '%s'\n", optarg);
				exit(2);
			}
			c.use_queue = optarg[0] == 'q';
			break;
		default:
			fprintf(option == 'h' ? stdout : stderr,
				"usage: %s [-m ring|queue] [-n ITEMS] [-k PATH]\n%s\n"
				"  -m ring    a shared segment with a ring of items, handed over by semaphores (default)\n"
				"  -m queue   a message queue with three types\n"
				"  -n ITEMS   how many items (default 1000; the same on both sides)\n"
				"  -k PATH    an existing file for ftok (default " KEY_PATH ")\n",
				argv[0], does);
			exit(option == 'h' ? 0 : 2);
		}
	}
	if (c.items < 1) {
		fprintf(stderr, "-n must be 1 or more\n");
		exit(2);
	}
	return c;
}

#endif
