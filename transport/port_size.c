#include "port_size.h"

uint64_t vshmem_port_bytes(const vshmem_pool *pool, uint32_t senders, uint64_t most)
{
	uint64_t share = vshmem_bytes(pool) / 2 / senders;
	return share < most ? share : most;
}
