/* OpenSHMEM in small, by the calls that Sandia OpenSHMEM makes: an endpoint that is reached, and
 * one of the context that reaches; a symmetric heap; put, get, atomics, quiet by counters, barrier,
 * reduction, and a lock. With the word "pool" the heap lies in the pool.
 */
#include <sched.h>
#include <string.h>

#include "../../libfabric/fi_ext_vshmem.h"
#include "endpoint.h"

enum { HEAP = 8 << 20 };

static struct fid_domain *domain;
static struct fid_ep *target, *context;
static struct fid_cq *target_cq, *cq;
static struct fid_cntr *written, *fetched;
static uint64_t puts_made, gets_made;
static struct fi_info *info;
static char *heap;
static size_t used;
static fi_addr_t *pes;
static uint64_t *keys;
static struct fid_mr *region;

static void progress(void *nothing)
{
	struct fi_cq_entry entry;
	(void)nothing;
	must(fi_cq_read(target_cq, &entry, 1) != -FI_EAVAIL,
		"an error at the endpoint that is reached");
	ssize_t got = fi_cq_read(cq, &entry, 1);
	if (got == -FI_EAVAIL) {
		struct fi_cq_err_entry error = { 0 };
		fi_cq_readerr(cq, &error, 0);
		must(0, "an operation failed: %s", fi_strerror(error.err));
	}
	sched_yield();
}

#define until_taken(call)                                                  \
	do {                                                               \
		ssize_t gave;                                              \
		while ((gave = (call)) == -FI_EAGAIN)                      \
			progress(NULL);                                    \
		must(gave == 0, "%s: %s", #call, fi_strerror((int)-gave)); \
	} while (0)

/* The same place on all, as all call it in the same order. */
static void *symmetric(size_t bytes)
{
	void *memory = heap + used;
	used += (bytes + 63) / 64 * 64;
	must(used <= HEAP, "the heap is full");
	return memory;
}
static uint64_t offset(const void *memory) { return (uint64_t)((const char *)memory - heap); }

static void quiet(void)
{
	while (fi_cntr_read(written) < puts_made)
		progress(NULL);
	must(fi_cntr_readerr(written) == 0, "puts that failed");
}
static void wait_for_gets(void)
{
	while (fi_cntr_read(fetched) < gets_made)
		progress(NULL);
	must(fi_cntr_readerr(fetched) == 0, "gets that failed");
}

static void put(void *to, const void *from, size_t bytes, int pe)
{
	if (bytes <= info->tx_attr->inject_size)
		until_taken(fi_inject_write(context, from, bytes, pes[pe], offset(to), keys[pe]));
	else
		until_taken(
			fi_write(context, from, bytes, NULL, pes[pe], offset(to), keys[pe], NULL));
	puts_made++;
}
static void get(void *to, const void *from, size_t bytes, int pe)
{
	until_taken(fi_read(context, to, bytes, NULL, pes[pe], offset(from), keys[pe], NULL));
	gets_made++;
	wait_for_gets();
}
static void add(uint64_t *to, uint64_t value, int pe)
{
	until_taken(fi_inject_atomic(
		context, &value, 1, pes[pe], offset(to), keys[pe], FI_UINT64, FI_SUM));
	puts_made++;
}
static uint64_t fetch_add(uint64_t *to, uint64_t value, int pe)
{
	uint64_t was;
	until_taken(fi_fetch_atomic(context, &value, 1, NULL, &was, NULL, pes[pe], offset(to),
		keys[pe], FI_UINT64, FI_SUM, NULL));
	gets_made++;
	wait_for_gets();
	return was;
}
static uint64_t compare_swap(uint64_t *to, uint64_t compare, uint64_t value, int pe)
{
	uint64_t was;
	until_taken(fi_compare_atomic(context, &value, 1, NULL, &compare, NULL, &was, NULL, pes[pe],
		offset(to), keys[pe], FI_UINT64, FI_CSWAP, NULL));
	gets_made++;
	wait_for_gets();
	return was;
}
static void wait_until(const uint64_t *word, uint64_t least)
{
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < least)
		progress(NULL);
}

/* By counters in the heap: a dissemination, whose rounds count up. */
static uint64_t *arrived; /* for each distance */
static uint64_t barriers;
static void barrier(void)
{
	barriers++;
	quiet();
	for (int round = 0, distance = 1; distance < ranks; round++, distance *= 2) {
		add(&arrived[round], 1, (rank + distance) % ranks);
		quiet();
		wait_until(&arrived[round], barriers);
	}
}

/* All add theirs at rank 0, and fetch the whole. */
static void reduce(uint64_t *whole, const uint64_t *mine, size_t count)
{
	barrier();
	if (rank == 0)
		memset(whole, 0, count * sizeof(*whole));
	barrier();
	size_t most;
	must(fi_atomicvalid(context, FI_UINT64, FI_SUM, &most) == 0 && most > 0, "FI_SUM");
	for (size_t at = 0; at < count; at += most) {
		size_t some = count - at < most ? count - at : most;
		until_taken(fi_atomic(context, mine + at, some, NULL, pes[0], offset(whole + at),
			keys[0], FI_UINT64, FI_SUM, NULL));
		puts_made++;
	}
	barrier();
	uint64_t *copy = malloc(count * sizeof(*copy));
	get(copy, whole, count * sizeof(*copy), 0);
	barrier();
	memcpy(whole, copy, count * sizeof(*copy));
	free(copy);
}

static void transfers(void)
{
	enum { MOST = 1 << 20 };
	char *area = symmetric(MOST), *out = malloc(MOST), *in = malloc(MOST);
	int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
	for (size_t bytes = 1; bytes <= MOST; bytes *= 8) {
		fill(out, bytes, (unsigned)rank, (unsigned)bytes);
		put(area, out, bytes, next);
		barrier();
		verify(area, bytes, (unsigned)previous, (unsigned)bytes, "put");
		get(in, area, bytes, next);
		verify(in, bytes, (unsigned)rank, (unsigned)bytes, "get");
		barrier();
	}
	free(out), free(in);
	passed("put, get, quiet, barrier");
}

static void atomics(void)
{
	enum { ROUNDS = 200 };
	uint64_t *counter = symmetric(64), *lock = symmetric(64), *under = symmetric(64),
		 seen[ROUNDS];
	*counter = *lock = *under = 0;
	barrier();
	for (int round = 0; round < ROUNDS; round++) {
		seen[round] = fetch_add(counter, 1, 0);
		must(round == 0 || seen[round] > seen[round - 1], "tickets go down");
	}
	for (int round = 0; round < 30; round++) {
		while (compare_swap(lock, 0, (uint64_t)rank + 1, 0) != 0)
			progress(NULL);
		uint64_t value, none = 0;
		get(&value, under, 8, 0);
		value++;
		put(under, &value, 8, 0);
		quiet();
		put(lock, &none, 8, 0);
		quiet();
	}
	barrier();
	must(rank != 0
	                || (*counter == (uint64_t)ROUNDS * (uint64_t)ranks
	                        && *under == 30u * (uint64_t)ranks),
		"%lu tickets, %lu under the lock", (unsigned long)*counter, (unsigned long)*under);
	passed("fetch and add, compare and swap, a lock");
}

static void reductions(void)
{
	enum { COUNT = 3000 };
	uint64_t *whole = symmetric(COUNT * 8), mine[COUNT];
	for (uint64_t round = 0; round < 3; round++) {
		uint64_t factor = 0;
		for (int other = 0; other < ranks; other++)
			factor += (uint64_t)other + round;
		for (uint64_t at = 0; at < COUNT; at++)
			mine[at] = at * ((uint64_t)rank + round);
		reduce(whole, mine, COUNT);
		for (uint64_t at = 0; at < COUNT; at++)
			must(whole[at] == at * factor, "number %lu is %lu", (unsigned long)at,
				(unsigned long)whole[at]);
	}
	barrier();
	passed("reductions");
}

/* A neighbour waits for a flag that is put after what it tells of. */
static void signals(void)
{
	uint64_t *flag = symmetric(64);
	char *data = symmetric(50000), *out = malloc(50000);
	int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
	*flag = 0;
	barrier();
	for (uint64_t round = 1; round <= 50; round++) {
		fill(out, 50000, (unsigned)rank, (unsigned)round);
		put(data, out, 50000, next);
		quiet(); /* a fence */
		put(flag, &round, 8, next);
		wait_until(flag, round);
		verify(data, 50000, (unsigned)previous, (unsigned)round, "signal");
		barrier();
	}
	free(out);
	passed("waiting for a word");
}

static void open_target(struct fid_av *av)
{
	struct fi_cq_attr attributes = { 0 };
	info->caps = FI_RMA | FI_ATOMIC | FI_REMOTE_READ | FI_REMOTE_WRITE;
	info->tx_attr->op_flags = 0;
	info->tx_attr->caps = FI_RMA | FI_ATOMIC;
	info->rx_attr->caps = info->caps;
	int error = fi_endpoint(domain, info, &target, NULL);
	must(error == 0, "the endpoint that is reached: %s", fi_strerror(-error));
	must(fi_ep_bind(target, &av->fid, 0) == 0
	                && fi_cq_open(domain, &attributes, &target_cq, NULL) == 0
	                && fi_ep_bind(target, &target_cq->fid, FI_TRANSMIT | FI_RECV) == 0
	                && fi_enable(target) == 0,
		"the endpoint that is reached");
}

static void open_context(struct fid_av *av)
{
	struct fi_cq_attr attributes = { .format = FI_CQ_FORMAT_CONTEXT };
	struct fi_cntr_attr counter = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC };
	info->caps = FI_RMA | FI_WRITE | FI_READ | FI_ATOMIC | FI_RECV;
	info->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	info->tx_attr->caps = info->caps;
	info->rx_attr->caps = FI_RECV;
	int error = fi_endpoint(domain, info, &context, NULL);
	must(error == 0, "the endpoint of the context: %s", fi_strerror(-error));
	must(fi_cntr_open(domain, &counter, &written, NULL) == 0
	                && fi_cntr_open(domain, &counter, &fetched, NULL) == 0
	                && fi_cq_open(domain, &attributes, &cq, NULL) == 0,
		"queue and counters");
	must(fi_ep_bind(context, &written->fid, FI_WRITE) == 0
	                && fi_ep_bind(context, &fetched->fid, FI_READ) == 0
	                && fi_ep_bind(context, &cq->fid,
				   FI_SELECTIVE_COMPLETION | FI_TRANSMIT | FI_RECV)
	                        == 0
	                && fi_ep_bind(context, &av->fid, 0) == 0 && fi_enable(context) == 0,
		"the endpoint of the context");
}

static struct fi_info *ask(void)
{
	struct fi_info *hints = fi_allocinfo(), *found = NULL;
	hints->caps = FI_RMA | FI_ATOMIC;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->mr_key_size = 1;
	hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	hints->tx_attr->inject_size = sizeof(long double);
	int error = fi_getinfo(FI_VERSION(1, 5), NULL, NULL, 0, hints, &found);
	must(error == 0, "fi_getinfo: %s", fi_strerror(-error));
	fi_freeinfo(hints);
	return found;
}

int main(int argc, char **argv)
{
	ranks_begin(argc, argv);
	struct fid_fabric *fabric;
	struct fid_av *av;
	struct fi_av_attr table = { .type = FI_AV_TABLE };
	char mine[256], *all = calloc((size_t)ranks, sizeof(mine));
	size_t length = sizeof(mine);
	info = ask();
	must(fi_fabric(info->fabric_attr, &fabric, NULL) == 0
	                && fi_domain(fabric, info, &domain, NULL) == 0
	                && fi_av_open(domain, &table, &av, NULL) == 0,
		"domain");
	open_target(av);
	open_context(av);
	must(fi_getname(&target->fid, mine, &length) == 0, "an address");
	gather(mine, all, length);
	pes = calloc((size_t)ranks, sizeof(*pes)), keys = calloc((size_t)ranks, sizeof(*keys));
	must(fi_av_insert(av, all, (size_t)ranks, pes, 0, NULL) == ranks, "fi_av_insert");
	struct fi_vshmem_memory_ops *ours = NULL;
	void *memory = NULL;
	if (argc > 5
	        && fi_open_ops(&domain->fid, FI_VSHMEM_MEMORY_OPS, 0, (void **)&ours, NULL) == 0)
		must(ours->take(domain, HEAP, &memory) == 0, "memory of the pool");
	heap = memory ? memory : aligned_alloc(4096, HEAP);
	memset(heap, 0, HEAP);
	must(fi_mr_reg(domain, heap, HEAP, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &region, NULL)
	                == 0,
		"the heap");
	uint64_t key = fi_mr_key(region);
	gather(&key, keys, sizeof(key));
	arrived = symmetric(32 * sizeof(*arrived));
	ranks_meanwhile(progress, NULL);
	together();
	transfers();
	atomics();
	reductions();
	signals();
	together();
	ranks_meanwhile(NULL, NULL);
	int failed = fi_close(&region->fid);
	if (memory)
		failed |= ours->give_back(domain, memory);
	failed |= fi_close(&target->fid) | fi_close(&context->fid) | fi_close(&cq->fid)
	        | fi_close(&target_cq->fid) | fi_close(&written->fid) | fi_close(&fetched->fid)
	        | fi_close(&av->fid) | fi_close(&domain->fid) | fi_close(&fabric->fid);
	must(failed == 0, "something did not close");
	return ranks_end();
}
