/* A peer that sends, wants each message acknowledged, and reads nothing: what waits for it is
 * bounded, and it is given up then. */
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

#include "../vshmem_fi.h"
#include "../../transport/check/pool.h"

#define TAG UINT64_C(0x7766554433221100)

/* The error of the one operation that is under way, or 0. */
static int wait(struct fid_cq *cq, const void *context)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = { 0 };
	ssize_t got;
	int looks = 0;
	while ((got = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
		must(++looks < 1000);
	if (got == -FI_EAVAIL) {
		must(fi_cq_readerr(cq, &error, 0) == 1 && error.op_context == context);
		return error.err;
	}
	must(got == 1 && entry.op_context == context);
	return 0;
}

void flood(struct fid_ep *ep, struct fid_cq *cq, uint32_t peer, uint64_t address)
{
	struct vshmem_wire header = { .flags = VSHMEM_WIRE_ACK, .message.tag = TAG, .token = 1 };
	char word[8];
	int context, error;
	peers[peer].state = FULL;
	for (int nth = 0; nth < VSHMEM_ANSWERS + 1; nth++) {
		must(fi_trecv(ep, word, 8, NULL, FI_ADDR_UNSPEC, TAG, 0, &context) == 0);
		give(peer, VFI_EAGER_TAGGED, &header, word, 8);
		must(wait(cq, &context) == 0);
	}
	must(fi_tsend(ep, word, 8, NULL, address, TAG, &context) == 0);
	error = wait(cq, &context);
	must(error == FI_EIO);
	peers[peer].state = OPEN;
}
