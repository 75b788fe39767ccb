/* POSIX message queues: what the cases share. */
#include "mq.h"

static const char *last_name;

mqd_t mq_of(long messages, long bytes, int flags)
{
	struct mq_attr size = { .mq_maxmsg = messages, .mq_msgsize = bytes };
	last_name = fresh_name();
	mqd_t queue = mq_open(last_name, O_CREAT | O_EXCL | O_RDWR | flags, 0600, &size);
	if (queue == (mqd_t)-1)
		broken("mq_open: %s", errno_name(errno));
	return queue;
}

const char *mq_last_name(void)
{
	return last_name;
}

struct mq_attr mq_state(mqd_t queue)
{
	struct mq_attr state;
	if (mq_getattr(queue, &state) != 0)
		broken("mq_getattr: %s", errno_name(errno));
	return state;
}

const char *mq_described(mqd_t queue)
{
	static char text[80];
	struct mq_attr state = mq_state(queue);
	snprintf(text, sizeof text, "%ld of %ld x %ld, %s", state.mq_curmsgs, state.mq_maxmsg,
		state.mq_msgsize, state.mq_flags & O_NONBLOCK ? "nonblocking" : "blocking");
	return text;
}

int mq_put(mqd_t queue, const char *text, unsigned priority)
{
	return mq_send(queue, text, strlen(text), priority);
}

const char *mq_taken(mqd_t queue)
{
	static char answer[128];
	static char text[16384];
	unsigned priority = 77;
	ssize_t bytes = mq_receive(queue, text, sizeof text, &priority);
	if (bytes < 0)
		snprintf(answer, sizeof answer, "%s", got(-1));
	else
		snprintf(answer, sizeof answer, "%.*s/%u", (int)(bytes > 80 ? 80 : bytes), text, priority);
	return answer;
}

struct timespec mq_after(long milliseconds)
{
	struct timespec moment;
	clock_gettime(CLOCK_REALTIME, &moment);
	moment.tv_nsec += milliseconds % 1000 * 1000000;
	moment.tv_sec += milliseconds / 1000 + moment.tv_nsec / 1000000000;
	moment.tv_nsec %= 1000000000;
	return moment;
}
