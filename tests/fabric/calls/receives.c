/* Receives of several messages, and messages that are looked at, claimed or not wanted any more. */
#define _GNU_SOURCE
#include "endpoints.h"

#include <string.h>

static struct {
	int count;
	bool ended;
} several;

static void one_of_several(struct operation *operation, const struct fi_cq_tagged_entry *entry)
{
	(void)operation;
	uint64_t number;
	memcpy(&number, entry->buf, sizeof(number));
	CHECK(number < 60 && is_filled((uint8_t *)entry->buf + 8, entry->len - 8, number),
		"message %llu of %zu B", (unsigned long long)number, entry->len);
	several.count++;
	several.ended |= entry->flags & FI_MULTI_RECV;
	CHECK((entry->flags & ~(uint64_t)FI_MULTI_RECV) == (FI_RECV | FI_MSG), "%llx",
		(unsigned long long)entry->flags);
}

/* A buffer for several messages, some of which come in pieces; the first are there already. */
void multi_receive(void)
{
	size_t least = 30000, bytes = 0;
	MUST(fi_setopt(&ep[1]->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof(least)));
	for (uint64_t nth = 0; sends && nth < 60; nth++) {
		struct operation done = { 0 };
		size_t size = nth % 6 == 5 ? 30000 : 500 + nth;
		memcpy(out_buffer, &nth, 8);
		fill(out_buffer + 8, size - 8, nth);
		AGAIN(fi_send(ep[1], out_buffer, size, NULL, peer[1], &done));
		if (nth == 4)
			meet();
		wait_for(&done);
		bytes += size;
	}
	if (!sends) {
		struct operation whole = { .each = one_of_several };
		meet();
		several.count = 0;
		for (int buffer = 0; several.count < 60; buffer++) {
			struct iovec part = { in_buffer, 120000 };
			struct fi_msg msg = { .msg_iov = &part,
				.iov_count = 1,
				.addr = FI_ADDR_UNSPEC,
				.context = &whole };
			several.ended = false;
			AGAIN(fi_recvmsg(ep[1], &msg, FI_MULTI_RECV));
			while (!several.ended && several.count < 60)
				look();
		}
		MUST(fi_cancel(&ep[1]->fid, &whole));
		if (!several.ended)
			wait_for(&whole);
	}
	meet();
}

static int peek(uint64_t tag, uint64_t flags, struct operation *done)
{
	struct fi_msg_tagged msg = { .addr = FI_ADDR_UNSPEC, .tag = tag, .context = done };
	AGAIN(fi_trecvmsg(ep[0], &msg, FI_PEEK | flags));
	return wait_for(done);
}

void peeks(void)
{
	static const size_t list[] = { 50, 200000, 51, 200001 };
	struct operation done[4] = { 0 };
	if (sends) {
		for (uint64_t nth = 0; nth < 4; nth++) {
			/* Each in memory of its own: when the others copy it is not known. */
			uint8_t *from = out_buffer + nth * 300000;
			fill(from, list[nth], 40 + nth);
			AGAIN(fi_tsend(
				ep[0], from, list[nth], NULL, peer[0], 40 + nth, &done[nth]));
		}
		meet();
		for (int nth = 0; nth < 4; nth++)
			CHECK(wait_for(&done[nth]) == 1, "%d", nth);
	} else {
		meet();
		CHECK(peek(99, 0, &done[0]) == 2 && done[0].error.err == FI_ENOMSG,
			"no such message");
		for (uint64_t nth = 0; nth < 4; nth++) {
			CHECK(peek(40 + nth, 0, &done[0]) == 1 && done[0].entry.len == list[nth]
			                && done[0].entry.tag == 40 + nth,
				"%llu", (unsigned long long)nth);
			CHECK(peek(40 + nth, nth < 2 ? FI_CLAIM : FI_DISCARD, &done[nth]) == 1,
				"%llu", (unsigned long long)nth);
			CHECK(peek(40 + nth, 0, &done[2]) == 2, "it was taken");
		}
		for (int nth = 1; nth >= 0; nth--) {
			struct iovec part = { in_buffer, LARGEST };
			struct fi_msg_tagged msg = { .msg_iov = &part,
				.iov_count = 1,
				.addr = FI_ADDR_UNSPEC,
				.context = &done[nth] };
			AGAIN(fi_trecvmsg(ep[0], &msg, FI_CLAIM));
			CHECK(wait_for(&done[nth]) == 1 && done[nth].entry.len == list[nth], "%d",
				nth);
			CHECK(nth == 0 || is_filled(in_buffer, list[nth], 41), "%d", nth);
		}
	}
	meet();
}

void cancelled(void)
{
	struct operation done = { 0 }, other = { 0 };
	AGAIN(fi_trecv(ep[0], in_buffer, 8, NULL, FI_ADDR_UNSPEC, 77, 0, &done));
	MUST(fi_cancel(&ep[0]->fid, &done));
	CHECK(wait_for(&done) == 2 && done.error.err == FI_ECANCELED, "%d", done.error.err);
	MUST(fi_cancel(&ep[0]->fid, &other));
	meet();
}
