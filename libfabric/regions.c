/* Memory regions: the table of a domain. */
#include "regions.h"
#include "releases.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

enum { BUCKETS = 64 };

/* The record, in memory of the pool. Without one the domain's regions are reached by messages. */
static void make_record(struct vfi_memory *memory, uint64_t nonce)
{
	void *start;
	if (vfi_attached_hold(memory->pool, sizeof(struct vfi_record), &start) != 0)
		return;
	memory->record = start;
	memory->record_id = vshmem_id(memory->pool, start);
	memory->nonce = nonce;
	__atomic_store_n(&memory->record->nonce, nonce, __ATOMIC_RELEASE);
}

int vfi_regions_open(vshmem_pool *pool, uint64_t mr_mode, uint64_t nonce, struct vfi_memory **made)
{
	struct vfi_memory *memory = calloc(1, sizeof(*memory));
	if (!memory)
		return -FI_ENOMEM;
	memory->pool = pool;
	memory->bucket_count = BUCKETS;
	memory->buckets = calloc(BUCKETS, sizeof(*memory->buckets));
	if (!memory->buckets || pthread_rwlock_init(&memory->lock, NULL) != 0) {
		free(memory->buckets);
		free(memory);
		return -FI_ENOMEM;
	}
	bool basic = mr_mode == VFI_MR_BASIC;
	memory->own_keys = basic || (mr_mode & FI_MR_PROV_KEY);
	memory->addresses = basic || (mr_mode & FI_MR_VIRT_ADDR);
	make_record(memory, nonce);
	*made = memory;
	return 0;
}

static struct vfi_region **bucket(const struct vfi_memory *memory, uint64_t key)
{
	return &memory->buckets[(key * UINT64_C(0x9e3779b97f4a7c15) >> 32)
	        & (memory->bucket_count - 1)];
}

static struct vfi_region *find(const struct vfi_memory *memory, uint64_t key)
{
	struct vfi_region *region = *bucket(memory, key);
	while (region && region->fid.key != key)
		region = region->next;
	return region;
}

/* Without memory for more, the buckets get longer. */
static void grow(struct vfi_memory *memory)
{
	uint64_t old_count = memory->bucket_count;
	struct vfi_region **old = memory->buckets, **more = calloc(old_count * 4, sizeof(*more));
	if (!more)
		return;
	memory->buckets = more;
	memory->bucket_count = old_count * 4;
	for (uint64_t nth = 0; nth < old_count; nth++) {
		struct vfi_region *region = old[nth], *next;
		for (; region; region = next) {
			next = region->next;
			struct vfi_region **head = bucket(memory, region->fid.key);
			region->next = *head;
			*head = region;
		}
	}
	free(old);
}

static void publish(struct vfi_region *region)
{
	struct vfi_memory *memory = region->memory;
	char *begin;
	if (!memory->record || !(region->access & (FI_REMOTE_READ | FI_REMOTE_WRITE)))
		return;
	if (!region->id)
		region->id = vfi_attached_around(
			memory->pool, region->start, region->bytes, &begin);
	else
		begin = region->start - region->offset;
	if (!region->id)
		return;
	region->offset = (uint64_t)(region->start - begin);
	vfi_entry_publish(memory, region);
}

int vfi_region_add(
	struct vfi_memory *memory, const struct fi_mr_attr *attr, struct vfi_region **made)
{
	if (attr->iov_count != 1 || attr->mr_iov->iov_len == 0)
		return -FI_EINVAL;
	struct vfi_region *region = calloc(1, sizeof(*region));
	if (!region)
		return -FI_ENOMEM;
	region->memory = memory;
	region->start = attr->mr_iov->iov_base;
	region->bytes = attr->mr_iov->iov_len;
	region->access = attr->access;
	region->base = memory->addresses ? (uint64_t)(uintptr_t)region->start : attr->offset;
	pthread_rwlock_wrlock(&memory->lock);
	region->fid.key = memory->own_keys ? ++memory->next_key : attr->requested_key;
	if (!memory->own_keys && find(memory, region->fid.key)) {
		pthread_rwlock_unlock(&memory->lock);
		free(region);
		return -FI_ENOKEY;
	}
	if (++memory->count > memory->bucket_count * 2)
		grow(memory);
	struct vfi_region **head = bucket(memory, region->fid.key);
	region->next = *head;
	*head = region;
	publish(region);
	pthread_rwlock_unlock(&memory->lock);
	*made = region;
	return 0;
}

/* With the lock held. */
static void remove_region(struct vfi_region *region)
{
	struct vfi_memory *memory = region->memory;
	struct vfi_region **link = bucket(memory, region->fid.key);
	while (*link != region)
		link = &(*link)->next;
	*link = region->next;
	memory->count--;
	vfi_entry_withdraw(memory, region);
	if (region->id)
		vfi_attached_drop(memory->pool, region->id);
	free(region);
}

void vfi_region_remove(struct vfi_region *region)
{
	struct vfi_memory *memory = region->memory;
	pthread_rwlock_wrlock(&memory->lock);
	remove_region(region);
	pthread_rwlock_unlock(&memory->lock);
}

void vfi_region_count(struct vfi_region *region, struct fid_cntr *counter, uint64_t access)
{
	struct vfi_memory *memory = region->memory;
	pthread_rwlock_wrlock(&memory->lock);
	if (access & FI_REMOTE_READ)
		region->read = counter;
	if (access & FI_REMOTE_WRITE)
		region->written = counter;
	vfi_entry_withdraw(memory, region);
	publish(region);
	pthread_rwlock_unlock(&memory->lock);
}

void vfi_regions_close(struct vfi_memory *memory)
{
	if (!memory)
		return;
	for (uint64_t nth = 0; nth < memory->bucket_count; nth++)
		while (memory->buckets[nth])
			remove_region(memory->buckets[nth]);
	if (memory->record)
		vfi_attached_release(memory->pool, memory->record);
	pthread_rwlock_destroy(&memory->lock);
	free(memory->buckets);
	free(memory);
}

struct vfi_region *vfi_region_hold(struct vfi_memory *memory, uint64_t key, uint64_t address,
	uint64_t bytes, uint64_t access, char **start, int *error)
{
	pthread_rwlock_rdlock(&memory->lock);
	struct vfi_region *region = find(memory, key);
	uint64_t into = region ? address - region->base : 0;
	if (!region)
		*error = FI_EKEYREJECTED;
	else if ((region->access & access) != access)
		*error = FI_EACCES;
	else if (into > region->bytes || bytes > region->bytes - into)
		*error = FI_EINVAL;
	else {
		*start = region->start + into;
		return region;
	}
	pthread_rwlock_unlock(&memory->lock);
	return NULL;
}

void vfi_region_release(struct vfi_memory *memory) { pthread_rwlock_unlock(&memory->lock); }
