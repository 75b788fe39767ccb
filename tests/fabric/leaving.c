/* Rank 1 closes what it has, as every job does at its end, while rank 0 still has something under
 * way with it. Whatever lay at rank 1 by then is done, and answered; what rank 1 has sent arrives;
 * and rank 0 tells an endpoint that was closed from a process that has died.
 *   leaving RANK 2 ADDRESS PORT CASE
 */
#include <string.h>
#include <time.h>

#include "endpoint.h"

enum { STAYS, LEAVES, REGION = 1 << 20, SMALL = 64 };

static struct endpoint port;
static struct region region;
static uint64_t operand = 3, was[2];
static char put_from[SMALL], got_into[SMALL];

/* Without a call of libfabric in between. */
static void in_turn(void)
{
	ranks_meanwhile(NULL, NULL);
	together();
}

static void open_all(void)
{
	struct wants wants = { .caps = FI_TAGGED | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV,
		.tx_flags = FI_DELIVERY_COMPLETE,
		.mr_mode = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ALLOCATED };
	must(have_endpoint(&port, &wants, "an endpoint"), "no endpoint");
	region.bytes = REGION;
	region.memory = calloc(1, REGION);
	open_region(&port, &region, FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 5);
	/* Both know each other. */
	struct operation sent = { 0 }, received = { 0 };
	char byte;
	taken(&port, fi_trecv(port.ep, &byte, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &received));
	taken(&port, fi_tsend(port.ep, "a", 1, NULL, port.at[!rank], 1, &sent));
	finish(&port, &sent), finish(&port, &received);
	together();
}

/* Its own calls: those of close_endpoint wait for the other. */
static void leave(void)
{
	must(fi_close(&region.mr->fid) == 0, "the region did not close");
	must(fi_close(&port.ep->fid) == 0, "the endpoint did not close");
}

static void close_rest(void)
{
	struct fid *fids[] = { &port.cq->fid, &port.av->fid, &port.domain->fid, &port.fabric->fid };
	ranks_meanwhile(NULL, NULL);
	for (size_t nth = 0; nth < sizeof(fids) / sizeof(fids[0]); nth++)
		must(fi_close(fids[nth]) == 0, "number %zu did not close", nth);
	fi_freeinfo(port.info);
	free(port.at), free(region.memory), free(region.keys), free(region.addresses);
	memset(&port, 0, sizeof(port));
}

/* All of it lies at rank 1, which does not look. */
static void begin_all(struct operation *operations)
{
	uint64_t at = region.addresses[LEAVES], key = region.keys[LEAVES];
	fi_addr_t to = port.at[LEAVES];
	taken(&port, fi_write(port.ep, put_from, SMALL, NULL, to, at, key, &operations[0]));
	taken(&port,
		fi_read(port.ep, got_into, SMALL, NULL, to, at + REGION / 2, key, &operations[1]));
	taken(&port,
		fi_fetch_atomic(port.ep, &operand, 1, NULL, was, NULL, to, at + 4096, key,
			FI_UINT64, FI_SUM, &operations[2]));
}

static void what_lies_there_is_done(void)
{
	struct operation operations[3] = { 0 };
	open_all();
	fill(region.memory + REGION / 2, SMALL, (unsigned)rank, 2);
	fill(put_from, SMALL, (unsigned)rank, 1);
	in_turn();
	if (rank == STAYS)
		begin_all(operations);
	in_turn();
	if (rank == LEAVES) {
		leave();
		verify(region.memory, SMALL, STAYS, 1, "a put before the region was closed");
		must(*(uint64_t *)(region.memory + 4096) == operand, "no addition");
	} else {
		for (int nth = 0; nth < 3; nth++)
			finish(&port, &operations[nth]);
		verify(got_into, SMALL, LEAVES, 2, "a get before the region was closed");
	}
	in_turn();
	if (rank == STAYS)
		leave();
	close_rest();
	passed("what lies at an endpoint is done before it is closed");
}

/* As much as can be sent: more than the lane has room for, and all of it counts as sent. */
static void what_was_sent_arrives(void)
{
	uint32_t in[SMALL / 4], counts[2], count = 0;
	open_all();
	in_turn();
	for (; rank == LEAVES; count++) {
		uint32_t out[SMALL / 4] = { count };
		ssize_t gave = fi_tinject(port.ep, out, SMALL, port.at[STAYS], 7);
		if (gave == -FI_EAGAIN)
			break;
		must(gave == 0, "message %u: %s", count, fi_strerror((int)-gave));
	}
	gather(&count, counts, sizeof(count));
	if (rank == LEAVES)
		leave();
	for (uint32_t nth = 0; rank == STAYS && nth < counts[LEAVES]; nth++) {
		struct operation received = { 0 };
		taken(&port,
			fi_trecv(port.ep, in, SMALL, NULL, FI_ADDR_UNSPEC, 7, 0, &received));
		finish(&port, &received);
		must(in[0] == nth, "message %u is %u", nth, in[0]);
	}
	in_turn();
	if (rank == STAYS)
		leave();
	close_rest();
	passed("what was sent arrives, although its sender has closed");
}

/* Begun when the other has closed its endpoint: an error, and not that of a death. */
static void a_close_is_no_death(void)
{
	struct operation put = { 0 }, again = { 0 };
	open_all();
	in_turn();
	if (rank == LEAVES)
		leave();
	in_turn();
	if (rank == STAYS) {
		uint64_t at = region.addresses[LEAVES], key = region.keys[LEAVES];
		taken(&port,
			fi_write(port.ep, put_from, SMALL, NULL, port.at[LEAVES], at, key, &put));
		wait_for(&port, &put, 1);
		must(put.failed == FI_ESHUTDOWN, "a put to a closed endpoint: %s",
			fi_strerror(put.failed));
		ssize_t gave = fi_tsend(
			port.ep, put_from, SMALL, NULL, port.at[LEAVES], 1, &again);
		if (gave == 0)
			wait_for(&port, &again, 1);
		must(gave || again.failed, "a later send has succeeded");
		leave();
	}
	in_turn();
	close_rest();
	passed("a close is told from a death");
}

/* Its process has ended when rank 0 looks again: what it had answered is answered. */
static void answers_of_one_that_has_ended(void)
{
	struct operation put = { 0 }, received = { 0 };
	uint32_t last = 0, in[SMALL / 4];
	open_all();
	in_turn();
	if (rank == STAYS)
		taken(&port,
			fi_write(port.ep, put_from, SMALL, NULL, port.at[LEAVES],
				region.addresses[LEAVES], region.keys[LEAVES], &put));
	in_turn();
	if (rank == LEAVES) {
		/* The answer comes after all of these. */
		for (uint32_t nth = 1; nth <= 200; nth++) {
			uint32_t out[SMALL / 4] = { nth };
			must(fi_tinject(port.ep, out, SMALL, port.at[STAYS], 7) == 0, "inject");
		}
		leave();
		close_rest();
		exit(0);
	}
	wait_for_end(LEAVES);
	/* Long enough for a look at who has ended. */
	nanosleep(&(struct timespec) { 0, 300000000 }, NULL);
	while (!put.done && !put.failed)
		look(&port);
	must(!put.failed, "a put that was answered: %s", fi_strerror(put.failed));
	for (; last < 200; last++) {
		received = (struct operation) { 0 };
		taken(&port,
			fi_trecv(port.ep, in, SMALL, NULL, FI_ADDR_UNSPEC, 7, 0, &received));
		finish(&port, &received);
		must(in[0] == last + 1, "message %u is %u", last + 1, in[0]);
	}
	leave();
	close_rest();
	passed("answers of one that has ended");
}

static const struct {
	const char *name;
	void (*run)(void);
} rows[] = {
	{ "done", what_lies_there_is_done },
	{ "sent", what_was_sent_arrives },
	{ "closed", a_close_is_no_death },
	{ "answered", answers_of_one_that_has_ended },
};

int main(int argc, char **argv)
{
	must(ranks_begin(argc, argv) == 1 && ranks == 2, "usage: leaving RANK 2 ADDRESS PORT CASE");
	for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++)
		if (strcmp(argv[5], rows[row].name) == 0)
			rows[row].run();
	return ranks_end();
}
