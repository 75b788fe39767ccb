/* Processes that want the same semaphore, or the same queue, all the time. */
#include <errno.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <unistd.h>

#include "calls.h"

enum { WORDS = 8 };

/* Written without atomics on purpose: only the semaphore orders the processes. */
struct guarded {
	_Alignas(64) volatile uint64_t words[WORDS];
};

static struct arena *arena;
static struct guarded *guarded;
static int set = -1, queue = -1;

static void remove_objects(void)
{
	if (set != -1)
		semctl(set, 0, IPC_RMID);
	if (queue != -1)
		msgctl(queue, IPC_RMID, NULL);
	set = queue = -1;
}

static void step(short by)
{
	struct sembuf operation = { 0, by, 0 };
	while (semop(set, &operation, 1) != 0)
		if (errno != EINTR || deadline_passed)
			give_up_call("semop");
}

static void guard(struct tally *tally)
{
	while (!stopped(arena)) {
		step(-1);
		for (int i = 0; i < WORDS; i++) {
			if (guarded->words[i] != guarded->words[0])
				give_up("two processes were in the critical section at once");
		}
		for (int i = WORDS - 1; i >= 0; i--)
			guarded->words[i]++;
		step(+1);
		tally->done++;
	}
}

struct letter {
	long type;
	uint64_t value;
	unsigned char filling[56];
};

static const uint64_t the_end = UINT64_MAX;

static void send(uint64_t value)
{
	struct letter letter = { .type = 1, .value = value };
	while (msgsnd(queue, &letter, sizeof letter - sizeof letter.type, 0) != 0)
		if (errno != EINTR || deadline_passed)
			give_up_call("msgsnd");
}

static void send_many(struct tally *tally)
{
	while (!stopped(arena)) {
		uint64_t value = tally->done * 2654435761u & 0xffffffff;
		send(value);
		tally->sum += value;
		tally->done++;
	}
}

static void receive_many(struct tally *tally)
{
	for (;;) {
		struct letter letter;
		ssize_t got = msgrcv(queue, &letter, sizeof letter - sizeof letter.type, 0, 0);
		if (got == -1 && errno == EINTR && !deadline_passed)
			continue;
		if (got == -1)
			give_up_call("msgrcv");
		if (got != (ssize_t)(sizeof letter - sizeof letter.type) || letter.type != 1)
			give_up("a message of type %ld and %zd bytes", letter.type, got);
		if (letter.value == the_end)
			return;
		tally->sum += letter.value;
		/* What is only drained after the end does not count. */
		tally->done += !stopped(arena);
	}
}

/* Half of the processes do one thing and half the other. */
static void start(struct crowd *crowd, long processes, void (*one)(struct tally *),
	void (*other)(struct tally *))
{
	crowd_prepare(crowd);
	for (long i = 0; i < processes; i++) {
		if (!crowd_enlarge(crowd))
			continue;
		arrive(crowd);
		(i < processes / 2 ? one : other)(&arena->tallies[i]);
		_exit(0);
	}
	crowd_await(crowd);
}

void contend_for_a_semaphore(const struct request *request)
{
	arena = make_arena(request->processes, sizeof *guarded);
	guarded = (struct guarded *)arena->more;
	on_failure = remove_objects;
	set = semget(IPC_PRIVATE, 1, 0600);
	if (set == -1)
		give_up_creating("semget");
	step(+1);
	struct crowd crowd;
	long n = request->processes;
	start(&crowd, n, guard, guard);
	crowd_release(&crowd);
	uint64_t wall = let_work(arena, request->milliseconds);
	crowd_end(&crowd);
	uint64_t done = sum_of_done(arena->tallies, n);
	if (guarded->words[0] != done || semctl(set, 0, GETVAL) != 1)
		give_up("%llu times through the critical section, %llu counted there; the semaphore is %d, not 1",
			(unsigned long long)done, (unsigned long long)guarded->words[0],
			semctl(set, 0, GETVAL));
	tell_shared(request, wall, done, smallest_share(arena->tallies, n));
	remove_objects();
}

void contend_for_a_queue(const struct request *request)
{
	arena = make_arena(request->processes, 0);
	on_failure = remove_objects;
	queue = msgget(IPC_PRIVATE, 0600);
	if (queue == -1)
		give_up_creating("msgget");
	if (request->processes % 2 != 0)
		give_up("--processes has to be even: half of them send");
	struct crowd crowd;
	long n = request->processes / 2;
	struct tally *sent = arena->tallies, *received = arena->tallies + n;
	start(&crowd, 2 * n, send_many, receive_many);
	crowd_release(&crowd);
	uint64_t wall = let_work(arena, request->milliseconds);
	crowd_end_some(&crowd, n); /* the senders: no receiver ends before it is asked to */
	for (long i = 0; i < n; i++)
		send(the_end);
	crowd_end(&crowd);
	uint64_t difference = 0;
	for (long i = 0; i < n; i++)
		difference += sent[i].sum - received[i].sum;
	struct msqid_ds state;
	if (msgctl(queue, IPC_STAT, &state) != 0)
		give_up_call("IPC_STAT");
	if (difference != 0 || state.msg_qnum != 0)
		give_up("what was sent and what was received do not add up; %lu messages are left",
			(unsigned long)state.msg_qnum);
	double senders_share = smallest_share(sent, n),
	       receivers_share = smallest_share(received, n);
	tell_shared(request, wall, sum_of_done(received, n),
		senders_share < receivers_share ? senders_share : receivers_share);
	remove_objects();
}
