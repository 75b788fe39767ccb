/* What a peer has published, as this process uses it.
 *
 * The regions of a peer that were used last are kept, each with the sequence that its entry had.
 * As long as the entry has it, the region is what it was; what is withdrawn is given back when it
 * is asked for again, or when the peer's regions are looked through. Until then the memory stays
 * attached, so that a store that comes late goes to memory that nobody else has been given.
 */
#include "regions.h"

#include <errno.h>
#include <stdlib.h>

struct kept {
	uint64_t key;
	uint64_t sequence; /* of the entry; of a key without one, what had been published */
	uint64_t base, bytes;
	struct vfi_entry *entry;
	char *start; /* NULL: there is nothing to be used */
	uint32_t access;
	int id;
	bool valid;
};

enum { KEPT_BITS = 6 };

struct vfi_direct {
	vshmem_pool *pool;
	struct vfi_record *record;
	int record_id;
	uint64_t withdrawn; /* when all was looked through */
	bool refused; /* the pool's table of attaches was full */
	struct kept kept[1 << KEPT_BITS];
};

struct vfi_direct *vfi_direct_open(vshmem_pool *pool, int record_id, uint32_t check)
{
	char *start;
	if (vfi_attached_take(pool, record_id, sizeof(struct vfi_record), &start) != 0)
		return NULL;
	struct vfi_direct *direct = calloc(1, sizeof(*direct));
	struct vfi_record *record = (struct vfi_record *)start;
	if (!direct
	        || (uint32_t)__atomic_load_n(&record->nonce, __ATOMIC_RELAXED)
	                != (check & ~VFI_CHECK_SLEEPS)) {
		free(direct);
		vfi_attached_drop(pool, record_id);
		return NULL;
	}
	direct->pool = pool;
	direct->record = record;
	direct->record_id = record_id;
	return direct;
}

static void forget(struct vfi_direct *direct, struct kept *kept)
{
	if (kept->start)
		vfi_attached_drop(direct->pool, kept->id);
	*kept = (struct kept) { 0 };
}

void vfi_direct_close(struct vfi_direct *direct)
{
	if (!direct)
		return;
	for (int nth = 0; nth < 1 << KEPT_BITS; nth++)
		forget(direct, &direct->kept[nth]);
	vfi_attached_drop(direct->pool, direct->record_id);
	free(direct);
}

static bool is_current(const struct vfi_direct *direct, const struct kept *kept)
{
	const uint64_t *word = kept->start ? &kept->entry->sequence : &direct->record->published;
	return __atomic_load_n(word, __ATOMIC_ACQUIRE) == kept->sequence;
}

/* Looks a key up, and attaches what its entry names. */
static void look_up(struct vfi_direct *direct, struct kept *kept, uint64_t key)
{
	struct vfi_entry copy, *entry;
	struct kept new = { .key = key, .valid = true };
	new.sequence = __atomic_load_n(&direct->record->published, __ATOMIC_ACQUIRE);
	char *memory;
	bool published = vfi_entry_read(direct->record, key, &copy, &entry)
	        && copy.bytes <= UINT64_MAX - copy.offset;
	int rc = published
		? vfi_attached_take(direct->pool, copy.memory, copy.offset + copy.bytes, &memory)
		: -ENOENT;
	direct->refused |= rc == -ENOMEM;
	if (rc == 0) {
		new.sequence = copy.sequence;
		new.base = copy.base;
		new.bytes = copy.bytes;
		new.entry = entry;
		new.start = memory + copy.offset;
		new.access = copy.access;
		new.id = copy.memory;
	}
	forget(direct, kept);
	*kept = new;
}

char *vfi_direct_find(struct vfi_direct *direct, uint64_t key, uint64_t address, uint64_t bytes,
	uint32_t access, uint32_t *notify)
{
	struct kept *kept = &direct->kept[key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - KEPT_BITS)];
	if (!kept->valid || kept->key != key || !is_current(direct, kept))
		look_up(direct, kept, key);
	uint64_t into = address - kept->base;
	if (!kept->start || into > kept->bytes || bytes > kept->bytes - into
	        || (kept->access & access) != access)
		return NULL;
	*notify = kept->access | __atomic_load_n(&direct->record->notify, __ATOMIC_RELAXED);
	return kept->start + into;
}

void vfi_direct_sweep(struct vfi_direct *direct)
{
	uint64_t withdrawn = __atomic_load_n(&direct->record->withdrawn, __ATOMIC_ACQUIRE);
	if (withdrawn == direct->withdrawn)
		return;
	direct->withdrawn = withdrawn;
	for (int nth = 0; nth < 1 << KEPT_BITS; nth++) {
		struct kept *kept = &direct->kept[nth];
		if (kept->start && !is_current(direct, kept))
			forget(direct, kept);
	}
}

bool vfi_direct_refused(const struct vfi_direct *direct) { return direct->refused; }
