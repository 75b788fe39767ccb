/* An endpoint of libfabric as the tests open it, what is under way on it, and how that is waited
 * for. */
#ifndef ENDPOINT_H
#define ENDPOINT_H

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <unistd.h>

#include "ranks.h"

/* Of the interface before release 1.5; libfabric 2 deprecates its own name for it. */
enum { MR_BASIC = 1 << 0 };

/* What a test asks for. Zeros: the provider's choice. */
struct wants {
	uint64_t caps;
	uint64_t tx_flags; /* what all its operations have, e.g. FI_DELIVERY_COMPLETE */
	uint64_t bind_flags; /* FI_SELECTIVE_COMPLETION */
	int mr_mode;
	enum fi_av_type av_type;
	enum fi_threading threading;
	int counters;
};

/* An operation. Its context is its address, so no field stands before that. */
struct operation {
	struct fi_context2 context;
	int done; /* completions that it has had */
	int failed; /* its error, positive; 0 when it has none */
	struct fi_cq_tagged_entry entry; /* the last completion */
	struct fi_cq_err_entry error;
	fi_addr_t from;
	/* For each completion, when it is there. */
	void (*seen)(struct operation *, const struct fi_cq_tagged_entry *);
};

struct endpoint {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_cntr *written, *read, *remote_written; /* with wants.counters */
	fi_addr_t *at; /* of each rank */
	/* Completions that belong to no operation of ours: remote data. */
	void (*arrived)(struct endpoint *, const struct fi_cq_tagged_entry *);
	uint64_t data; /* the last of it */
	int datas;
};

/* Whether the provider under test is the one that must be able to do all of it. */
int is_ours(void);
/* 0, or a negative error of libfabric: the provider has no such endpoint. */
int open_endpoint(struct endpoint *endpoint, const struct wants *wants);
/* The same; the case ends when it cannot be had, and the test as well when the provider is ours. */
int have_endpoint(struct endpoint *endpoint, const struct wants *wants, const char *what);
/* Exchanges addresses with all ranks. */
void meet(struct endpoint *endpoint);
void close_endpoint(struct endpoint *endpoint);

/* Reads what is there. To be called by one thread at a time. */
void look(struct endpoint *endpoint);
/* Until it has had so many completions, or failed. */
void wait_for(struct endpoint *endpoint, struct operation *operation, int completions);
/* The same: it must have succeeded. */
void finish(struct endpoint *endpoint, struct operation *operation);
/* Makes the call until it is taken. */
#define taken(endpoint, call)                                              \
	do {                                                               \
		ssize_t gave;                                              \
		while ((gave = (call)) == -FI_EAGAIN)                      \
			look(endpoint);                                    \
		must(gave == 0, "%s: %s", #call, fi_strerror((int)-gave)); \
	} while (0)

/* Registered memory, and where all ranks have theirs. */
struct region {
	char *memory;
	size_t bytes;
	struct fid_mr *mr;
	void *desc;
	uint64_t *keys, *addresses; /* of each rank; addresses as its mr_mode has them */
};
/* Registers and tells all. */
void open_region(struct endpoint *endpoint, struct region *region, uint64_t access, uint64_t key);
void close_region(struct region *region);

#endif
