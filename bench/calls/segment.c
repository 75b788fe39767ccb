/* Segments that come and go. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <unistd.h>

#include "calls.h"

static int segment = -1;

static void remove_segment(void)
{
	if (segment != -1)
		shmctl(segment, IPC_RMID, NULL);
	segment = -1;
}

static void make_segment(size_t size)
{
	segment = shmget(IPC_PRIVATE, size, 0600);
	if (segment == -1)
		give_up_creating("shmget");
}

static unsigned char *attach(void)
{
	unsigned char *at = shmat(segment, NULL, 0);
	if (at == (void *)-1)
		give_up_call("shmat");
	return at;
}

static void detach(const void *at)
{
	if (shmdt(at) != 0)
		give_up_call("shmdt");
}

/* Writes to each page, and finds there what a new segment must read as: zeros. */
static void touch(unsigned char *at, size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	for (size_t offset = 0; offset < size; offset += page) {
		unsigned char *byte = at + offset
		        + offset / page % (size - offset < page ? size - offset : page);
		if (*byte != 0)
			give_up("a new segment holds %d at byte %zu", *byte, (size_t)(byte - at));
		*byte = 0xa5;
	}
}

static void cycle(const struct request *request)
{
	make_segment(request->run.size);
	unsigned char *at = attach();
	if (request->touch)
		touch(at, request->run.size);
	detach(at);
	if (shmctl(segment, IPC_RMID, NULL) != 0)
		give_up_call("IPC_RMID");
}

static void cycles(void *context, uint64_t first, uint64_t count)
{
	(void)first;
	while (count--)
		cycle(context);
}

void segment_cycle(const struct request *request)
{
	on_failure = remove_segment;
	measure(&request->run, cycles, (void *)request, NULL);
	segment = -1;
}

static void attaches(void *context, uint64_t first, uint64_t count)
{
	const unsigned char *expected = context;
	(void)first;
	while (count--) {
		unsigned char *at = attach();
		if (*at != *expected)
			give_up("the segment holds %d, not %d", *at, *expected);
		detach(at);
	}
}

void segment_attach(const struct request *request)
{
	on_failure = remove_segment;
	make_segment(request->run.size);
	unsigned char mark = 0x5a, *at = attach();
	*at = mark;
	measure(&request->run, attaches, &mark, NULL);
	struct shmid_ds state;
	if (shmctl(segment, IPC_STAT, &state) != 0 || state.shm_nattch != 1)
		give_up("after as many shmdt as shmat there are %lu attaches, not 1",
			(unsigned long)state.shm_nattch);
	detach(at);
	remove_segment();
}

void segment_sustained(const struct request *request)
{
	on_failure = remove_segment;
	uint64_t cpu = cpu_ns(), begin = now_ns(), now = begin, cycles_done = 0, slowest = 0,
		 fastest = UINT64_MAX;
	uint64_t end = begin + (uint64_t)request->milliseconds * 1000000u;
	while (now < end) {
		uint64_t before = now;
		cycle(request);
		now = now_ns();
		uint64_t spent = now - before;
		slowest = spent > slowest ? spent : slowest;
		fastest = spent < fastest ? spent : fastest;
		cycles_done++;
		if (deadline_passed)
			give_up_call("a sustained run");
	}
	segment = -1;
	double each = (double)(now - begin) / (double)cycles_done;
	struct reading reading = { .rounds = cycles_done,
		.batches = 1,
		.median = each,
		.mean = each,
		.min = (double)fastest,
		.p99 = (double)slowest };
	char more[64];
	snprintf(more, sizeof more, ",\"cpu_ns\":%.1f",
		(double)(cpu_ns() - cpu) / (double)cycles_done);
	print_reading(&request->run, &reading, more);
}
