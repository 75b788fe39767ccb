/* Many endpoints of each process, as the contexts of OpenSHMEM are: each sends to each endpoint of
 * the next rank, and is answered. They are more than the lanes of a port that was made for a few
 * processes (FI_VSHMEM_PEERS).
 */
#include <string.h>

#include "endpoint.h"

enum { CONTEXTS = 20, CELLS = CONTEXTS * CONTEXTS };

static struct endpoint port;
static struct region region;
static struct fid_ep *contexts[CONTEXTS];
static fi_addr_t (*at)[CONTEXTS]; /* of each rank's */

static void open_contexts(void)
{
	enum { MOST = 64 };
	char mine[CONTEXTS][MOST] = { 0 }, (*all)[CONTEXTS][MOST] = malloc(
						   (size_t)ranks * sizeof(mine));
	at = malloc((size_t)ranks * sizeof(*at));
	for (int nth = 0; nth < CONTEXTS; nth++) {
		size_t bytes = MOST;
		must(fi_endpoint(port.domain, port.info, &contexts[nth], NULL) == 0
		                && fi_ep_bind(contexts[nth], &port.av->fid, 0) == 0
		                && fi_ep_bind(contexts[nth], &port.cq->fid, FI_TRANSMIT | FI_RECV)
		                        == 0
		                && fi_enable(contexts[nth]) == 0
		                && fi_getname(&contexts[nth]->fid, mine[nth], &bytes) == 0,
			"context %d", nth);
	}
	gather(mine, all, sizeof(mine));
	for (int other = 0; other < ranks; other++)
		for (int nth = 0; nth < CONTEXTS; nth++)
			must(fi_av_insert(port.av, all[other][nth], 1, &at[other][nth], 0, NULL)
			                == 1,
				"the address of context %d of rank %d", nth, other);
	free(all);
	together();
}

/* A put, a message that wants to be delivered, and an addition, from each to each. */
static void each_to_each(void)
{
	static struct operation puts[CELLS], sends[CELLS], receives[CELLS], sums[CELLS];
	static uint64_t values[CELLS], came[CELLS], was[CELLS];
	int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
	uint64_t base = region.addresses[next], key = region.keys[next], one = 1;
	uint64_t *cells = (uint64_t *)(void *)region.memory;
	for (int cell = 0; cell < CELLS; cell++)
		taken(&port,
			fi_trecv(contexts[cell % CONTEXTS], &came[cell], 8, NULL, FI_ADDR_UNSPEC,
				(uint64_t)cell, 0, &receives[cell]));
	together();
	for (int cell = 0; cell < CELLS; cell++) {
		struct fid_ep *from = contexts[cell / CONTEXTS];
		fi_addr_t to = at[next][cell % CONTEXTS];
		values[cell] = (uint64_t)(rank * CELLS + cell);
		taken(&port,
			fi_write(from, &values[cell], 8, NULL, to, base + 8 * (uint64_t)cell, key,
				&puts[cell]));
		taken(&port,
			fi_tsend(from, &values[cell], 8, NULL, to, (uint64_t)cell, &sends[cell]));
		taken(&port,
			fi_fetch_atomic(from, &one, 1, NULL, &was[cell], NULL, to, base + 8 * CELLS,
				key, FI_UINT64, FI_SUM, &sums[cell]));
	}
	for (int cell = 0; cell < CELLS; cell++) {
		finish(&port, &puts[cell]), finish(&port, &sends[cell]);
		finish(&port, &sums[cell]), finish(&port, &receives[cell]);
		must(came[cell] == (uint64_t)(previous * CELLS + cell), "message %d", cell);
	}
	together();
	for (int cell = 0; cell < CELLS; cell++)
		must(cells[cell] == (uint64_t)(previous * CELLS + cell), "put %d", cell);
	must(cells[CELLS] == CELLS, "%lu additions", (unsigned long)cells[CELLS]);
	passed("each endpoint sends to each endpoint of the next process");
}

int main(int argc, char **argv)
{
	ranks_begin(argc, argv);
	struct wants wants = { .caps = FI_TAGGED | FI_RMA | FI_ATOMIC,
		.tx_flags = FI_DELIVERY_COMPLETE,
		.mr_mode = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ALLOCATED };
	must(have_endpoint(&port, &wants, "an endpoint"), "no endpoint");
	region.bytes = (CELLS + 1) * 8;
	region.memory = calloc(1, region.bytes);
	open_region(&port, &region, FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 5);
	open_contexts();
	each_to_each();
	close_region(&region);
	together();
	for (int nth = 0; nth < CONTEXTS; nth++)
		must(fi_close(&contexts[nth]->fid) == 0, "close of context %d", nth);
	close_endpoint(&port);
	return ranks_end();
}
