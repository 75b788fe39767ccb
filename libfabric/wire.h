/* What lies in a lane: a header, then the payload. The lane's own tag byte is the operation.
 *
 * A message's text begins 8 bytes past a cache line, so a header and 8 bytes of payload lie in one
 * line. Every byte is its sender's, who may write anything: a header is copied, checked, and then
 * only the copy is used.
 */
#ifndef VFI_WIRE_H
#define VFI_WIRE_H

#include <stdint.h>

struct vfi_wire {
	uint8_t flags; /* VFI_WIRE_... */
	uint8_t kind; /* of one-sided operations: a datatype */
	uint16_t status; /* of an answer: 0, or FI_E...; else an operation */
	uint32_t bytes; /* of the payload here */
	uint64_t size; /* of the whole message, or an address */
	uint64_t tag; /* or a key */
	uint64_t data; /* CQ data, or a second token or operand */
	uint64_t token; /* of an operation that an answer is for, or is wanted by; 0: none */
};
_Static_assert(sizeof(struct vfi_wire) == 40, "a header and 8 bytes lie in one cache line");

/* In flags. */
#define VFI_WIRE_DATA   1 /* data is CQ data */
#define VFI_WIRE_ACK    2 /* an answer with the token is wanted once the message is delivered */
#define VFI_WIRE_TAGGED 4 /* of READY_TO_SEND */
#define VFI_WIRE_FETCH  8 /* of ATOMIC: what was there is wanted */

enum vfi_wire_operation {
	VFI_EAGER = 1,    /* a whole message */
	VFI_EAGER_TAGGED,
	VFI_READY_TO_SEND, /* size, tag, data, token: a message too long for that; payload:
	                    * nothing, or where it may be copied from (struct vfi_offer_place) */
	VFI_CLEAR_TO_SEND, /* its answer: token, size (bytes still wanted), data (own token) */
	VFI_PIECE,    /* token of the receiver, size (offset), payload */
	VFI_ACK,    /* token: it is delivered */
	/* One-sided: size is an address, tag a key, kind a datatype, status an operation. */
	VFI_PUT = 16, /* payload; data: CQ data, or bytes from here on where more parts follow */
	VFI_GET, /* data: bytes */
	VFI_ATOMIC, /* operands, and what they are compared with; data: bytes of the memory */
	VFI_ANSWER, /* token, kind (of which operation), status (error), size (offset), payload */
	VFI_REMOTE_DONE, /* what the sender has done by itself; status: VFI_REMOTE_READ or _WRITE */
	VFI_ONE_SIDED_LAST = 31,
};

/* The entry of a message in the memory of its sender (offers.h). */
struct vfi_offer_place {
	uint64_t offers; /* address of a struct vfi_offers */
	uint64_t index;
};

#endif
