/* Takes the items that producer makes and checks each one. */
#include "exchange.h"

static long wrong;

static void check(const struct item *item, uint64_t expected)
{
	if (item->sequence == expected && item_is_whole(item))
		return;
	if (wrong++ != 0)
		return;
	fprintf(stderr, "consumer: expected item %llu whole, got %llu with sum %016llx\n",
		(unsigned long long)expected, (unsigned long long)item->sequence,
		(unsigned long long)item->sum);
	/* Messages of a run that was broken off, which were taken for the first ones. */
	if (queue_in_use != -1 && item_is_whole(item)) {
		remove_earlier_run("consumer");
		fprintf(stderr, "consumer: start both again\n");
		exit(1);
	}
}

static void from_ring(const struct choice *c)
{
	int set;
	const struct ring *ring = open_ring(
		"consumer", c->path, SHM_RDONLY, 1 << FREE | 1 << FULL | 1 << FINISHED, &set);

	step(set, FREE, SLOTS);
	for (long i = 0; i < c->items; i++) {
		step(set, FULL, -1);
		check(&ring->slot[i % SLOTS], (uint64_t)i);
		step(set, FREE, +1);
	}
	if (shmdt(ring) != 0)
		fail("shmdt", "ring segment");
	/* Last use of the set: the producer removes it when this arrives. */
	step(set, FINISHED, +1);
}

static void from_queue(const struct choice *c)
{
	int queue = open_queue(c->path);

	/* Items of type T are T-1, T+2, T+5 ...: within a type the order must hold. */
	uint64_t next[BULK + 1] = { 0, 0, 1, 2 };
	struct parcel parcel;
	for (long taken = 0; taken < c->items; taken++) {
		/* A negative type takes the lowest first: express overtakes bulk. Now and then,
		 * bulk alone gets its turn by its positive type. */
		long wanted = -BULK;
		if (taken % 8 == 7 && next[BULK] < (uint64_t)c->items)
			wanted = BULK;
		while (msgrcv(queue, &parcel, sizeof parcel.item, wanted, 0) == -1)
			if (errno != EINTR)
				fail("msgrcv", "message queue");
		if (parcel.type < EXPRESS || parcel.type > BULK) {
			fprintf(stderr, "consumer: asked for type %ld, got %ld\n", wanted,
				parcel.type);
			exit(1);
		}
		check(&parcel.item, next[parcel.type]);
		next[parcel.type] += 3;
	}
	if (msgrcv(queue, &parcel, sizeof parcel.item, END, 0) == -1)
		fail("msgrcv", "message queue");
	parcel.type = RECEIPT;
	fill_item(&parcel.item, (uint64_t)c->items);
	if (msgsnd(queue, &parcel, sizeof parcel.item, 0) != 0)
		fail("msgsnd", "message queue");
}

int main(int argc, char **argv)
{
	struct choice c = choose(
		argc, argv, "Takes and checks producer's items; either may start first.");
	if (c.use_queue)
		from_queue(&c);
	else
		from_ring(&c);
	printf("consumer: %ld items taken, %ld wrong\n", c.items, wrong);
	return wrong != 0;
}
