/* Tokens that are guessed: an operation is ended, or its buffer written, by the answer of the peer
 * that was asked, of the kind that was asked for, and once. Small numbers make tokens easy to
 * guess, so all of them are tried.
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_rma.h>

#include "guess.h"
#include "one_endpoint.h"

enum { KINDS = 6, BYTES = 4000, GENERATIONS = 4, INDICES = 70 };
static const uint8_t replies[] = { VFI_CLEAR_TO_SEND, VFI_PIECE, VFI_ACK, VSHMEM_ANSWER };

/* Operations that the first peer was asked for, each with a buffer of its own. */
static struct {
	char *buffer;
	uint64_t token;
	uint8_t answer; /* what ends it; a rendezvous that is sent: what goes on with it */
	uint8_t was; /* the operation that an answer is for */
	bool done;
} waiting[KINDS];

static void take_completions(void)
{
	struct fi_cq_tagged_entry entry;
	ssize_t got;
	while ((got = fi_cq_read(cq, &entry, 1)) == 1) {
		size_t nth = (size_t)(uintptr_t)entry.op_context - 1;
		must(nth < KINDS && !waiting[nth].done);
		waiting[nth].done = true;
	}
	must(got == -FI_EAGAIN);
}

static ssize_t begin(int nth, char *buffer, void *context)
{
	fi_addr_t to = addresses[0];
	struct fi_msg_tagged message = { .msg_iov = &(struct iovec) { buffer, 64 },
		.iov_count = 1,
		.addr = to,
		.context = context };
	struct vshmem_wire ready = {
		.message = { .size = 2000, .tag = 5 }, .token = 9, .flags = VSHMEM_WIRE_TAGGED
	};
	switch (nth) {
	case 0: return fi_tsendmsg(ep, &message, FI_DELIVERY_COMPLETE | FI_COMPLETION);
	case 1: return fi_tsend(ep, buffer, BYTES, NULL, to, 1, context);
	case 2:
		must(fi_trecv(ep, buffer, BYTES, NULL, FI_ADDR_UNSPEC, 5, 0, context) == 0);
		deliver(0, VFI_READY_TO_SEND, &ready, 0, 0);
		return 0;
	case 3: return fi_write(ep, buffer, 64, NULL, to, 4096, 1, context);
	case 4: return fi_read(ep, buffer, 64, NULL, to, 4096, 1, context);
	default:
		return fi_fetch_atomic(ep, buffer, 1, NULL, buffer + 8, NULL, to, 4096, 1,
			FI_UINT64, FI_SUM, context);
	}
}

static void begin_all(void)
{
	static const uint8_t answers[KINDS] = { VFI_ACK, VFI_CLEAR_TO_SEND, VFI_PIECE,
		VSHMEM_ANSWER, VSHMEM_ANSWER, VSHMEM_ANSWER };
	for (int nth = 0; nth < KINDS; nth++) {
		char *buffer = malloc(BYTES);
		memset(buffer, 7, BYTES);
		waiting[nth].buffer = buffer;
		waiting[nth].answer = answers[nth];
		waiting[nth].done = false;
		sent_count = 0;
		must(begin(nth, buffer, (void *)(uintptr_t)(nth + 1)) == 0 && sent_count == 1);
		waiting[nth].was = sent[0].operation;
		waiting[nth].token = nth == 2 ? sent[0].header.clear.receiver
						: sent[0].header.token;
		must(waiting[nth].token != 0);
	}
	sent_count = 0;
}

static void nothing_has_happened(void)
{
	take_completions();
	for (int nth = 0; nth < KINDS; nth++) {
		must(!waiting[nth].done);
		for (int at = 0; at < BYTES; at++)
			must(waiting[nth].buffer[at] == 7);
	}
	/* And no piece of what is to be sent has gone anywhere. */
	must(sent_count == 0);
}

static void answer(uint32_t lane, uint8_t operation, uint64_t token, uint8_t was)
{
	struct vshmem_wire header = { .flags = VSHMEM_WIRE_ACK, .answered = was, .token = token };
	uint64_t bytes = 0;
	if (operation == VFI_CLEAR_TO_SEND)
		header.clear.wanted = BYTES;
	else if (operation == VFI_PIECE)
		bytes = 2000;
	else if (operation == VSHMEM_ANSWER)
		bytes = was == VSHMEM_GET ? 64 : was == VSHMEM_ATOMIC ? 8 : 0;
	deliver(lane, operation, &header, bytes, 0);
}

/* All tokens of few operations, from those that were asked for nothing; and from the one that was,
 * those of other kinds, and of generations that are over. */
static void guess_all(void)
{
	for (uint64_t generation = 0; generation < GENERATIONS; generation++) {
		for (uint64_t index = 0; index < INDICES; index++) {
			uint64_t token = generation << VSHMEM_TOKEN_BITS | index;
			for (size_t nth = 0; nth < sizeof(replies); nth++) {
				uint8_t was = (uint8_t[]) { VSHMEM_PUT, VSHMEM_GET,
					VSHMEM_ATOMIC }[index % 3];
				/* The last lane's sender tells no port. */
				for (uint32_t lane = 1; lane <= PEERS; lane++)
					answer(lane, replies[nth], token, was);
			}
		}
	}
	for (int nth = 0; nth < KINDS; nth++) {
		for (size_t kind = 0; kind < sizeof(replies); kind++)
			if (replies[kind] != waiting[nth].answer)
				answer(0, replies[kind], waiting[nth].token, VSHMEM_PUT);
		uint64_t one = UINT64_C(1) << VSHMEM_TOKEN_BITS;
		answer(0, waiting[nth].answer, waiting[nth].token - one, waiting[nth].was);
		answer(0, waiting[nth].answer, waiting[nth].token + one, waiting[nth].was);
		/* An answer of the right kind for an operation of another one. */
		if (waiting[nth].answer == VSHMEM_ANSWER)
			answer(0, VSHMEM_ANSWER, waiting[nth].token,
				waiting[nth].was == VSHMEM_PUT ? VSHMEM_GET : VSHMEM_PUT);
	}
	nothing_has_happened();
}

/* Who was asked answers; a second time, it is too late. */
static void answer_all(void)
{
	for (int times = 0; times < 2; times++)
		for (int nth = 0; nth < KINDS; nth++)
			answer(0, waiting[nth].answer, waiting[nth].token, waiting[nth].was);
	struct fi_cq_tagged_entry entry;
	for (int looks = 0; looks < 100; looks++)
		fi_cq_read(cq, &entry, 0);
	take_completions();
	uint64_t pieces = 0;
	for (size_t nth = 0; nth < sent_count; nth++)
		pieces += sent[nth].operation == VFI_PIECE ? sent[nth].bytes : 0;
	must(pieces == BYTES);
	for (int nth = 0; nth < KINDS; nth++) {
		must(waiting[nth].done);
		free(waiting[nth].buffer);
	}
}

void guess(void)
{
	for (int times = 0; times < 2; times++) {
		begin_all();
		guess_all();
		answer_all();
	}
	sent_count = 0;
}
