/* Long messages between two processes of one kernel: the receiver copies them from the memory of
 * their sender (cross-memory attach), where that is allowed.
 *
 * A sender that waits for a word of the other process makes no progress. What is received meanwhile
 * was copied so; what is not would have come in pieces. As root, with a pool that all may use: one
 * case has a process of another user.
 */
#define _GNU_SOURCE
#include "endpoints.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONGEST = 150 << 20, ANOTHER_USER = 60001, MANY = 100, AT_ONCE = 64 };

static uint8_t *memory;
static int words_in, words_out; /* pipes from and to the other process */

static void tell(void)
{
	char word = 0;
	if (write(words_out, &word, 1) != 1)
		exit(1);
}

/* Until the other one tells something (true), or has ended or begun another program. */
static bool hear(void)
{
	char word;
	return read(words_in, &word, 1) == 1;
}

static void start_send(size_t bytes, struct operation *send)
{
	fill(memory, bytes, bytes);
	AGAIN(fi_tsend(ep[0], memory, bytes, NULL, peer[0], 1, send));
	tell();
}

static void start_receive(size_t bytes, struct operation *receive)
{
	memset(memory, 0xee, bytes);
	AGAIN(fi_trecv(ep[0], memory, bytes, NULL, FI_ADDR_UNSPEC, 1, 0, receive));
}

static void expect_sent(struct operation *send)
{
	hear();
	CHECK(wait_for(send) == 1, "%s", fi_strerror(send->error.err));
}

/* Often enough for all that has only to be copied. */
static void look_often(const struct operation *until)
{
	for (int looks = 0; looks < 5000 && !until->done; looks++)
		look();
}

static void expect_message(struct operation *receive, size_t bytes)
{
	CHECK(wait_for(receive) == 1 && receive->entry.len == bytes
	                && is_filled(memory, bytes, bytes),
		"%zu B: %zu, %s", bytes, receive->entry.len, fi_strerror(receive->error.err));
}

/* The sender does nothing until it is told something. */
static void expect_copied(struct operation *receive, size_t bytes)
{
	look_often(receive);
	CHECK(receive->done, "%zu B: not copied", bytes);
	tell();
	expect_message(receive, bytes);
}

static void copied(void)
{
	static const size_t list[] = { 16337, 16384, 65536, 100001, 1 << 20, LONGEST };
	for (size_t nth = 0; nth < sizeof(list) / sizeof(list[0]); nth++) {
		struct operation send = { 0 }, receive = { 0 };
		if (rank) {
			start_send(list[nth], &send);
			expect_sent(&send);
			continue;
		}
		/* A receive that is there before the message, and one that comes after it. */
		if (nth % 2)
			start_receive(list[nth], &receive);
		hear();
		if (nth % 2 == 0)
			start_receive(list[nth], &receive);
		expect_copied(&receive, list[nth]);
	}
}

static void copied_in_parts(void)
{
	struct operation done = { 0 };
	size_t bytes = 300000;
	if (rank) {
		struct iovec parts[4] = { { memory, 10 }, { memory + 10, 0 },
			{ memory + 10, 99990 }, { memory + 100000, bytes - 100000 } };
		fill(memory, bytes, bytes);
		AGAIN(fi_tsendv(ep[0], parts, NULL, 4, peer[0], 1, &done));
		tell();
		expect_sent(&done);
		return;
	}
	struct iovec parts[3] = { { memory, 77777 }, { memory + 77777, 1 },
		{ memory + 77778, bytes - 77778 } };
	hear();
	AGAIN(fi_trecvv(ep[0], parts, NULL, 3, FI_ADDR_UNSPEC, 1, 0, &done));
	expect_copied(&done, bytes);
}

/* Messages that lie where the ones before did, then do not, then do once more; in the end that is
 * not memory any more. Each has bytes of its own. */
static void copied_again(void)
{
	static const size_t from[] = { 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1 };
	enum { MESSAGES = sizeof(from) / sizeof(from[0]) };
	size_t bytes = 60000;
	uint8_t *buffers[2] = { memory, NULL };
	buffers[1] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (uint64_t nth = 0; nth <= MESSAGES; nth++) {
		struct operation done = { 0 };
		uint8_t *buffer = nth == MESSAGES ? memory : buffers[from[nth]];
		size_t part = nth % 2 ? bytes : bytes - 1000;
		if (rank) {
			if (nth == MESSAGES)
				munmap(buffers[1], bytes);
			fill(buffer, part, nth);
			AGAIN(fi_tsend(ep[0], buffer, part, NULL, peer[0], 1, &done));
			tell();
			expect_sent(&done);
			continue;
		}
		hear();
		start_receive(part, &done);
		look_often(&done);
		CHECK(done.done, "number %d: not copied", (int)nth);
		tell();
		CHECK(wait_for(&done) == 1 && is_filled(memory, part, nth), "number %d", (int)nth);
	}
}

static void delivered(void)
{
	struct operation done = { 0 };
	size_t bytes = 200000;
	if (rank) {
		struct iovec part = { memory, bytes };
		struct fi_msg_tagged msg = { .msg_iov = &part,
			.iov_count = 1,
			.addr = peer[0],
			.tag = 1,
			.context = &done };
		fill(memory, bytes, bytes);
		AGAIN(fi_tsendmsg(ep[0], &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION));
		look_often(&done);
		CHECK(!done.done, "complete before it was received");
		tell();
		expect_sent(&done);
		return;
	}
	hear();
	start_receive(bytes, &done);
	expect_copied(&done, bytes);
}

static void truncated(void)
{
	struct operation done = { 0 };
	if (rank) {
		start_send(1 << 20, &done);
		expect_sent(&done);
		return;
	}
	hear();
	memset(memory, 0xee, 1 << 20);
	AGAIN(fi_trecv(ep[0], memory, 100000, NULL, FI_ADDR_UNSPEC, 1, 0, &done));
	look_often(&done);
	CHECK(done.done, "not copied");
	tell();
	CHECK(wait_for(&done) == 2 && done.error.err == FI_ETRUNC && done.error.len == 100000
	                && done.error.olen == (1 << 20) - 100000,
		"%s", fi_strerror(done.error.err));
	CHECK(is_filled(memory, 100000, 1 << 20) && memory[100000] == 0xee, "what is there");
}

/* More than the sender's table has entries: the others go in pieces. And once more: they are free
 * again. */
static void many(void)
{
	enum { BYTES = 20000 };
	static struct operation operations[MANY];
	for (int turn = 0; turn < 2; turn++) {
		static const struct operation never;
		int done = 0;
		for (uint64_t nth = 0; rank && nth < MANY; nth++) {
			fill(memory + nth * BYTES, BYTES, nth);
			AGAIN(fi_tsend(ep[0], memory + nth * BYTES, BYTES, NULL, peer[0], nth,
				&operations[nth]));
		}
		if (rank) {
			tell();
			hear();
		} else {
			hear();
			for (uint64_t nth = 0; nth < MANY; nth++)
				AGAIN(fi_trecv(ep[0], memory + nth * BYTES, BYTES, NULL,
					FI_ADDR_UNSPEC, nth, 0, &operations[nth]));
			look_often(&never);
			for (int nth = 0; nth < MANY; nth++)
				done += operations[nth].done;
			CHECK(done == AT_ONCE, "%d", done);
			tell();
		}
		for (uint64_t nth = 0; nth < MANY; nth++)
			CHECK(wait_for(&operations[nth]) == 1
			                && is_filled(memory + nth * BYTES, BYTES, nth),
				"number %d", (int)nth);
		meet();
	}
}

/* The sender has to help. */
static void not_copied(void)
{
	struct operation done = { 0 };
	if (rank) {
		start_send(1 << 20, &done);
		expect_sent(&done);
		return;
	}
	hear();
	start_receive(1 << 20, &done);
	look_often(&done);
	CHECK(!done.done, "copied");
	tell();
	expect_message(&done, 1 << 20);
}

/* The receiver knows the sender's memory: it has copied a message from there. */
static void get_known(struct fid_ep *from)
{
	struct operation done = { 0 };
	size_t bytes = 50000;
	if (!rank) {
		start_receive(bytes, &done);
		hear();
		expect_copied(&done, bytes);
		return;
	}
	fill(memory, bytes, bytes);
	AGAIN(fi_tsend(from, memory, bytes, NULL, peer[0], 1, &done));
	tell();
	expect_sent(&done);
}

static void expect_lost(struct operation *receive)
{
	int how = wait_for(receive);
	CHECK(how == 2 && receive->error.err == FI_ECONNRESET, "%d, %s", how,
		fi_strerror(receive->error.err));
}

static void ended(void)
{
	struct operation done = { 0 };
	get_known(ep[0]);
	if (rank) {
		start_send(1 << 20, &done);
		_exit(0);
	}
	while (hear())
		;
	start_receive(1 << 20, &done);
	expect_lost(&done);
}

/* Its memory is another program's, and the process goes on until it is told to end. */
static void runs_another_program(void)
{
	struct operation done = { 0 };
	get_known(ep[0]);
	if (rank) {
		start_send(1 << 20, &done);
		dup2(words_in, 0);
		execlp("head", "head", "-c", "1", NULL);
		exit(1);
	}
	while (hear())
		;
	start_receive(1 << 20, &done);
	look_often(&done);
	CHECK(!done.done, "%d", done.done);
	tell();
	expect_lost(&done);
}

static void closed(void)
{
	struct operation done = { 0 };
	get_known(ep[1]);
	if (rank) {
		fill(memory, 1 << 20, 1);
		AGAIN(fi_tsend(ep[1], memory, 1 << 20, NULL, peer[0], 1, &done));
		MUST(fi_close(&ep[1]->fid));
		ep[1] = NULL;
		memset(memory, 0, 1 << 20);
		tell();
		hear();
		return;
	}
	hear();
	start_receive(1 << 20, &done);
	look_often(&done);
	CHECK(done.done != 1, "a message of an endpoint that is closed");
	tell();
}

/* What is to be done before libfabric is loaded. */
static void switch_off(void) { setenv("FI_VSHMEM_CMA", "0", 1); }
static void only_longer(void) { setenv("FI_VSHMEM_CMA", "1025k", 1); }
static void become(int whose)
{
	if (rank == whose && (setgid(ANOTHER_USER) != 0 || setuid(ANOTHER_USER) != 0)) {
		perror("setuid");
		exit(1);
	}
}
static void receiver_is_another_user(void) { become(0); }
static void sender_is_another_user(void) { become(1); }

/* Each in processes of its own: a child has to open its own pool. */
static int one(const char *name, void (*first)(void), void (*test)(void))
{
	char directory[] = "/tmp/vshmem-fabric-XXXXXX";
	int pipes[2][2], status[2];
	pid_t children[2];
	if (!mkdtemp(directory) || chmod(directory, 0777) != 0 || pipe2(pipes[0], O_CLOEXEC) != 0
	        || pipe2(pipes[1], O_CLOEXEC) != 0)
		return 1;
	for (rank = 0; rank < 2; rank++) {
		children[rank] = fork();
		if (children[rank])
			continue;
		words_in = pipes[rank][0];
		words_out = pipes[1 - rank][1];
		close(pipes[rank][1]);
		close(pipes[1 - rank][0]);
		memory = malloc(LONGEST);
		/* All that do not go in one piece. */
		setenv("FI_VSHMEM_CMA", "1", 1);
		if (first)
			first();
		open_all(directory);
		test();
		close_all();
		exit(failures != 0);
	}
	for (int nth = 0; nth < 4; nth++)
		close(pipes[nth / 2][nth % 2]);
	for (int nth = 0; nth < 2; nth++)
		waitpid(children[nth], &status[nth], 0);
	remove_addresses(directory);
	bool passed = status[0] == 0 && status[1] == 0;
	printf("%s: %s\n", passed ? "ok" : "FAILED", name);
	return !passed;
}

int main(void)
{
	static const struct {
		const char *name;
		void (*first)(void), (*test)(void);
	} rows[] = { { "received without the sender's help", NULL, copied },
		{ "in parts", NULL, copied_in_parts },
		{ "from where the ones before were, and not", NULL, copied_again },
		{ "delivery complete", NULL, delivered },
		{ "a buffer too short", NULL, truncated },
		{ "more at once than are offered", NULL, many },
		{ "switched off", switch_off, not_copied },
		{ "shorter than what is copied", only_longer, not_copied },
		{ "the receiver is another user", receiver_is_another_user, not_copied },
		{ "the sender is another user", sender_is_another_user, not_copied },
		{ "the sender has ended", NULL, ended },
		{ "the sender runs another program", NULL, runs_another_program },
		{ "the sender has closed its endpoint", NULL, closed } };
	int failed = 0;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!may_copy()) {
		printf("SKIPPED: cross-memory attach: root needs Linux 6.5 for it, and must be allowed to trace\n1 passed, 0 failed\n");
		return 0;
	}
	for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++)
		failed += one(rows[row].name, rows[row].first, rows[row].test);
	printf("%zu passed, %d failed\n", sizeof(rows) / sizeof(rows[0]) - (size_t)failed, failed);
	return failed != 0;
}
