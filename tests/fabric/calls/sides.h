/* Two processes, one of which operates on memory of the other. */
#ifndef SIDES_H
#define SIDES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

/* Of the interface before release 1.5; libfabric 2 deprecates its own name for it. */
enum { MR_BASIC = 1 << 0 };

#define must(condition, ...)                                                \
	do {                                                                \
		if (!(condition)) {                                         \
			fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);     \
			fprintf(stderr, __VA_ARGS__);                       \
			fprintf(stderr, "\n%d passed, 1 failed\n", passes); \
			exit(1);                                            \
		}                                                           \
	} while (0)
extern int passes;
void passed(const char *what);

struct side {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_cntr *read, *written; /* what the other has done */
	struct fid_ep *ep;
	fi_addr_t peer;
	uint32_t peer_record; /* memory id of the other's record */
	int socket;
	int wanted; /* completions */
	int errors, last_error;
	char scratch[64];
	/* Of remote data. */
	uint64_t data, last_data;
};

/* What the owner is asked for, and what it answers. */
enum say { SAY_REGIONS = 1, SAY_SEEN, SAY_SUM, SAY_REOPEN };
struct published {
	uint64_t address[3], key[3]; /* in the pool, private, and one that can be read only */
};
struct seen {
	uint64_t data, last_data, read, written, region_written[2];
};
struct answer {
	struct published published;
	struct seen seen;
	uint64_t sum[2];
};

/* sides.c */
/* How completions are waited for; nothing else is said: FI_WAIT_NONE. */
extern enum fi_wait_obj side_wait;
void open_side(struct side *side, int socket, int mr_mode);
void close_side(struct side *side);
/* Reads one completion, if there is one. */
void look(struct side *side);
/* Until all have come: without an error, with any, or one with this. */
void wait_all(struct side *side);
void wait_any(struct side *side);
void wait_error(struct side *side, int error);
#define until(side, call)                                                  \
	do {                                                               \
		ssize_t gave;                                              \
		while ((gave = (call)) == -FI_EAGAIN)                      \
			look(side);                                        \
		must(gave == 0, "%s: %s", #call, fi_strerror((int)-gave)); \
		(side)->wanted++;                                          \
	} while (0)
struct answer ask(struct side *side, enum say what);
/* What the owner does, until the other is gone. */
void own_memory(int socket, int mr_mode, size_t bytes);
uint64_t sum_of(const unsigned char *bytes, size_t count);

/* ends.c */
/* A record whose entries say anything: errors perhaps, and nothing else. */
void hostile(struct side *side, const struct published *published, size_t bytes,
	uint64_t (*any)(uint64_t));
/* Killed with much under way: each operation ends, and so do later ones. */
void killed(struct side *side, const struct published *published, pid_t owner);

/* numbers.c */
size_t number_bytes(enum fi_datatype datatype);
bool is_valid(enum fi_datatype datatype, enum fi_op op, int call);
void random_numbers(
	uint64_t (*any)(uint64_t), enum fi_datatype datatype, void *numbers, size_t count);
/* What an operation makes of numbers, done anew. */
void reference(enum fi_datatype datatype, enum fi_op op, void *there, const void *operands,
	const void *compare, size_t count);

#endif
