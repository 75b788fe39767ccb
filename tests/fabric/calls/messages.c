/* Messages between two processes: every kind of send and receive, each byte looked at.
 *
 * Usage: messages [DIRECTORY RANK]. Without arguments it forks and is both processes. Otherwise two
 * of it, with ranks 0 and 1, meet by files in the directory.
 */
#define _GNU_SOURCE
#include "endpoints.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4 };
uint8_t *out_buffer, *in_buffer;
bool sends;

struct operation *send_tagged(size_t bytes, uint64_t tag, struct operation *operation)
{
	fill(out_buffer, bytes, tag);
	AGAIN(fi_tsend(ep[0], out_buffer, bytes, NULL, peer[0], tag, operation));
	return operation;
}

static void sizes(void)
{
	static const size_t list[] = { 0, 1, 7, 8, 15, 16, 17, 23, 24, 25, 63, 64, 1000, 4016, 4055,
		4056, 4057, 4096, 8151, 8152, 8153, 16335, 16336, 16337, 16384, 65536, 100001,
		1 << 20, LARGEST };
	for (int expected = 0; expected < 2; expected++) {
		for (size_t nth = 0; nth < sizeof(list) / sizeof(list[0]); nth++) {
			struct operation done = { 0 };
			size_t bytes = list[nth];
			if (sends) {
				if (expected)
					meet();
				CHECK(wait_for(send_tagged(bytes, nth, &done)) == 1, "%zu", bytes);
				if (!expected)
					meet();
				continue;
			}
			if (!expected && bytes <= 4096)
				meet();
			memset(in_buffer, 0xee, bytes);
			AGAIN(fi_trecv(
				ep[0], in_buffer, bytes, NULL, FI_ADDR_UNSPEC, nth, 0, &done));
			if (expected)
				meet();
			CHECK(wait_for(&done) == 1, "%zu B: %s", bytes,
				fi_strerror(done.error.err));
			CHECK(done.entry.len == bytes && done.entry.tag == nth
			                && done.entry.flags & FI_TAGGED
			                && done.entry.flags & FI_RECV,
				"%zu B: %zu, tag %llu", bytes, done.entry.len,
				(unsigned long long)done.entry.tag);
			CHECK(is_filled(in_buffer, bytes, nth), "%zu B", bytes);
			if (!expected && bytes > 4096)
				meet();
		}
	}
	meet();
}

static void untagged(void)
{
	static const size_t list[] = { 0, 8, 5000, 300000 };
	for (size_t nth = 0; nth < 4; nth++) {
		struct operation done = { 0 };
		if (sends) {
			fill(out_buffer, list[nth], nth);
			AGAIN(fi_send(ep[0], out_buffer, list[nth], NULL, peer[0], &done));
			CHECK(wait_for(&done) == 1 && done.entry.flags & FI_MSG, "%zu", list[nth]);
		} else {
			AGAIN(fi_recv(ep[0], in_buffer, LARGEST, NULL, FI_ADDR_UNSPEC, &done));
			CHECK(wait_for(&done) == 1 && done.entry.len == list[nth]
			                && done.entry.flags & FI_MSG
			                && is_filled(in_buffer, list[nth], nth),
				"%zu B", list[nth]);
		}
	}
	meet();
}

static void ignored_bits(void)
{
	static const uint64_t tags[] = { 0x10, 0x21, 0x32 }, wanted[] = { 0x2f, 0x3f, 0 },
			      ignore[] = { 0xf, 0xf, UINT64_MAX };
	for (int nth = 0; nth < 3; nth++) {
		struct operation done = { 0 };
		if (sends) {
			wait_for(send_tagged(20, tags[nth], &done));
			continue;
		}
		if (nth == 0)
			meet();
		AGAIN(fi_trecv(ep[0], in_buffer, 20, NULL, FI_ADDR_UNSPEC, wanted[nth], ignore[nth],
			&done));
		wait_for(&done);
		CHECK(done.entry.tag == tags[(nth + 1) % 3], "%llx",
			(unsigned long long)done.entry.tag);
	}
	if (sends)
		meet();
	meet();
}

/* Two endpoints of the sender: the message of the one that was asked for, and where it is from. */
static void sources(void)
{
	if (sends) {
		struct operation done[2] = { 0 };
		uint64_t word[2] = { 100, 101 };
		for (int nth = 0; nth < 2; nth++) {
			AGAIN(fi_tsend(ep[nth], &word[nth], 8, NULL, peer[0], 7, &done[nth]));
			wait_for(&done[nth]);
		}
		meet();
	} else {
		meet();
		for (int nth = 1; nth >= 0; nth--) {
			struct operation done = { 0 };
			uint64_t word = 0;
			AGAIN(fi_trecv(ep[0], &word, 8, NULL, peer[nth], 7, 0, &done));
			wait_for(&done);
			CHECK(word == 100 + (uint64_t)nth, "%llu", (unsigned long long)word);
		}
		struct fi_cq_tagged_entry entry;
		fi_addr_t from = 0;
		uint64_t word;
		struct operation done;
		AGAIN(fi_trecv(ep[0], &word, 8, NULL, FI_ADDR_UNSPEC, 8, 0, &done));
		AGAIN(fi_tinject(ep[0], &word, 8, peer[0], 9));
		while (fi_cq_readfrom(cq, &entry, 1, &from) == -FI_EAGAIN)
			;
		CHECK(entry.op_context == &done && from == peer[1], "from %llu",
			(unsigned long long)from);
	}
	if (sends) {
		struct operation done = { 0 };
		uint64_t word;
		AGAIN(fi_trecv(ep[0], &word, 8, NULL, FI_ADDR_UNSPEC, 9, 0, &done));
		wait_for(&done);
		AGAIN(fi_tinject(ep[1], &word, 8, peer[0], 8));
	}
	meet();
}

static void truncated(void)
{
	static const size_t list[] = { 100, 1 << 20 }, room[] = { 40, 1000 };
	for (int nth = 0; nth < 4; nth++) {
		struct operation done = { 0 };
		size_t bytes = list[nth % 2], fits = nth < 2 ? room[nth] : 0;
		if (sends) {
			CHECK(wait_for(send_tagged(bytes, 5, &done)) == 1, "%zu", bytes);
			continue;
		}
		AGAIN(fi_trecv(ep[0], in_buffer, fits, NULL, FI_ADDR_UNSPEC, 5, 0, &done));
		CHECK(wait_for(&done) == 2 && done.error.err == FI_ETRUNC
		                && done.error.olen == bytes - fits && done.error.len == fits,
			"%d, olen %zu", done.error.err, done.error.olen);
		CHECK(is_filled(in_buffer, fits, 5), "%zu", fits);
	}
	meet();
}

static void injected(void)
{
	enum { COUNT = 5000 };
	if (sends) {
		for (uint64_t nth = 0; nth < COUNT; nth++) {
			size_t bytes = nth % 100 == 99 ? 4056 : 8 + nth % 8;
			memcpy(out_buffer, &nth, 8);
			AGAIN(fi_tinjectdata(ep[0], out_buffer, bytes, nth, peer[0], 3));
			memset(out_buffer, 0xff, 8);
		}
		CHECK(fi_inject(ep[0], out_buffer, 4057, peer[0]) == -FI_EINVAL, "too long");
	} else {
		usleep(20000);
		for (uint64_t nth = 0; nth < COUNT; nth++) {
			struct operation done = { 0 };
			uint64_t found = 0;
			AGAIN(fi_trecv(ep[0], in_buffer, 4056, NULL, FI_ADDR_UNSPEC, 3, 0, &done));
			wait_for(&done);
			memcpy(&found, in_buffer, 8);
			CHECK(found == nth && done.entry.data == nth
			                && done.entry.flags & FI_REMOTE_CQ_DATA,
				"%llu", (unsigned long long)found);
		}
	}
	meet();
}

static void cq_data(void)
{
	static const size_t list[] = { 8, 100000 };
	for (uint64_t nth = 0; nth < 4; nth++) {
		struct operation done = { 0 };
		uint64_t data = UINT64_C(0x0123456789abcdef) + nth;
		size_t bytes = list[nth % 2];
		if (sends) {
			if (nth < 2)
				AGAIN(fi_tsenddata(
					ep[0], out_buffer, bytes, NULL, data, peer[0], 4, &done));
			else
				AGAIN(fi_senddata(
					ep[0], out_buffer, bytes, NULL, data, peer[0], &done));
			wait_for(&done);
			continue;
		}
		if (nth < 2)
			AGAIN(fi_trecv(ep[0], in_buffer, bytes, NULL, FI_ADDR_UNSPEC, 4, 0, &done));
		else
			AGAIN(fi_recv(ep[0], in_buffer, bytes, NULL, FI_ADDR_UNSPEC, &done));
		wait_for(&done);
		CHECK(done.entry.data == data && done.entry.flags & FI_REMOTE_CQ_DATA, "%llx",
			(unsigned long long)done.entry.data);
	}
	meet();
}

/* Not complete before it lies in the receiver's buffer. */
static void delivered(void)
{
	static const size_t list[] = { 8, 200000 };
	for (int nth = 0; nth < 2; nth++) {
		struct operation done = { 0 };
		if (sends) {
			struct iovec part = { out_buffer, list[nth] };
			struct fi_msg_tagged msg = { .msg_iov = &part,
				.iov_count = 1,
				.addr = peer[0],
				.tag = 6,
				.context = &done };
			AGAIN(fi_tsendmsg(ep[0], &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION));
			for (int looks = 0; looks < 1000; looks++)
				look();
			meet();
			CHECK(!done.done, "complete before it was received");
			meet();
			CHECK(wait_for(&done) == 1, "%zu", list[nth]);
		} else {
			meet();
			meet();
			AGAIN(fi_trecv(
				ep[0], in_buffer, list[nth], NULL, FI_ADDR_UNSPEC, 6, 0, &done));
			CHECK(wait_for(&done) == 1, "%zu", list[nth]);
		}
	}
	meet();
}

static void to_self(void)
{
	static const size_t list[] = { 8, 1 << 20 };
	for (uint64_t nth = 0; nth < 2; nth++) {
		struct operation in = { 0 }, out = { 0 };
		fill(out_buffer, list[nth], nth);
		AGAIN(fi_tsend(ep[0], out_buffer, list[nth], NULL, self[0], 11, &out));
		AGAIN(fi_trecv(ep[0], in_buffer, list[nth], NULL, self[0], 11, 0, &in));
		CHECK(wait_for(&in) == 1 && wait_for(&out) == 1, "%zu", list[nth]);
		CHECK(is_filled(in_buffer, list[nth], nth), "%zu", list[nth]);
	}
	meet();
}

static void in_parts(void)
{
	static const size_t list[] = { 1000, 300000 };
	for (int nth = 0; nth < 2; nth++) {
		struct operation done = { 0 };
		size_t bytes = list[nth], third = bytes / 3;
		if (sends) {
			struct iovec parts[4] = { { out_buffer, 10 }, { out_buffer + 10, third },
				{ out_buffer + 10 + third, 0 },
				{ out_buffer + 10 + third, bytes - 10 - third } };
			fill(out_buffer, bytes, 12);
			AGAIN(fi_tsendv(ep[0], parts, NULL, 4, peer[0], 12, &done));
		} else {
			struct iovec parts[3] = { { in_buffer, third }, { in_buffer + third, 1 },
				{ in_buffer + third + 1, bytes - third - 1 } };
			memset(in_buffer, 0, bytes);
			AGAIN(fi_trecvv(ep[0], parts, NULL, 3, FI_ADDR_UNSPEC, 12, 0, &done));
		}
		CHECK(wait_for(&done) == 1 && (sends || is_filled(in_buffer, bytes, 12)), "%zu",
			bytes);
		meet();
	}
}

/* Long and short ones with one tag come in the order in which they were sent; both ways at once. */
static void in_order(void)
{
	enum { COUNT = 200, ROOM = 40000 };
	static struct operation in[COUNT], out[COUNT];
	uint64_t counted = fi_cntr_read(received);
	memset(in, 0, sizeof(in));
	memset(out, 0, sizeof(out));
	uint8_t *ours = malloc((size_t)COUNT * ROOM), *theirs = malloc((size_t)COUNT * ROOM);
	for (uint64_t nth = 0; nth < COUNT; nth++)
		AGAIN(fi_trecv(
			ep[0], theirs + nth * ROOM, ROOM, NULL, FI_ADDR_UNSPEC, 13, 0, &in[nth]));
	for (uint64_t nth = 0; nth < COUNT; nth++) {
		size_t bytes = nth % 3 == 1 ? ROOM - nth : 100 + nth;
		fill(ours + nth * ROOM, bytes, nth);
		AGAIN(fi_tsend(ep[0], ours + nth * ROOM, bytes, NULL, peer[0], 13, &out[nth]));
	}
	for (uint64_t nth = 0; nth < COUNT; nth++) {
		size_t bytes = nth % 3 == 1 ? ROOM - nth : 100 + nth;
		CHECK(wait_for(&in[nth]) == 1 && in[nth].entry.len == bytes
		                && is_filled(theirs + nth * ROOM, bytes, nth),
			"%llu: %zu B", (unsigned long long)nth, in[nth].entry.len);
		wait_for(&out[nth]);
	}
	CHECK(fi_cntr_read(received) >= counted + COUNT, "counted");
	free(ours);
	free(theirs);
	meet();
}

static void *one_thread(void *argument)
{
	uint64_t thread = (uint64_t)(uintptr_t)argument;
	uint8_t *ours = malloc(40000), *theirs = malloc(40000);
	for (uint64_t nth = 0; nth < 300; nth++) {
		struct operation in = { 0 }, out = { 0 };
		uint64_t tag = thread << 32 | nth;
		size_t bytes = nth % 10 == 9 ? 40000 - thread : 8 + nth;
		fill(ours, bytes, tag);
		AGAIN(fi_trecv(ep[0], theirs, 40000, NULL, FI_ADDR_UNSPEC, tag, 0, &in));
		AGAIN(fi_tsend(ep[0], ours, bytes, NULL, peer[0], tag, &out));
		CHECK(wait_for(&in) == 1 && wait_for(&out) == 1 && in.entry.len == bytes
		                && is_filled(theirs, bytes, tag),
			"thread %llu, message %llu", (unsigned long long)thread,
			(unsigned long long)nth);
	}
	free(ours);
	free(theirs);
	return NULL;
}

static void threads(void)
{
	pthread_t running[THREADS];
	for (uintptr_t nth = 0; nth < THREADS; nth++)
		pthread_create(&running[nth], NULL, one_thread, (void *)(nth + 1));
	for (int nth = 0; nth < THREADS; nth++)
		pthread_join(running[nth], NULL);
	meet();
}

static int all(const char *directory)
{
	static const struct {
		const char *name;
		void (*test)(void);
	} rows[] = { { "sizes", sizes }, { "untagged", untagged }, { "ignored bits", ignored_bits },
		{ "sources", sources }, { "truncated", truncated },
		{ "multi-receive", multi_receive }, { "peek and claim", peeks },
		{ "cancel", cancelled }, { "inject", injected }, { "CQ data", cq_data },
		{ "delivery complete", delivered }, { "to self", to_self },
		{ "in parts", in_parts }, { "in order", in_order }, { "threads", threads } };
	setvbuf(stdout, NULL, _IOLBF, 0);
	out_buffer = malloc(LARGEST);
	in_buffer = malloc(LARGEST);
	open_all(directory);
	meet();
	for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
		for (int sender = 0; sender < 2; sender++) {
			sends = rank == sender;
			int before = failures;
			rows[row].test();
			if (failures != before)
				printf("rank %d: %s: FAILED\n", rank, rows[row].name);
		}
	}
	meet();
	close_all();
	printf("rank %d: %zu tests, %d failures\n", rank, sizeof(rows) / sizeof(rows[0]), failures);
	return failures != 0;
}

int main(int count, char **words)
{
	if (count == 3) {
		rank = atoi(words[2]);
		return all(words[1]);
	}
	char directory[] = "/tmp/vshmem-fabric-XXXXXX", name[64];
	if (!mkdtemp(directory))
		return 1;
	/* Before a pool is open: a child has to open its own. */
	pid_t child = fork();
	rank = child == 0;
	int status = 1, rc = all(directory);
	if (child == 0)
		return rc;
	waitpid(child, &status, 0);
	for (int nth = 0; nth < 2; nth++) {
		snprintf(name, sizeof(name), "%s/%d", directory, nth);
		unlink(name);
	}
	rmdir(directory);
	return rc || status;
}
