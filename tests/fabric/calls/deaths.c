/* A peer that is killed: what was under way with it ends with an error, and nobody hangs. */
#define _GNU_SOURCE
#include "endpoints.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static uint8_t *memory;

static void die(void)
{
	kill(getpid(), SIGKILL);
	pause();
}

static void expect(struct operation *operation, int error, const char *what)
{
	int done = wait_for(operation);
	CHECK(done == 2 && operation->error.err == error, "%s: %d, %s", what, done,
		fi_strerror(operation->error.err));
}

/* What begins after it was noticed. */
static void expect_unreachable(void)
{
	struct operation send = { 0 }, receive = { 0 };
	AGAIN(fi_tsend(ep[0], memory, 8, NULL, peer[0], 1, &send));
	expect(&send, FI_EHOSTUNREACH, "a later send");
	AGAIN(fi_trecv(ep[0], memory, 8, NULL, peer[0], 1, 0, &receive));
	expect(&receive, FI_EHOSTUNREACH, "a later receive");
}

/* Receives: the one that is directed to the dead fails, the other one stays. */
static void while_waiting(void)
{
	struct operation from_it = { 0 }, from_anybody = { 0 };
	meet();
	if (rank)
		die();
	AGAIN(fi_trecv(ep[0], memory, 8, NULL, FI_ADDR_UNSPEC, 2, 0, &from_anybody));
	AGAIN(fi_trecv(ep[0], memory, 8, NULL, peer[0], 2, 0, &from_it));
	expect(&from_it, FI_ECONNRESET, "a directed receive");
	CHECK(!from_anybody.done, "a receive from anybody stays");
	expect_unreachable();
}

/* It never sent, and was never sent to. */
static void before_contact(void)
{
	struct operation from_it = { 0 };
	if (rank)
		die();
	AGAIN(fi_trecv(ep[0], memory, 8, NULL, peer[0], 2, 0, &from_it));
	int done = wait_for(&from_it);
	CHECK(done == 2
	                && (from_it.error.err == FI_ECONNRESET
	                        || from_it.error.err == FI_EHOSTUNREACH),
		"%d", from_it.error.err);
	expect_unreachable();
}

/* Messages that it does not receive: long ones, and short ones beyond what a lane holds. */
static void while_sending(void)
{
	enum { COUNT = 600 };
	static struct operation sends[COUNT];
	int begun = 0, failed = 0;
	meet();
	if (rank) {
		usleep(200000);
		die();
	}
	for (; begun < COUNT; begun++) {
		size_t bytes = begun % 4 ? 4000 : 1 << 20;
		if (fi_tsend(ep[0], memory, bytes, NULL, peer[0], 3, &sends[begun]) != 0)
			break;
	}
	for (int nth = 0; nth < begun; nth++) {
		int done = wait_for(&sends[nth]);
		failed += done == 2;
		CHECK(done == 1 || sends[nth].error.err == FI_ECONNRESET, "%d",
			sends[nth].error.err);
		CHECK(done == 2 || nth % 4, "a long one");
	}
	CHECK(failed >= begun / 4, "%d of %d", failed, begun);
	expect_unreachable();
}

/* What has no context has no completion, of an error neither: programs take each for one of theirs.
 * The lane fills, so some wait for room. */
static void while_injecting(void)
{
	ssize_t gave;
	meet();
	if (rank) {
		usleep(200000);
		die();
	}
	do {
		gave = fi_tinject(ep[0], memory, 1000, peer[0], 5);
		look();
	} while (gave == 0 || gave == -FI_EAGAIN);
	CHECK(gave == -FI_EHOSTUNREACH, "a message that is injected: %s", fi_strerror((int)-gave));
	for (int looks = 0; looks < 100; looks++)
		look();
	expect_unreachable();
}

/* In the middle of a long message in pieces, and after short ones, which are received. */
static void while_receiving(void)
{
	struct operation send = { 0 }, receive = { 0 }, early = { 0 };
	uint64_t word = 77;
	if (rank) {
		AGAIN(fi_tinject(ep[0], &word, 8, peer[0], 5));
		AGAIN(fi_tsend(ep[0], memory, LARGEST, NULL, peer[0], 4, &send));
		meet();
		for (int looks = 0; looks < 6; looks++)
			look();
		die();
	}
	meet();
	AGAIN(fi_trecv(ep[0], memory, LARGEST, NULL, FI_ADDR_UNSPEC, 4, 0, &receive));
	expect(&receive, FI_ECONNRESET, "the half message");
	AGAIN(fi_trecv(ep[0], &word, 8, NULL, peer[0], 5, 0, &early));
	CHECK(wait_for(&early) == 1 && word == 77, "what it had sent is received");
}

/* It receives nothing more. */
static void before_delivery(void)
{
	struct operation send = { 0 };
	struct iovec part = { memory, 8 };
	struct fi_msg_tagged msg = {
		.msg_iov = &part, .iov_count = 1, .addr = peer[0], .tag = 6, .context = &send
	};
	meet();
	if (rank) {
		usleep(200000);
		die();
	}
	AGAIN(fi_tsendmsg(ep[0], &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION));
	expect(&send, FI_ECONNRESET, "a message that is not delivered");
	expect_unreachable();
}

static int one(void (*test)(void), const char *name)
{
	char directory[] = "/tmp/vshmem-fabric-XXXXXX";
	if (!mkdtemp(directory))
		return 1;
	/* Each in processes of its own: a child has to open its own pool. */
	pid_t children[2];
	for (rank = 0; rank < 2; rank++) {
		children[rank] = fork();
		if (children[rank])
			continue;
		memory = calloc(1, LARGEST);
		/* Before libfabric is loaded. */
		if (test == while_receiving)
			setenv("FI_VSHMEM_CMA", "0", 1);
		open_all(directory);
		test();
		close_all();
		exit(failures != 0);
	}
	int status[2];
	for (int nth = 0; nth < 2; nth++)
		waitpid(children[nth], &status[nth], 0);
	remove_addresses(directory);
	bool passed = status[0] == 0 && WIFSIGNALED(status[1]) && WTERMSIG(status[1]) == SIGKILL;
	printf("%s: %s\n", passed ? "ok" : "FAILED", name);
	return !passed;
}

int main(void)
{
	static const struct {
		const char *name;
		void (*test)(void);
	} rows[] = { { "killed while it is waited for", while_waiting },
		{ "killed before it was sent to", before_contact },
		{ "killed while it is sent to", while_sending },
		{ "killed while messages without a context are sent to it", while_injecting },
		{ "killed in the middle of a message", while_receiving },
		{ "killed before it has received", before_delivery } };
	int failed = 0;
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++)
		failed += one(rows[row].test, rows[row].name);
	printf("%zu passed, %d failed\n", sizeof(rows) / sizeof(rows[0]) - (size_t)failed, failed);
	return failed != 0;
}
