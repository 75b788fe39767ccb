/* Fabrics: what domains and event queues are opened in. */
#include "vshmem_fi.h"

#include <stdlib.h>
#include <string.h>

static int close_fabric(struct fid *fid)
{
	struct vfi_fabric *fabric = container_of(fid, struct vfi_fabric, fid.fid);
	if (__atomic_load_n(&fabric->used, __ATOMIC_RELAXED))
		return -FI_EBUSY;
	free(fabric);
	return 0;
}

static int no_passive(
	struct fid_fabric *fid, struct fi_info *info, struct fid_pep **opened, void *context)
{
	(void)fid, (void)info, (void)opened, (void)context;
	return -FI_ENOSYS;
}

static int no_wait_set(struct fid_fabric *fid, struct fi_wait_attr *attr, struct fid_wait **opened)
{
	(void)fid, (void)attr, (void)opened;
	return -FI_ENOSYS;
}

static struct fi_ops fid_ops = VFI_OPS(close_fabric, vfi_no_bind, vfi_no_control, vfi_no_ops);

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(struct fi_ops_fabric),
	.domain = vfi_domain_open,
	.passive_ep = no_passive,
	.eq_open = vfi_eq_open,
	.wait_open = no_wait_set,
	.trywait = vfi_trywait,
};

int vfi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **opened, void *context)
{
	if (attr->name && strcmp(attr->name, "vshmem") != 0)
		return -FI_ENODATA;
	struct vfi_fabric *fabric = calloc(1, sizeof(*fabric));
	if (!fabric)
		return -FI_ENOMEM;
	fabric->fid.fid = (struct fid) {
		.fclass = FI_CLASS_FABRIC, .context = context, .ops = &fid_ops
	};
	fabric->fid.ops = &fabric_ops;
	fabric->fid.api_version = attr->api_version;
	*opened = &fabric->fid;
	return 0;
}
