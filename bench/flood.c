/* A flood of messages of several types from one role to the other; each must arrive once, whole,
 * and in order within its type, whether it was asked for by a positive, a negative or a zero type.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>

#include "rendezvous.h"
#include "run.h"

enum { TYPES = 5, RECEIPT = TYPES + 1, MOST_BYTES = 1024 };

struct message {
	long type;
	uint64_t number; /* within its type */
	uint64_t order;  /* among all */
	unsigned char filling[MOST_BYTES];
};

static int queue = -1;

static void remove_queue(void)
{
	if (queue != -1 && msgctl(queue, IPC_RMID, NULL) != 0)
		fprintf(stderr, "removal of the message queue failed: %s\n", strerror(errno));
}

/* Types in an irregular order, each message's length and filling following from its place. */
static long type_of(uint64_t order) { return 1 + (long)((order * 2654435761u >> 7) % TYPES); }

static size_t length_of(uint64_t order, size_t limit)
{ return limit == 0 ? 0 : order * 37 % (limit + 1); }

static void send(const struct message *m, size_t filling)
{
	while (msgsnd(queue, m, sizeof m->number + sizeof m->order + filling, 0) != 0)
		if (errno != EINTR || deadline_passed)
			give_up_call("msgsnd");
}

/* *type becomes what was asked for in the end. */
static size_t receive(struct message *m, long *type, int flags)
{
	ssize_t got;
	while ((got = msgrcv(queue, m, sizeof *m - sizeof m->type, *type, flags)) == -1) {
		/* A type that is not there now: waiting for it could wait for ever, as the queue
		 * may be full of others. */
		if (errno == ENOMSG && (flags & IPC_NOWAIT)) {
			flags = 0;
			*type = 0;
		} else if (errno != EINTR || deadline_passed) {
			give_up_call("msgrcv");
		}
	}
	return (size_t)got;
}

static void flood(uint64_t n, size_t limit)
{
	uint64_t next[TYPES + 1] = { 0 };
	for (uint64_t i = 0; i < n; i++) {
		struct message m = { .type = type_of(i), .order = i };
		m.number = next[m.type]++;
		size_t filling = length_of(i, limit);
		memset(m.filling, (int)(i & 0xff), filling);
		send(&m, filling);
	}
}

static uint64_t drain(uint64_t n, size_t limit)
{
	uint64_t next[TYPES + 1] = { 0 }, wrong = 0;
	for (uint64_t i = 0; i < n; i++) {
		/* In turn: the oldest of all, the lowest type up to a bound, one given type; a type
		 * that is not there falls back to the oldest. */
		long wanted = 0;
		if (i % 3 == 1)
			wanted = -(1 + (long)(i / 3 % TYPES));
		else if (i % 3 == 2)
			wanted = 1 + (long)(i / 3 % TYPES);
		struct message m;
		size_t bytes = receive(&m, &wanted, wanted == 0 ? 0 : IPC_NOWAIT),
		       filling = bytes - sizeof m.number - sizeof m.order;
		if (m.type < 1 || m.type > TYPES || m.order >= n || type_of(m.order) != m.type
		        || (wanted > 0 && m.type != wanted) || (wanted < 0 && m.type > -wanted)
		        || m.number != next[m.type] || filling != length_of(m.order, limit)) {
			if (wrong++ == 0)
				fprintf(stderr,
					"asked for type %ld: got type %ld, number %llu (expected %llu), %zu bytes\n",
					wanted, m.type, (unsigned long long)m.number,
					(unsigned long long)(m.type >= 1 && m.type <= TYPES
							? next[m.type]
							: 0),
					bytes);
			continue;
		}
		next[m.type]++;
		for (size_t b = 0; b < filling; b++) {
			if (m.filling[b] != (m.order & 0xff)) {
				wrong++;
				break;
			}
		}
	}
	return wrong;
}

int main(int argc, char **argv)
{
	static const struct program program = {
		"A flood of messages of five types, each one checked; --size bounds the filling.",
		"sender", "receiver", NULL, false
	};
	struct run run = { .transport = "flood",
		.size = 64,
		.rounds = 100000,
		.batches = 1,
		.pairs = 1,
		.timeout = 60,
		.cpu = -1,
		.peer_cpu = -1,
		.path = "/etc/passwd" };
	read_options(&run, &program, argc, argv);
	if (run.size > MOST_BYTES) {
		fprintf(stderr, "--size is at most %d\n", MOST_BYTES);
		return 2;
	}
	int pair;
	take_role(&run, &pair);
	if (run.role == FIRST) {
		queue = msgget(IPC_PRIVATE, 0600);
		if (queue == -1)
			give_up_call("msgget");
		on_failure = remove_queue;
	}
	struct rendezvous *r = meet(&run, 248 + pair % 8, sizeof(uint64_t), queue);
	queue = atomic_load(&r->object);

	uint64_t n = total_rounds(&run), wrong;
	struct message receipt = { .type = RECEIPT };
	if (run.role == FIRST) {
		flood(n, run.size);
		receive(&receipt, &(long) { RECEIPT }, 0);
		wrong = receipt.number;
		struct msqid_ds state;
		if (msgctl(queue, IPC_STAT, &state) != 0)
			give_up_call("IPC_STAT of the queue");
		wrong += state.msg_qnum; /* anything left is a message too many */
		remove_queue();
	} else {
		wrong = drain(n, run.size);
		receipt.number = wrong;
		send(&receipt, 0);
	}
	printf("flood: %s: %llu messages, %llu wrong\n", run.role == FIRST ? "sender" : "receiver",
		(unsigned long long)n, (unsigned long long)wrong);
	return wrong != 0;
}
