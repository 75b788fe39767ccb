/* Messages without system calls: a process receives at a port, another one sends on a lane of it.
 * The port's address is passed on by any means, here by a pipe between a parent and its child; the
 * two may as well be in two virtual machines.
 *   letters POOL */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vshmem.h>

enum { BUDGET = 1 << 20, MOST_LANE = 1 << 16, LETTERS = 4000, MARK = 7 };
enum { TEXT, PARTS, LAST };

static int checked(const char *tried, int answer)
{
	if (answer >= 0)
		return answer;
	fprintf(stderr, "letters: %s: %s\n", tried, strerror(-answer));
	_exit(1);
}

static vshmem_pool *opened(const char *name)
{
	vshmem_pool *pool;
	char message[512] = "";
	if (vshmem_open(name, &pool, message, sizeof message) < 0) {
		fprintf(stderr, "letters: %s\n", message);
		_exit(1);
	}
	return pool;
}

/* Does ACTION again as long as there is no room. */
#define UNTIL_ROOM(tried, action)                         \
	do {                                              \
		int answer_;                              \
		while ((answer_ = (action)) == -EAGAIN) { \
			vshmem_lane_rest(lane);           \
			sched_yield();                    \
		}                                         \
		checked(tried, answer_);                  \
	} while (0)

static void send_all(const char *name, const struct vshmem_address *to)
{
	vshmem_pool *pool = opened(name);
	vshmem_lane *lane;
	checked("claim a lane", vshmem_lane_claim(pool, to, NULL, MARK, &lane));
	if (vshmem_lane_most_bytes(lane) < 64)
		_exit(1);
	for (int nth = 0; nth < LETTERS && vshmem_lane_alive(lane); nth++)
		switch (nth % 3) {
		case 0: { /* written where it is read */
			void *payload;
			UNTIL_ROOM("reserve", vshmem_reserve(lane, 64, &payload));
			int bytes = snprintf(payload, 64, "letter %d", nth);
			checked("publish", vshmem_publish(lane, (uint32_t)bytes, TEXT));
			break;
		}
		case 1: { /* gathered of several places */
			struct iovec parts[] = { { "letter", 6 }, { &nth, sizeof nth } };
			UNTIL_ROOM("send", vshmem_send(lane, parts, 2, PARTS));
			break;
		}
		default: /* the same, for two short parts */
			UNTIL_ROOM("post",
				vshmem_post(lane, "letter", 6, &nth, sizeof nth, PARTS));
		}
	UNTIL_ROOM("send the last", vshmem_post(lane, "", 0, "", 0, LAST));
	while (!vshmem_lane_drained(lane) && vshmem_lane_alive(lane) && !vshmem_lane_closed(lane))
		sched_yield();
	vshmem_lane_close(lane);
	vshmem_close(pool);
	_exit(0);
}

/* Whether a message is letter NTH. */
static int is_letter(const struct vshmem_message *message, int nth)
{
	char wanted[64];
	int bytes = snprintf(wanted, sizeof wanted, "letter %d", nth);
	if (message->tag != TEXT) {
		memcpy(wanted + 6, &nth, sizeof nth);
		bytes = 6 + (int)sizeof nth;
	}
	return message->bytes == (uint32_t)bytes && memcmp(message->text, wanted, bytes) == 0;
}

/* Looks once; when there is none, gives the CPU away and looks more often. */
static void receive(vshmem_port *port, struct vshmem_message *message)
{
	int found = checked("receive", vshmem_receive(port, message));
	while (!found) {
		sched_yield();
		checked("make more lanes", vshmem_port_grow(port));
		found = checked("receive", vshmem_receive_soon(port, message, 100));
	}
}

static int receive_all(vshmem_port *port)
{
	struct vshmem_message message;
	struct vshmem_sender sender;
	int wrong = 0;
	for (int nth = 0;; nth++) {
		receive(port, &message);
		checked("ask who it is", vshmem_sender(port, message.lane, &sender));
		int last = message.tag == LAST;
		wrong += sender.mark != MARK || (last ? nth != LETTERS : !is_letter(&message, nth));
		vshmem_receive_done(port, &message);
		if (last)
			break;
	}
	printf("%d letters of client %u, %d wrong\n", LETTERS, sender.client, wrong);
	return wrong != 0;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;
	int pipes[2], status;
	struct vshmem_address address;
	if (pipe(pipes) < 0)
		return 1;
	pid_t child = fork();
	if (child == 0) {
		if (read(pipes[0], &address, sizeof address) != sizeof address)
			_exit(1);
		send_all(name, &address);
	}
	vshmem_pool *pool = opened(name);
	vshmem_port *port;
	/* Lanes for four senders. */
	checked("make a port", vshmem_port_make(pool, 4, BUDGET, MOST_LANE, &port));
	vshmem_port_address(port, &address);
	int bad = write(pipes[1], &address, sizeof address) != sizeof address || receive_all(port);
	/* Looks for more as long as there is somebody who might send. */
	struct vshmem_message more;
	while (waitpid(child, &status, WNOHANG) == 0)
		vshmem_receive(port, &more);
	bad |= status != 0;
	vshmem_port_close(port);
	vshmem_close(pool);
	return bad;
}
