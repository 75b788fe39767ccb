#include "answers.h"

#include <errno.h>

void answer_request(const struct sent *was)
{
	struct vshmem_wire answer = { .flags = was->header.flags & VSHMEM_WIRE_ACK,
		.answered = was->operation,
		.error = any(30) ? 0 : EACCES,
		.token = was->header.token };
	bool fetches = was->header.flags & VSHMEM_WIRE_FETCH;
	uint64_t bytes = was->operation == VSHMEM_GET        ? was->header.get.length
		: was->operation == VSHMEM_ATOMIC && fetches ? was->header.atomic.length
							     : 0;
	if (answer.error)
		bytes = 0;
	/* What is read comes in pieces. */
	do {
		uint64_t piece = was->operation == VSHMEM_GET ? any(2000) + 1 : bytes;
		if (piece > bytes - answer.answer.offset)
			piece = bytes - answer.answer.offset;
		deliver(was->peer, VSHMEM_ANSWER, &answer, piece, 1);
		answer.answer.offset += piece;
	} while (answer.answer.offset < bytes);
}

void mutate(struct vshmem_wire *header)
{
	uint8_t *bytes = (uint8_t *)header;
	for (uint64_t times = any(4); times > 0; times--) {
		switch (any(5)) {
		case 0: bytes[any(sizeof(*header))] ^= (uint8_t)(1u << any(8)); break;
		case 1: bytes[any(sizeof(*header))] = (uint8_t)any(256); break;
		case 2: header->put.address = any(2) ? any(400) : UINT64_MAX - any(64); break;
		case 3: header->put.left = any(2) ? any(4000) : UINT64_MAX - any(64); break;
		case 4: header->token = (header->token & ~UINT64_C(0xffff)) | any(4096); break;
		}
	}
}
