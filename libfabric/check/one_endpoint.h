/* One endpoint over the stand-in of the pool, and its peers. */
#ifndef CHECK_ONE_ENDPOINT_H
#define CHECK_ONE_ENDPOINT_H

#include "../vshmem_fi.h"
#include "../../transport/check/answers.h"

extern struct fid_domain *domain;
extern struct fid_ep *ep;
extern struct fid_cq *cq;
extern struct fid_av *av;
extern fi_addr_t addresses[PEERS];

/* What is called for each message that is sent; NULL: all are noted. */
void open_all(void (*was_sent)(
	uint32_t peer, uint8_t operation, const struct vshmem_wire *header, uint32_t bytes));
void close_all(void);
/* The endpoint alone, after it was closed. */
void open_endpoint(void);
/* Another process takes a peer's place; it has a record of this id. */
void come(uint32_t nth, int record);
/* A message, which is taken. Meanwhile progress is made, or what a check says. */
extern void (*look)(void);
void deliver_bytes(uint32_t lane, uint8_t operation, const struct vshmem_wire *header,
	const void *payload, uint64_t bytes);

#endif
