/* Messages, tagged and not: every size, order, who matches whom, peek, cancel, truncation, receives
 * for several messages, completion at delivery; every byte looked at.
 *
 * With the word "huge": also lengths beyond 4 GiB. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#include "endpoint.h"

static struct endpoint port;
static int next, previous; /* ranks, in a ring */

static const size_t sizes[] = { 0, 1, 8, 40, 64, 200, 1024, 4056, 4096, 16336, 16384, 16385, 65536,
	262144, 262145, 1 << 20, (4 << 20) + 3 };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))
#define MOST  ((size_t)5 << 20)

static char *out, *in;

/* Each to the next, first expected, then unexpected. */
static void rings(int tagged)
{
	for (size_t nth = 0; nth < SIZES; nth++) {
		for (int late = 0; late < 2; late++) {
			struct operation sent = { 0 }, received = { 0 };
			size_t bytes = sizes[nth];
			unsigned round = (unsigned)nth * 2 + (unsigned)late;
			fill(out, bytes, (unsigned)rank, round);
			in[bytes] = 77;
			for (int step = 0; step < 2; step++) {
				if (step != late && tagged)
					taken(&port,
						fi_trecv(port.ep, in, bytes, NULL, FI_ADDR_UNSPEC,
							100 + round, 0, &received));
				else if (step != late)
					taken(&port,
						fi_recv(port.ep, in, bytes, NULL, FI_ADDR_UNSPEC,
							&received));
				else if (tagged)
					taken(&port,
						fi_tsend(port.ep, out, bytes, NULL, port.at[next],
							100 + round, &sent));
				else
					taken(&port,
						fi_send(port.ep, out, bytes, NULL, port.at[next],
							&sent));
				together();
			}
			finish(&port, &sent);
			finish(&port, &received);
			must(received.entry.len == bytes && received.entry.flags & FI_RECV,
				"%zu bytes came as %zu", bytes, received.entry.len);
			must(!tagged || received.entry.tag == 100 + round, "tag");
			must(received.from == port.at[previous] || !(port.info->caps & FI_SOURCE),
				"source %lu", (unsigned long)received.from);
			verify(in, bytes, (unsigned)previous, round, "ring");
			must(in[bytes] == 77, "written past the end");
		}
	}
	passed(tagged ? "tagged messages" : "messages");
}

/* In both directions at once, to itself as well, large ones among small ones. */
static void crossing(void)
{
	enum { EACH = 20, SPAN = 300000 };
	struct operation *sent = calloc((size_t)ranks * EACH, sizeof(*sent)),
			 *received = calloc((size_t)ranks * EACH, sizeof(*received));
	char *from = malloc((size_t)EACH * SPAN), *to = malloc((size_t)ranks * EACH * SPAN);
	for (unsigned nth = 0; nth < EACH; nth++)
		fill(from + nth * SPAN, nth % 2 ? SPAN : 10, (unsigned)rank, nth);
	for (int peer = 0; peer < ranks; peer++)
		for (unsigned nth = 0; nth < EACH; nth++) {
			int at = peer * EACH + (int)nth;
			size_t bytes = nth % 2 ? SPAN : 10;
			taken(&port,
				fi_trecv(port.ep, to + (size_t)at * SPAN, bytes, NULL,
					port.at[peer], nth + 1000u * (unsigned)peer, 0,
					&received[at]));
			taken(&port,
				fi_tsend(port.ep, from + nth * SPAN, bytes, NULL, port.at[peer],
					nth + 1000u * (unsigned)rank, &sent[at]));
		}
	for (int at = 0; at < ranks * EACH; at++) {
		finish(&port, &sent[at]);
		finish(&port, &received[at]);
		verify(to + (size_t)at * SPAN, at % EACH % 2 ? SPAN : 10, (unsigned)(at / EACH),
			(unsigned)(at % EACH), "crossing");
	}
	free(from), free(to), free(sent), free(received);
	passed("in both directions at once");
}

static void tags(void)
{
	enum { COUNT = 4 };
	struct operation sent[COUNT] = { 0 }, received[COUNT] = { 0 };
	/* The lower half is ignored: the first of that upper half in the order of sending. */
	static const uint64_t given[COUNT] = { 0x100000001, 0x200000001, 0x100000002,
		0xffffffff00000003 };
	static const uint64_t wanted[COUNT] = { 0x200000000, 0x100000000, 0x100000000,
		0xffffffff00000000 };
	static const int gets[COUNT] = { 1, 0, 2, 3 };
	char bytes[COUNT] = { 0 };
	for (int nth = 0; nth < COUNT; nth++) {
		out[nth] = (char)(nth + 10);
		taken(&port,
			fi_tsend(port.ep, out + nth, 1, NULL, port.at[next], given[nth],
				&sent[nth]));
	}
	for (int nth = 0; nth < COUNT; nth++)
		finish(&port, &sent[nth]);
	together();
	for (int nth = 0; nth < COUNT; nth++)
		taken(&port,
			fi_trecv(port.ep, bytes + nth, 1, NULL, FI_ADDR_UNSPEC, wanted[nth],
				0xffffffff, &received[nth]));
	for (int nth = 0; nth < COUNT; nth++) {
		finish(&port, &received[nth]);
		must(bytes[nth] == 10 + gets[nth] && received[nth].entry.tag == given[gets[nth]],
			"receive %d got message %d", nth, bytes[nth] - 10);
	}
	passed("bits of tags that are ignored");
	/* From a rank that sends, while another's of the same tag lies there. */
	struct operation one = { 0 }, two = { 0 }, mine = { 0 }, other = { 0 };
	char a, b;
	taken(&port, fi_tsend(port.ep, "n", 1, NULL, port.at[next], 7, &one));
	finish(&port, &one);
	taken(&port, fi_tsend(port.ep, "s", 1, NULL, port.at[rank], 7, &two));
	finish(&port, &two);
	together();
	taken(&port, fi_trecv(port.ep, &a, 1, NULL, port.at[rank], 7, 0, &mine));
	finish(&port, &mine);
	taken(&port, fi_trecv(port.ep, &b, 1, NULL, port.at[previous], 7, 0, &other));
	finish(&port, &other);
	must(ranks == 1 || (a == 's' && b == 'n'), "directed receives got %c and %c", a, b);
	passed("directed receives");
}

static void injected(void)
{
	size_t most = port.info->tx_attr->inject_size;
	must(most >= 8 || !is_ours(), "inject_size is %zu", most);
	enum { COUNT = 300 };
	char *memory = malloc(most + 1);
	for (unsigned nth = 0; nth < COUNT; nth++) {
		size_t bytes = nth * 37 % (most + 1);
		fill(memory, bytes, (unsigned)rank, nth);
		if (nth % 2)
			taken(&port, fi_tinject(port.ep, memory, bytes, port.at[next], nth));
		else
			taken(&port,
				fi_tinjectdata(
					port.ep, memory, bytes, 0xd00d + nth, port.at[next], nth));
		memset(memory, 99, bytes); /* it is the sender's again */
	}
	for (unsigned nth = 0; nth < COUNT; nth++) {
		struct operation received = { 0 };
		size_t bytes = nth * 37 % (most + 1);
		taken(&port, fi_trecv(port.ep, in, most, NULL, FI_ADDR_UNSPEC, nth, 0, &received));
		finish(&port, &received);
		must(received.entry.len == bytes, "%zu", received.entry.len);
		must(!!(received.entry.flags & FI_REMOTE_CQ_DATA) == !(nth % 2)
		                && (nth % 2 || received.entry.data == 0xd00d + nth),
			"data of message %u: flags %llx, %lx", nth,
			(unsigned long long)received.entry.flags,
			(unsigned long)received.entry.data);
		verify(in, bytes, (unsigned)previous, nth, "inject");
	}
	free(memory);
	passed("injected messages, with data and without");
}

/* The fields of a call with all of them. */
static struct fi_msg_tagged tagged(
	struct iovec *iov, size_t count, int peer, uint64_t tag, void *context)
{
	return (struct fi_msg_tagged) { .msg_iov = iov,
		.iov_count = count,
		.addr = port.at[peer],
		.tag = tag,
		.context = context };
}

static void vectors(void)
{
	size_t most = port.info->tx_attr->iov_limit < 4 ? port.info->tx_attr->iov_limit : 4;
	if (most < 2) {
		left_out("vectors", "iov_limit is 1");
		return;
	}
	static const size_t each[] = { 100, 30000, 200000 };
	for (unsigned round = 0; round < 3; round++) {
		struct iovec from[4], to[4];
		size_t bytes = each[round] * most;
		struct operation sent = { 0 }, received = { 0 };
		fill(out, bytes, (unsigned)rank, round);
		for (size_t nth = 0; nth < most; nth++) {
			from[nth] = (struct iovec) { out + nth * each[round], each[round] };
			to[nth] = (struct iovec) { in + nth * (each[round] + 1), each[round] };
		}
		taken(&port,
			fi_trecvv(port.ep, to, NULL, most, FI_ADDR_UNSPEC, round, 0, &received));
		struct fi_msg_tagged message = tagged(from, most, next, round, &sent);
		message.data = 5;
		taken(&port, fi_tsendmsg(port.ep, &message, FI_COMPLETION | FI_REMOTE_CQ_DATA));
		finish(&port, &sent);
		finish(&port, &received);
		must(received.entry.len == bytes && received.entry.data == 5, "length or data");
		for (size_t nth = 1; nth < most; nth++)
			memmove(in + nth * each[round], in + nth * (each[round] + 1), each[round]);
		verify(in, bytes, (unsigned)previous, round, "vectors");
	}
	passed("vectors");
}

/* Longer than the receive. */
static void truncated(void)
{
	static const size_t lengths[] = { 100, 10000, 1 << 20 };
	if (!is_ours()) {
		left_out("truncation", "tcp;ofi_rxm hangs");
		return;
	}
	for (unsigned nth = 0; nth < 3; nth++) {
		struct operation sent = { 0 }, received = { 0 }, after = { 0 };
		size_t fits = lengths[nth] / 2;
		fill(out, lengths[nth], (unsigned)rank, nth);
		in[fits] = 77;
		taken(&port, fi_trecv(port.ep, in, fits, NULL, FI_ADDR_UNSPEC, 9, 0, &received));
		together();
		taken(&port, fi_tsend(port.ep, out, lengths[nth], NULL, port.at[next], 9, &sent));
		wait_for(&port, &received, 1);
		wait_for(&port, &sent, 1);
		must(received.failed == FI_ETRUNC && received.error.olen == lengths[nth] - fits,
			"%zu into %zu: %s, %zu too many", lengths[nth], fits,
			fi_strerror(received.failed), received.error.olen);
		must(in[fits] == 77, "written past the end");
		verify(in, fits, (unsigned)previous, nth, "what fits");
		taken(&port, fi_trecv(port.ep, in, 4, NULL, FI_ADDR_UNSPEC, 10, 0, &after));
		taken(&port, fi_tinject(port.ep, "next", 4, port.at[next], 10));
		finish(&port, &after);
	}
	passed("longer than the receive: what fits, and an error");
}

static void peeked(void)
{
	struct operation none = { 0 }, found = { 0 }, claimed = { 0 }, sent = { 0 };
	struct iovec room = { in, 70000 };
	struct fi_msg_tagged message = tagged(NULL, 0, previous, 40, &none);
	message.addr = FI_ADDR_UNSPEC;
	taken(&port, fi_trecvmsg(port.ep, &message, FI_PEEK | FI_COMPLETION));
	wait_for(&port, &none, 1);
	must(none.failed == FI_ENOMSG, "a peek at nothing: %s", fi_strerror(none.failed));
	together();
	for (unsigned nth = 0; nth < 2; nth++) {
		size_t bytes = nth ? 70000 : 50;
		memset(&found, 0, sizeof(found));
		memset(&claimed, 0, sizeof(claimed));
		memset(&sent, 0, sizeof(sent));
		fill(out, bytes, (unsigned)rank, nth);
		taken(&port, fi_tsend(port.ep, out, bytes, NULL, port.at[next], 41 + nth, &sent));
		message.tag = 41 + nth;
		message.context = &found;
		for (;;) {
			taken(&port,
				fi_trecvmsg(port.ep, &message, FI_PEEK | FI_CLAIM | FI_COMPLETION));
			wait_for(&port, &found, 1);
			if (!found.failed)
				break;
			must(found.failed == FI_ENOMSG, "peek: %s", fi_strerror(found.failed));
			memset(&found, 0, sizeof(found));
		}
		must(found.entry.len == bytes && found.entry.tag == 41 + nth,
			"peek saw %zu bytes of tag %lu", found.entry.len,
			(unsigned long)found.entry.tag);
		message.msg_iov = &room;
		message.iov_count = 1;
		found.done = 0;
		taken(&port, fi_trecvmsg(port.ep, &message, FI_CLAIM | FI_COMPLETION));
		finish(&port, &found);
		verify(in, bytes, (unsigned)previous, nth, "claimed");
		finish(&port, &sent);
		message.msg_iov = NULL;
		message.iov_count = 0;
	}
	passed("peek and claim");
}

static void cancelled(void)
{
	struct operation waits = { 0 }, behind = { 0 };
	char byte = 0;
	taken(&port, fi_trecv(port.ep, in, 1, NULL, FI_ADDR_UNSPEC, 50, 0, &waits));
	taken(&port, fi_trecv(port.ep, &byte, 1, NULL, FI_ADDR_UNSPEC, 50, 0, &behind));
	must(fi_cancel(&port.ep->fid, &waits) == 0, "fi_cancel");
	wait_for(&port, &waits, 1);
	must(waits.failed == FI_ECANCELED, "cancelled: %s", fi_strerror(waits.failed));
	together();
	taken(&port, fi_tinject(port.ep, "x", 1, port.at[next], 50));
	finish(&port, &behind);
	must(byte == 'x', "the receive behind it");
	passed("cancel");
}

/* Many that nobody expects, and their order. */
static void flood(void)
{
	enum { COUNT = 3000 };
	struct operation *sent = calloc(COUNT, sizeof(*sent));
	char *from = malloc((size_t)COUNT * 600);
	for (unsigned nth = 0; nth < COUNT; nth++) {
		fill(from + nth * 600, nth % 600, (unsigned)rank, nth);
		taken(&port,
			fi_tsend(port.ep, from + nth * 600, nth % 600, NULL, port.at[next], 60,
				&sent[nth]));
	}
	together();
	for (unsigned nth = 0; nth < COUNT; nth++) {
		struct operation received = { 0 };
		taken(&port, fi_trecv(port.ep, in, 600, NULL, FI_ADDR_UNSPEC, 60, 0, &received));
		finish(&port, &received);
		must(received.entry.len == nth % 600, "message %u came out of order", nth);
		verify(in, nth % 600, (unsigned)previous, nth, "flood");
	}
	for (unsigned nth = 0; nth < COUNT; nth++)
		finish(&port, &sent[nth]);
	free(sent), free(from);
	passed("many that nobody expects, in order");
}

/* One buffer for several messages. */
static struct {
	int messages, let_go;
	char *end;
} buffer;
static void taken_in(struct operation *operation, const struct fi_cq_tagged_entry *entry)
{
	(void)operation;
	if (entry->flags & FI_RECV) {
		must(entry->len == 100 + (size_t)buffer.messages, "message %d has %zu bytes",
			buffer.messages, entry->len);
		verify(entry->buf, entry->len, (unsigned)previous, (unsigned)buffer.messages,
			"multi");
		buffer.messages++;
	}
	buffer.let_go += !!(entry->flags & FI_MULTI_RECV);
}
static void several(void)
{
	enum { COUNT = 50, ROOM = 4096 };
	size_t least = 200, bytes = sizeof(least);
	must(fi_setopt(&port.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, bytes) == 0,
		"FI_OPT_MIN_MULTI_RECV");
	struct operation buffers[2] = { { .seen = taken_in }, { .seen = taken_in } };
	memset(&buffer, 0, sizeof(buffer));
	for (int nth = 0; nth < 2; nth++) {
		struct iovec room = { in + nth * ROOM, ROOM };
		struct fi_msg message = { .msg_iov = &room,
			.iov_count = 1,
			.addr = FI_ADDR_UNSPEC,
			.context = &buffers[nth] };
		taken(&port, fi_recvmsg(port.ep, &message, FI_MULTI_RECV | FI_COMPLETION));
	}
	together();
	for (unsigned nth = 0; nth < COUNT; nth++) {
		fill(out, 100 + nth, (unsigned)rank, nth);
		if (100 + nth <= port.info->tx_attr->inject_size) {
			taken(&port, fi_inject(port.ep, out, 100 + nth, port.at[next]));
		} else {
			struct operation sent = { 0 };
			taken(&port, fi_send(port.ep, out, 100 + nth, NULL, port.at[next], &sent));
			finish(&port, &sent);
		}
	}
	/* A buffer that was let go is posted again, until all are here. */
	for (int posted = 0; buffer.messages < COUNT;) {
		look(&port);
		if (buffer.let_go > posted) {
			int nth = posted++ % 2;
			struct iovec room = { in + nth * ROOM, ROOM };
			struct fi_msg message = { .msg_iov = &room,
				.iov_count = 1,
				.addr = FI_ADDR_UNSPEC,
				.context = &buffers[nth] };
			taken(&port, fi_recvmsg(port.ep, &message, FI_MULTI_RECV | FI_COMPLETION));
		}
	}
	must(buffer.let_go >= 1, "no buffer was let go");
	together();
	for (int nth = 0; nth < 2; nth++) {
		fi_cancel(&port.ep->fid, &buffers[nth]); /* whichever is still posted */
		for (int looks = 0; looks < 100; looks++)
			look(&port);
	}
	passed("one buffer for several messages");
}

static void delivered(void)
{
	for (unsigned nth = 0; nth < 3; nth++) {
		static const size_t lengths[] = { 8, 9000, 500000 };
		struct operation sent = { 0 }, received = { 0 };
		struct iovec from = { out, lengths[nth] };
		struct fi_msg_tagged message = tagged(&from, 1, next, 70, &sent);
		fill(out, lengths[nth], (unsigned)rank, nth);
		taken(&port,
			fi_trecv(
				port.ep, in, lengths[nth], NULL, FI_ADDR_UNSPEC, 70, 0, &received));
		taken(&port, fi_tsendmsg(port.ep, &message, FI_DELIVERY_COMPLETE | FI_COMPLETION));
		finish(&port, &sent);
		finish(&port, &received);
		verify(in, lengths[nth], (unsigned)previous, nth, "delivered");
	}
	passed("completion at delivery");
}

/* Memory of so many bytes, of which only a few MiB are there, again and again. */
static char *repeated(size_t bytes, size_t period)
{
	int fd = memfd_create("repeated", 0);
	char *memory = mmap(
		NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	must(fd >= 0 && memory != MAP_FAILED && ftruncate(fd, (off_t)period) == 0, "memory");
	for (size_t at = 0; at < bytes; at += period)
		must(mmap(memory + at, bytes - at < period ? bytes - at : period,
			     PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
			     0) != MAP_FAILED,
			"mmap");
	close(fd);
	return memory;
}

static void huge(void)
{
	size_t period = 16 << 20, bytes = ((size_t)4 << 30) + 4096;
	if (port.info->ep_attr->max_msg_size < bytes) {
		struct operation sent = { 0 };
		must(fi_tsend(port.ep, out, port.info->ep_attr->max_msg_size + 1, NULL,
			     port.at[next], 1, &sent)
		                == -FI_EMSGSIZE,
			"longer than max_msg_size, and taken");
		left_out("4 GiB in a message", "max_msg_size is less");
		return;
	}
	char *from = repeated(bytes, period), *to = repeated(bytes, period);
	struct operation sent = { 0 }, received = { 0 };
	fill(from, period, (unsigned)rank, 1);
	taken(&port, fi_trecv(port.ep, to, bytes, NULL, FI_ADDR_UNSPEC, 80, 0, &received));
	taken(&port, fi_tsend(port.ep, from, bytes, NULL, port.at[next], 80, &sent));
	finish(&port, &sent);
	finish(&port, &received);
	must(received.entry.len == bytes, "%zu bytes came as %zu", bytes, received.entry.len);
	verify(to, period, (unsigned)previous, 1, "4 GiB");
	munmap(from, bytes), munmap(to, bytes);
	passed("more than 4 GiB in a message");
}

int main(int argc, char **argv)
{
	int words = ranks_begin(argc, argv);
	next = (rank + 1) % ranks;
	previous = (rank + ranks - 1) % ranks;
	out = malloc(MOST), in = malloc(MOST);
	struct wants wants = { .caps = FI_TAGGED | FI_MSG | FI_SOURCE | FI_DIRECTED_RECV
		        | FI_MULTI_RECV,
		.av_type = FI_AV_TABLE };
	for (int type = 0; type < 2; type++, wants.av_type = FI_AV_MAP) {
		if (!have_endpoint(&port, &wants, type ? "FI_AV_MAP" : "FI_AV_TABLE"))
			continue;
		rings(1);
		rings(0);
		if (type == 0) {
			crossing();
			tags();
			injected();
			vectors();
			truncated();
			peeked();
			cancelled();
			flood();
			several();
			delivered();
			if (words)
				huge();
		}
		close_endpoint(&port);
	}
	return ranks_end();
}
