/* Endpoints: opening, binding, enabling, options, closing. */
#include "one_sided.h"

#include "../transport/tuning.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct vfi_endpoint *of(struct fid *fid)
{ return container_of(fid, struct vfi_endpoint, fid.fid); }

/* Makes the port, once. */
static int make_port(struct vfi_endpoint *ep)
{
	if (ep->port)
		return 0;
	struct vfi_domain *domain = ep->domain;
	uint32_t senders = vfi_senders(domain->expected);
	uint64_t bytes = vfi_port_bytes(domain->pool, senders);
	uint64_t least = (uint64_t)senders * VFI_LEAST_LANE_BYTES;
	int rc;
	/* What is left may be less than its share. */
	do {
		rc = vshmem_port_make(domain->pool, senders, bytes,
			(uint32_t)vfi_parameters.lane_bytes, &ep->port);
		bytes /= 2;
	} while ((rc == -ENOSPC || rc == -ENOMEM) && bytes >= least);
	if (rc != 0) {
		char pool[64] = "";
		uint32_t index, client;
		ep->port = NULL;
		vshmem_whoami(domain->pool, pool, &index, &client);
		vfi_say("pool %s has no room for the %llu KiB that this process receives in from %u peers (%s). "
			"Make the pool larger, remove what is left in it, or set FI_VSHMEM_PEERS to the number "
			"of processes",
			pool, (unsigned long long)(least >> 10), senders, strerror(-rc));
		return rc == -ENOSPC || rc == -ENOMEM ? -FI_ENOMEM : -FI_EIO;
	}
	struct vshmem_address port;
	vshmem_port_address(ep->port, &port);
	memcpy(ep->address.pool, domain->uuid, sizeof(ep->address.pool));
	ep->address.nonce = port.nonce;
	ep->address.id = port.id;
	ep->address.most_bytes = port.most_bytes;
	ep->address.member = domain->member;
	ep->address.record = vfi_memory_record(domain);
	ep->address.check = vfi_memory_check(domain);
	vfi_offers_open(ep);
	return 0;
}

static bool add_bound(struct vfi_bound *bound, struct vfi_endpoint *ep)
{
	bool added = false;
	if (ep->domain->threads)
		pthread_rwlock_wrlock(&bound->lock);
	for (uint32_t nth = 0; nth < bound->count; nth++)
		added |= bound->endpoints[nth] == ep;
	struct vfi_endpoint **grown = added
		? NULL
		: realloc(bound->endpoints, (bound->count + 1) * sizeof(struct vfi_endpoint *));
	if (grown) {
		grown[bound->count++] = ep;
		bound->endpoints = grown;
		added = true;
	}
	if (ep->domain->threads)
		pthread_rwlock_unlock(&bound->lock);
	return added;
}

/* No thread makes progress for the endpoint by way of it after that. */
static void drop_bound(struct vfi_bound *bound, const struct vfi_endpoint *ep)
{
	if (ep->domain->threads)
		pthread_rwlock_wrlock(&bound->lock);
	for (uint32_t nth = 0; nth < bound->count; nth++) {
		if (bound->endpoints[nth] != ep)
			continue;
		bound->endpoints[nth] = bound->endpoints[--bound->count];
		break;
	}
	if (ep->domain->threads)
		pthread_rwlock_unlock(&bound->lock);
}

static int bind_cq(struct vfi_endpoint *ep, struct vfi_cq *cq, uint64_t flags)
{
	if (!(flags & (FI_TRANSMIT | FI_RECV)))
		return -FI_EBADFLAGS;
	if (!add_bound(&cq->bound, ep))
		return -FI_ENOMEM;
	if (flags & FI_TRANSMIT) {
		ep->tx_cq = cq;
		ep->tx_selective = flags & FI_SELECTIVE_COMPLETION;
	}
	if (flags & FI_RECV) {
		ep->rx_cq = cq;
		ep->rx_selective = flags & FI_SELECTIVE_COMPLETION;
	}
	return 0;
}

static int bind_counter(struct vfi_endpoint *ep, struct vfi_counter *counter, uint64_t flags)
{
	struct {
		uint64_t flag;
		struct vfi_counter **counter;
	} rows[] = {
		{ FI_SEND, &ep->send_counter },
		{ FI_RECV, &ep->receive_counter },
		{ FI_READ, &ep->read_counter },
		{ FI_WRITE, &ep->write_counter },
		{ FI_REMOTE_READ, &ep->remote_read_counter },
		{ FI_REMOTE_WRITE, &ep->remote_write_counter },
	};
	if (!add_bound(&counter->bound, ep))
		return -FI_ENOMEM;
	for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++)
		if (flags & rows[row].flag)
			*rows[row].counter = counter;
	return 0;
}

static int bind_ep(struct fid *fid, struct fid *bound, uint64_t flags)
{
	struct vfi_endpoint *ep = of(fid);
	switch (bound->fclass) {
	case FI_CLASS_AV:
		ep->av = container_of(bound, struct vfi_av, fid.fid);
		return add_bound(&ep->av->bound, ep) ? 0 : -FI_ENOMEM;
	case FI_CLASS_CQ: return bind_cq(ep, container_of(bound, struct vfi_cq, fid.fid), flags);
	case FI_CLASS_CNTR:
		return bind_counter(ep, container_of(bound, struct vfi_counter, fid.fid), flags);
	case FI_CLASS_EQ: return 0;
	default: return -FI_ENOSYS;
	}
}

static int enable(struct vfi_endpoint *ep)
{
	if (ep->enabled)
		return 0;
	if (!ep->av)
		return -FI_ENOAV;
	int rc = make_port(ep);
	if (rc == 0 && !add_bound(&ep->domain->enabled, ep))
		rc = -FI_ENOMEM;
	if (rc != 0)
		return rc;
	vfi_rma_open(ep);
	ep->tx_flags |= ep->tx_selective ? 0 : FI_COMPLETION;
	ep->rx_flags |= ep->rx_selective ? 0 : FI_COMPLETION;
	ep->enabled = true;
	return 0;
}

static int control(struct fid *fid, int command, void *argument)
{
	struct vfi_endpoint *ep = of(fid);
	uint64_t *flags = argument;
	switch (command) {
	case FI_ENABLE: return enable(ep);
	case FI_GETOPSFLAG: *flags = *flags & FI_RECV ? ep->rx_flags : ep->tx_flags; return 0;
	case FI_SETOPSFLAG:
		if (*flags & FI_RECV)
			ep->rx_flags = (*flags & ~FI_RECV) | (ep->rx_selective ? 0 : FI_COMPLETION);
		else
			ep->tx_flags = (*flags & ~FI_TRANSMIT)
			        | (ep->tx_selective ? 0 : FI_COMPLETION);
		return 0;
	default: return -FI_ENOSYS;
	}
}

static void unbind(struct vfi_endpoint *ep)
{
	struct vfi_counter **counters[] = { &ep->send_counter, &ep->receive_counter,
		&ep->read_counter, &ep->write_counter, &ep->remote_read_counter,
		&ep->remote_write_counter };
	for (size_t nth = 0; nth < sizeof(counters) / sizeof(counters[0]); nth++) {
		if (*counters[nth])
			drop_bound(&(*counters[nth])->bound, ep);
		*counters[nth] = NULL;
	}
	if (ep->tx_cq)
		drop_bound(&ep->tx_cq->bound, ep);
	if (ep->rx_cq)
		drop_bound(&ep->rx_cq->bound, ep);
	ep->tx_cq = ep->rx_cq = NULL;
	if (ep->av)
		drop_bound(&ep->av->bound, ep);
}

static int close_ep(struct fid *fid)
{
	struct vfi_endpoint *ep = of(fid);
	vfi_settle(ep, VSHMEM_LINGER);
	drop_bound(&ep->domain->enabled, ep);
	unbind(ep);
	/* Peers that see that their lanes are given back see that this was done before. */
	vshmem_port_close(ep->port);
	vfi_peers_close(ep);
	vfi_offers_close(ep);
	vfi_matching_close(ep);
	vfi_operations_close(ep);
	vshmem_asked_close(&ep->to);
	vshmem_tokens_close(&ep->to);
	__atomic_sub_fetch(&ep->domain->used, 1, __ATOMIC_RELAXED);
	pthread_mutex_destroy(&ep->lock);
	free(ep);
	return 0;
}

static ssize_t cancel(fid_t fid, void *context) { return vfi_cancel(of(fid), context); }

static int get_option(fid_t fid, int level, int name, void *value, size_t *bytes)
{
	if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV)
		return -FI_ENOPROTOOPT;
	if (*bytes < sizeof(size_t))
		return -FI_ETOOSMALL;
	*(size_t *)value = of(fid)->least_multi;
	*bytes = sizeof(size_t);
	return 0;
}

static int set_option(fid_t fid, int level, int name, const void *value, size_t bytes)
{
	if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV)
		return -FI_ENOPROTOOPT;
	if (bytes != sizeof(size_t))
		return -FI_EINVAL;
	of(fid)->least_multi = *(const size_t *)value;
	return 0;
}

static int no_tx_context(struct fid_ep *fid, int index, struct fi_tx_attr *attr,
	struct fid_ep **opened, void *context)
{
	(void)fid, (void)index, (void)attr, (void)opened, (void)context;
	return -FI_ENOSYS;
}

static int no_rx_context(struct fid_ep *fid, int index, struct fi_rx_attr *attr,
	struct fid_ep **opened, void *context)
{
	(void)fid, (void)index, (void)attr, (void)opened, (void)context;
	return -FI_ENOSYS;
}

static ssize_t no_size_left(struct fid_ep *fid)
{
	(void)fid;
	return -FI_ENOSYS;
}

static int get_name(fid_t fid, void *address, size_t *bytes)
{
	struct vfi_endpoint *ep = of(fid);
	size_t room = *bytes;
	int rc = make_port(ep);
	if (rc != 0)
		return rc;
	*bytes = sizeof(ep->address);
	memcpy(address, &ep->address, room < *bytes ? room : *bytes);
	return room < *bytes ? -FI_ETOOSMALL : 0;
}

static int no_set_name(fid_t fid, void *address, size_t bytes)
{
	(void)fid, (void)address, (void)bytes;
	return -FI_ENOSYS;
}

static int no_get_peer(struct fid_ep *fid, void *address, size_t *bytes)
{
	(void)fid, (void)address, (void)bytes;
	return -FI_ENOSYS;
}

static int no_connect(struct fid_ep *fid, const void *address, const void *data, size_t bytes)
{
	(void)fid, (void)address, (void)data, (void)bytes;
	return -FI_ENOSYS;
}

static int no_listen(struct fid_pep *fid)
{
	(void)fid;
	return -FI_ENOSYS;
}

static int no_accept(struct fid_ep *fid, const void *data, size_t bytes)
{
	(void)fid, (void)data, (void)bytes;
	return -FI_ENOSYS;
}

static int no_reject(struct fid_pep *fid, fid_t handle, const void *data, size_t bytes)
{
	(void)fid, (void)handle, (void)data, (void)bytes;
	return -FI_ENOSYS;
}

static int no_shutdown(struct fid_ep *fid, uint64_t flags)
{
	(void)fid, (void)flags;
	return -FI_ENOSYS;
}

static int no_join(struct fid_ep *fid, const void *address, uint64_t flags, struct fid_mc **group,
	void *context)
{
	(void)fid, (void)address, (void)flags, (void)group, (void)context;
	return -FI_ENOSYS;
}

static struct fi_ops fid_ops = VFI_OPS(close_ep, bind_ep, control, vfi_no_ops);

static struct fi_ops_ep ep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = cancel,
	.getopt = get_option,
	.setopt = set_option,
	.tx_ctx = no_tx_context,
	.rx_ctx = no_rx_context,
	.rx_size_left = no_size_left,
	.tx_size_left = no_size_left,
};

static struct fi_ops_cm cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.setname = no_set_name,
	.getname = get_name,
	.getpeer = no_get_peer,
	.connect = no_connect,
	.listen = no_listen,
	.accept = no_accept,
	.reject = no_reject,
	.shutdown = no_shutdown,
	.join = no_join,
};

int vfi_endpoint_open(
	struct fid_domain *fid, struct fi_info *info, struct fid_ep **opened, void *context)
{
	struct vfi_domain *domain = container_of(fid, struct vfi_domain, fid);
	if (!info || (info->ep_attr && info->ep_attr->type != FI_EP_RDM))
		return -FI_EINVAL;
	struct vfi_endpoint *ep = calloc(1, sizeof(*ep));
	if (!ep)
		return -FI_ENOMEM;
	ep->fid.fid = (struct fid) { .fclass = FI_CLASS_EP, .context = context, .ops = &fid_ops };
	ep->fid.ops = &ep_ops;
	ep->fid.cm = &cm_ops;
	ep->fid.msg = &vfi_msg_ops;
	ep->fid.tagged = &vfi_tagged_ops;
	ep->fid.rma = &vfi_rma_ops;
	ep->fid.atomic = &vfi_atomic_ops;
	ep->domain = domain;
	ep->to.calls = &vfi_calls;
	ep->offers.listener = -1;
	ep->caps = info->caps;
	ep->tx_flags = info->tx_attr ? info->tx_attr->op_flags : 0;
	ep->rx_flags = info->rx_attr ? info->rx_attr->op_flags : 0;
	ep->tx_size = info->tx_attr && info->tx_attr->size ? info->tx_attr->size : VFI_TX_SIZE;
	/* Each may be answered, and so many answers wait for it at its peer, beside those of
	 * requests. */
	if (ep->tx_size > VSHMEM_ANSWERS - VSHMEM_REQUESTS)
		ep->tx_size = VSHMEM_ANSWERS - VSHMEM_REQUESTS;
	ep->least_multi = 64;
	pthread_mutex_init(&ep->lock, NULL);
	__atomic_add_fetch(&domain->used, 1, __ATOMIC_RELAXED);
	*opened = &ep->fid;
	return 0;
}
