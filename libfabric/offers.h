/* Messages that their receivers may copy from the memory of their sender. */
#ifndef VFI_OFFERS_H
#define VFI_OFFERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "operations.h"

/* Of an endpoint at once; further messages go in pieces. */
#define VFI_OFFERS 64

/* A message; who may copy it reads this, too, from the sender's memory. Processes of other builds
 * do as well: who changes it changes the name of the socket. */
struct vfi_offer {
	uint64_t secret; /* of the endpoint, random; where it stands this is a table still */
	uint64_t token; /* of the message; 0: none */
	uint64_t sender, receiver; /* nonces of their ports */
	uint64_t count; /* of parts */
	struct iovec parts[VSHMEM_PARTS];
};

/* Those of an endpoint, in memory of its process that no other process writes. */
struct vfi_offers {
	struct vfi_offer entries[VFI_OFFERS]; /* with secret 0: not open */
	uint64_t used; /* a bit for each */
	int listener; /* a socket whose name tells where this is; -1: there is none */
	pid_t opener;
	struct vfi_endpoint *next; /* of this process, that have a listener */
};

/* The socket of an endpoint's table: it is named after its port's nonce and the table's address. */
socklen_t vfi_offers_name(uint64_t nonce, uint64_t offers, struct sockaddr_un *name);
/* So that processes of this kernel find it. */
void vfi_offers_open(struct vfi_endpoint *ep);
void vfi_offers_close(struct vfi_endpoint *ep);
/* Processes that have connected are forgotten; now and then. */
void vfi_offers_tidy(struct vfi_endpoint *ep);
void vfi_offers_forked(void);
/* Offers a message, which has its token, if the peer may be able to copy it. */
bool vfi_offer_make(struct vfi_endpoint *ep, const struct vfi_peer *peer, struct vfi_send *send);
/* Before its payload is the program's again. */
void vfi_offer_withdraw(struct vfi_endpoint *ep, struct vfi_send *send);

#endif
