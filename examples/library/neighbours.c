/* What a pool is and who uses it here: name, identity, this process's domain, and the processes of
 * this kernel that use the pool's memory, this one among them.
 *   neighbours POOL */
#include <inttypes.h>
#include <stdio.h>
#include <vshmem.h>

int main(int argc, char **argv)
{
	vshmem_pool *pool;
	char message[512] = "", name[64];
	uint8_t uuid[16];
	uint32_t domain, client;
	if (vshmem_open(argc > 1 ? argv[1] : NULL, &pool, message, sizeof message) < 0) {
		fprintf(stderr, "neighbours: %s\n", message);
		return 1;
	}
	vshmem_identify(pool, uuid);
	vshmem_whoami(pool, name, &domain, &client);
	printf("pool %s ", name);
	for (int i = 0; i < 16; i++)
		printf("%02x", uuid[i]);
	printf(": domain %" PRIu32 ", %d process(es) of this kernel\n", domain,
		vshmem_neighbours(pool));
	vshmem_close(pool);
	return 0;
}
