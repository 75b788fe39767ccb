/* Two processes that sleep at a descriptor (FI_WAIT_FD) until the other has sent something. One is
 * the child of the other, which had a descriptor before the fork. And descriptors that threads open
 * and close at once.
 *
 *   sleeps [ROUNDS]
 */
#define _GNU_SOURCE
#include "sides.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int slept;

/* Until one completion has come: asleep, when none is there. */
static void wait_asleep(struct side *side, int descriptor)
{
	struct fid *fids[] = { &side->cq->fid };
	struct fi_cq_data_entry entry;
	for (;;) {
		ssize_t got = fi_cq_read(side->cq, &entry, 1);
		if (got == 1)
			return;
		must(got == -FI_EAGAIN, "fi_cq_read: %s", fi_strerror((int)-got));
		if (fi_trywait(side->fabric, fids, 1) != 0)
			continue;
		struct pollfd at = { .fd = descriptor, .events = POLLIN };
		must(poll(&at, 1, -1) == 1, "poll");
		slept++;
	}
}

static void rounds(struct side *side, int count, int first)
{
	int descriptor = -1;
	char mine[8] = "a round", theirs[8];
	must(fi_control(&side->cq->fid, FI_GETWAIT, &descriptor) == 0 && descriptor >= 0,
		"the queue has no descriptor");
	for (int nth = 0; nth < count; nth++) {
		must(fi_recv(side->ep, theirs, sizeof(theirs), NULL, side->peer, side) == 0,
			"recv");
		for (int half = 0; half < 2; half++) {
			if (half == first) {
				wait_asleep(side, descriptor);
				continue;
			}
			while (fi_inject(side->ep, mine, sizeof(mine), side->peer) == -FI_EAGAIN)
				look(side);
		}
		must(memcmp(mine, theirs, sizeof(mine)) == 0, "other bytes have come");
	}
}

/* A queue without an endpoint. */
static struct {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
} alone;

static struct fid_cq *new_queue(void)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD };
	struct fid_cq *cq;
	must(fi_cq_open(alone.domain, &attr, &cq, NULL) == 0, "fi_cq_open");
	return cq;
}

static void open_alone(void)
{
	struct fi_info *hints = fi_allocinfo();
	hints->ep_attr->type = FI_EP_RDM;
	hints->fabric_attr->prov_name = strdup("vshmem");
	must(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &alone.info) == 0, "fi_getinfo");
	fi_freeinfo(hints);
	must(fi_fabric(alone.info->fabric_attr, &alone.fabric, NULL) == 0, "fi_fabric");
	must(fi_domain(alone.fabric, alone.info, &alone.domain, NULL) == 0, "fi_domain");
	alone.cq = new_queue();
}

static void close_alone(void)
{
	must(fi_close(&alone.cq->fid) == 0 && fi_close(&alone.domain->fid) == 0
	                && fi_close(&alone.fabric->fid) == 0,
		"close");
	fi_freeinfo(alone.info);
}

static void *open_and_close(void *argument)
{
	for (int times = 0; times < 30; times++)
		must(fi_close(&new_queue()->fid) == 0, "close of a queue");
	return argument;
}

static void many_at_once(void)
{
	pthread_t threads[4];
	open_alone();
	must(fi_close(&alone.cq->fid) == 0, "close");
	for (int nth = 0; nth < 4; nth++)
		pthread_create(&threads[nth], NULL, open_and_close, NULL);
	for (int nth = 0; nth < 4; nth++)
		pthread_join(threads[nth], NULL);
	alone.cq = new_queue();
	close_alone();
	passed("descriptors that threads open and close at once");
}

int main(int argc, char **argv)
{
	int ends[2], status, count = argc > 1 ? atoi(argv[1]) : 200;
	struct timespec begun, over;
	must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
	side_wait = FI_WAIT_FD;
	open_alone();
	pid_t child = fork();
	struct side side;
	open_side(&side, ends[child != 0], MR_BASIC);
	rounds(&side, 1, child != 0);
	clock_gettime(CLOCK_MONOTONIC, &begun);
	rounds(&side, count, child != 0);
	clock_gettime(CLOCK_MONOTONIC, &over);
	if (child == 0) {
		/* The first to close would end what the other still waits for. */
		char word;
		must(read(ends[0], &word, 1) == 1, "the other has ended");
		close_side(&side);
		/* What a child has of its parent's is closed without harm. */
		must(fi_close(&alone.cq->fid) == 0, "close of the parent's queue");
		_exit(0);
	}
	must(write(ends[1], "", 1) == 1 && waitpid(child, &status, 0) == child && status == 0,
		"the other failed");
	must(slept > 0, "nobody slept");
	close_side(&side);
	close_alone();
	printf("%d rounds, asleep %d times, %.1f us each\n", count, slept,
		((double)(over.tv_sec - begun.tv_sec) * 1e9
	                + (double)(over.tv_nsec - begun.tv_nsec))
	                / 1e3 / count);
	passed("two processes, of which one is the other's child");
	many_at_once();
	printf("%d passed, 0 failed\n", passes);
	return 0;
}
