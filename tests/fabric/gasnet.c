/* The calls that GASNet-EX's ofi-conduit makes, in its order: three endpoints of a domain
 * (one-sided, requests, replies) with one address vector and one queue for all that they send;
 * buffers for several messages; active messages of short, medium and long form; puts and gets in
 * blocks.
 */
#include <string.h>

#include "endpoint.h"

enum { REQUEST, REPLY, RMA, ENDS };
enum { BUFFERS = 4, BUFFER = 256 << 10, MEDIUM = 8192, SEGMENT = 4 << 20, MESSAGES = 400 };

struct active {
	uint32_t handler, from, nth, bytes;
	uint64_t at; /* of a long one: where its bytes have been put */
	char payload[MEDIUM];
};
struct buffer {
	struct fi_context context;
	char *memory;
	int messages;
};

static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_ep *ends[ENDS];
static struct fid_cq *tx, *rx[2];
static struct fi_info *info;
static struct buffer buffers[2][BUFFERS];
static char *segment;
static struct fid_mr *region;
static uint64_t *keys, *bases;
static int next, previous, answered, asked;

static fi_addr_t at(int other, int end) { return (fi_addr_t)(other * ENDS + end); }

static void post(int end, struct buffer *buffer)
{
	struct iovec room = { buffer->memory, BUFFER };
	struct fi_msg message = {
		.msg_iov = &room, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = buffer
	};
	must(fi_recvmsg(ends[end], &message, FI_MULTI_RECV) == 0, "a buffer for several messages");
}

static void drain_sent(void)
{
	struct fi_cq_data_entry entries[8];
	ssize_t got = fi_cq_read(tx, entries, 8);
	if (got == -FI_EAVAIL) {
		struct fi_cq_err_entry error = { 0 };
		fi_cq_readerr(tx, &error, 0);
		must(0, "what was sent failed: %s", fi_strerror(error.err));
	}
	for (ssize_t nth = 0; nth < got; nth++) {
		/* The low bits of a pointer are the conduit's. */
		int *done = (int *)((uintptr_t)entries[nth].op_context & ~(uintptr_t)3);
		(*done)++;
	}
}

static void reply(const struct active *request);

static void handle(int end, const struct active *message, size_t bytes)
{
	size_t head = offsetof(struct active, payload);
	must(bytes == head + (message->at ? 0 : message->bytes), "an active message of %zu bytes",
		bytes);
	if (message->at)
		verify(segment + message->at, message->bytes, message->from, message->nth, "long");
	else
		verify(message->payload, message->bytes, message->from, message->nth, "medium");
	if (end == REQUEST) {
		must((int)message->from == previous, "a request from %u", message->from);
		asked++;
		reply(message);
	} else {
		answered++;
	}
}

static void poll_all(void *nothing)
{
	(void)nothing;
	drain_sent();
	for (int end = REQUEST; end <= REPLY; end++) {
		struct fi_cq_data_entry entries[8];
		ssize_t got = fi_cq_read(rx[end], entries, 8);
		must(got != -FI_EAVAIL, "an error among what is received");
		for (ssize_t nth = 0; nth < got; nth++) {
			struct buffer *buffer = entries[nth].op_context;
			if (entries[nth].flags & FI_RECV) {
				struct active copy;
				memcpy(&copy, entries[nth].buf, entries[nth].len);
				buffer->messages++;
				handle(end, &copy, entries[nth].len);
			}
			if (entries[nth].flags & FI_MULTI_RECV)
				post(end, buffer);
		}
	}
}

#define until_taken(call)                                                  \
	do {                                                               \
		ssize_t gave;                                              \
		while ((gave = (call)) == -FI_EAGAIN)                      \
			poll_all(NULL);                                    \
		must(gave == 0, "%s: %s", #call, fi_strerror((int)-gave)); \
	} while (0)

static int sends; /* under way */
static int sent;
static struct active out[MESSAGES + 1], back;

static void reply(const struct active *request)
{
	back.from = (uint32_t)rank;
	back.nth = request->nth;
	back.bytes = request->nth % 64;
	back.at = 0;
	fill(back.payload, back.bytes, back.from, back.nth);
	ssize_t gave;
	while ((gave = fi_inject(ends[REPLY], &back, offsetof(struct active, payload) + back.bytes,
			at((int)request->from, REPLY)))
	        == -FI_EAGAIN)
		drain_sent(); /* no message is handled within a handler */
	must(gave == 0, "a reply: %s", fi_strerror((int)-gave));
}

static void requests(void)
{
	for (uint32_t nth = 0; nth < MESSAGES; nth++) {
		struct active *message = &out[nth];
		message->from = (uint32_t)rank;
		message->nth = nth;
		message->bytes = nth % 3 == 0 ? 0 : nth % 3 == 1 ? MEDIUM - nth : 20000 + nth;
		message->at = nth % 3 == 2
			? SEGMENT / 2 + (uint64_t)nth * 40 + (uint64_t)(nth % 8) * 200000
			: 0;
		if (message->at) { /* put, and then the message that tells */
			static char memory[30000];
			int done = 0;
			fill(memory, message->bytes, message->from, nth);
			until_taken(fi_write(ends[RMA], memory, message->bytes, NULL, at(next, RMA),
				bases[next] + message->at, keys[next], &done));
			while (!done)
				poll_all(NULL);
		} else {
			fill(message->payload, message->bytes, message->from, nth);
		}
		sends++;
		until_taken(fi_send(ends[REQUEST], message,
			offsetof(struct active, payload) + (message->at ? 0 : message->bytes), NULL,
			at(next, REQUEST), &sent));
		/* A place in the segment is used again only when it was looked at. */
		while (message->at && answered <= (int)nth)
			poll_all(NULL);
	}
	while (sent < sends || answered < MESSAGES || asked < MESSAGES)
		poll_all(NULL);
	together();
	passed("active messages: short, medium and long, and their replies");
}

static void blocks(void)
{
	enum { EACH = 64, SPAN = 16384 };
	static int puts_done __attribute__((aligned(8)));
	char *memory = malloc(EACH * SPAN);
	for (unsigned nth = 0; nth < EACH; nth++) {
		fill(memory + nth * SPAN, SPAN, (unsigned)rank, nth);
		/* Many operations of one context, its low bits set. */
		until_taken(fi_write(ends[RMA], memory + nth * SPAN, SPAN, NULL, at(next, RMA),
			bases[next] + nth * SPAN, keys[next], (char *)&puts_done + 1));
	}
	while (puts_done < EACH)
		poll_all(NULL);
	until_taken(fi_inject_write(
		ends[RMA], memory, 8, at(next, RMA), bases[next] + EACH * SPAN, keys[next]));
	memset(memory, 0, EACH * SPAN);
	puts_done = 0;
	for (unsigned nth = 0; nth < EACH; nth++)
		until_taken(fi_read(ends[RMA], memory + nth * SPAN, SPAN, NULL, at(next, RMA),
			bases[next] + nth * SPAN, keys[next], &puts_done));
	while (puts_done < EACH)
		poll_all(NULL);
	for (unsigned nth = 0; nth < EACH; nth++)
		verify(memory + nth * SPAN, SPAN, (unsigned)rank, nth, "blocks");
	together();
	free(memory);
	passed("puts and gets in blocks");
}

static struct fi_info *ask(struct fi_info *hints)
{
	struct fi_info *found = NULL;
	int error = fi_getinfo(FI_VERSION(1, 5), NULL, NULL, 0, hints, &found);
	must(error == 0, "fi_getinfo: %s", fi_strerror(-error));
	return found;
}

static void exchange(void)
{
	enum { MOST = 256 };
	char mine[ENDS * MOST], *all = malloc((size_t)ranks * ENDS * MOST);
	size_t bytes = 0;
	for (int end = 0; end < ENDS; end++) {
		size_t length = 0;
		must(fi_getname(&ends[end]->fid, NULL, &length) == -FI_ETOOSMALL && length <= MOST,
			"length of an address");
		must(fi_getname(&ends[end]->fid, mine + bytes, &length) == 0, "an address");
		bytes += length;
	}
	gather(mine, all, bytes);
	must(fi_av_insert(av, all, (size_t)(ranks * ENDS), NULL, 0, NULL) == ranks * ENDS,
		"fi_av_insert");
	free(all);
}

static struct fid_fabric *fabric;

static struct fi_info *hints_for_all(void)
{
	struct fi_info *hints = fi_allocinfo();
	hints->caps = FI_RMA | FI_MSG | FI_MULTI_RECV;
	hints->mode = FI_CONTEXT;
	hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->domain_attr->av_type = FI_AV_TABLE;
	hints->domain_attr->mr_mode = FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY
	        | FI_MR_ENDPOINT;
	return hints;
}

/* The domain and the three endpoints; the mode of its regions. */
static int open_ends(void)
{
	struct fi_info *hints = hints_for_all(), *both = ask(hints);
	int mode = both->domain_attr->mr_mode;
	must(!(mode & FI_MR_VIRT_ADDR) == !(mode & FI_MR_ALLOCATED)
	                && !(mode & FI_MR_VIRT_ADDR) == !(mode & FI_MR_PROV_KEY),
		"mr_mode %x: GASNet wants these three all or none", mode);
	must(fi_fabric(both->fabric_attr, &fabric, NULL) == 0
	                && fi_domain(fabric, both, &domain, NULL) == 0,
		"domain");
	hints->fabric_attr->prov_name = strdup(both->fabric_attr->prov_name);
	hints->domain_attr->name = strdup(both->domain_attr->name);
	fi_freeinfo(both);
	hints->caps = FI_RMA;
	hints->mode = 0;
	struct fi_info *rma = ask(hints);
	must(fi_endpoint(domain, rma, &ends[RMA], NULL) == 0,
		"the endpoint for one-sided operations");
	hints->caps = FI_MSG | FI_MULTI_RECV;
	hints->mode = FI_CONTEXT;
	info = ask(hints);
	for (int end = REQUEST; end <= REPLY; end++)
		must(fi_endpoint(domain, info, &ends[end], NULL) == 0, "an endpoint for messages");
	return mode;
}

static void bind_ends(void)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE };
	struct fi_av_attr table = { .type = FI_AV_TABLE };
	must(fi_cq_open(domain, &cq, &tx, NULL) == 0 && fi_cq_open(domain, &cq, &rx[0], NULL) == 0
	                && fi_cq_open(domain, &cq, &rx[1], NULL) == 0,
		"queues");
	must(fi_av_open(domain, &table, &av, NULL) == 0, "address vector");
	must(fi_ep_bind(ends[RMA], &tx->fid, FI_TRANSMIT | FI_RECV) == 0, "bind");
	for (int end = 0; end < ENDS; end++) {
		size_t least = sizeof(struct active);
		if (end != RMA) {
			must(fi_ep_bind(ends[end], &tx->fid, FI_TRANSMIT) == 0
			                && fi_ep_bind(ends[end], &rx[end]->fid, FI_RECV) == 0,
				"bind");
			must(fi_setopt(&ends[end]->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV,
				     &least, sizeof(least))
			                == 0,
				"fi_setopt");
		}
		must(fi_ep_bind(ends[end], &av->fid, 0) == 0 && fi_enable(ends[end]) == 0,
			"enable");
	}
}

static void open_segment(int mode)
{
	segment = aligned_alloc(4096, SEGMENT);
	must(fi_mr_reg(domain, segment, SEGMENT, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &region,
		     NULL)
	                == 0,
		"segment");
	if (mode & FI_MR_ENDPOINT)
		must(fi_mr_bind(region, &ends[RMA]->fid, 0) == 0 && fi_mr_enable(region) == 0,
			"segment of an endpoint");
	uint64_t mine[2] = { fi_mr_key(region),
		mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)segment : 0 },
		 *all = calloc((size_t)ranks, sizeof(mine));
	gather(mine, all, sizeof(mine));
	keys = calloc((size_t)ranks, 8), bases = calloc((size_t)ranks, 8);
	for (int other = 0; other < ranks; other++)
		keys[other] = all[2 * other], bases[other] = all[2 * other + 1];
	free(all);
}

static void close_all(void)
{
	struct fid *fids[] = { &region->fid, &ends[0]->fid, &ends[1]->fid, &ends[2]->fid, &tx->fid,
		&rx[0]->fid, &rx[1]->fid, &av->fid, &domain->fid, &fabric->fid };
	for (size_t nth = 0; nth < sizeof(fids) / sizeof(fids[0]); nth++)
		must(fi_close(fids[nth]) == 0, "number %zu did not close", nth);
}

int main(int argc, char **argv)
{
	ranks_begin(argc, argv);
	next = (rank + 1) % ranks;
	previous = (rank + ranks - 1) % ranks;
	int mode = open_ends();
	bind_ends();
	exchange();
	open_segment(mode);
	for (int end = REQUEST; end <= REPLY; end++)
		for (int nth = 0; nth < BUFFERS; nth++) {
			buffers[end][nth].memory = malloc(BUFFER);
			post(end, &buffers[end][nth]);
		}
	ranks_meanwhile(poll_all, NULL);
	together();
	requests();
	blocks();
	together();
	ranks_meanwhile(NULL, NULL);
	close_all();
	return ranks_end();
}
