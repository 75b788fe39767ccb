#include "answers.h"

#include "one_endpoint.h"

enum { RENDEZVOUS = 256 };

/* Messages in pieces that peers receive: what was asked for, and what has come. */
static struct {
	uint64_t token, wanted, got;
	uint32_t peer;
	bool acked, used;
} rendezvous[RENDEZVOUS];

void note_sent(uint32_t peer, uint8_t operation, const struct vshmem_wire *header, uint32_t bytes)
{
	bool acked = header->flags & VSHMEM_WIRE_ACK;
	if (operation == VFI_PIECE) {
		uint64_t token = header->token;
		if (token < RENDEZVOUS && rendezvous[token].used && rendezvous[token].peer == peer)
			rendezvous[token].got += bytes;
		return;
	}
	if (operation == VSHMEM_ANSWER || operation == VSHMEM_REMOTE_DONE || operation == VFI_ACK)
		return;
	if ((operation == VSHMEM_PUT || operation == VFI_EAGER || operation == VFI_EAGER_TAGGED)
		&& !acked)
		return;
	must(sent_count < SENT);
	sent[sent_count++] = (struct sent) { peer, operation, *header, bytes };
}

static void answer_ready(const struct sent *was)
{
	uint64_t token = any(RENDEZVOUS);
	struct vshmem_wire clear = { .token = was->header.token, .clear.receiver = token };
	if (!rendezvous[token].used) {
		clear.clear.wanted = any(3) ? was->header.message.size
					    : any(was->header.message.size);
		rendezvous[token].used = clear.clear.wanted > 0;
		rendezvous[token].token = was->header.token;
		rendezvous[token].wanted = clear.clear.wanted;
		rendezvous[token].got = 0;
		rendezvous[token].peer = was->peer;
		rendezvous[token].acked = was->header.flags & VSHMEM_WIRE_ACK;
	}
	deliver(was->peer, VFI_CLEAR_TO_SEND, &clear, 0, 0);
}

/* The pieces that the provider has asked for. */
static void answer_clear(const struct sent *was)
{
	struct vshmem_wire piece = { .token = was->header.clear.receiver };
	while (piece.piece.offset < was->header.clear.wanted && was->peer < PEERS) {
		uint64_t bytes = any(2500) + 1;
		if (bytes > was->header.clear.wanted - piece.piece.offset)
			bytes = was->header.clear.wanted - piece.piece.offset;
		deliver(was->peer, VFI_PIECE, &piece, bytes, 3);
		piece.piece.offset += bytes;
	}
}

void answer(bool again)
{
	if (sent_count == 0)
		return;
	size_t nth = any(sent_count);
	struct sent was = sent[nth];
	struct vshmem_wire header = { .token = was.header.token };
	if (!again)
		sent[nth] = sent[--sent_count];
	switch (was.operation) {
	case VSHMEM_PUT:
	case VSHMEM_GET:
	case VSHMEM_ATOMIC: answer_request(&was); break;
	case VFI_READY_TO_SEND: answer_ready(&was); break;
	case VFI_CLEAR_TO_SEND: answer_clear(&was); break;
	default: deliver(was.peer, VFI_ACK, &header, 0, 0);
	}
}

void acknowledge(void)
{
	for (int token = 0; token < RENDEZVOUS; token++) {
		if (!rendezvous[token].used || rendezvous[token].got < rendezvous[token].wanted)
			continue;
		struct vshmem_wire ack = { .token = rendezvous[token].token };
		rendezvous[token].used = false;
		if (rendezvous[token].acked)
			deliver(rendezvous[token].peer, VFI_ACK, &ack, 0, 0);
	}
}

void answer_wrongly(void)
{
	static const uint8_t replies[] = { VSHMEM_ANSWER, VFI_CLEAR_TO_SEND, VFI_PIECE, VFI_ACK };
	if (sent_count == 0)
		return;
	struct sent was = sent[any(sent_count)];
	struct vshmem_wire header = { .answered = was.operation,
		.token = any(2) ? was.header.token : was.header.clear.receiver,
		.clear = { .wanted = any(2) ? 0 : any(5000), .receiver = any(RENDEZVOUS) } };
	mutate(&header);
	deliver(any(4) ? was.peer : (uint32_t)any(PEERS + 2), replies[any(4)], &header,
		any(2) ? any(400) : any(MOST_BYTES - sizeof(header)), (int)any(256));
}

void forget_pieces(uint32_t peer)
{
	for (int token = 0; token < RENDEZVOUS; token++)
		if (rendezvous[token].peer == peer)
			rendezvous[token].used = false;
}
