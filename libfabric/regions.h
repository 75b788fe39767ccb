/* Memory that peers may reach: what a domain tells of it, and how its peers use that.
 *
 * Each domain has a record in the pool. The record lists the regions that lie in the pool's memory;
 * a peer copies an entry, checks it, attaches the memory by its id, and reads and writes there
 * without its owner. All that stands in a record may be written by any member at any time.
 *
 * Locking: a domain's regions are looked up under their lock for reading, which is held as long as
 * their memory is used, so that nobody uses it any more when fi_close of a region has returned. The
 * list of attaches has a lock of its own, taken inside it.
 */
#ifndef VFI_REGIONS_H
#define VFI_REGIONS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdma/fi_domain.h>

#include "../transport/wire.h"
#include "vshmem.h"

/* An entry of a record. */
struct vfi_entry {
	uint64_t sequence; /* odd: it is being written. Each change makes it larger by two */
	uint64_t key;
	uint64_t base; /* the address that peers name for its first byte */
	uint64_t bytes;
	uint64_t offset; /* in the memory */
	int32_t memory;  /* its id; 0: no region */
	uint32_t access; /* VSHMEM_REMOTE_READ and so on */
	uint64_t unused[2];
};
_Static_assert(sizeof(struct vfi_entry) == 64, "an entry has a cache line");

/* Beside VSHMEM_REMOTE_READ and VSHMEM_REMOTE_WRITE. */
enum {
	VFI_NOTIFY_READ = 4, /* its owner counts, and is notified */
	VFI_NOTIFY_WRITE = 8,
};

enum { VFI_ENTRIES = 256, VFI_PROBES = 8 };

/* In an address's check: its process may sleep, and says so in its record. */
#define VFI_CHECK_SLEEPS 1u

struct vfi_record {
	uint64_t nonce; /* of its domain; no other record has it. Its lowest bit is 0 */
	uint64_t published; /* how often a region has been added */
	uint64_t withdrawn; /* and taken away */
	uint32_t notify;     /* VFI_NOTIFY_READ and VFI_NOTIFY_WRITE: an endpoint counts */
	uint32_t sleeps; /* its process waits for its semaphore (wait.c) */
	uint32_t semaphore_number; /* of the set that all have */
	uint32_t unused_word;
	uint64_t unused[3];
	struct vfi_entry entries[VFI_ENTRIES];
};
_Static_assert(offsetof(struct vfi_record, entries) == 64, "entries begin on cache lines");

struct vfi_domain;
struct vfi_memory;

/* A memory region of this process. */
struct vfi_region {
	struct fid_mr fid;
	struct vfi_memory *memory;
	struct vfi_domain *domain;
	struct vfi_region *next; /* in its bucket */
	char *start;
	uint64_t bytes, base, access; /* FI_REMOTE_READ and so on */
	int id; /* of the pool's memory that it lies in; 0: private */
	uint64_t offset; /* in that */
	struct vfi_entry *entry; /* NULL: not published */
	struct fid_cntr *read, *written; /* counters of what peers do */
};

/* The regions of a domain. */
struct vfi_memory {
	vshmem_pool *pool;
	struct vfi_record *record; /* NULL: the pool has no room for it */
	int record_id;
	uint64_t nonce;
	bool own_keys; /* FI_MR_PROV_KEY */
	bool addresses; /* FI_MR_VIRT_ADDR */
	bool sleeps; /* its process may sleep at a descriptor */
	pthread_rwlock_t lock;
	struct vfi_region **buckets;
	uint64_t bucket_count, count, next_key;
	bool used[VFI_ENTRIES]; /* entries; those in the record may say anything */
};

/* regions.c */
/* The regions of a domain; its record is made in the pool. 0 or a negative error number. */
int vfi_regions_open(vshmem_pool *pool, uint64_t mr_mode, uint64_t nonce, struct vfi_memory **made);
/* Regions that are still open are closed by it. */
void vfi_regions_close(struct vfi_memory *memory);
/* Adds a region; its key is in it. */
int vfi_region_add(
	struct vfi_memory *memory, const struct fi_mr_attr *attr, struct vfi_region **made);
void vfi_region_remove(struct vfi_region *region);
/* A range that a peer names, if it lies in one region that may be accessed so (FI_REMOTE_READ and
 * so on): then the lock is held until vfi_region_release. Otherwise NULL, and why in ERROR. */
struct vfi_region *vfi_region_hold(struct vfi_memory *memory, uint64_t key, uint64_t address,
	uint64_t bytes, uint64_t access, char **start, int *error);
void vfi_region_release(struct vfi_memory *memory);
/* What peers do to it from now on is counted: FI_REMOTE_READ, FI_REMOTE_WRITE or both. */
void vfi_region_count(struct vfi_region *region, struct fid_cntr *counter, uint64_t access);

/* published.c */
void vfi_entry_publish(struct vfi_memory *memory, struct vfi_region *region);
void vfi_entry_withdraw(struct vfi_memory *memory, struct vfi_region *region);
/* A copy of the entry of a key that was whole at one time. */
bool vfi_entry_read(
	struct vfi_record *record, uint64_t key, struct vfi_entry *copy, struct vfi_entry **found);

/* attached.c: what this process has attached of a pool's memory, by all its domains together. */
/* Attaches it, or counts once more what is attached already. */
int vfi_attached_take(vshmem_pool *pool, int id, uint64_t bytes, char **start);
/* The memory that a range lies in, taken once more: its id, and where it begins. 0: none. */
int vfi_attached_around(vshmem_pool *pool, const void *start, uint64_t bytes, char **begin);
void vfi_attached_drop(vshmem_pool *pool, int id);
/* New memory of the pool; -ENOENT of the latter: it is none that was taken. */
int vfi_attached_hold(vshmem_pool *pool, uint64_t bytes, void **start);
int vfi_attached_release(vshmem_pool *pool, void *start);
/* In a child: what its parent has attached is its parent's. */
void vfi_attached_forked(void);

/* direct.c: a peer's record, as this process uses it. */
struct vfi_direct;
/* The record of an id whose nonce ends so; NULL: it cannot be used. */
struct vfi_direct *vfi_direct_open(vshmem_pool *pool, int record_id, uint32_t check);
void vfi_direct_close(struct vfi_direct *direct);
/* Where a range lies that the peer has published for such an access (VSHMEM_REMOTE_READ and so on);
 * NULL: its owner must be asked. NOTIFY gets what it wants to be notified of. */
char *vfi_direct_find(struct vfi_direct *direct, uint64_t key, uint64_t address, uint64_t bytes,
	uint32_t access, uint32_t *notify);
/* Gives back what is not published any more. To be called now and then. */
void vfi_direct_sweep(struct vfi_direct *direct);
/* Memory of the peer could not be attached, for the pool's table of attaches is full. */
bool vfi_direct_refused(const struct vfi_direct *direct);

#endif
