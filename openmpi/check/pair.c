/* Two processes that send to each other and to themselves without a pause while both leave pools
 * and join them at any time: no message is lost, doubled or reordered, none lies in a lane of a
 * port that is closed, and when all stay, all pairs go back to lanes. The processes are this one;
 * what each does next is random.
 *   pair [SEED [SECONDS]]
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "../../transport/check/random_steps.h"
#include "pair.h"

uint64_t first_seed, step, seed;

enum { PROCESSES = 2, ROOM = 8, POOLS = 2 };

/* Numbers, or a word and what belongs to it. */
struct item {
	enum vshmem_word word;
	bool over; /* in a lane */
	uint64_t number;
	struct vshmem_stay stay;
};
struct queue {
	struct item items[ROOM];
	unsigned count;
};
static struct direction {
	struct vshmem_pair pair; /* its sender's; this one's other half is the way back's */
	struct queue lane, socket;
	uint64_t port; /* of the lane, 0: none */
	uint64_t next, wanted; /* numbers */
	uint64_t in_lane; /* taken out of the present one */
	bool connected;
} all[PROCESSES][PROCESSES];
static struct vshmem_me me[PROCESSES];
static uint64_t ports, moves, by_lane, by_socket;

static struct direction *of(struct vshmem_pair *pair)
{
	return (struct direction *)((char *)pair - offsetof(struct direction, pair));
}

static int append(struct queue *queue, const struct item *item)
{
	if (queue->count == ROOM || any(8) == 0)
		return -EAGAIN;
	queue->items[queue->count++] = *item;
	return 0;
}

static struct item take(struct queue *queue)
{
	struct item first = queue->items[0];
	memmove(queue->items, queue->items + 1, --queue->count * sizeof(first));
	return first;
}

static int over(struct vshmem_pair *pair, uint64_t sent)
{
	struct direction *direction = of(pair);
	return direction->connected
		? append(&direction->lane, &(struct item) { .over = true, .number = sent })
		: -EAGAIN;
}

static int say(struct vshmem_pair *pair, enum vshmem_word word, const void *text, size_t bytes)
{
	struct direction *direction = of(pair);
	struct item item = { .word = word };
	direction->connected |= any(4) == 0;
	if (!direction->connected)
		return -EAGAIN;
	if (word == VSHMEM_HERE)
		memcpy(&item.stay, text, bytes);
	else if (bytes)
		memcpy(&item.number, text, bytes);
	return append(&direction->socket, &item);
}

static int claim(struct vshmem_pair *pair)
{
	struct direction *direction = of(pair);
	size_t to = (size_t)(direction - &all[0][0]) % PROCESSES;
	must(direction->port == 0 && direction->lane.count == 0);
	if (any(8) == 0)
		return -EAGAIN;
	if (!me[to].here || me[to].stay.port.nonce != pair->they.port.nonce)
		return -ENOENT;
	direction->port = pair->they.port.nonce;
	return 0;
}

static void close_lane(struct vshmem_pair *pair)
{
	must(of(pair)->lane.count == 0);
	of(pair)->port = 0;
}

static const struct vshmem_pair_calls calls = { over, say, claim, close_lane };

static void join(unsigned process)
{
	me[process].here = true;
	me[process].number++;
	memset(me[process].stay.pool, (int)any(POOLS), sizeof(me[process].stay.pool));
	me[process].stay.port.nonce = ++ports;
	for (unsigned to = 0; to < PROCESSES; to++)
		all[process][to].pair.leave_said = false;
}

/* What leave.c does. */
static void move(unsigned process, bool stays)
{
	struct vshmem_me *self = &me[process];
	if (!self->here) {
		if (stays || any(20) == 0)
			join(process);
		return;
	}
	if (!self->leaving && !stays && any(200) == 0)
		self->leaving = true;
	if (!self->leaving)
		return;
	for (unsigned to = 0; to < PROCESSES; to++)
		if (!vshmem_pair_parted(&all[process][to].pair))
			return;
	for (unsigned peer = 0; peer < PROCESSES; peer++)
		must(all[peer][process].lane.count == 0 && all[process][peer].port == 0);
	self->leaving = self->here = false;
	moves++;
}

static void post(struct direction *direction)
{
	struct vshmem_pair *pair = &direction->pair;
	struct item item = { .number = direction->next };
	int rc = -EAGAIN;
	if (pair->out == BY_LANE) {
		must(direction->port != 0);
		rc = append(&direction->lane, &item);
		pair->sent += rc == 0;
		by_lane += rc == 0;
	} else if (pair->out == BY_SOCKET) {
		rc = append(&direction->socket, &item);
		by_socket += rc == 0;
	}
	direction->next += rc == 0;
}

static void receive(unsigned from, unsigned to)
{
	struct direction *direction = &all[from][to];
	struct vshmem_pair *back = &all[to][from].pair;
	if (direction->lane.count && any(2)) {
		must(direction->port == me[to].stay.port.nonce && me[to].here);
		struct item item = take(&direction->lane);
		if (item.over) {
			must(vshmem_pair_over(back, item.number, direction->in_lane));
			direction->in_lane = 0;
			return;
		}
		must(back->in == BY_LANE && item.number == direction->wanted++);
		direction->in_lane++;
	} else if (direction->socket.count
		&& (direction->socket.items[0].word != VSHMEM_TEXT || back->in == BY_SOCKET)) {
		struct item item = take(&direction->socket);
		if (item.word == VSHMEM_TEXT)
			must(item.number == direction->wanted++);
		else if (item.word == VSHMEM_HERE)
			must(vshmem_pair_hear(
				back, &calls, item.word, &item.stay, sizeof(item.stay)));
		else
			must(vshmem_pair_hear(back, &calls, item.word, &item.number,
				item.word == VSHMEM_ARRIVED ? sizeof(item.number) : 0));
	}
}

static void act(bool stays)
{
	unsigned from = (unsigned)any(PROCESSES), to = (unsigned)any(PROCESSES);
	switch (any(4)) {
	case 0: post(&all[from][to]); break;
	case 1: receive(from, to); break;
	case 2: vshmem_pair_step(&all[from][to].pair, &me[from], &calls); break;
	default: move(from, stays);
	}
}

static bool settled(void)
{
	for (unsigned from = 0; from < PROCESSES; from++)
		for (unsigned to = 0; to < PROCESSES; to++)
			if (!vshmem_pair_settled(&all[from][to].pair) || me[from].leaving)
				return false;
	return true;
}

int main(int argc, char **argv)
{
	first_seed = seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	seed = seed * 0x9e3779b97f4a7c15u | 1;
	time_t until = argc > 2 ? time(NULL) + strtol(argv[2], NULL, 0) : 0;
	for (unsigned process = 0; process < PROCESSES; process++)
		join(process);
	for (unsigned from = 0; from < PROCESSES; from++)
		for (unsigned to = 0; to < PROCESSES; to++)
			all[from][to].port = me[to].stay.port.nonce;
	do {
		for (uint64_t end = step + 100000; step < end; step++)
			act(false);
		/* Who stays in different pools does not go back: so both go to one. */
		for (uint64_t end = step + 1000000; !settled(); step++) {
			must(step < end);
			bool apart = memcmp(me[0].stay.pool, me[1].stay.pool, 16) != 0;
			for (unsigned process = 0; process < PROCESSES; process++)
				me[process].leaving |= apart && me[process].here;
			act(true);
		}
	} while (until ? time(NULL) < until : step < 20000000);
	printf("%llu steps, %llu leaves, %llu messages by lanes, %llu by sockets: 1 passed, 0 failed\n",
		(unsigned long long)step, (unsigned long long)moves, (unsigned long long)by_lane,
		(unsigned long long)by_socket);
	must(moves > 100 && by_lane > 1000 && by_socket > 1000);
	return 0;
}
