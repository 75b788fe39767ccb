/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * What programs and the driver of ivshmem devices agree on: /dev/vshmem/NAME.
 *
 * mmap(2), shared, maps any range of whole pages of the device's memory. poll(2) says POLLIN when a
 * peer has rung since this open file was last read, POLLPRI when a registered process has ended,
 * POLLHUP when the device is gone. read(2) of eight bytes returns how many rings there were, as a
 * 64-bit number, and waits for one unless O_NONBLOCK is set: an open file behaves like an eventfd.
 * A ring means "look again" and no more: rings may be lost, merged or made up.
 */
#ifndef _UAPI_VSHMEM_H
#define _UAPI_VSHMEM_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Version of this interface, in struct vshmem_info. */
#define VSHMEM_INTERFACE 1

/* The device can interrupt: it has a peer number, can ring and can be rung. */
#define VSHMEM_CAN_RING 1u

struct vshmem_info {
	__u32 interface; /* VSHMEM_INTERFACE */
	__u32 features;  /* VSHMEM_CAN_RING */
	__u64 bytes;  /* of memory */
	__s32 peer;  /* this machine's number among the peers; -1 without VSHMEM_CAN_RING */
	__u32 vectors;  /* interrupt vectors in use */
	char name[64];  /* of the node below /dev/vshmem */
	char place[32];  /* on the bus */
};

struct vshmem_ring {
	__u32 peer;  /* whom */
	__u32 vector;  /* 0 unless the peer uses more than one */
};

/*
 * Sleeps until the 32-bit word at an offset is something else than `value`. Looked at on each ring,
 * and once a second, because rings may be lost.
 */
struct vshmem_wait {
	__u64 offset;  /* a multiple of four */
	__u32 value;
	__u32 reserved;  /* 0 */
	__s64 timeout_ns; /* negative: for ever */
};

/* Ends of registered processes that this open file has not been notified of. */
struct vshmem_deaths {
	__u64 pids;  /* address of __s32[room]: pids as the caller's PID namespace sees them */
	__u32 room;
	__u32 count;  /* out: how many were written */
	__u32 missed;  /* out: how many ended that can no longer be reported */
	__u32 reserved;  /* 0 */
};

#define VSHMEM_MAGIC 0xB7
#define VSHMEM_INFO  _IOR(VSHMEM_MAGIC, 16, struct vshmem_info)
#define VSHMEM_RING  _IOW(VSHMEM_MAGIC, 17, struct vshmem_ring)
#define VSHMEM_WAIT  _IOW(VSHMEM_MAGIC, 18, struct vshmem_wait)
/* Have the caller's end reported to the readers of deaths. Lasts over exec, not over fork. */
#define VSHMEM_REGISTER _IO(VSHMEM_MAGIC, 19)
#define VSHMEM_DEATHS   _IOWR(VSHMEM_MAGIC, 20, struct vshmem_deaths)

#endif
