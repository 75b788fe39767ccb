/* An endpoint of each of the two, and the owner of the memory. */
#define _GNU_SOURCE
#include "sides.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../../libfabric/fi_ext_vshmem.h"

int passes;
enum fi_wait_obj side_wait;
void passed(const char *what)
{
	printf("ok: %s\n", what);
	fflush(stdout);
	passes++;
}

#define good(call)                                                    \
	do {                                                          \
		int gave = (int)(call);                               \
		must(gave == 0, "%s: %s", #call, fi_strerror(-gave)); \
	} while (0)

static void exchange(struct side *side)
{
	char mine[256] = { 0 }, theirs[256];
	size_t bytes = sizeof(mine);
	good(fi_getname(&side->ep->fid, mine, &bytes));
	must(send(side->socket, mine, sizeof(mine), 0) == (ssize_t)sizeof(mine)
	                && recv(side->socket, theirs, sizeof(theirs), MSG_WAITALL)
	                        == (ssize_t)sizeof(theirs),
		"addresses");
	memcpy(&side->peer_record, theirs + 40, sizeof(side->peer_record));
	must(fi_av_insert(side->av, theirs, 1, &side->peer, 0, NULL) == 1, "fi_av_insert");
}

void open_side(struct side *side, int socket, int mr_mode)
{
	struct fi_info *hints = fi_allocinfo();
	memset(side, 0, sizeof(*side));
	side->socket = socket;
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_RMA | FI_ATOMIC | FI_RMA_EVENT | FI_READ | FI_WRITE
	        | FI_REMOTE_READ | FI_REMOTE_WRITE;
	hints->domain_attr->mr_mode = mr_mode;
	hints->fabric_attr->prov_name = strdup("vshmem");
	good(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &side->info));
	fi_freeinfo(hints);
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_DATA, .wait_obj = side_wait };
	struct fi_cntr_attr counter = { .events = FI_CNTR_EVENTS_COMP };
	struct fi_av_attr av = { .type = FI_AV_TABLE, .count = 2 };
	good(fi_fabric(side->info->fabric_attr, &side->fabric, NULL));
	good(fi_domain(side->fabric, side->info, &side->domain, NULL));
	good(fi_av_open(side->domain, &av, &side->av, NULL));
	good(fi_cq_open(side->domain, &cq, &side->cq, NULL));
	good(fi_cntr_open(side->domain, &counter, &side->read, NULL));
	good(fi_cntr_open(side->domain, &counter, &side->written, NULL));
	good(fi_endpoint(side->domain, side->info, &side->ep, NULL));
	good(fi_ep_bind(side->ep, &side->av->fid, 0));
	good(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV));
	good(fi_ep_bind(side->ep, &side->read->fid, FI_REMOTE_READ));
	good(fi_ep_bind(side->ep, &side->written->fid, FI_REMOTE_WRITE));
	good(fi_enable(side->ep));
	exchange(side);
}

void close_side(struct side *side)
{
	struct fid *fids[] = { &side->ep->fid, &side->read->fid, &side->written->fid,
		&side->cq->fid, &side->av->fid, &side->domain->fid, &side->fabric->fid };
	for (size_t nth = 0; nth < sizeof(fids) / sizeof(fids[0]); nth++) {
		int rc = fi_close(fids[nth]);
		must(rc == 0, "close of number %zu: %s", nth, fi_strerror(-rc));
	}
	fi_freeinfo(side->info);
}

void look(struct side *side)
{
	struct fi_cq_data_entry entry;
	ssize_t got = fi_cq_read(side->cq, &entry, 1);
	if (got == 1 && (entry.flags & FI_REMOTE_CQ_DATA)) {
		side->data++;
		side->last_data = entry.data;
	} else if (got == 1) {
		must(entry.op_context == side, "a completion of something else");
		side->wanted--;
	} else if (got == -FI_EAVAIL) {
		struct fi_cq_err_entry error = { 0 };
		must(fi_cq_readerr(side->cq, &error, 0) == 1, "no error to read");
		must(error.op_context == side, "an error of something else: %d", error.err);
		side->wanted--;
		side->errors++;
		side->last_error = error.err;
	} else {
		must(got == -FI_EAGAIN, "fi_cq_read: %s", fi_strerror((int)-got));
	}
}

void wait_any(struct side *side)
{
	while (side->wanted > 0)
		look(side);
	must(side->wanted == 0, "more completions than operations");
}

void wait_all(struct side *side)
{
	wait_any(side);
	must(side->errors == 0, "an operation failed: %s", fi_strerror(side->last_error));
}

void wait_error(struct side *side, int error)
{
	side->errors = 0;
	wait_any(side);
	must(side->errors == 1 && side->last_error == error, "error %d instead of %d",
		side->errors ? side->last_error : 0, error);
	side->errors = 0;
}

struct answer ask(struct side *side, enum say what)
{
	char word = (char)what;
	struct answer answer;
	must(send(side->socket, &word, 1, 0) == 1
	                && recv(side->socket, &answer, sizeof(answer), MSG_WAITALL)
	                        == (ssize_t)sizeof(answer),
		"the owner of the memory has ended");
	return answer;
}

uint64_t sum_of(const unsigned char *bytes, size_t count)
{
	uint64_t sum = 0;
	for (size_t at = 0; at < count; at++)
		sum = sum * 31 + bytes[at];
	return sum;
}

/* What the owner has. */
struct owned {
	struct side side;
	struct fi_vshmem_memory_ops *pool;
	unsigned char *memory[3];
	struct fid_mr *regions[3];
	struct fid_cntr *written[2];
	struct published published;
	size_t bytes;
	uint64_t next_key;
};

static void open_region(struct owned *owned, int kind)
{
	uint64_t access = kind == 2 ? FI_REMOTE_READ : FI_REMOTE_READ | FI_REMOTE_WRITE;
	good(fi_mr_reg(owned->side.domain, owned->memory[kind], owned->bytes, access, 0,
		owned->next_key++, 0, &owned->regions[kind], NULL));
	if (kind < 2)
		good(fi_mr_bind(owned->regions[kind], &owned->written[kind]->fid, FI_REMOTE_WRITE));
	owned->published.key[kind] = fi_mr_key(owned->regions[kind]);
	bool offsets = !(owned->side.info->domain_attr->mr_mode & (MR_BASIC | FI_MR_VIRT_ADDR));
	owned->published.address[kind] = offsets ? 0 : (uint64_t)(uintptr_t)owned->memory[kind];
}

static struct answer answer_to(struct owned *owned, enum say what)
{
	struct answer answer = { .published = owned->published };
	switch (what) {
	case SAY_SEEN:
		answer.seen = (struct seen) { .data = owned->side.data,
			.last_data = owned->side.last_data,
			.read = fi_cntr_read(owned->side.read),
			.written = fi_cntr_read(owned->side.written),
			.region_written = { fi_cntr_read(owned->written[0]),
				fi_cntr_read(owned->written[1]) } };
		break;
	case SAY_SUM:
		for (int kind = 0; kind < 2; kind++)
			answer.sum[kind] = sum_of(owned->memory[kind], owned->bytes);
		break;
	case SAY_REOPEN:
		good(fi_close(&owned->regions[0]->fid));
		open_region(owned, 0);
		answer.published = owned->published;
		break;
	default: break;
	}
	return answer;
}

void own_memory(int socket, int mr_mode, size_t bytes)
{
	struct owned owned = { .bytes = bytes, .next_key = 100 };
	struct fi_cntr_attr counter = { .events = FI_CNTR_EVENTS_COMP };
	open_side(&owned.side, socket, mr_mode);
	good(fi_open_ops(
		&owned.side.domain->fid, FI_VSHMEM_MEMORY_OPS, 0, (void **)&owned.pool, NULL));
	void *memory;
	good(owned.pool->take(owned.side.domain, bytes, &memory));
	owned.memory[0] = memory;
	owned.memory[1] = calloc(1, bytes);
	owned.memory[2] = owned.memory[0];
	for (int kind = 0; kind < 2; kind++)
		good(fi_cntr_open(owned.side.domain, &counter, &owned.written[kind], NULL));
	for (int kind = 0; kind < 3; kind++)
		open_region(&owned, kind);
	char word;
	for (;;) {
		ssize_t got = recv(socket, &word, 1, MSG_DONTWAIT);
		if (got == 0)
			break;
		if (got == 1) {
			struct answer answer = answer_to(&owned, (enum say)word);
			if (send(socket, &answer, sizeof(answer), 0) != (ssize_t)sizeof(answer))
				break;
		}
		for (int turn = 0; turn < 20; turn++)
			look(&owned.side);
	}
}
