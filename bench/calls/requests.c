/* A server and its clients over one queue: requests and answers are distinguished by their types,
 * an answer's is the pid of the client. */
#include <errno.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <unistd.h>

#include "calls.h"

enum { REQUEST = 1 };

struct parcel {
	long type;
	long from; /* pid of the client; 0: the server may go */
	uint64_t value;
	unsigned char filling[48];
};

static const size_t text = sizeof(struct parcel) - sizeof(long);

static struct arena *arena;
static int queue = -1;

static void remove_queue(void)
{
	if (queue != -1)
		msgctl(queue, IPC_RMID, NULL);
	queue = -1;
}

static void send(const struct parcel *parcel)
{
	while (msgsnd(queue, parcel, text, 0) != 0)
		if (errno != EINTR || deadline_passed)
			give_up_call("msgsnd");
}

static void receive(struct parcel *parcel, long type)
{
	ssize_t got;
	while ((got = msgrcv(queue, parcel, text, type, 0)) == -1)
		if (errno != EINTR || deadline_passed)
			give_up_call("msgrcv");
	if ((size_t)got != text || parcel->type != type)
		give_up("a message of type %ld and %zd bytes where one of type %ld was wanted",
			parcel->type, got, type);
}

static uint64_t answer_to(uint64_t value) { return value * 2654435761u + 1; }

static void serve(void)
{
	struct parcel parcel;
	for (;;) {
		receive(&parcel, REQUEST);
		if (parcel.from == 0)
			return;
		parcel.type = parcel.from;
		parcel.value = answer_to(parcel.value);
		send(&parcel);
	}
}

static void ask(struct tally *tally)
{
	long pid = getpid();
	while (!stopped(arena)) {
		uint64_t value = (uint64_t)pid << 32 | tally->done;
		struct parcel parcel = { .type = REQUEST, .from = pid, .value = value };
		send(&parcel);
		receive(&parcel, pid);
		if (parcel.from != pid || parcel.value != answer_to(value))
			give_up("an answer to another question: %llu of process %ld",
				(unsigned long long)parcel.value, parcel.from);
		tally->done++;
	}
}

void requests(const struct request *request)
{
	long clients = request->processes - 1;
	arena = make_arena(clients, 0);
	on_failure = remove_queue;
	queue = msgget(IPC_PRIVATE, 0600);
	if (queue == -1)
		give_up_creating("msgget");
	struct crowd crowd;
	crowd_prepare(&crowd);
	for (long i = 0; i < clients; i++) {
		if (!crowd_enlarge(&crowd))
			continue;
		pin(request->run.cpu);
		arrive(&crowd);
		ask(&arena->tallies[i]);
		_exit(0);
	}
	if (crowd_enlarge(&crowd)) {
		pin(request->run.peer_cpu);
		arrive(&crowd);
		serve();
		_exit(0);
	}
	crowd_await(&crowd);
	crowd_release(&crowd);
	uint64_t wall = let_work(arena, request->milliseconds);
	crowd_end_some(&crowd, clients); /* the server does not end before it is asked to */
	send(&(struct parcel) { .type = REQUEST });
	crowd_end(&crowd);
	struct msqid_ds state;
	if (msgctl(queue, IPC_STAT, &state) != 0)
		give_up_call("IPC_STAT");
	if (state.msg_qnum != 0)
		give_up("%lu messages are left", (unsigned long)state.msg_qnum);
	tell_shared(request, wall, sum_of_done(arena->tallies, clients),
		smallest_share(arena->tallies, clients));
	remove_queue();
}
