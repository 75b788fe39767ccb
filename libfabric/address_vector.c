/* Address vectors: ports of peers, by index. */
#include "vshmem_fi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t slot_of(const struct vfi_av *av, uint64_t nonce)
{ return (size_t)(nonce * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (av->hash_room - 1); }

/* Enters a row into the hash, of which there is room for another. */
static void enter(struct vfi_av *av, uint32_t index)
{
	size_t slot = slot_of(av, av->rows[index].address.nonce);
	while (av->by_nonce[slot])
		slot = (slot + 1) & (av->hash_room - 1);
	av->by_nonce[slot] = index + 1;
}

static bool rehash(struct vfi_av *av, size_t room)
{
	uint32_t *table = calloc(room, sizeof(*table));
	if (!table)
		return false;
	free(av->by_nonce);
	av->by_nonce = table;
	av->hash_room = room;
	for (size_t index = 0; index < av->count; index++)
		if (av->rows[index].used)
			enter(av, (uint32_t)index);
	return true;
}

static bool reserve(struct vfi_av *av)
{
	if (av->count == av->room) {
		size_t room = av->room ? av->room * 2 : 64;
		struct vfi_av_row *rows = realloc(av->rows, room * sizeof(*rows));
		if (!rows)
			return false;
		av->rows = rows;
		av->room = room;
	}
	return av->hash_room > 2 * av->count || rehash(av, av->hash_room ? av->hash_room * 2 : 128);
}

static int insert_one(struct vfi_av *av, const struct vfi_address *address, fi_addr_t *addr)
{
	if (memcmp(address->pool, av->domain->uuid, sizeof(address->pool)) != 0
	        || address->id == 0) {
		vfi_log(FI_LOG_WARN, FI_LOG_AV,
			"an address of another pool, or none: all processes of a job have to use one pool");
		return -FI_EADDRNOTAVAIL;
	}
	if (!reserve(av))
		return -FI_ENOMEM;
	uint32_t index = (uint32_t)av->count;
	av->rows[index] = (struct vfi_av_row) { .address = *address, .used = true };
	av->count++;
	enter(av, index);
	av->version++;
	vfi_lock(av->domain, &av->domain->lock);
	vshmem_domains_add(&av->domain->domains, &address->member);
	vfi_unlock(av->domain, &av->domain->lock);
	*addr = index;
	return 0;
}

static int insert(struct fid_av *fid, const void *addresses, size_t count, fi_addr_t *addrs,
	uint64_t flags, void *context)
{
	struct vfi_av *av = container_of(fid, struct vfi_av, fid);
	int *errors = flags & FI_SYNC_ERR ? context : NULL;
	int inserted = 0;
	vfi_lock(av->domain, &av->lock);
	for (size_t nth = 0; nth < count; nth++) {
		struct vfi_address address;
		fi_addr_t addr = FI_ADDR_NOTAVAIL;
		memcpy(&address, (const char *)addresses + nth * sizeof(address), sizeof(address));
		int rc = insert_one(av, &address, &addr);
		inserted += rc == 0;
		if (addrs)
			addrs[nth] = addr;
		if (errors)
			errors[nth] = -rc;
	}
	vfi_unlock(av->domain, &av->lock);
	return inserted;
}

static int insert_service(struct fid_av *fid, const char *node, const char *service,
	fi_addr_t *addr, uint64_t flags, void *context)
{
	(void)fid, (void)node, (void)service, (void)addr, (void)flags, (void)context;
	return -FI_ENOSYS;
}

static int insert_symmetric(struct fid_av *fid, const char *node, size_t nodes, const char *service,
	size_t services, fi_addr_t *addr, uint64_t flags, void *context)
{
	(void)fid, (void)node, (void)nodes, (void)service, (void)services;
	(void)addr, (void)flags, (void)context;
	return -FI_ENOSYS;
}

static int drop(struct fid_av *fid, fi_addr_t *addrs, size_t count, uint64_t flags)
{
	struct vfi_av *av = container_of(fid, struct vfi_av, fid);
	(void)flags;
	int rc = 0;
	vfi_lock(av->domain, &av->lock);
	for (size_t nth = 0; nth < count; nth++) {
		if (addrs[nth] < av->count && av->rows[addrs[nth]].used)
			av->rows[addrs[nth]].used = false;
		else
			rc = -FI_EINVAL;
	}
	av->version++;
	if (av->hash_room)
		rehash(av, av->hash_room);
	vfi_unlock(av->domain, &av->lock);
	/* What an endpoint has of them, once it cannot take them from the vector any more. */
	if (av->domain->threads)
		pthread_rwlock_rdlock(&av->bound.lock);
	for (uint32_t bound = 0; bound < av->bound.count; bound++) {
		struct vfi_endpoint *ep = av->bound.endpoints[bound];
		vfi_lock(ep->domain, &ep->lock);
		for (size_t nth = 0; nth < count; nth++)
			if (addrs[nth] < ep->by_addr_room)
				ep->by_addr[addrs[nth]] = NULL;
		vfi_unlock(ep->domain, &ep->lock);
	}
	if (av->domain->threads)
		pthread_rwlock_unlock(&av->bound.lock);
	return rc;
}

bool vfi_av_address(struct vfi_av *av, fi_addr_t addr, struct vfi_address *address)
{
	vfi_lock(av->domain, &av->lock);
	bool found = addr < av->count && av->rows[addr].used;
	if (found)
		*address = av->rows[addr].address;
	vfi_unlock(av->domain, &av->lock);
	return found;
}

fi_addr_t vfi_av_of_nonce(struct vfi_av *av, uint64_t nonce)
{
	fi_addr_t addr = FI_ADDR_NOTAVAIL;
	vfi_lock(av->domain, &av->lock);
	size_t slot = av->hash_room ? slot_of(av, nonce) : 0;
	while (av->hash_room && av->by_nonce[slot]) {
		uint32_t index = av->by_nonce[slot] - 1;
		/* Of several rows with one address, the first. */
		if (av->rows[index].address.nonce == nonce && index < addr)
			addr = index;
		slot = (slot + 1) & (av->hash_room - 1);
	}
	vfi_unlock(av->domain, &av->lock);
	return addr;
}

static int lookup(struct fid_av *fid, fi_addr_t addr, void *address, size_t *bytes)
{
	struct vfi_av *av = container_of(fid, struct vfi_av, fid);
	struct vfi_address found;
	if (!vfi_av_address(av, addr, &found))
		return -FI_EINVAL;
	memcpy(address, &found, *bytes < sizeof(found) ? *bytes : sizeof(found));
	*bytes = sizeof(found);
	return 0;
}

static const char *to_string(struct fid_av *fid, const void *address, char *text, size_t *bytes)
{
	struct vfi_address found;
	(void)fid;
	memcpy(&found, address, sizeof(found));
	int needed = snprintf(text, *bytes, "vshmem://%02x%02x%02x%02x/%u.%u/%u/%016llx",
		found.pool[0], found.pool[1], found.pool[2], found.pool[3], found.member.index,
		found.member.epoch, found.id, (unsigned long long)found.nonce);
	*bytes = (size_t)needed + 1;
	return text;
}

static int close_av(struct fid *fid)
{
	struct vfi_av *av = container_of(fid, struct vfi_av, fid.fid);
	if (av->bound.count)
		return -FI_EBUSY;
	__atomic_sub_fetch(&av->domain->used, 1, __ATOMIC_RELAXED);
	pthread_mutex_destroy(&av->lock);
	pthread_rwlock_destroy(&av->bound.lock);
	free(av->bound.endpoints);
	free(av->rows);
	free(av->by_nonce);
	free(av);
	return 0;
}

static int bind_av(struct fid *fid, struct fid *bound, uint64_t flags)
{
	(void)fid, (void)flags;
	/* Insertion is complete when it returns: an event queue has nothing to tell. */
	return bound->fclass == FI_CLASS_EQ ? 0 : -FI_EINVAL;
}

static struct fi_ops fid_ops = VFI_OPS(close_av, bind_av, vfi_no_control, vfi_no_ops);

static struct fi_ops_av av_ops = {
	.size = sizeof(struct fi_ops_av),
	.insert = insert,
	.insertsvc = insert_service,
	.insertsym = insert_symmetric,
	.remove = drop,
	.lookup = lookup,
	.straddr = to_string,
};

int vfi_av_open(
	struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **opened, void *context)
{
	struct vfi_domain *domain = container_of(fid, struct vfi_domain, fid);
	if (attr && (attr->name || attr->flags & FI_EVENT || attr->rx_ctx_bits > 0))
		return -FI_ENOSYS;
	struct vfi_av *av = calloc(1, sizeof(*av));
	if (!av)
		return -FI_ENOMEM;
	av->fid.fid = (struct fid) { .fclass = FI_CLASS_AV, .context = context, .ops = &fid_ops };
	av->fid.ops = &av_ops;
	av->domain = domain;
	av->version = 1;
	pthread_mutex_init(&av->lock, NULL);
	pthread_rwlock_init(&av->bound.lock, NULL);
	if (attr && attr->count > domain->expected)
		domain->expected = attr->count < 4096 ? (uint32_t)attr->count : 4096;
	if (attr && attr->type == FI_AV_UNSPEC)
		attr->type = FI_AV_TABLE;
	__atomic_add_fetch(&domain->used, 1, __ATOMIC_RELAXED);
	*opened = &av->fid;
	return 0;
}
