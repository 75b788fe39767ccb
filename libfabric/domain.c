/* Domains: the pool as one process sees it. */
#include "vshmem_fi.h"

#include <stdlib.h>
#include <unistd.h>

static int close_domain(struct fid *fid)
{
	struct vfi_domain *domain = container_of(fid, struct vfi_domain, fid.fid);
	if (__atomic_load_n(&domain->used, __ATOMIC_RELAXED))
		return -FI_EBUSY;
	vfi_memory_close(domain);
	__atomic_sub_fetch(&domain->fabric->used, 1, __ATOMIC_RELAXED);
	pthread_mutex_destroy(&domain->lock);
	pthread_mutex_destroy(&domain->backoff_lock);
	pthread_rwlock_destroy(&domain->enabled.lock);
	free(domain->enabled.endpoints);
	free(domain);
	return 0;
}

static int no_scalable(
	struct fid_domain *fid, struct fi_info *info, struct fid_ep **opened, void *context)
{
	(void)fid, (void)info, (void)opened, (void)context;
	return -FI_ENOSYS;
}

static int no_poll(struct fid_domain *fid, struct fi_poll_attr *attr, struct fid_poll **opened)
{
	(void)fid, (void)attr, (void)opened;
	return -FI_ENOSYS;
}

static int no_stx(
	struct fid_domain *fid, struct fi_tx_attr *attr, struct fid_stx **opened, void *context)
{
	(void)fid, (void)attr, (void)opened, (void)context;
	return -FI_ENOSYS;
}

static int no_srx(
	struct fid_domain *fid, struct fi_rx_attr *attr, struct fid_ep **opened, void *context)
{
	(void)fid, (void)attr, (void)opened, (void)context;
	return -FI_ENOSYS;
}

static int no_collective(struct fid_domain *fid, enum fi_collective_op operation,
	struct fi_collective_attr *attr, uint64_t flags)
{
	(void)fid, (void)operation, (void)attr, (void)flags;
	return -FI_ENOSYS;
}

static int bind_domain(struct fid *fid, struct fid *bound, uint64_t flags)
{
	(void)fid, (void)flags;
	return bound->fclass == FI_CLASS_EQ ? 0 : -FI_EINVAL;
}

static struct fi_ops fid_ops = VFI_OPS(close_domain, bind_domain, vfi_no_control, vfi_memory_ops);

static struct fi_ops_domain domain_ops = {
	.size = sizeof(struct fi_ops_domain),
	.av_open = vfi_av_open,
	.cq_open = vfi_cq_open,
	.endpoint = vfi_endpoint_open,
	.scalable_ep = no_scalable,
	.cntr_open = vfi_counter_open,
	.poll_open = no_poll,
	.stx_ctx = no_stx,
	.srx_ctx = no_srx,
	.query_atomic = vfi_query_atomic,
	.query_collective = no_collective,
};

int vfi_domain_open(
	struct fid_fabric *fid, struct fi_info *info, struct fid_domain **opened, void *context)
{
	struct vfi_fabric *fabric = container_of(fid, struct vfi_fabric, fid);
	vshmem_pool *pool = vfi_pool();
	if (!pool)
		return -FI_ENODEV;
	struct vfi_domain *domain = calloc(1, sizeof(*domain));
	if (!domain)
		return -FI_ENOMEM;
	domain->fid.fid = (struct fid) {
		.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &fid_ops
	};
	domain->fid.ops = &domain_ops;
	domain->fid.mr = &vfi_mr_ops;
	domain->fabric = fabric;
	domain->pool = pool;
	vshmem_identify(pool, domain->uuid);
	vshmem_domain(pool, &domain->member);
	domain->base = vshmem_base(pool);
	domain->bytes = vshmem_bytes(pool);
	domain->threads = !info->domain_attr || info->domain_attr->threading != FI_THREAD_DOMAIN;
	domain->mr_mode = info->domain_attr ? info->domain_attr->mr_mode : 0;
	pthread_mutex_init(&domain->lock, NULL);
	pthread_mutex_init(&domain->backoff_lock, NULL);
	pthread_rwlock_init(&domain->enabled.lock, NULL);
	domain->opened_by = getpid();
	vshmem_backoff_start(&domain->backoff, pool);
	int rc = vfi_memory_open(domain);
	if (rc != 0) {
		free(domain);
		return rc;
	}
	__atomic_add_fetch(&fabric->used, 1, __ATOMIC_RELAXED);
	*opened = &domain->fid;
	return 0;
}
