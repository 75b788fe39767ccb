/* Messages sent and received by one process. */
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>

#include "calls.h"

struct letter {
	long type;
	unsigned char text[];
};

struct letters {
	struct letter *sent, *received;
	size_t size;
	uint64_t depth; /* messages that are in the queue at once */
};

static int queue = -1;

static void remove_queue(void)
{
	if (queue != -1)
		msgctl(queue, IPC_RMID, NULL);
	queue = -1;
}

/* First and last eight bytes of a text say which round it is of. */
static void mark(struct letter *letter, size_t size, uint64_t round)
{
	if (size >= sizeof round) {
		memcpy(letter->text, &round, sizeof round);
		memcpy(letter->text + size - sizeof round, &round, sizeof round);
	}
}

static bool is_marked(const struct letter *letter, size_t size, uint64_t round)
{
	return size < sizeof round
	        || (memcmp(letter->text, &round, sizeof round) == 0
	                && memcmp(letter->text + size - sizeof round, &round, sizeof round) == 0);
}

static void send(struct letters *letters, uint64_t round)
{
	mark(letters->sent, letters->size, round);
	/* Without room for --depth messages the process would wait for itself. */
	if (msgsnd(queue, letters->sent, letters->size, letters->depth > 1 ? IPC_NOWAIT : 0) != 0)
		give_up_call("msgsnd");
}

static void receive(struct letters *letters, uint64_t round)
{
	ssize_t got = msgrcv(queue, letters->received, letters->size, 0, 0);
	if (got == -1)
		give_up_call("msgrcv");
	bool same = is_marked(letters->received, letters->size, round);
	if ((size_t)got != letters->size || letters->received->type != 3 || !same)
		give_up("message %llu of %zu bytes came back as one of type %ld, %zd bytes, %s",
			(unsigned long long)round, letters->size, letters->received->type, got,
			same ? "the same text" : "another text");
}

static void rounds(void *context, uint64_t first, uint64_t count)
{
	struct letters *letters = context;
	for (uint64_t end = first + count; first < end;) {
		uint64_t upto = end - first < letters->depth ? end : first + letters->depth;
		for (uint64_t round = first; round < upto; round++)
			send(letters, round);
		for (; first < upto; first++)
			receive(letters, first);
	}
}

void message(const struct request *request)
{
	struct letters letters = { .size = request->run.size, .depth = (uint64_t)request->depth };
	letters.sent = malloc(sizeof *letters.sent + letters.size);
	letters.received = calloc(1, sizeof *letters.received + letters.size);
	if (letters.sent == NULL || letters.received == NULL)
		give_up("no memory for messages of %zu bytes", letters.size);
	letters.sent->type = 3;
	for (size_t i = 0; i < letters.size; i++)
		letters.sent->text[i] = (unsigned char)(i * 31);
	queue = msgget(IPC_PRIVATE, 0600);
	if (queue == -1)
		give_up_creating("msgget");
	on_failure = remove_queue;
	measure(&request->run, rounds, &letters, NULL);
	/* Outside the timed part: every byte of a last one. */
	memset(letters.received->text, 0, letters.size);
	rounds(&letters, 1, 1);
	if (memcmp(letters.sent->text, letters.received->text, letters.size) != 0)
		give_up("the text of a message of %zu bytes has changed on its way", letters.size);
	remove_queue();
	free(letters.sent);
	free(letters.received);
}
