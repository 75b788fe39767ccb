/* Messages of sends and receives, beside those of put, get and atomics (../transport/wire.h). */
#ifndef VFI_WIRE_H
#define VFI_WIRE_H

#include "../transport/wire.h"

enum vfi_wire_operation {
	VFI_EAGER = 1,    /* a whole message */
	VFI_EAGER_TAGGED,
	VFI_READY_TO_SEND, /* a message too long for that; payload: nothing, or where it may be
	                    * copied from (struct vfi_offer_place, struct vfi_pool_place) */
	VFI_CLEAR_TO_SEND, /* its answer */
	VFI_PIECE,    /* token of the receiver; payload */
	VFI_ACK,    /* token alone: it is delivered */
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
