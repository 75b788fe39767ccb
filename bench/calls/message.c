/* A message sent and received by one process. */
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

static void rounds(void *context, uint64_t first, uint64_t count)
{
	struct letters *letters = context;
	for (uint64_t round = first; round < first + count; round++) {
		mark(letters->sent, letters->size, round);
		if (msgsnd(queue, letters->sent, letters->size, 0) != 0)
			give_up_call("msgsnd");
		ssize_t got = msgrcv(queue, letters->received, letters->size, 0, 0);
		if (got == -1)
			give_up_call("msgrcv");
		if ((size_t)got != letters->size || letters->received->type != 3
		        || !is_marked(letters->received, letters->size, round))
			give_up("message %llu of %zu bytes came back as one of type %ld, %zd bytes, %s",
				(unsigned long long)round, letters->size, letters->received->type,
				got,
				is_marked(letters->received, letters->size, round)
					? "the same text"
					: "another text");
	}
}

void message(const struct request *request)
{
	struct letters letters = { .size = request->run.size };
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
