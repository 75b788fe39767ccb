/* Peers of this process that offer messages to be copied from their memory: true, false, or true
 * but for a few bytes. */
#ifndef CHECK_OFFERS_H
#define CHECK_OFFERS_H

#include <stdbool.h>
#include <stdint.h>

#include "../vshmem_fi.h"

/* A peer has another nonce from now on. */
void peer_offers(uint32_t peer, uint64_t nonce);
/* Makes an entry of a peer's table for a message of this header, to the port of this nonce, and
 * says where it is. */
struct vfi_offer_place any_offer(
	uint32_t peer, const struct vshmem_wire *header, uint64_t receiver);
/* Whether that is what such a message holds. */
bool was_offered(const char *bytes, uint64_t count);
void end_offers(void);

#endif
