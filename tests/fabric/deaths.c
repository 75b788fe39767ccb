/* Rank 1 is killed: what rank 0 gets that had to do with it, and that rank 0 and rank 2 go on.
 *   deaths RANK 3 ADDRESS PORT KIND WHEN
 * KIND: send, rendezvous, receive, put, get, atomic; for the last three also -pool: on memory of
 * the pool. WHEN: before (they have never talked), idle (they have), during.
 */
#include <signal.h>
#include <string.h>
#include <time.h>

#include "../../libfabric/fi_ext_vshmem.h"
#include "endpoint.h"

enum { SURVIVOR, VICTIM, BYSTANDER, LARGE = 64 << 20, REGION = 1 << 20 };

static struct endpoint port;
static struct region region;
static const char *kind;
static char *memory;
static uint64_t word = 1, was;

static int is(const char *name) { return strncmp(kind, name, strlen(name)) == 0; }

/* Begins the operation at the victim: 0, or its error. */
static ssize_t begin(struct operation *operation)
{
	fi_addr_t to = port.at[VICTIM];
	uint64_t at = region.addresses[VICTIM], key = region.keys[VICTIM];
	if (is("send"))
		return fi_tsend(port.ep, memory, 64, NULL, to, 1, operation);
	if (is("rendezvous"))
		return fi_tsend(port.ep, memory, LARGE, NULL, to, 1, operation);
	if (is("receive"))
		return fi_trecv(port.ep, memory, 64, NULL, to, 9, 0, operation);
	if (is("put"))
		return fi_write(port.ep, memory, REGION, NULL, to, at, key, operation);
	if (is("get"))
		return fi_read(port.ep, memory, REGION, NULL, to, at, key, operation);
	must(is("atomic"), "there is no %s", kind);
	return fi_fetch_atomic(
		port.ep, &word, 1, NULL, &was, NULL, to, at, key, FI_UINT64, FI_SUM, operation);
}

/* Its error, 0 when it succeeded. */
static int ended(struct operation *operation)
{
	memset(operation, 0, sizeof(*operation));
	ssize_t gave;
	while ((gave = begin(operation)) == -FI_EAGAIN)
		look(&port);
	if (gave == 0)
		wait_for(&port, operation, 1);
	return gave ? (int)-gave : operation->failed;
}

static int is_death(int error) { return error == FI_ECONNRESET || error == FI_EHOSTUNREACH; }

/* What rank 0 sees of it. */
static void survive(const char *when)
{
	struct operation under_way = { 0 }, posted = { 0 }, again;
	char byte = 0;
	/* From anybody: it must stay. */
	taken(&port, fi_trecv(port.ep, &byte, 1, NULL, FI_ADDR_UNSPEC, 3, 0, &posted));
	int first = 0;
	if (strcmp(when, "during") == 0) {
		taken(&port, begin(&under_way));
		together(); /* now it dies */
		wait_for_end(VICTIM);
		wait_for(&port, &under_way, 1);
		first = under_way.failed;
	} else {
		together();
		wait_for_end(VICTIM);
		first = ended(&under_way);
	}
	/* What is in the lane or in the pool's memory has gone well; in the end nothing does. */
	int last = first;
	for (struct timespec pause = { 0, 10000000 }; !is_death(last); nanosleep(&pause, NULL)) {
		must(last == 0, "%s %s: %s", kind, when, fi_strerror(last));
		last = ended(&again);
	}
	printf("%s, killed %s: %s, then %s\n", kind, when, first ? fi_strerror(first) : "done",
		last ? fi_strerror(last) : "done");
	must(!posted.done, "a receive from anybody has ended: %s", fi_strerror(posted.failed));
	together();
	finish(&port, &posted);
	must(byte == 'b', "from the bystander: %c", byte);
}

static void take_region(void)
{
	struct fi_vshmem_memory_ops *pool = NULL;
	void *taken_memory = calloc(1, REGION);
	region.bytes = REGION;
	if (strstr(kind, "-pool"))
		must(fi_open_ops(&port.domain->fid, FI_VSHMEM_MEMORY_OPS, 0, (void **)&pool, NULL)
		                        == 0
		                && pool->take(port.domain, REGION, &taken_memory) == 0,
			"no memory of the pool");
	region.memory = taken_memory;
	open_region(&port, &region, FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 5);
}

int main(int argc, char **argv)
{
	must(ranks_begin(argc, argv) == 2 && ranks == 3,
		"usage: deaths RANK 3 ADDRESS PORT KIND WHEN");
	kind = argv[5];
	struct wants wants = { .caps = FI_TAGGED | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV,
		.tx_flags = FI_DELIVERY_COMPLETE,
		.mr_mode = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ALLOCATED };
	must(have_endpoint(&port, &wants, "an endpoint"), "no endpoint");
	memory = calloc(1, LARGE);
	take_region();
	if (strcmp(argv[6], "before") != 0) { /* they get to know each other */
		struct operation sent = { 0 }, received = { 0 };
		if (rank == SURVIVOR) {
			taken(&port,
				fi_tsend(port.ep, memory, 64, NULL, port.at[VICTIM], 2, &sent));
			taken(&port,
				fi_trecv(port.ep, memory, 64, NULL, port.at[VICTIM], 2, 0,
					&received));
		} else if (rank == VICTIM) {
			taken(&port,
				fi_trecv(port.ep, memory, 64, NULL, port.at[SURVIVOR], 2, 0,
					&received));
			finish(&port, &received);
			taken(&port,
				fi_tsend(port.ep, memory, 64, NULL, port.at[SURVIVOR], 2, &sent));
		}
		if (rank != BYSTANDER)
			finish(&port, &sent), finish(&port, &received);
		together();
	}
	if (rank == VICTIM) {
		struct operation never = { 0 };
		if (is("rendezvous") && strcmp(argv[6], "during") == 0) {
			/* In the middle of its bytes. */
			taken(&port,
				fi_trecv(port.ep, memory, LARGE, NULL, FI_ADDR_UNSPEC, 1, 0,
					&never));
			for (int looks = 0; looks < 200; looks++)
				look(&port);
		}
		ranks_meanwhile(NULL, NULL); /* it answers nothing more */
		together();
		raise(SIGKILL);
	}
	if (rank == SURVIVOR) {
		survive(argv[6]);
	} else {
		together();
		together();
		taken(&port, fi_tinject(port.ep, "b", 1, port.at[SURVIVOR], 3));
	}
	passed(kind);
	close_region(&region);
	close_endpoint(&port);
	return ranks_end();
}
