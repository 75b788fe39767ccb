/* fi_read, fi_write and their like, and the messages of one-sided operations. */
#include "one_sided.h"

#define endpoint_of(fid) ((struct vfi_endpoint *)(fid))

static ssize_t start(struct fid_ep *fid, uint8_t what, const struct iovec *parts, size_t count,
	fi_addr_t to, uint64_t address, uint64_t key, uint64_t data, uint64_t flags, void *context,
	bool silent)
{
	if (count > VSHMEM_PARTS)
		return -FI_EINVAL;
	struct vshmem_request request = { .to = to,
		.what = what,
		.silent = silent,
		.address = address,
		.key = key,
		.bytes = vshmem_bytes_of(parts, count),
		.local = parts,
		.count = count,
		.flags = flags,
		.data = data,
		.context = context };
	return vfi_one_sided(endpoint_of(fid), &request);
}

static ssize_t read_one(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t from,
	uint64_t addr, uint64_t key, void *context)
{
	(void)desc;
	struct iovec part = { buf, len };
	return start(fid, VSHMEM_GET, &part, 1, from, addr, key, 0, endpoint_of(fid)->tx_flags,
		context, false);
}

static ssize_t read_parts(struct fid_ep *fid, const struct iovec *parts, void **desc, size_t count,
	fi_addr_t from, uint64_t addr, uint64_t key, void *context)
{
	(void)desc;
	return start(fid, VSHMEM_GET, parts, count, from, addr, key, 0, endpoint_of(fid)->tx_flags,
		context, false);
}

/* One region at a time is accessed (rma_iov_limit), which has as many bytes as the parts here. */
static ssize_t message(
	struct fid_ep *fid, uint8_t what, const struct fi_msg_rma *msg, uint64_t flags)
{
	if (msg->rma_iov_count != 1
		|| msg->rma_iov->len != vshmem_bytes_of(msg->msg_iov, msg->iov_count))
		return -FI_EINVAL;
	if ((flags & FI_INJECT) && msg->rma_iov->len > VFI_INJECT_BYTES)
		return -FI_EINVAL;
	return start(fid, what, msg->msg_iov, msg->iov_count, msg->addr, msg->rma_iov->addr,
		msg->rma_iov->key, msg->data, flags, msg->context, false);
}

static ssize_t read_message(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return message(fid, VSHMEM_GET, msg, flags & ~(FI_REMOTE_CQ_DATA | FI_INJECT));
}

static ssize_t put_one(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t to,
	uint64_t addr, uint64_t key, uint64_t flags, void *context, bool silent)
{
	struct iovec part = { (void *)(uintptr_t)buf, len };
	return start(fid, VSHMEM_PUT, &part, 1, to, addr, key, data, flags, context, silent);
}

static ssize_t write_one(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t to,
	uint64_t addr, uint64_t key, void *context)
{
	(void)desc;
	uint64_t flags = endpoint_of(fid)->tx_flags & ~FI_INJECT;
	return put_one(fid, buf, len, 0, to, addr, key, flags, context, false);
}

static ssize_t write_parts(struct fid_ep *fid, const struct iovec *parts, void **desc, size_t count,
	fi_addr_t to, uint64_t addr, uint64_t key, void *context)
{
	(void)desc;
	uint64_t flags = endpoint_of(fid)->tx_flags & ~FI_INJECT;
	return start(fid, VSHMEM_PUT, parts, count, to, addr, key, 0, flags, context, false);
}

static ssize_t write_message(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return message(fid, VSHMEM_PUT, msg, flags);
}

static ssize_t write_data(struct fid_ep *fid, const void *buf, size_t len, void *desc,
	uint64_t data, fi_addr_t to, uint64_t addr, uint64_t key, void *context)
{
	(void)desc;
	uint64_t flags = (endpoint_of(fid)->tx_flags & ~FI_INJECT) | FI_REMOTE_CQ_DATA;
	return put_one(fid, buf, len, data, to, addr, key, flags, context, false);
}

static ssize_t inject_with(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
	fi_addr_t to, uint64_t addr, uint64_t key, uint64_t flags)
{
	return len > VFI_INJECT_BYTES
		? -FI_EINVAL
		: put_one(fid, buf, len, data, to, addr, key, flags, NULL, true);
}

static ssize_t inject(
	struct fid_ep *fid, const void *buf, size_t len, fi_addr_t to, uint64_t addr, uint64_t key)
{
	return inject_with(fid, buf, len, 0, to, addr, key, FI_INJECT);
}

static ssize_t inject_data(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
	fi_addr_t to, uint64_t addr, uint64_t key)
{
	return inject_with(fid, buf, len, data, to, addr, key, FI_INJECT | FI_REMOTE_CQ_DATA);
}

struct fi_ops_rma vfi_rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.read = read_one,
	.readv = read_parts,
	.readmsg = read_message,
	.write = write_one,
	.writev = write_parts,
	.writemsg = write_message,
	.inject = inject,
	.writedata = write_data,
	.injectdata = inject_data,
};

void vfi_rma_open(struct vfi_endpoint *ep)
{
	struct vfi_record *record = ep->domain->memory->record;
	uint32_t notify = (ep->remote_read_counter ? VFI_NOTIFY_READ : 0)
	        | (ep->remote_write_counter ? VFI_NOTIFY_WRITE : 0);
	if (record && notify)
		__atomic_or_fetch(&record->notify, notify, __ATOMIC_RELEASE);
}

/* Progress is made this often before what peers have withdrawn is given back. */
#define CALLS_PER_SWEEP 1024

void vfi_rma_progress(struct vfi_endpoint *ep)
{
	if (++ep->sweeps % CALLS_PER_SWEEP != 0)
		return;
	for (struct vfi_remote *remote = ep->remotes; remote; remote = remote->next)
		if (remote->direct)
			vfi_direct_sweep(remote->direct);
}
