/* What a pool is and who uses it here: name, identity, this process's domain, and the processes of
 * this kernel that use the pool's memory, this one among them.
 *   neighbours POOL [DOMAIN]
 * With the name of another domain, as `vshmem ls` shows it, also whether that one takes part. */
#include <inttypes.h>
#include <stdio.h>
#include <vshmem.h>

/* A domain that went and came back has another epoch: it is not the one that was asked for. */
static int find(vshmem_pool *pool, const char *name)
{
	struct vshmem_domain own, other;
	int result = vshmem_domain(pool, &own);
	if (result == 0)
		result = vshmem_domain_named(pool, name, &other);
	if (result < 0) {
		printf("%s does not take part\n", name);
		return 1;
	}
	printf("%s is %s domain, and takes part: %d\n", name,
		own.index == other.index && own.epoch == other.epoch ? "this" : "another",
		vshmem_domain_alive(pool, &other));
	return 0;
}

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
	int result = argc > 2 ? find(pool, argv[2]) : 0;
	vshmem_close(pool);
	return result;
}
