/* What lies in a lane: a header, then the payload. The lane's own tag byte is the operation. Those
 * of put, get and atomics are below; those of sends and receives are libfabric's own (its wire.h).
 *
 * A message's text begins 8 bytes past a cache line, so a header and 8 bytes of payload lie in one
 * line. Every byte is its sender's, who may write anything: a header is copied, checked, and then
 * only the copy is used.
 */
#ifndef VSHMEM_WIRE_H
#define VSHMEM_WIRE_H

#include <stddef.h>
#include <stdint.h>

/* Words of each kind of message; what a kind does not name is 0. */
struct vshmem_wire_message { /* EAGER, EAGER_TAGGED, READY_TO_SEND */
	uint64_t size; /* of the whole message; of an eager one its payload's instead */
	uint64_t tag;
	uint64_t cq_data;
};
struct vshmem_wire_clear { /* CLEAR_TO_SEND */
	uint64_t wanted; /* bytes that the receiver still wants; 0: none */
	uint64_t unused;
	uint64_t receiver; /* token that the pieces are to name */
};
struct vshmem_wire_piece { /* PIECE */
	uint64_t offset; /* of the payload in the message */
	uint64_t unused[2];
};
struct vshmem_wire_put { /* PUT */
	uint64_t address;
	uint64_t key;
	union {
		uint64_t cq_data; /* with VSHMEM_WIRE_DATA */
		uint64_t left; /* where more parts follow: bytes from this one on */
	};
};
struct vshmem_wire_get { /* GET */
	uint64_t address;
	uint64_t key;
	uint64_t length;
};
struct vshmem_wire_atomic { /* ATOMIC */
	uint64_t address;
	uint64_t key;
	uint64_t length; /* of the memory */
};
struct vshmem_wire_answer { /* ANSWER */
	uint64_t offset; /* of the payload in what GET asked for */
	uint64_t unused[2];
};
struct vshmem_wire_done { /* REMOTE_DONE: the third word is that of PUT */
	uint64_t address;
	uint64_t key;
	uint64_t cq_data;
};

struct vshmem_wire {
	uint8_t flags; /* VSHMEM_WIRE_... */
	union {
		uint8_t datatype; /* of ATOMIC */
		uint8_t answered; /* of ANSWER: the operation that it is to */
	};
	union {
		uint16_t op; /* of ATOMIC */
		uint16_t error; /* of ANSWER: 0, or E... */
		uint16_t done; /* of REMOTE_DONE: VSHMEM_REMOTE_READ or _WRITE */
	};
	uint32_t bytes; /* of the payload here */
	union {
		struct vshmem_wire_message message;
		struct vshmem_wire_clear clear;
		struct vshmem_wire_piece piece;
		struct vshmem_wire_put put;
		struct vshmem_wire_get get;
		struct vshmem_wire_atomic atomic;
		struct vshmem_wire_answer answer;
		struct vshmem_wire_done remote;
	};
	uint64_t token; /* of an operation that an answer is for, or is wanted by; 0: none */
};
_Static_assert(sizeof(struct vshmem_wire) == 40, "a header and 8 bytes lie in one cache line");
_Static_assert(offsetof(struct vshmem_wire, op) == 2 && offsetof(struct vshmem_wire, bytes) == 4
		&& offsetof(struct vshmem_wire, message) == 8
		&& offsetof(struct vshmem_wire, token) == 32,
	"peers of other versions read these");
#define VSHMEM_HAS_WORDS(kind) \
	_Static_assert(sizeof(struct vshmem_wire_##kind) == 24, "three words")
VSHMEM_HAS_WORDS(message);
VSHMEM_HAS_WORDS(clear);
VSHMEM_HAS_WORDS(piece);
VSHMEM_HAS_WORDS(put);
VSHMEM_HAS_WORDS(get);
VSHMEM_HAS_WORDS(atomic);
VSHMEM_HAS_WORDS(answer);
VSHMEM_HAS_WORDS(done);
#undef VSHMEM_HAS_WORDS

/* In flags. */
#define VSHMEM_WIRE_DATA   1 /* cq_data is CQ data */
#define VSHMEM_WIRE_ACK    2 /* an answer with the token is wanted once the message is delivered */
#define VSHMEM_WIRE_TAGGED 4 /* of READY_TO_SEND */
#define VSHMEM_WIRE_FETCH  8 /* of ATOMIC: what was there is wanted */

enum vshmem_wire_operation {
	VSHMEM_PUT = 16, /* payload */
	VSHMEM_GET,
	VSHMEM_ATOMIC, /* payload: operands, and what they are compared with */
	VSHMEM_ANSWER, /* payload */
	VSHMEM_REMOTE_DONE, /* what the sender has done by itself */
	VSHMEM_ONE_SIDED_LAST = 31,
};

/* What is done to memory of a peer. */
enum { VSHMEM_REMOTE_READ = 1, VSHMEM_REMOTE_WRITE = 2 };

#endif
