/* A member that forges. It has no key to break: who sends on a lane is what stands in the pool, and
 * a member writes there what it likes. It claims a lane as anybody does, and then replaces its own
 * port by another's. */
#define _GNU_SOURCE
#include "forger.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vshmem.h"

enum { PAGE = 4096, AT_ONCE = 1024 };
/* Words of a port and of a lane's control block (crates/vshmem_channel/src/layout.rs). */
enum { PORT_NONCE = 1, PORT_SHAPE = 2 };
enum { LANES_AT = 4096, LANE_STRIDE = 128, SENDER_PORT = 3, SENDER_NONCE = 4, SENDER_MARK = 5 };
static const char port_magic[8] = { 'V', 'S', 'H', 'P', 'O', 'R', 'T', 3 };

static void demand(int holds, const char *what)
{
	if (holds)
		return;
	printf("the forger: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* What other members learn from the file of a process: its first endpoint's port. */
static struct vshmem_address port_in_file(const char *directory, int of)
{
	struct vshmem_address port;
	char name[512];
	FILE *file;
	snprintf(name, sizeof(name), "%s/%d", directory, of);
	while (!(file = fopen(name, "r")))
		usleep(1000);
	/* After the pool's 16 bytes (struct vfi_address). */
	demand(fseek(file, 16, SEEK_SET) == 0 && fread(&port, sizeof(port), 1, file) == 1, name);
	fclose(file);
	return port;
}

/* Only pages that are in memory: a look at the others would make them. */
static uint64_t *find_port(const vshmem_pool *pool, uint64_t nonce)
{
	char *base = vshmem_base(pool);
	static unsigned char there[AT_ONCE];
	demand(base != NULL, "the pool is not mapped as a whole");
	for (uint64_t at = 0, pages = vshmem_bytes(pool) / PAGE; at < pages; at += AT_ONCE) {
		uint64_t count = pages - at < AT_ONCE ? pages - at : AT_ONCE;
		demand(mincore(base + at * PAGE, count * PAGE, there) == 0, "mincore");
		for (uint64_t nth = 0; nth < count; nth++) {
			uint64_t *words = (uint64_t *)(void *)(base + (at + nth) * PAGE);
			if ((there[nth] & 1) && memcmp(words, port_magic, 8) == 0
			        && words[PORT_NONCE] == nonce)
				return words;
		}
	}
	demand(0, "no such port in the pool");
	return NULL;
}

static vshmem_lane *lane_in_name_of(vshmem_pool *pool, const vshmem_port *own,
	const struct vshmem_address *to, const struct vshmem_address *name)
{
	const uint64_t mark = UINT64_C(0x726567726f66) << 16 | (name->nonce & 0xffff);
	vshmem_lane *lane;
	demand(vshmem_lane_claim(pool, to, own, mark, &lane) == 0, "a lane");
	uint64_t *port = find_port(pool, to->nonce);
	int found = 0;
	for (uint32_t nth = 0; nth < (uint32_t)port[PORT_SHAPE]; nth++) {
		uint64_t *block = port + (LANES_AT + nth * LANE_STRIDE) / sizeof(*port);
		if (block[SENDER_MARK] != mark)
			continue;
		block[SENDER_PORT] = name->id;
		block[SENDER_NONCE] = name->nonce;
		found++;
	}
	demand(found == 1, "its own lane in the pool");
	return lane;
}

void forge(const char *directory, int orders)
{
	struct vshmem_address ports[2];
	vshmem_lane *lanes[2];
	vshmem_pool *pool;
	vshmem_port *own;
	struct order order;
	demand(vshmem_open(NULL, &pool, NULL, 0) == 0, "the pool");
	demand(vshmem_port_make(pool, 1, 1 << 16, 1 << 16, &own) == 0, "a port");
	for (int nth = 0; nth < 2; nth++)
		ports[nth] = port_in_file(directory, nth);
	for (int nth = 0; nth < 2; nth++)
		lanes[nth] = lane_in_name_of(pool, own, &ports[nth], &ports[1 - nth]);
	demand(send(orders, "", 1, 0) == 1, "telling that it is ready");
	while (recv(orders, &order, sizeof(order), 0) == (ssize_t)sizeof(order)) {
		int rc;
		while ((rc = vshmem_post(lanes[order.to], &order.header, sizeof(order.header),
				order.payload, order.bytes, order.operation)) == -EAGAIN)
			usleep(1000);
		demand(rc == 0 && send(orders, "", 1, 0) == 1, "sending");
	}
	for (int nth = 0; nth < 2; nth++)
		vshmem_lane_close(lanes[nth]);
	vshmem_port_close(own);
	vshmem_close(pool);
}

void await_forger(int orders)
{
	char answer;
	demand(recv(orders, &answer, 1, 0) == 1, "it has ended");
}

void order_message(int orders, const struct order *order)
{
	demand(send(orders, order, sizeof(*order), 0) == (ssize_t)sizeof(*order), "an order");
	await_forger(orders);
}
