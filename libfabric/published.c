/* The entries of a record: how a domain writes them, and how anybody reads them.
 *
 * An entry is written under its domain's lock, and read without any: its sequence is odd while it
 * is written, and differs after it. It has 64 bits, so an owner that follows the rules never writes
 * an old value again. A key has a few places where its entry can be; when all are taken, the region
 * is not published, and its owner is asked by messages.
 */
#include "regions.h"

static uint64_t position(uint64_t key, uint64_t probe)
{ return ((key * UINT64_C(0x9e3779b97f4a7c15) >> 32) + probe) % VFI_ENTRIES; }

static void store(uint64_t *word, uint64_t value)
{ __atomic_store_n(word, value, __ATOMIC_RELAXED); }

/* Pairs with the fences of vfi_entry_read. */
static void write_entry(struct vfi_entry *entry, const struct vfi_entry *values)
{
	uint64_t sequence = __atomic_load_n(&entry->sequence, __ATOMIC_RELAXED) | 1;
	store(&entry->sequence, sequence);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	store(&entry->key, values->key);
	store(&entry->base, values->base);
	store(&entry->bytes, values->bytes);
	store(&entry->offset, values->offset);
	__atomic_store_n(&entry->access, values->access, __ATOMIC_RELAXED);
	__atomic_store_n(&entry->memory, values->memory, __ATOMIC_RELAXED);
	__atomic_store_n(&entry->sequence, sequence + 1, __ATOMIC_RELEASE);
}

void vfi_entry_publish(struct vfi_memory *memory, struct vfi_region *region)
{
	struct vfi_entry values = { .key = region->fid.key,
		.base = region->base,
		.bytes = region->bytes,
		.offset = region->offset,
		.memory = region->id };
	if (region->access & FI_REMOTE_READ)
		values.access |= VSHMEM_REMOTE_READ;
	if (region->access & FI_REMOTE_WRITE)
		values.access |= VSHMEM_REMOTE_WRITE;
	if (region->read)
		values.access |= VFI_NOTIFY_READ;
	if (region->written)
		values.access |= VFI_NOTIFY_WRITE;
	for (uint64_t probe = 0; probe < VFI_PROBES; probe++) {
		uint64_t at = position(values.key, probe);
		if (memory->used[at])
			continue;
		memory->used[at] = true;
		region->entry = &memory->record->entries[at];
		write_entry(region->entry, &values);
		__atomic_add_fetch(&memory->record->published, 1, __ATOMIC_RELEASE);
		return;
	}
}

void vfi_entry_withdraw(struct vfi_memory *memory, struct vfi_region *region)
{
	static const struct vfi_entry none;
	if (!region->entry)
		return;
	write_entry(region->entry, &none);
	memory->used[region->entry - memory->record->entries] = false;
	region->entry = NULL;
	__atomic_add_fetch(&memory->record->withdrawn, 1, __ATOMIC_RELEASE);
}

static bool copy_entry(struct vfi_entry *entry, struct vfi_entry *copy)
{
	copy->sequence = __atomic_load_n(&entry->sequence, __ATOMIC_ACQUIRE);
	copy->key = __atomic_load_n(&entry->key, __ATOMIC_RELAXED);
	copy->base = __atomic_load_n(&entry->base, __ATOMIC_RELAXED);
	copy->bytes = __atomic_load_n(&entry->bytes, __ATOMIC_RELAXED);
	copy->offset = __atomic_load_n(&entry->offset, __ATOMIC_RELAXED);
	copy->access = __atomic_load_n(&entry->access, __ATOMIC_RELAXED);
	copy->memory = __atomic_load_n(&entry->memory, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return copy->sequence % 2 == 0
	        && __atomic_load_n(&entry->sequence, __ATOMIC_RELAXED) == copy->sequence;
}

bool vfi_entry_read(
	struct vfi_record *record, uint64_t key, struct vfi_entry *copy, struct vfi_entry **found)
{
	for (uint64_t probe = 0; probe < VFI_PROBES; probe++) {
		*found = &record->entries[position(key, probe)];
		if (copy_entry(*found, copy) && copy->memory > 0 && copy->key == key)
			return true;
	}
	return false;
}
