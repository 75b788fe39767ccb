/* What lies in a lane: a header, then the payload. The lane's own tag byte is the operation.
 *
 * A message's text begins 8 bytes past a cache line, so a header and 8 bytes of payload lie in one
 * line. Every byte is its sender's, who may write anything: a header is copied, checked, and then
 * only the copy is used.
 */
#ifndef VFI_WIRE_H
#define VFI_WIRE_H

#include <stddef.h>
#include <stdint.h>

/* Words of each kind of message; what a kind does not name is 0. */
struct vfi_wire_message { /* EAGER, EAGER_TAGGED, READY_TO_SEND */
	uint64_t size; /* of the whole message; of an eager one its payload's instead */
	uint64_t tag;
	uint64_t cq_data;
};
struct vfi_wire_clear { /* CLEAR_TO_SEND */
	uint64_t wanted; /* bytes that the receiver still wants; 0: none */
	uint64_t unused;
	uint64_t receiver; /* token that the pieces are to name */
};
struct vfi_wire_piece { /* PIECE */
	uint64_t offset; /* of the payload in the message */
	uint64_t unused[2];
};
struct vfi_wire_put { /* PUT */
	uint64_t address;
	uint64_t key;
	union {
		uint64_t cq_data; /* with VFI_WIRE_DATA */
		uint64_t left; /* where more parts follow: bytes from this one on */
	};
};
struct vfi_wire_get { /* GET */
	uint64_t address;
	uint64_t key;
	uint64_t length;
};
struct vfi_wire_atomic { /* ATOMIC */
	uint64_t address;
	uint64_t key;
	uint64_t length; /* of the memory */
};
struct vfi_wire_answer { /* ANSWER */
	uint64_t offset; /* of the payload in what GET asked for */
	uint64_t unused[2];
};
struct vfi_wire_done { /* REMOTE_DONE */
	uint64_t address;
	uint64_t key;
	uint64_t cq_data;
};

struct vfi_wire {
	uint8_t flags; /* VFI_WIRE_... */
	union {
		uint8_t datatype; /* of ATOMIC */
		uint8_t answered; /* of ANSWER: the operation that it is to */
	};
	union {
		uint16_t op; /* of ATOMIC: enum fi_op */
		uint16_t error; /* of ANSWER: 0, or FI_E... */
		uint16_t done; /* of REMOTE_DONE: VFI_REMOTE_READ or _WRITE */
	};
	uint32_t bytes; /* of the payload here */
	union {
		struct vfi_wire_message message;
		struct vfi_wire_clear clear;
		struct vfi_wire_piece piece;
		struct vfi_wire_put put;
		struct vfi_wire_get get;
		struct vfi_wire_atomic atomic;
		struct vfi_wire_answer answer;
		struct vfi_wire_done remote;
	};
	uint64_t token; /* of an operation that an answer is for, or is wanted by; 0: none */
};
_Static_assert(sizeof(struct vfi_wire) == 40, "a header and 8 bytes lie in one cache line");
_Static_assert(offsetof(struct vfi_wire, op) == 2 && offsetof(struct vfi_wire, bytes) == 4
                && offsetof(struct vfi_wire, message) == 8
                && offsetof(struct vfi_wire, token) == 32,
	"peers of other versions read these");
#define VFI_HAS_WORDS(kind) _Static_assert(sizeof(struct vfi_wire_##kind) == 24, "three words")
VFI_HAS_WORDS(message);
VFI_HAS_WORDS(clear);
VFI_HAS_WORDS(piece);
VFI_HAS_WORDS(put);
VFI_HAS_WORDS(get);
VFI_HAS_WORDS(atomic);
VFI_HAS_WORDS(answer);
VFI_HAS_WORDS(done);
#undef VFI_HAS_WORDS

/* In flags. */
#define VFI_WIRE_DATA   1 /* cq_data is CQ data */
#define VFI_WIRE_ACK    2 /* an answer with the token is wanted once the message is delivered */
#define VFI_WIRE_TAGGED 4 /* of READY_TO_SEND */
#define VFI_WIRE_FETCH  8 /* of ATOMIC: what was there is wanted */

enum vfi_wire_operation {
	VFI_EAGER = 1,    /* a whole message */
	VFI_EAGER_TAGGED,
	VFI_READY_TO_SEND, /* a message too long for that; payload: nothing, or where it may be
	                    * copied from (struct vfi_offer_place, struct vfi_pool_place) */
	VFI_CLEAR_TO_SEND, /* its answer */
	VFI_PIECE,    /* token of the receiver; payload */
	VFI_ACK,    /* token alone: it is delivered */
	/* One-sided. */
	VFI_PUT = 16, /* payload */
	VFI_GET,
	VFI_ATOMIC, /* payload: operands, and what they are compared with */
	VFI_ANSWER, /* payload */
	VFI_REMOTE_DONE, /* what the sender has done by itself */
	VFI_ONE_SIDED_LAST = 31,
};

/* The entry of a message in the memory of its sender (offers.h). */
struct vfi_offer_place {
	uint64_t offers; /* address of a struct vfi_offers */
	uint64_t index;
};

/* The pool has the whole message, in one piece. */
struct vfi_pool_place {
	uint64_t offset;
};

#endif
