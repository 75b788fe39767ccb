/* How many bytes a port may have. */
#ifndef VSHMEM_PORT_SIZE_H
#define VSHMEM_PORT_SIZE_H

#include <stdint.h>

#include "vshmem.h"

/* At most MOST, and so few that as many ports as a port has senders leave half of the pool to
 * others. */
uint64_t vshmem_port_bytes(const vshmem_pool *pool, uint32_t senders, uint64_t most);

#endif
