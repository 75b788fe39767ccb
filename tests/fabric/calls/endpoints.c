/* What the tests of messages share: two processes, their endpoints, and waiting. */
#define _GNU_SOURCE
#include "endpoints.h"

#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

int rank, failures;
struct fid_ep *ep[ENDPOINTS];
struct fid_cq *cq;
struct fid_cntr *sent, *received;
fi_addr_t peer[ENDPOINTS], self[ENDPOINTS];

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;

static void find(void)
{
	struct fi_info *hints = fi_allocinfo();
	hints->fabric_attr->prov_name = strdup("vshmem");
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_TAGGED | FI_MSG | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ALLOCATED;
	MUST(fi_getinfo(FI_VERSION(1, 14), NULL, NULL, 0, hints, &info));
	fi_freeinfo(hints);
}

/* Both sides write their addresses into a file, and wait for the other's. */
static void exchange(const char *directory)
{
	char addresses[ENDPOINTS][64], others[ENDPOINTS][64], name[512], whole[512];
	size_t bytes = sizeof(addresses[0]);
	for (int nth = 0; nth < ENDPOINTS; nth++) {
		bytes = sizeof(addresses[0]);
		MUST(fi_getname(&ep[nth]->fid, addresses[nth], &bytes));
		CHECK(fi_av_insert(av, addresses[nth], 1, &self[nth], 0, NULL) == 1, "own address");
	}
	snprintf(name, sizeof(name), "%s/%d.part", directory, rank);
	snprintf(whole, sizeof(whole), "%s/%d", directory, rank);
	FILE *file = fopen(name, "w");
	if (!file || fwrite(addresses, sizeof(addresses), 1, file) != 1 || fclose(file) != 0
	        || rename(name, whole) != 0) {
		perror(name);
		exit(1);
	}
	snprintf(name, sizeof(name), "%s/%d", directory, 1 - rank);
	while (!(file = fopen(name, "r")))
		usleep(1000);
	if (fread(others, sizeof(others), 1, file) != 1)
		exit(1);
	fclose(file);
	for (int nth = 0; nth < ENDPOINTS; nth++)
		CHECK(fi_av_insert(av, others[nth], 1, &peer[nth], 0, NULL) == 1, "peer's address");
}

void open_all(const char *directory)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cntr_attr counter_attr = { .events = FI_CNTR_EVENTS_COMP };
	find();
	MUST(fi_fabric(info->fabric_attr, &fabric, NULL));
	MUST(fi_domain(fabric, info, &domain, NULL));
	MUST(fi_av_open(domain, &av_attr, &av, NULL));
	MUST(fi_cq_open(domain, &cq_attr, &cq, NULL));
	MUST(fi_cntr_open(domain, &counter_attr, &sent, NULL));
	MUST(fi_cntr_open(domain, &counter_attr, &received, NULL));
	for (int nth = 0; nth < ENDPOINTS; nth++) {
		MUST(fi_endpoint(domain, info, &ep[nth], NULL));
		MUST(fi_ep_bind(ep[nth], &av->fid, 0));
		MUST(fi_ep_bind(ep[nth], &cq->fid, FI_TRANSMIT | FI_RECV));
		MUST(fi_ep_bind(ep[nth], &sent->fid, FI_SEND));
		MUST(fi_ep_bind(ep[nth], &received->fid, FI_RECV));
		MUST(fi_enable(ep[nth]));
	}
	exchange(directory);
}

void close_all(void)
{
	for (int nth = 0; nth < ENDPOINTS; nth++)
		if (ep[nth])
			MUST(fi_close(&ep[nth]->fid));
	MUST(fi_close(&sent->fid));
	MUST(fi_close(&received->fid));
	MUST(fi_close(&cq->fid));
	MUST(fi_close(&av->fid));
	MUST(fi_close(&domain->fid));
	MUST(fi_close(&fabric->fid));
	fi_freeinfo(info);
}

static void ended(struct operation *operation, const struct fi_cq_tagged_entry *entry,
	const struct fi_cq_err_entry *error)
{
	if (!operation) {
		CHECK(!error, "an error without a context: %s", fi_strerror(error->err));
		return;
	}
	if (error) {
		operation->error = *error;
		__atomic_store_n(&operation->done, 2, __ATOMIC_RELEASE);
		return;
	}
	operation->entry = *entry;
	if (operation->each)
		operation->each(operation, entry);
	else
		__atomic_store_n(&operation->done, 1, __ATOMIC_RELEASE);
}

void look(void)
{
	struct fi_cq_tagged_entry entries[8];
	ssize_t count = fi_cq_read(cq, entries, 8);
	for (ssize_t nth = 0; nth < count; nth++)
		ended(entries[nth].op_context, &entries[nth], NULL);
	if (count == -FI_EAVAIL) {
		struct fi_cq_err_entry error = { 0 };
		if (fi_cq_readerr(cq, &error, 0) == 1)
			ended(error.op_context, NULL, &error);
	}
}

int wait_for(struct operation *operation)
{
	int done;
	while (!(done = __atomic_load_n(&operation->done, __ATOMIC_ACQUIRE)))
		look();
	operation->done = 0;
	return done;
}

void meet(void)
{
	static const uint64_t tag = UINT64_C(0x7eee) << 32;
	struct operation in = { 0 }, out = { 0 };
	uint8_t word = 0;
	AGAIN(fi_trecv(ep[0], &word, 1, NULL, FI_ADDR_UNSPEC, tag, 0, &in));
	AGAIN(fi_tsend(ep[0], &word, 1, NULL, peer[0], tag, &out));
	wait_for(&in);
	wait_for(&out);
}

void fill(uint8_t *buffer, size_t bytes, uint64_t number)
{
	for (size_t at = 0; at < bytes; at++)
		buffer[at] = pattern(number, at);
}

bool is_filled(const uint8_t *buffer, size_t bytes, uint64_t number)
{
	for (size_t at = 0; at < bytes; at++)
		if (buffer[at] != pattern(number, at))
			return false;
	return true;
}

void remove_addresses(const char *directory)
{
	char file[64];
	for (int nth = 0; nth < 2; nth++) {
		snprintf(file, sizeof(file), "%s/%d", directory, nth);
		unlink(file);
	}
	rmdir(directory);
}

bool may_copy(void)
{
	int pair[2], process = -1;
	socklen_t bytes = sizeof(process);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
		return false;
	bool told = getsockopt(pair[0], SOL_SOCKET, SO_PEERPIDFD, &process, &bytes) == 0;
	pid_t child = fork();
	if (child == 0) {
		uint64_t word, known = 1;
		struct iovec here = { &word, sizeof(word) }, there = { &known, sizeof(known) };
		_exit(process_vm_readv(getppid(), &here, 1, &there, 1, 0) != sizeof(word));
	}
	int status = 1;
	waitpid(child, &status, 0);
	close(pair[0]);
	close(pair[1]);
	if (told)
		close(process);
	return told && status == 0;
}
