/* Puts and gets: every size, both directions, into private memory and into memory of the pool, with
 * keys of the caller's or of the provider's; counters, remote data, fences, and what must be
 * refused.
 *
 * With the word "huge": also lengths beyond 4 GiB. */
#include <string.h>
#include <sys/mman.h>

#include "../../libfabric/fi_ext_vshmem.h"
#include "endpoint.h"

static struct endpoint port;
static struct region region;
static int next, previous;

enum { ALL = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE };
static const size_t sizes[] = { 0, 1, 8, 63, 4096, 16384, 16385, 100001, 1 << 20 };
#define SIZES  (sizeof(sizes) / sizeof(sizes[0]))
#define STRIPE ((size_t)1 << 20) /* of each rank in each rank's region */

static uint64_t place(int target, size_t offset) { return region.addresses[target] + offset; }

/* Into the next one's stripe of mine, and back from there. */
static void each_size(const char *what)
{
	char *out = malloc(STRIPE), *in = malloc(STRIPE + 1);
	for (unsigned nth = 0; nth < SIZES; nth++) {
		struct operation put = { 0 }, got = { 0 };
		size_t bytes = sizes[nth];
		fill(out, bytes, (unsigned)rank, nth);
		taken(&port,
			fi_write(port.ep, out, bytes, NULL, port.at[next],
				place(next, STRIPE * (size_t)rank), region.keys[next], &put));
		finish(&port, &put);
		together();
		verify(region.memory + STRIPE * (size_t)previous, bytes, (unsigned)previous, nth,
			what);
		in[bytes] = 77;
		taken(&port,
			fi_read(port.ep, in, bytes, NULL, port.at[next],
				place(next, STRIPE * (size_t)rank), region.keys[next], &got));
		finish(&port, &got);
		verify(in, bytes, (unsigned)rank, nth, "got");
		must(in[bytes] == 77, "written past the end");
		together();
	}
	free(out), free(in);
	passed(what);
}

/* Many at once from all to all, of several lengths; to itself as well. */
static void at_once(void)
{
	enum { EACH = 400, SPAN = 2048 };
	struct operation *puts = calloc((size_t)ranks * EACH, sizeof(*puts));
	char *out = malloc((size_t)EACH * SPAN), *in = malloc((size_t)EACH * SPAN);
	for (unsigned nth = 0; nth < EACH; nth++)
		fill(out + nth * SPAN, nth * 5 % SPAN, (unsigned)rank, nth);
	for (int peer = 0; peer < ranks; peer++)
		for (unsigned nth = 0; nth < EACH; nth++)
			taken(&port,
				fi_write(port.ep, out + nth * SPAN, nth * 5 % SPAN, NULL,
					port.at[peer],
					place(peer, STRIPE * (size_t)rank + nth * SPAN),
					region.keys[peer], &puts[peer * EACH + (int)nth]));
	for (int nth = 0; nth < ranks * EACH; nth++)
		finish(&port, &puts[nth]);
	together();
	for (int peer = 0; peer < ranks; peer++)
		for (unsigned nth = 0; nth < EACH; nth++)
			verify(region.memory + STRIPE * (size_t)peer + nth * SPAN, nth * 5 % SPAN,
				(unsigned)peer, nth, "many puts");
	memset(puts, 0, sizeof(*puts) * (size_t)ranks * EACH);
	for (unsigned nth = 0; nth < EACH; nth++)
		taken(&port,
			fi_read(port.ep, in + nth * SPAN, nth * 5 % SPAN, NULL, port.at[previous],
				place(previous, STRIPE * (size_t)rank + nth * SPAN),
				region.keys[previous], &puts[nth]));
	for (unsigned nth = 0; nth < EACH; nth++) {
		finish(&port, &puts[nth]);
		verify(in + nth * SPAN, nth * 5 % SPAN, (unsigned)rank, nth, "many gets");
	}
	together();
	free(puts), free(out), free(in);
	passed("many at once");
}

/* What arrives at the target besides bytes. */
static void remote_data(void)
{
	port.datas = 0;
	together();
	char out[100];
	struct operation put = { 0 };
	fill(out, sizeof(out), (unsigned)rank, 1);
	taken(&port,
		fi_writedata(port.ep, out, sizeof(out), NULL, 0xabcd0000u + (unsigned)rank,
			port.at[next], place(next, STRIPE * (size_t)rank), region.keys[next],
			&put));
	finish(&port, &put);
	while (port.datas < 1)
		look(&port);
	must(port.data == 0xabcd0000u + (unsigned)previous, "data %lx", (unsigned long)port.data);
	verify(region.memory + STRIPE * (size_t)previous, sizeof(out), (unsigned)previous, 1,
		"what the data tells of");
	together();
	taken(&port,
		fi_inject_writedata(port.ep, out, 8, 0x1234, port.at[next],
			place(next, STRIPE * (size_t)rank), region.keys[next]));
	while (port.datas < 2)
		look(&port);
	must(port.data == 0x1234, "data %lx", (unsigned long)port.data);
	passed("data that arrives with a put");
}

static void vectors(void)
{
	size_t local = port.info->tx_attr->iov_limit < 2 ? 1 : 2,
	       remote = port.info->tx_attr->rma_iov_limit < 2 ? 1 : 2;
	char out[5000], in[5000];
	fill(out, sizeof(out), (unsigned)rank, 3);
	struct iovec from[2] = { { out, 2000 }, { out + 2000, 3000 } },
		     to[2] = { { in, 1000 }, { in + 1000, 4000 } };
	if (local == 1)
		from[0].iov_len = to[0].iov_len = 5000;
	uint64_t base = place(next, STRIPE * (size_t)rank);
	struct fi_rma_iov there[2] = { { base, 2500, region.keys[next] },
		{ base + 2500, 2500, region.keys[next] } };
	if (remote == 1)
		there[0].len = 5000;
	struct operation put = { 0 }, got = { 0 };
	struct fi_msg_rma message = { .msg_iov = from,
		.iov_count = local,
		.addr = port.at[next],
		.rma_iov = there,
		.rma_iov_count = remote,
		.context = &put };
	taken(&port, fi_writemsg(port.ep, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE));
	finish(&port, &put);
	message.msg_iov = to;
	message.context = &got;
	taken(&port, fi_readmsg(port.ep, &message, FI_COMPLETION));
	finish(&port, &got);
	verify(in, sizeof(in), (unsigned)rank, 3, "vectors");
	together();
	verify(region.memory + STRIPE * (size_t)previous, sizeof(out), (unsigned)previous, 3,
		"vectors");
	passed("vectors");
}

/* A flag that is put after its data is seen after it; with a fence if there is no order. */
static void ordered(void)
{
	enum { ROUNDS = 200 };
	uint64_t ordering = FI_ORDER_WAW | FI_ORDER_RMA_WAW;
	int fence = !(port.info->tx_attr->msg_order & ordering);
	if (fence && !(port.info->caps & FI_FENCE)) {
		left_out("order of puts", "neither FI_ORDER_RMA_WAW nor FI_FENCE");
		return;
	}
	volatile uint64_t *flag = (void *)(region.memory + STRIPE * (size_t)previous + 8192);
	*flag = 0;
	together();
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		char out[700];
		struct operation data = { 0 }, last = { 0 };
		fill(out, sizeof(out), (unsigned)rank, (unsigned)round);
		taken(&port,
			fi_write(port.ep, out, sizeof(out), NULL, port.at[next],
				place(next, STRIPE * (size_t)rank), region.keys[next], &data));
		struct iovec from = { &round, 8 };
		struct fi_rma_iov there = { place(next, STRIPE * (size_t)rank + 8192), 8,
			region.keys[next] };
		struct fi_msg_rma message = { .msg_iov = &from,
			.iov_count = 1,
			.addr = port.at[next],
			.rma_iov = &there,
			.rma_iov_count = 1,
			.context = &last };
		taken(&port,
			fi_writemsg(port.ep, &message, FI_COMPLETION | (fence ? FI_FENCE : 0)));
		while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) < round)
			look(&port);
		verify(region.memory + STRIPE * (size_t)previous, sizeof(out), (unsigned)previous,
			(unsigned)round, "order");
		finish(&port, &data);
		finish(&port, &last);
		together();
	}
	passed("a flag is seen after its data");
}

/* Errors, at the call or at its end; and the target is as before. */
static void refused(void)
{
	struct {
		const char *what;
		uint64_t offset;
		size_t bytes;
		uint64_t key;
	} rows[] = {
		{ "a key that nobody has", 0, 8, 0x7777777 },
		{ "beyond the end", region.bytes - 4, 8, region.keys[next] },
		{ "far beyond it", (uint64_t)1 << 60, 8, region.keys[next] },
		{ "from before it to behind it", (uint64_t)-4096, 8192, region.keys[next] },
		{ "of 4 GiB and more", 0, ((size_t)4 << 30) + 8, region.keys[next] },
	};
	char *before = malloc(region.bytes),
	     *memory = mmap(NULL, ((size_t)4 << 30) + 8, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	memcpy(before, region.memory, region.bytes);
	together();
	for (size_t nth = 0; nth < 2 * sizeof(rows) / sizeof(rows[0]); nth++) {
		struct operation done = { 0 };
		size_t row = nth / 2;
		ssize_t gave;
		while ((gave = nth % 2 ? fi_read(port.ep, memory, rows[row].bytes, NULL,
						 port.at[next], place(next, rows[row].offset),
						 rows[row].key, &done)
				       : fi_write(port.ep, memory, rows[row].bytes, NULL,
						 port.at[next], place(next, rows[row].offset),
						 rows[row].key, &done))
		        == -FI_EAGAIN)
			look(&port);
		if (gave == 0) {
			wait_for(&port, &done, 1);
			must(done.failed, "%s: it was done", rows[row].what);
		}
		if (getenv("FABRIC_TEST_VERBOSE") && rank == 0)
			printf("  %s %s: %s\n", nth % 2 ? "get" : "put", rows[row].what,
				fi_strerror(gave ? (int)-gave : done.failed));
	}
	together();
	for (size_t at = 0; at < region.bytes; at++)
		must(before[at] == region.memory[at], "the target has changed at %zu", at);
	munmap(memory, ((size_t)4 << 30) + 8);
	free(before);
	passed("what lies outside is refused");
}

/* Of one who may only read it. */
static void read_only(void)
{
	static char word[8] = "as it is", got[8];
	struct region small = { .memory = word, .bytes = 8 };
	open_region(&port, &small, FI_REMOTE_READ, 77);
	struct operation put = { 0 }, get = { 0 };
	ssize_t gave = fi_write(port.ep, "changed", 8, NULL, port.at[next], small.addresses[next],
		small.keys[next], &put);
	if (gave == 0)
		wait_for(&port, &put, 1);
	must(gave < 0 || put.failed, "a region that may only be read was written");
	taken(&port,
		fi_read(port.ep, got, 8, NULL, port.at[next], small.addresses[next],
			small.keys[next], &get));
	finish(&port, &get);
	must(memcmp(got, "as it is", 8) == 0, "it says %.8s", got);
	close_region(&small);
	together();
	/* Now the key is nobody's. */
	struct operation late = { 0 };
	if (fi_read(port.ep, got, 8, NULL, port.at[next], 0, 77, &late) == 0) {
		wait_for(&port, &late, 1);
		must(late.failed, "a region that is closed was read");
	}
	passed("access and end of a region");
}

static void counted(void)
{
	enum { COUNT = 50 };
	uint64_t puts = fi_cntr_read(port.written), gets = fi_cntr_read(port.read),
		 errors = fi_cntr_readerr(port.written),
		 theirs = port.remote_written ? fi_cntr_read(port.remote_written) : 0;
	together();
	char word[64] = "counted", back[64];
	struct operation each[2 * COUNT] = { 0 };
	for (int nth = 0; nth < COUNT; nth++) {
		taken(&port,
			fi_write(port.ep, word, 64, NULL, port.at[next],
				place(next, STRIPE * (size_t)rank), region.keys[next], &each[nth]));
		taken(&port,
			fi_read(port.ep, back, 64, NULL, port.at[next],
				place(next, STRIPE * (size_t)rank), region.keys[next],
				&each[COUNT + nth]));
	}
	for (int nth = 0; nth < 2 * COUNT; nth++)
		finish(&port, &each[nth]);
	must(fi_cntr_read(port.written) == puts + COUNT, "%lu puts counted",
		(unsigned long)(fi_cntr_read(port.written) - puts));
	must(fi_cntr_read(port.read) == gets + COUNT, "%lu gets counted",
		(unsigned long)(fi_cntr_read(port.read) - gets));
	must(fi_cntr_wait(port.written, puts + COUNT, 1000) == 0, "fi_cntr_wait for what is there");
	must(fi_cntr_readerr(port.written) == errors, "errors counted");
	while (port.remote_written && fi_cntr_read(port.remote_written) < theirs + COUNT)
		look(&port);
	passed(port.remote_written ? "counters, the target's too" : "counters");
}

static void all_of(const char *what)
{
	each_size(what);
	at_once();
	remote_data();
	vectors();
	ordered();
	if (is_ours()) { /* tcp;ofi_rxm ends the connection */
		refused();
		read_only();
	}
	if (port.written)
		counted();
}

/* The same on memory that peers reach by themselves. */
static void in_pool(const char *what)
{
	struct fi_vshmem_memory_ops *pool = NULL;
	void *memory = NULL;
	must(fi_open_ops(&port.domain->fid, FI_VSHMEM_MEMORY_OPS, 0, (void **)&pool, NULL) == 0,
		"no memory of the pool");
	must(pool->take(port.domain, region.bytes, &memory) == 0, "no memory in the pool");
	region.memory = memory;
	open_region(&port, &region, ALL, 6);
	all_of(what);
	close_region(&region);
	must(pool->give_back(port.domain, memory) == 0, "memory of the pool is not taken back");
}

int main(int argc, char **argv)
{
	ranks_begin(argc, argv);
	next = (rank + 1) % ranks;
	previous = (rank + ranks - 1) % ranks;
	static const struct {
		const char *what;
		int mr_mode;
	} modes[] = {
		{ "own keys, offsets", 0 },
		{ "the provider's keys, addresses",
			FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ALLOCATED },
		{ "FI_MR_BASIC", MR_BASIC },
		{ "all bits",
			FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ALLOCATED | FI_MR_ENDPOINT
		                | FI_MR_LOCAL | FI_MR_RMA_EVENT },
	};
	for (size_t nth = 0; nth < sizeof(modes) / sizeof(modes[0]); nth++) {
		struct wants wants = { .caps = FI_RMA | FI_MSG,
			.mr_mode = modes[nth].mr_mode,
			.tx_flags = FI_DELIVERY_COMPLETE,
			.counters = nth == 0 };
		if (is_ours() && nth == 0)
			wants.caps |= FI_RMA_EVENT;
		if (!have_endpoint(&port, &wants, modes[nth].what))
			continue;
		region.bytes = STRIPE * (size_t)ranks;
		region.memory = malloc(region.bytes);
		open_region(&port, &region, ALL, 5);
		all_of(modes[nth].what);
		close_region(&region);
		free(region.memory);
		if (is_ours())
			in_pool(modes[nth].what);
		close_endpoint(&port);
	}
	return ranks_end();
}
