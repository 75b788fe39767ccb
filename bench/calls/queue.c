/* A POSIX message queue of one process: the kernel's, or the pool's under
 * `vshmem run --share all,posix`. */
#include <mqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"

struct queue {
	mqd_t queue;
	size_t size;
	unsigned priority;
	char *text, *back;
};

static void rounds(void *context, uint64_t first, uint64_t count)
{
	struct queue *q = context;
	for (uint64_t i = first; i < first + count; i++) {
		unsigned priority;
		memcpy(q->text, &i, q->size < sizeof i ? q->size : sizeof i);
		if (mq_send(q->queue, q->text, q->size, q->priority) != 0)
			give_up_call("mq_send");
		ssize_t got = mq_receive(q->queue, q->back, q->size, &priority);
		if (got != (ssize_t)q->size || priority != q->priority
			|| memcmp(q->text, q->back, q->size < sizeof i ? q->size : sizeof i) != 0)
			give_up("message %llu came back as %zd bytes of priority %u",
				(unsigned long long)i, got, priority);
	}
}

static void measure_queue(const struct request *request, unsigned priority)
{
	char name[64];
	struct mq_attr size = { .mq_maxmsg = 10, .mq_msgsize = (long)request->run.size };
	snprintf(name, sizeof name, "/sysv_calls-%d", (int)getpid());
	struct queue q = { .size = request->run.size, .priority = priority };
	q.queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &size);
	if (q.queue == (mqd_t)-1)
		give_up_creating("mq_open");
	mq_unlink(name);
	q.text = calloc(2, q.size);
	if (q.text == NULL)
		give_up("no memory for messages of %zu bytes", q.size);
	q.back = q.text + q.size;
	measure(&request->run, rounds, &q, NULL);
}

void posix_message(const struct request *request) { measure_queue(request, 0); }
void posix_message_with_priority(const struct request *request) { measure_queue(request, 5); }
