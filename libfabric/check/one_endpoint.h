/* One endpoint over the stand-in of the pool, and its peers: for ends.c and guess.c. */
#ifndef CHECK_ONE_ENDPOINT_H
#define CHECK_ONE_ENDPOINT_H

#include "../vshmem_fi.h"
#include "pool.h"

extern struct fid_domain *domain;
extern struct fid_ep *ep;
extern struct fid_cq *cq;
extern struct fid_av *av;
extern fi_addr_t addresses[PEERS];

void open_all(void);
void close_all(void);
/* The endpoint alone, after it was closed. */
void open_endpoint(void);
/* Another process takes a peer's place. */
void come(uint32_t nth);
/* A message with so many zeros as its payload is there, and is taken. */
void deliver(uint32_t lane, uint8_t operation, const struct vshmem_wire *header, uint64_t bytes);

#endif
