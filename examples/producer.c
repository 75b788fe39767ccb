/* Makes items and hands them to consumer: through a ring in a shared segment, or through a message
 * queue. */
#include "exchange.h"

static void through_ring(const struct choice *c)
{
	int set;
	/* The consumer may have granted the slots already. */
	struct ring *ring = open_ring("producer", c->path, 0, 1 << FULL | 1 << FINISHED, &set);

	printf("producer: %ld items through a ring of %d slots\n", c->items, SLOTS);
	for (long i = 0; i < c->items; i++) {
		step(set, FREE, -1);
		fill_item(&ring->slot[i % SLOTS], (uint64_t)i);
		step(set, FULL, +1);
	}
	/* The consumer's last word: after it no other process uses either object. */
	step(set, FINISHED, -1);
	if (shmdt(ring) != 0)
		fail("shmdt", "ring segment");
	if (shmctl(segment_in_use, IPC_RMID, NULL) != 0)
		fail("removal", "ring segment");
	if (semctl(set, 0, IPC_RMID) != 0)
		fail("removal", "semaphore set");
	printf("producer: all taken, segment and semaphore set removed\n");
}

static void through_queue(const struct choice *c)
{
	int queue = open_queue(c->path);
	struct msqid_ds state;
	if (msgctl(queue, IPC_STAT, &state) == 0 && state.msg_qnum != 0) {
		remove_earlier_run("producer");
		queue = open_queue(c->path);
	}

	printf("producer: %ld messages of three types through a queue\n", c->items);
	struct parcel parcel;
	for (long i = 0; i <= c->items; i++) {
		parcel.type = i == c->items ? END : EXPRESS + i % 3;
		fill_item(&parcel.item, (uint64_t)i);
		while (msgsnd(queue, &parcel, sizeof parcel.item, 0) != 0)
			if (errno != EINTR)
				fail("msgsnd", "message queue");
	}
	while (msgrcv(queue, &parcel, sizeof parcel.item, RECEIPT, 0) == -1)
		if (errno != EINTR)
			fail("msgrcv", "message queue");
	if (msgctl(queue, IPC_RMID, NULL) != 0)
		fail("removal", "message queue");
	printf("producer: receipt for %llu messages, queue removed\n",
		(unsigned long long)parcel.item.sequence);
	if (parcel.item.sequence != (uint64_t)c->items)
		exit(1);
}

int main(int argc, char **argv)
{
	struct choice c = choose(argc, argv, "Makes items for consumer; either may start first.");
	if (c.use_queue)
		through_queue(&c);
	else
		through_ring(&c);
	return 0;
}
