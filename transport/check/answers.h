/* How peers answer what they are asked for: truly, or nearly so. */
#ifndef TRANSPORT_CHECK_ANSWERS_H
#define TRANSPORT_CHECK_ANSWERS_H

#include "pool.h"

/* Each check's own: a message comes, its payload so many bytes of one value. */
void deliver(uint32_t lane, uint8_t operation, const struct vshmem_wire *header, uint64_t bytes,
	int fill);

/* A true answer to VSHMEM_PUT, VSHMEM_GET or VSHMEM_ATOMIC. Some say that it is refused. */
void answer_request(const struct sent *was);
/* A few other bytes. */
void mutate(struct vshmem_wire *header);

#endif
