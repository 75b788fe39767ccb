/* Cross-memory attach: messages that are copied from the memory of their sender. */
#ifndef VFI_CROSS_MEMORY_H
#define VFI_CROSS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct vfi_endpoint;
struct vfi_peer;
struct vshmem_wire;

/* A process whose memory may be read. */
struct vfi_process {
	unsigned tries; /* that were made to find it */
	bool readable;
	pid_t id;
	uint64_t offers, secret; /* address of the table of its endpoint, and what it has there */
	struct iovec last; /* what was copied last, if that was in one part */
	bool repeated; /* and before that */
};

/* Copies the first bytes of a message that was announced by HEADER, with the header's bytes at
 * OFFERED_AT. False: they are to be asked for; what the parts hold may have been written. */
bool vfi_offer_read(const struct vfi_endpoint *ep, struct vfi_peer *peer,
	const struct vshmem_wire *header, const void *offered_at, const struct iovec *into,
	size_t count, size_t bytes);
#endif
