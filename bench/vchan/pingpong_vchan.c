/* Round trips between two domains of Xen's over libxenvchan, its own way to share memory: one ring
 * each way, and an event channel. A channel joins two processes; the server offers it, in XenStore,
 * to one other domain. Both run as root. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <libxenvchan.h>

#include "../run.h"

/* Domains may share one CPU, where who looks on and on keeps its peer from answering: so nobody
 * looks for longer than this before it goes to sleep. */
enum { LOOKS_BETWEEN_CLOCKS = 16, LOOK_FOR_NS = 500000, RING_BYTES = 4096 };

struct channel {
	const struct run *run;
	struct libxenvchan *vchan;
	unsigned char *payload;
	int looks_first;
};

static struct libxenvchan *opened; /* closed on failure, which takes it out of XenStore */

static void close_channel(void)
{
	if (opened != NULL)
		libxenvchan_close(opened);
	opened = NULL;
}

static void wait_ms(int ms) { nanosleep(&(struct timespec) { .tv_nsec = ms * 1000000L }, NULL); }

/* What the program does while it looks is what libxenvchan offers for it: to ask for a message
 * without waiting. Each time it also asks the other side for a notice. */
static int look(struct channel *c)
{
	int got = 0;
	c->vchan->blocking = 0;
	for (uint64_t since = now_ns(); got == 0 && now_ns() - since < LOOK_FOR_NS;)
		for (int i = 0; got == 0 && i < LOOKS_BETWEEN_CLOCKS; i++) {
			got = libxenvchan_recv(c->vchan, c->payload, c->run->size);
			relax();
		}
	c->vchan->blocking = 1;
	return got;
}

static void receive(struct channel *c)
{
	int got = c->looks_first ? look(c) : 0;
	if (got == 0)
		got = libxenvchan_recv(c->vchan, c->payload, c->run->size);
	if (got != (int)c->run->size)
		give_up_call("libxenvchan_recv");
}

static void send(struct channel *c)
{
	if (libxenvchan_send(c->vchan, c->payload, c->run->size) != (int)c->run->size)
		give_up_call("libxenvchan_send");
}

static void ping(void *context, uint64_t first, uint64_t count)
{
	struct channel *c = context;
	for (uint64_t i = first + 1; i <= first + count; i++) {
		memcpy(c->payload, &i, sizeof i);
		send(c);
		memset(c->payload, 0, sizeof i);
		receive(c);
		uint64_t answered;
		memcpy(&answered, c->payload, sizeof answered);
		if (answered != i)
			give_up("round %llu was answered with %llu", (unsigned long long)i,
				(unsigned long long)answered);
	}
}

/* Waits for the other side to come, or to go. */
static void await_state(struct channel *c, int state)
{
	while (libxenvchan_is_open(c->vchan) != state)
		if (libxenvchan_wait(c->vchan) != 0 && (errno != EINTR || deadline_passed))
			give_up_call("libxenvchan_wait");
}

static void serve(struct channel *c, int client, const char *path)
{
	opened = c->vchan = libxenvchan_server_init(NULL, client, path, RING_BYTES, RING_BYTES);
	if (opened == NULL)
		give_up_call(
			"libxenvchan_server_init (as root, with the modules xen-gntalloc and xen-evtchn?)");
	c->vchan->blocking = 1;
	await_state(c, 1);
	for (uint64_t rounds = total_rounds(c->run); rounds--;) {
		receive(c);
		send(c);
	}
	/* Its last message is in the ring until the other side has read it. */
	await_state(c, 0);
}

static void call(struct channel *c, int server, const char *path)
{
	/* The server may not be up yet: try until the deadline. */
	while ((opened = c->vchan = libxenvchan_client_init(NULL, server, path)) == NULL) {
		if (deadline_passed)
			give_up_call("libxenvchan_client_init");
		wait_ms(50);
	}
	c->vchan->blocking = 1;
	measure(c->run, ping, c, NULL);
}

int main(int argc, char **argv)
{
	static const char *const transports[] = { "vchan-asleep", "vchan-looking", NULL };
	static const struct program program = {
		"Round trips over libxenvchan; the client prints one line of JSON. --host is the number of the other side's domain;\n"
		"both give the same --port, to tell channels apart. vchan-looking: who waits looks for 0.5 ms before it sleeps.",
		"client", "server", transports, true
	};
	struct run run = { .transport = "vchan-asleep",
		.size = 64,
		.rounds = 1000,
		.warmup = 20,
		.batches = 50,
		.pairs = 1,
		.timeout = 30,
		.cpu = -1,
		.peer_cpu = -1,
		.host = "0",
		.port = 1 };
	read_options(&run, &program, argc, argv);
	if (run.size < sizeof(uint64_t) || run.size > RING_BYTES) {
		fprintf(stderr, "--size must be from %zu to %d\n", sizeof(uint64_t), RING_BYTES);
		return 2;
	}
	int other = (int)number("host", run.host, 0), pair;
	take_role(&run, &pair);
	on_failure = close_channel;
	struct channel c = { .run = &run,
		.payload = calloc(1, run.size),
		.looks_first = strcmp(run.transport, "vchan-looking") == 0 };
	if (c.payload == NULL)
		give_up("no memory for a payload of %zu bytes", run.size);
	char path[80];
	if (run.role == FIRST) {
		snprintf(path, sizeof path, "/local/domain/%d/data/vchan/%d", other,
			run.port + pair);
		call(&c, other, path);
	} else {
		/* Its own directory, where a domain may write. */
		snprintf(path, sizeof path, "data/vchan/%d", run.port + pair);
		serve(&c, other, path);
	}
	close_channel();
	return 0;
}
