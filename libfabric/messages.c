/* What programs call to send and to receive: each is one call of two. */
#include "vshmem_fi.h"

static inline struct vfi_endpoint *of(struct fid_ep *fid)
{
	return container_of(fid, struct vfi_endpoint, fid);
}

/* Calls with flags get a completion unless the program has asked for those alone that it names. */
static uint64_t tx_flags(const struct vfi_endpoint *ep, uint64_t flags)
{
	return flags | (ep->tx_selective ? 0 : FI_COMPLETION);
}
static uint64_t rx_flags(const struct vfi_endpoint *ep, uint64_t flags)
{
	return flags | (ep->rx_selective ? 0 : FI_COMPLETION);
}

static inline ssize_t receive_one(struct fid_ep *fid, void *buffer, size_t bytes, fi_addr_t from,
	uint64_t tag, uint64_t ignore, void *context, uint64_t flags, bool tagged)
{
	struct iovec part = { buffer, bytes };
	return vfi_start_receive(of(fid),
		&(struct vfi_call) { &part, 1, from, tag, ignore, 0, context, flags, tagged });
}

static inline ssize_t send_one(struct fid_ep *fid, const void *buffer, size_t bytes, fi_addr_t to,
	uint64_t tag, uint64_t data, void *context, uint64_t flags, bool tagged)
{
	struct iovec part = { (void *)(uintptr_t)buffer, bytes };
	return vfi_start_send(
		of(fid), &(struct vfi_call) { &part, 1, to, tag, 0, data, context, flags, tagged });
}

static ssize_t msg_recv(
	struct fid_ep *fid, void *buffer, size_t bytes, void *desc, fi_addr_t from, void *context)
{
	(void)desc;
	return receive_one(fid, buffer, bytes, from, 0, 0, context, of(fid)->rx_flags, false);
}

static ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *parts, void **desc, size_t count,
	fi_addr_t from, void *context)
{
	(void)desc;
	return vfi_start_receive(of(fid),
		&(struct vfi_call) { parts, count, from, 0, 0, 0, context,
			of(fid)->rx_flags & ~FI_MULTI_RECV, false });
}

/* Who peeks again and again may read nothing but errors meanwhile: this makes progress, too. */
static void before_peek(struct fid_ep *fid, uint64_t flags)
{
	if (flags & FI_PEEK && of(fid)->enabled)
		vfi_progress(of(fid));
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	before_peek(fid, flags);
	return vfi_start_receive(of(fid),
		&(struct vfi_call) { msg->msg_iov, msg->iov_count, msg->addr, 0, 0, 0, msg->context,
			rx_flags(of(fid), flags), false });
}

static ssize_t msg_send(struct fid_ep *fid, const void *buffer, size_t bytes, void *desc,
	fi_addr_t to, void *context)
{
	(void)desc;
	return send_one(fid, buffer, bytes, to, 0, 0, context, of(fid)->tx_flags, false);
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *parts, void **desc, size_t count,
	fi_addr_t to, void *context)
{
	(void)desc;
	return vfi_start_send(of(fid),
		&(struct vfi_call) {
			parts, count, to, 0, 0, 0, context, of(fid)->tx_flags, false });
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	return vfi_start_send(of(fid),
		&(struct vfi_call) { msg->msg_iov, msg->iov_count, msg->addr, 0, 0, msg->data,
			msg->context, tx_flags(of(fid), flags), false });
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buffer, size_t bytes, fi_addr_t to)
{
	return send_one(fid, buffer, bytes, to, 0, 0, NULL, VFI_INJECT, false);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buffer, size_t bytes, void *desc,
	uint64_t data, fi_addr_t to, void *context)
{
	(void)desc;
	return send_one(fid, buffer, bytes, to, 0, data, context,
		of(fid)->tx_flags | FI_REMOTE_CQ_DATA, false);
}

static ssize_t msg_injectdata(
	struct fid_ep *fid, const void *buffer, size_t bytes, uint64_t data, fi_addr_t to)
{
	return send_one(
		fid, buffer, bytes, to, 0, data, NULL, VFI_INJECT | FI_REMOTE_CQ_DATA, false);
}

struct fi_ops_msg vfi_msg_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = msg_recv,
	.recvv = msg_recvv,
	.recvmsg = msg_recvmsg,
	.send = msg_send,
	.sendv = msg_sendv,
	.sendmsg = msg_sendmsg,
	.inject = msg_inject,
	.senddata = msg_senddata,
	.injectdata = msg_injectdata,
};

static ssize_t tagged_recv(struct fid_ep *fid, void *buffer, size_t bytes, void *desc,
	fi_addr_t from, uint64_t tag, uint64_t ignore, void *context)
{
	(void)desc;
	return receive_one(fid, buffer, bytes, from, tag, ignore, context,
		of(fid)->rx_flags & ~FI_MULTI_RECV, true);
}

static ssize_t tagged_recvv(struct fid_ep *fid, const struct iovec *parts, void **desc,
	size_t count, fi_addr_t from, uint64_t tag, uint64_t ignore, void *context)
{
	(void)desc;
	return vfi_start_receive(of(fid),
		&(struct vfi_call) { parts, count, from, tag, ignore, 0, context,
			of(fid)->rx_flags & ~FI_MULTI_RECV, true });
}

static ssize_t tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	before_peek(fid, flags);
	return vfi_start_receive(of(fid),
		&(struct vfi_call) { msg->msg_iov, msg->iov_count, msg->addr, msg->tag, msg->ignore,
			0, msg->context, rx_flags(of(fid), flags), true });
}

static ssize_t tagged_send(struct fid_ep *fid, const void *buffer, size_t bytes, void *desc,
	fi_addr_t to, uint64_t tag, void *context)
{
	(void)desc;
	return send_one(fid, buffer, bytes, to, tag, 0, context, of(fid)->tx_flags, true);
}

static ssize_t tagged_sendv(struct fid_ep *fid, const struct iovec *parts, void **desc,
	size_t count, fi_addr_t to, uint64_t tag, void *context)
{
	(void)desc;
	return vfi_start_send(of(fid),
		&(struct vfi_call) {
			parts, count, to, tag, 0, 0, context, of(fid)->tx_flags, true });
}

static ssize_t tagged_sendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	return vfi_start_send(of(fid),
		&(struct vfi_call) { msg->msg_iov, msg->iov_count, msg->addr, msg->tag, 0,
			msg->data, msg->context, tx_flags(of(fid), flags), true });
}

static ssize_t tagged_inject(
	struct fid_ep *fid, const void *buffer, size_t bytes, fi_addr_t to, uint64_t tag)
{
	return send_one(fid, buffer, bytes, to, tag, 0, NULL, VFI_INJECT, true);
}

static ssize_t tagged_senddata(struct fid_ep *fid, const void *buffer, size_t bytes, void *desc,
	uint64_t data, fi_addr_t to, uint64_t tag, void *context)
{
	(void)desc;
	return send_one(fid, buffer, bytes, to, tag, data, context,
		of(fid)->tx_flags | FI_REMOTE_CQ_DATA, true);
}

static ssize_t tagged_injectdata(struct fid_ep *fid, const void *buffer, size_t bytes,
	uint64_t data, fi_addr_t to, uint64_t tag)
{
	return send_one(
		fid, buffer, bytes, to, tag, data, NULL, VFI_INJECT | FI_REMOTE_CQ_DATA, true);
}

struct fi_ops_tagged vfi_tagged_ops = {
	.size = sizeof(struct fi_ops_tagged),
	.recv = tagged_recv,
	.recvv = tagged_recvv,
	.recvmsg = tagged_recvmsg,
	.send = tagged_send,
	.sendv = tagged_sendv,
	.sendmsg = tagged_sendmsg,
	.inject = tagged_inject,
	.senddata = tagged_senddata,
	.injectdata = tagged_injectdata,
};
