/* What a one-sided operation costs when many are under way: not a time, but how many pieces of code
 * (basic blocks) of btl/vshmem are run for it, which the compiler counts. One of 100,000 in flight
 * must cost about what one of 100 does; and where no peer answers, callers are asked to come back
 * after a number that does not depend on how many they want. */
#include "library.h"

#include <stdio.h>
#include <string.h>

enum { MANY = 100000, FEW = 100, BOUND = 10000 };

static uint64_t run;
void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) { run++; }

static struct vshmem_wire asked[MANY];
static size_t first, last;
uint64_t first_seed, step, seed = 1;

static void note_sent(
	uint32_t peer, uint8_t operation, const struct vshmem_wire *header, uint32_t bytes)
{
	must(peer == 0 && operation == VSHMEM_PUT && bytes == 8 && last < MANY);
	asked[last++] = *header;
}

/* A caller that makes progress is never asked to come back. */
static bool makes_progress;
bool vshmem_makes_progress(void) { return makes_progress; }

static vshmem_endpoint *endpoints[PEERS];
static size_t ended;

static void done(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
	void *local, struct mca_btl_base_registration_handle_t *handle, void *context, void *data,
	int status)
{
	(void)btl, (void)endpoint, (void)local, (void)handle, (void)context, (void)data;
	must(status == OPAL_SUCCESS);
	ended++;
}

static int put(void)
{
	static uint64_t word;
	mca_btl_base_registration_handle_t remote = {
		.base = 4096, .bytes = 1 << 20, .offset = NOT_IN_POOL, .slot = 1, .key = 1
	};
	return vshmem_btl_put(&vshmem_btl.super, endpoints[0], &word, 4096, NULL, &remote,
		sizeof(word), 0, 0, done, NULL, NULL);
}

/* The peer answers one of those that it was asked for, and more may be asked. */
static void turn(bool newest)
{
	must(first < last);
	struct vshmem_wire reply = { .answered = VSHMEM_PUT,
		.token = asked[newest ? --last : first++].token };
	if (first == last)
		first = last = 0;
	vshmem_one_sided_arrived(0, VSHMEM_ANSWER, &reply, sizeof(reply));
	vshmem_one_sided_waiting();
}

/* What one of MANY operations costs when so many are kept in flight. */
static uint64_t cost(size_t in_flight, bool newest)
{
	uint64_t before = run;
	ended = 0;
	for (size_t started = 0; started < MANY;) {
		int rc = started - ended < in_flight ? put() : OPAL_ERR_OUT_OF_RESOURCE;
		must(rc == OPAL_SUCCESS || rc == OPAL_ERR_OUT_OF_RESOURCE);
		if (rc == OPAL_SUCCESS)
			started++;
		else
			turn(newest);
	}
	while (ended < MANY)
		turn(newest);
	return (run - before) / MANY;
}

/* How many are taken while the peer answers none. */
static size_t taken_in_vain(size_t wanted)
{
	size_t taken = 0;
	while (taken < wanted && put() == OPAL_SUCCESS)
		taken++;
	ended = 0;
	while (ended < taken)
		turn(false);
	return taken;
}

int main(void)
{
	setlinebuf(stdout);
	pool_begin(note_sent);
	open_module(endpoints);
	uint64_t one = cost(1, false);
	must(one > 0);
	/* Asked to come back, and never asked to. */
	for (int inside = 0; inside < 2; inside++)
		for (int newest = 0; newest < 2; newest++) {
			makes_progress = inside;
			uint64_t few = cost(FEW, newest), many = cost(MANY, newest);
			printf("blocks for an operation: alone %llu, of %d in flight %llu, of %d %llu\n",
				(unsigned long long)one, FEW, (unsigned long long)few, MANY,
				(unsigned long long)many);
			must(few <= 2 * one && many <= 2 * few);
		}
	makes_progress = false;
	size_t taken = taken_in_vain(MANY);
	printf("taken while no peer answers: %zu\n", taken);
	must(taken <= BOUND);
	must(taken_in_vain(taken + 1) == taken);
	printf("%d operations, each at the cost of one: 1 passed, 0 failed\n", MANY);
	close_module();
	return 0;
}
