/* Memory that peers may reach: by a table entry; memory of the pool by its offset, too, for those
 * who read it there, as long as its owner and they are in the pool.
 *
 * Nobody writes directly into memory that he has not attached: when its owner dies, it is given to
 * somebody else of the pool. (Windows in the pool are attached by all: osc_window.c.)
 */
#include "btl_vshmem.h"

#include <stdlib.h>

/* An entry: what a peer names by slot and key. */
struct entry {
	uint64_t base, bytes;
	uint32_t key, flags;
	bool used;
};
static struct entry *entries;
static uint32_t count, lowest; /* of those that may be free */
static uint32_t next_key;

mca_btl_base_registration_handle_t *vshmem_register_mem(struct mca_btl_base_module_t *btl,
	struct mca_btl_base_endpoint_t *endpoint, void *base, size_t size, uint32_t flags)
{
	(void)btl, (void)endpoint;
	uint64_t offset = (uint64_t)((uint8_t *)base - vshmem_btl.base);
	bool in_pool = (uint8_t *)base >= vshmem_btl.base && offset <= vshmem_btl.bytes
	        && size <= vshmem_btl.bytes - offset;
	/* ob1 asks whether a peer could read a message where it lies. Private memory cannot be read
	 * from outside, and copying it through the ring is faster than asking its owner to. */
	if (!in_pool && flags == MCA_BTL_REG_FLAG_REMOTE_READ)
		return NULL;
	mca_btl_base_registration_handle_t *handle = calloc(1, sizeof(*handle));
	if (!handle)
		return NULL;
	handle->base = (uint64_t)(uintptr_t)base;
	handle->bytes = size;
	handle->offset = in_pool ? offset : NOT_IN_POOL;
	handle->nonce = vshmem_btl.me.stay.port.nonce;
	OPAL_THREAD_LOCK(&vshmem_btl.lock);
	uint32_t slot = lowest;
	while (slot < count && entries[slot].used)
		slot++;
	if (slot == count) {
		uint32_t more = count ? count * 2 : 16;
		struct entry *grown = realloc(entries, more * sizeof(*grown));
		if (!grown) {
			OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
			free(handle);
			return NULL;
		}
		for (uint32_t nth = count; nth < more; nth++)
			grown[nth].used = false;
		entries = grown;
		count = more;
	}
	entries[slot] = (struct entry) { handle->base, size, ++next_key, flags, true };
	lowest = slot + 1;
	handle->slot = slot;
	handle->key = next_key;
	OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
	return handle;
}

int vshmem_deregister_mem(
	struct mca_btl_base_module_t *btl, mca_btl_base_registration_handle_t *handle)
{
	(void)btl;
	OPAL_THREAD_LOCK(&vshmem_btl.lock);
	if (handle->slot < count && entries[handle->slot].key == handle->key) {
		entries[handle->slot].used = false;
		lowest = handle->slot < lowest ? handle->slot : lowest;
	}
	OPAL_THREAD_UNLOCK(&vshmem_btl.lock);
	free(handle);
	return OPAL_SUCCESS;
}

/* Where [address, address + bytes) lies behind the start of a region; UINT64_MAX when not inside.
 */
static uint64_t within(uint64_t base, uint64_t length, uint64_t address, uint64_t bytes)
{
	uint64_t into = address - base;
	return address >= base && into <= length && bytes <= length - into ? into : UINT64_MAX;
}

/* Of such memory. */
static void *place_of(
	const mca_btl_base_registration_handle_t *handle, uint64_t address, uint64_t bytes)
{
	uint64_t into = within(handle->base, handle->bytes, address, bytes);
	if (into == UINT64_MAX || handle->offset > vshmem_btl.bytes
	        || into > vshmem_btl.bytes - handle->offset
	        || bytes > vshmem_btl.bytes - handle->offset - into)
		return NULL;
	return vshmem_btl.base + handle->offset + into;
}

void *vshmem_in_pool(vshmem_endpoint *endpoint, const mca_btl_base_registration_handle_t *handle,
	uint64_t address, uint64_t bytes)
{
	if (!handle || handle->offset == NOT_IN_POOL)
		return NULL;
	/* Who says that no more is read sees this one, or is seen here. */
	OPAL_THREAD_ADD_FETCH32(&endpoint->reads, 1);
	void *place = endpoint->indirect || handle->nonce != endpoint->peer.nonce
		? NULL
		: place_of(handle, address, bytes);
	if (!place)
		vshmem_in_pool_done(endpoint);
	return place;
}

void vshmem_in_pool_done(vshmem_endpoint *endpoint)
{
	OPAL_THREAD_ADD_FETCH32(&endpoint->reads, -1);
}

void *vshmem_registered(
	uint32_t slot, uint32_t key, uint64_t address, uint64_t bytes, uint32_t access)
{
	bool found = slot < count && entries[slot].used && entries[slot].key == key
		&& (entries[slot].flags & access)
		&& within(entries[slot].base, entries[slot].bytes, address, bytes) != UINT64_MAX;
	return found ? (void *)(uintptr_t)address : NULL;
}

void vshmem_memory_close(void)
{
	free(entries);
	entries = NULL;
	count = lowest = 0;
}
