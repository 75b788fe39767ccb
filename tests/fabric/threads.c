/* Threads of each rank on one endpoint at once: messages of their own tags, puts and atomic
 * operations to places of their own, all completions read by any thread that looks.
 *   threads RANK RANKS ADDRESS PORT [MANY]    so many of them (4), which then never yield
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "endpoint.h"

enum { THREADS = 64, ROUNDS = 600, SPAN = 70000 };

static struct endpoint port;
static struct region region;
static int next, previous, yields = 1;
static unsigned threads_here = 4, rounds;

/* Completions are counted by the thread that reads them: one completes one. */
struct waiting {
	struct fi_context2 context;
	int done;
};

static void read_some(void)
{
	struct fi_cq_tagged_entry entries[4];
	ssize_t got = fi_cq_read(port.cq, entries, 4);
	if (got == -FI_EAVAIL) {
		struct fi_cq_err_entry error = { 0 };
		if (fi_cq_readerr(port.cq, &error, 0) == 1)
			must(0, "an operation failed: %s", fi_strerror(error.err));
		return;
	}
	must(got > 0 || got == -FI_EAGAIN || got == 0, "cq_read: %s", fi_strerror((int)-got));
	for (ssize_t nth = 0; nth < got; nth++)
		__atomic_fetch_add(
			&((struct waiting *)entries[nth].op_context)->done, 1, __ATOMIC_RELEASE);
}

static void await(struct waiting *waiting)
{
	while (!__atomic_load_n(&waiting->done, __ATOMIC_ACQUIRE))
		if (read_some(), yields)
			sched_yield();
	waiting->done = 0;
}

#define until_taken(call)                                                  \
	do {                                                               \
		ssize_t gave;                                              \
		while ((gave = (call)) == -FI_EAGAIN)                      \
			read_some();                                       \
		must(gave == 0, "%s: %s", #call, fi_strerror((int)-gave)); \
	} while (0)

static void *talk(void *argument)
{
	unsigned thread = (unsigned)(uintptr_t)argument;
	static const size_t sizes[] = { 8, 300, 5000, SPAN };
	char *out = malloc(SPAN), *in = malloc(SPAN);
	struct waiting sent = { 0 }, received = { 0 }, put = { 0 }, got = { 0 }, added = { 0 };
	uint64_t one = 1, here = region.addresses[next] + 64 + thread * (uint64_t)SPAN,
		 key = region.keys[next];
	for (unsigned round = 0; round < rounds; round++) {
		size_t bytes = sizes[(round + thread) % 4];
		fill(out, bytes, (unsigned)rank * THREADS + thread, round);
		until_taken(
			fi_trecv(port.ep, in, bytes, NULL, FI_ADDR_UNSPEC, thread, 0, &received));
		until_taken(fi_tsend(port.ep, out, bytes, NULL, port.at[next], thread, &sent));
		until_taken(fi_write(port.ep, out, bytes, NULL, port.at[next], here, key, &put));
		if (port.info->caps & FI_ATOMIC)
			until_taken(fi_atomic(port.ep, &one, 1, NULL, port.at[next],
				region.addresses[next], key, FI_UINT64, FI_SUM, &added));
		await(&sent);
		await(&received);
		verify(in, bytes, (unsigned)previous * THREADS + thread, round, "messages");
		await(&put);
		until_taken(fi_read(port.ep, in, bytes, NULL, port.at[next], here, key, &got));
		await(&got);
		verify(in, bytes, (unsigned)rank * THREADS + thread, round, "puts and gets");
		if (port.info->caps & FI_ATOMIC)
			await(&added);
	}
	free(out), free(in);
	return NULL;
}

int main(int argc, char **argv)
{
	if (ranks_begin(argc, argv)) {
		threads_here = (unsigned)atoi(argv[5]);
		yields = 0;
	}
	must(threads_here >= 1 && threads_here <= THREADS, "at most %d threads", THREADS);
	rounds = ROUNDS / threads_here;
	next = (rank + 1) % ranks;
	previous = (rank + ranks - 1) % ranks;
	struct wants wants = { .caps = FI_TAGGED | FI_RMA | FI_ATOMIC,
		.threading = FI_THREAD_SAFE,
		.mr_mode = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ALLOCATED,
		.tx_flags = FI_DELIVERY_COMPLETE };
	if (have_endpoint(&port, &wants, "FI_THREAD_SAFE")) {
		region.bytes = 64 + (size_t)THREADS * SPAN;
		region.memory = calloc(1, region.bytes);
		open_region(
			&port, &region, FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 5);
		pthread_t threads[THREADS];
		for (uintptr_t thread = 0; thread < threads_here; thread++)
			must(pthread_create(&threads[thread], NULL, talk, (void *)thread) == 0,
				"no thread");
		for (unsigned thread = 0; thread < threads_here; thread++)
			pthread_join(threads[thread], NULL);
		together();
		uint64_t counted = *(uint64_t *)region.memory;
		must(counted == threads_here * rounds || !(port.info->caps & FI_ATOMIC), "%lu additions",
			(unsigned long)counted);
		passed("threads");
		close_region(&region);
		free(region.memory);
		close_endpoint(&port);
	}
	return ranks_end();
}
