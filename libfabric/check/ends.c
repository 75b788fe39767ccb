/* Endpoints that are closed with work under way, peers that come and go, counters that a region
 * still has, and answers that nobody was asked for: over the stand-in of the pool, with the
 * sanitizers, which also say what is never freed.
 */
#include <stdio.h>
#include <stdlib.h>

#include <rdma/fi_rma.h>

#include "guess.h"
#include "one_endpoint.h"

/* Everything that can be under way with the first peer, or wait for room there. */
static void begin_everything(char *memory, struct fid_mr *region)
{
	fi_addr_t to = addresses[0];
	struct fi_msg_tagged message = {
		.msg_iov = &(struct iovec) { memory, 64 }, .iov_count = 1, .addr = to
	};
	struct iovec part = { memory, 8192 };
	struct fi_msg several = { .msg_iov = &part, .iov_count = 1, .addr = FI_ADDR_UNSPEC };
	struct vshmem_wire ready = { .message = { .size = 4000, .tag = 5 },
		.token = 77,
		.flags = VSHMEM_WIRE_TAGGED },
			   ready_untagged = { .message.size = 4000, .token = 78 };
	must(fi_tsendmsg(ep, &message, FI_DELIVERY_COMPLETE) == 0);
	must(fi_tsend(ep, memory, 8000, NULL, to, 1, NULL) == 0);
	must(fi_trecv(ep, memory, 4000, NULL, FI_ADDR_UNSPEC, 5, 0, NULL) == 0);
	deliver(0, VFI_READY_TO_SEND, &ready, 0, 0);
	must(fi_recvmsg(ep, &several, FI_MULTI_RECV) == 0);
	deliver(0, VFI_READY_TO_SEND, &ready_untagged, 0, 0);
	/* Not expected. */
	deliver(0, VFI_EAGER_TAGGED, &(struct vshmem_wire) { .message.tag = 99 }, 8, 0);
	must(fi_trecv(ep, memory, 8, NULL, to, 6, 0, NULL) == 0);
	for (int full = 0; full < 2; full++) {
		must(fi_write(ep, memory, 64, NULL, to, 4096, 1, NULL) == 0);
		must(fi_write(ep, memory, 8000, NULL, to, 4096, 1, NULL) == 0);
		must(fi_inject_write(ep, memory, 64, to, 4096, 1) == 0);
		must(fi_read(ep, memory, 8000, NULL, to, 4096, 1, NULL) == 0);
		must(fi_atomic(ep, memory, 1, NULL, to, 4096, 1, FI_UINT64, FI_SUM, NULL) == 0);
		struct vshmem_wire get = { .get = { .address = (uint64_t)(uintptr_t)memory,
						   .key = fi_mr_key(region),
						   .length = 8192 },
			.token = 5 };
		/* From now on there is no room. */
		peers[0].state = FULL;
		deliver(0, VSHMEM_GET, &get, 0, 0);
		must(fi_tinject(ep, memory, 64, to, 1) == 0);
		must(fi_tsend(ep, memory, 64, NULL, to, 1, NULL) == 0);
		deliver(0, VFI_EAGER_TAGGED,
			&(struct vshmem_wire) {
				.message.tag = 99, .token = 5, .flags = VSHMEM_WIRE_ACK },
			8, 0);
		must(fi_trecv(ep, memory, 8, NULL, FI_ADDR_UNSPEC, 99, 0, NULL) == 0);
	}
}

/* Nothing of it is used or told of after that, and nothing remains. */
static void closed_with_work_under_way(void)
{
	struct fi_cq_tagged_entry entry;
	char *memory = calloc(1, 8192);
	struct fid_mr *region;
	must(fi_mr_reg(domain, memory, 8192, FI_REMOTE_READ, 0, 0, 0, &region, NULL) == 0);
	begin_everything(memory, region);
	while (fi_cq_read(cq, &entry, 1) == 1)
		;
	must(fi_close(&ep->fid) == 0);
	must(fi_close(&region->fid) == 0);
	free(memory);
	must(fi_cq_read(cq, &entry, 1) == -FI_EAGAIN);
	peers[0].state = OPEN;
	sent_count = 0;
	open_endpoint();
}

/* What is kept of peers does not grow with those that have come and gone. */
static void peers_come_and_go(void)
{
	const struct vfi_endpoint *own = container_of(ep, struct vfi_endpoint, fid);
	struct fi_cq_tagged_entry entry;
	char word[8] = "";
	uint64_t address = (uint64_t)(uintptr_t)word;
	struct vshmem_wire asked = { .flags = VSHMEM_WIRE_ACK, .put.key = 1 };
	for (int turn = 0; turn < 300; turn++) {
		must(fi_tinject(ep, word, 8, addresses[1], 1) == 0);
		must(fi_write(ep, word, 8, NULL, addresses[1], address, 1, NULL) == 0);
		deliver(1, VSHMEM_PUT, &asked, 8, 0);
		sent_count = 0;
		fi_addr_t gone = addresses[1];
		come(1, 0);
		give_end(1);
		while (!taken())
			fi_cq_read(cq, &entry, 0);
		must(fi_av_remove(av, &gone, 1, 0) == 0);
		struct fi_cq_err_entry error = { 0 };
		must(fi_cq_read(cq, &entry, 1) == -FI_EAVAIL && fi_cq_readerr(cq, &error, 0) == 1);
	}
	/* They are looked after some ten times a second. */
	for (uint64_t looks = 0; own->peer_count > PEERS; looks++) {
		must(looks < UINT64_C(1) << 32);
		fi_cq_read(cq, &entry, 0);
	}
}

/* A counter that a region still counts by is not closed. */
static void counters_of_regions(void)
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP };
	struct fid_cntr *counter, *second;
	struct fid_mr *region;
	char word[8];
	must(fi_cntr_open(domain, &attr, &counter, NULL) == 0);
	must(fi_cntr_open(domain, &attr, &second, NULL) == 0);
	must(fi_mr_reg(domain, word, 8, FI_REMOTE_WRITE, 0, 0, 0, &region, NULL) == 0);
	must(fi_mr_bind(region, &counter->fid, FI_REMOTE_WRITE) == 0);
	must(fi_close(&counter->fid) == -FI_EBUSY);
	must(fi_mr_bind(region, &second->fid, FI_REMOTE_WRITE) == 0);
	must(fi_close(&counter->fid) == 0);
	must(fi_close(&second->fid) == -FI_EBUSY);
	must(fi_close(&region->fid) == 0);
	must(fi_close(&second->fid) == 0);
}

int main(void)
{
	open_all(NULL);
	for (uint32_t nth = 0; nth < PEERS; nth++)
		come(nth, 0);
	for (int times = 0; times < 3; times++)
		closed_with_work_under_way();
	peers_come_and_go();
	counters_of_regions();
	guess();
	close_all();
	printf("ends, and answers that are guessed: 1 passed, 0 failed\n");
	return 0;
}
