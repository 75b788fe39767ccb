/* What ends.c and guess.c share: one endpoint over the stand-in of the pool. */
#ifndef CHECK_ENDS_H
#define CHECK_ENDS_H

#include "../vshmem_fi.h"
#include "pool.h"

extern struct fid_domain *domain;
extern struct fid_ep *ep;
extern struct fid_cq *cq;
extern fi_addr_t addresses[PEERS];

void open_endpoint(void);
/* A message with so many zeros as its payload is there, and is taken. */
void deliver(uint32_t lane, uint8_t operation, const struct vfi_wire *header, uint64_t bytes);

/* guess.c: answers of whom nobody has asked, and that nobody waits for. */
void guess(void);

#endif
