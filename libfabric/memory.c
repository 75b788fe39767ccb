/* Memory regions, as programs call them, and memory of the pool for programs. */
#include "fi_ext_vshmem.h"
#include "regions.h"
#include "vshmem_fi.h"

#include <stddef.h>
#include <string.h>
#include <sys/random.h>

#define container(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))

/* A counter that a region counts by is not closed. */
static void count_by(struct fid_cntr *counter, int regions)
{
	if (counter)
		__atomic_add_fetch(&container(counter, struct vfi_counter, fid)->regions,
			(uint32_t)regions, __ATOMIC_ACQ_REL);
}

static int close_region(struct fid *fid)
{
	struct vfi_region *region = container(fid, struct vfi_region, fid.fid);
	struct fid_cntr *counters[] = { region->read, region->written };
	/* What was asked of it before is still done. */
	vfi_settle_all(region->domain);
	__atomic_sub_fetch(&region->domain->used, 1, __ATOMIC_RELAXED);
	vfi_region_remove(region);
	for (size_t nth = 0; nth < 2; nth++)
		count_by(counters[nth], -1);
	return 0;
}

static int bind_region(struct fid *fid, struct fid *bound, uint64_t flags)
{
	struct vfi_region *region = container(fid, struct vfi_region, fid.fid);
	/* A region is of its domain, whatever endpoint it is bound to. */
	if (bound->fclass == FI_CLASS_EP)
		return 0;
	if (bound->fclass != FI_CLASS_CNTR || !(flags & (FI_REMOTE_READ | FI_REMOTE_WRITE)))
		return -FI_EINVAL;
	struct fid_cntr *counter = container(bound, struct fid_cntr, fid);
	struct fid_cntr *before[] = { region->read, region->written };
	for (size_t nth = 0; nth < 2; nth++) {
		if (!(flags & (nth == 0 ? FI_REMOTE_READ : FI_REMOTE_WRITE)))
			continue;
		count_by(counter, 1);
		count_by(before[nth], -1);
	}
	vfi_region_count(region, counter, flags);
	return 0;
}

static int raw_key(const struct vfi_region *region, struct fi_mr_raw_attr *raw)
{
	size_t room = *raw->key_size;
	*raw->key_size = sizeof(region->fid.key);
	if (room < sizeof(region->fid.key))
		return -FI_ETOOSMALL;
	memcpy(raw->raw_key, &region->fid.key, sizeof(region->fid.key));
	if (raw->base_addr)
		*raw->base_addr = region->base;
	return 0;
}

static int control_region(struct fid *fid, int command, void *argument)
{
	switch (command) {
	case FI_ENABLE:
	case FI_REFRESH: return 0;
	case FI_GET_RAW_MR: return raw_key(container(fid, struct vfi_region, fid.fid), argument);
	default: return -FI_ENOSYS;
	}
}

static struct fi_ops region_ops = VFI_OPS(close_region, bind_region, control_region, vfi_no_ops);

static int reg_attr(
	struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **made)
{
	(void)flags;
	struct vfi_domain *domain = container(fid, struct vfi_domain, fid.fid);
	struct vfi_region *region;
	int rc = vfi_region_add(domain->memory, attr, &region);
	if (rc != 0)
		return rc;
	region->fid.fid.fclass = FI_CLASS_MR;
	region->fid.fid.context = attr->context;
	region->fid.fid.ops = &region_ops;
	region->fid.mem_desc = region;
	region->domain = domain;
	__atomic_add_fetch(&domain->used, 1, __ATOMIC_RELAXED);
	*made = &region->fid;
	return 0;
}

static int reg_parts(struct fid *fid, const struct iovec *parts, size_t count, uint64_t access,
	uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **made,
	void *context)
{
	struct fi_mr_attr attr = { .mr_iov = parts,
		.iov_count = count,
		.access = access,
		.offset = offset,
		.requested_key = requested_key,
		.context = context };
	return reg_attr(fid, &attr, flags, made);
}

static int reg(struct fid *fid, const void *start, size_t bytes, uint64_t access, uint64_t offset,
	uint64_t requested_key, uint64_t flags, struct fid_mr **made, void *context)
{
	struct iovec part = { (void *)(uintptr_t)start, bytes };
	return reg_parts(fid, &part, 1, access, offset, requested_key, flags, made, context);
}

struct fi_ops_mr vfi_mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = reg,
	.regv = reg_parts,
	.regattr = reg_attr,
};

int vfi_memory_open(struct vfi_domain *domain)
{
	uint64_t nonce;
	if (getrandom(&nonce, sizeof(nonce), 0) != (ssize_t)sizeof(nonce))
		return -FI_EIO;
	nonce &= ~(uint64_t)VFI_CHECK_SLEEPS;
	return vfi_regions_open(domain->pool, (uint64_t)domain->mr_mode, nonce, &domain->memory);
}

void vfi_memory_close(struct vfi_domain *domain)
{
	vfi_regions_close(domain->memory);
	domain->memory = NULL;
}

uint32_t vfi_memory_record(struct vfi_domain *domain)
{ return (uint32_t)domain->memory->record_id; }

uint32_t vfi_memory_check(struct vfi_domain *domain)
{ return (uint32_t)domain->memory->nonce | (domain->memory->sleeps ? VFI_CHECK_SLEEPS : 0); }

void vfi_memory_sleeps(struct vfi_domain *domain, uint32_t semaphore_number)
{
	domain->memory->sleeps = true;
	if (domain->memory->record)
		domain->memory->record->semaphore_number = semaphore_number;
}

static int take(struct fid_domain *fid, size_t bytes, void **memory)
{
	struct vfi_domain *domain = container(fid, struct vfi_domain, fid);
	return bytes && vfi_attached_hold(domain->pool, bytes, memory) == 0 ? 0 : -FI_ENOMEM;
}

static int give_back(struct fid_domain *fid, void *memory)
{
	struct vfi_domain *domain = container(fid, struct vfi_domain, fid);
	return vfi_attached_release(domain->pool, memory) == 0 ? 0 : -FI_EINVAL;
}

static struct fi_vshmem_memory_ops memory_ops = {
	.size = sizeof(struct fi_vshmem_memory_ops),
	.take = take,
	.give_back = give_back,
};

int vfi_memory_ops(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	(void)fid, (void)context;
	if (flags != 0 || strcmp(name, FI_VSHMEM_MEMORY_OPS) != 0)
		return -FI_ENOSYS;
	*ops = &memory_ops;
	return 0;
}
