/* Two processes with an endpoint or two each, and operations that are waited for. */
#ifndef FABRIC_ENDPOINTS_H
#define FABRIC_ENDPOINTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

enum { ENDPOINTS = 2, LARGEST = 4 << 20 };

/* An operation: its context, and how it ended. */
struct operation {
	struct fi_context2 context;
	int done; /* 1: well, 2: with an error, counted up by those that report several times */
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error;
	void (*each)(struct operation *operation, const struct fi_cq_tagged_entry *entry);
};

extern int rank, failures;
extern struct fid_ep *ep[ENDPOINTS]; /* NULL: the test has closed it */
extern struct fid_cq *cq;
extern struct fid_cntr *sent, *received;
extern fi_addr_t peer[ENDPOINTS], self[ENDPOINTS];

#define CHECK(condition, ...)                                                                 \
	do {                                                                                  \
		if (!(condition)) {                                                           \
			printf("rank %d, %s:%d: %s: ", rank, __func__, __LINE__, #condition); \
			printf(__VA_ARGS__);                                                  \
			printf("\n");                                                         \
			failures++;                                                           \
		}                                                                             \
	} while (0)
/* A call of libfabric that has to succeed. */
#define MUST(call)                                                                          \
	do {                                                                                \
		long result_ = (call);                                                      \
		if (result_ != 0) {                                                         \
			printf("rank %d, %s:%d: %s: %s\n", rank, __func__, __LINE__, #call, \
				fi_strerror((int)-result_));                                \
			exit(1);                                                            \
		}                                                                           \
	} while (0)
/* The same, again as long as there is no room. */
#define AGAIN(call)                                                                         \
	do {                                                                                \
		long result_;                                                               \
		while ((result_ = (call)) == -FI_EAGAIN)                                    \
			look();                                                             \
		if (result_ != 0) {                                                         \
			printf("rank %d, %s:%d: %s: %s\n", rank, __func__, __LINE__, #call, \
				fi_strerror((int)-result_));                                \
			exit(1);                                                            \
		}                                                                           \
	} while (0)

/* Opens all, and exchanges addresses by files in a directory. */
void open_all(const char *directory);
void close_all(void);
/* Removes that directory, when both processes have ended. */
void remove_addresses(const char *directory);
/* Reads the completion queue once. */
void look(void);
/* Until it has ended: 1 or 2. */
int wait_for(struct operation *operation);
/* Until both processes are here. */
void meet(void);
/* What a message of this number holds at a place. */
static inline uint8_t pattern(uint64_t number, size_t at)
{ return (uint8_t)(number * 31 + at + (at >> 8) * 7); }
void fill(uint8_t *buffer, size_t bytes, uint64_t number);
bool is_filled(const uint8_t *buffer, size_t bytes, uint64_t number);
/* Whether root has here what the provider needs to copy from another process's memory
 * (libfabric/cross_memory.c): Linux 6.5, and that it may trace. */
bool may_copy(void);

/* messages.c */
extern uint8_t *out_buffer, *in_buffer;
/* Which side sends: each test is made both ways. */
extern bool sends;
struct operation *send_tagged(size_t bytes, uint64_t tag, struct operation *operation);

/* receives.c */
void multi_receive(void);
void peeks(void);
void cancelled(void);

#endif
