/* fi_getinfo: what there is, as far as it meets what is asked for. */
#include "vshmem_fi.h"

#include <stdlib.h>
#include <string.h>

#define MESSAGES  (FI_MSG | FI_TAGGED | FI_SEND | FI_RECV)
#define ONE_SIDED (FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define SECONDARY                                                                      \
	(FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM \
	        | FI_RMA_EVENT | FI_FENCE)
#define ALL     (MESSAGES | ONE_SIDED | SECONDARY)
#define TX_CAPS (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SEND | FI_READ | FI_WRITE | FI_FENCE)
#define RX_CAPS                                                                               \
	(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE \
	        | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE | FI_RMA_EVENT)
#define TX_FLAGS                                                               \
	(FI_INJECT | FI_COMPLETION | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE \
	        | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)
#define RX_FLAGS (FI_COMPLETION | FI_MULTI_RECV)
/* Allocated memory is not required, but programs take the three for one. */
#define MR_OBEYED  (FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ALLOCATED)
#define MOST_BYTES ((size_t)1 << 40)

static bool at_most(size_t wanted, size_t have) { return wanted <= have; }

static bool tx_fits(const struct fi_tx_attr *tx)
{
	return !tx
		|| (!(tx->caps & ~ALL) && !(tx->op_flags & ~TX_FLAGS)
			&& !(tx->msg_order & ~(uint64_t)VFI_MSG_ORDER)
			&& (tx->comp_order & ~VFI_ORDER_DATA) == 0
			&& at_most(tx->inject_size, VFI_INJECT_BYTES)
			&& at_most(tx->size, VFI_RX_SIZE) && at_most(tx->iov_limit, VSHMEM_PARTS)
			&& at_most(tx->rma_iov_limit, 1));
}

static bool rx_fits(const struct fi_rx_attr *rx)
{
	return !rx
		|| (!(rx->caps & ~ALL) && !(rx->op_flags & ~RX_FLAGS)
			&& !(rx->msg_order & ~(uint64_t)VFI_MSG_ORDER)
			&& (rx->comp_order & ~VFI_ORDER_DATA) == 0 && at_most(rx->size, VFI_RX_SIZE)
			&& at_most(rx->iov_limit, VSHMEM_PARTS));
}

static bool ep_fits(const struct fi_ep_attr *ep)
{
	return !ep
	        || ((ep->type == FI_EP_UNSPEC || ep->type == FI_EP_RDM)
	                && ep->protocol == FI_PROTO_UNSPEC && at_most(ep->max_msg_size, MOST_BYTES)
	                && ep->tx_ctx_cnt <= 1 && ep->rx_ctx_cnt <= 1 && ep->auth_key_size == 0);
}

static bool domain_fits(const struct fi_domain_attr *domain)
{
	return !domain
	        || ((!domain->name || strcmp(domain->name, "vshmem") == 0)
	                && domain->control_progress != FI_PROGRESS_AUTO
	                && domain->data_progress != FI_PROGRESS_AUTO
	                && at_most(domain->cq_data_size, sizeof(uint64_t))
	                && at_most(domain->mr_key_size, sizeof(uint64_t))
	                && !(domain->caps & ~(uint64_t)(FI_LOCAL_COMM | FI_REMOTE_COMM))
	                && domain->max_ep_stx_ctx == 0 && domain->max_ep_srx_ctx == 0);
}

static bool fits(const struct fi_info *hints)
{
	const struct fi_fabric_attr *fabric = hints->fabric_attr;
	if (hints->caps & ~(uint64_t)ALL)
		return false;
	if (hints->addr_format != FI_FORMAT_UNSPEC)
		return false;
	if (fabric && fabric->name && strcmp(fabric->name, "vshmem") != 0)
		return false;
	return tx_fits(hints->tx_attr) && rx_fits(hints->rx_attr) && ep_fits(hints->ep_attr)
	        && domain_fits(hints->domain_attr);
}

/* Without directions, both are meant. */
static uint64_t caps_of(const struct fi_info *hints)
{
	uint64_t caps = hints ? hints->caps : 0;
	if (caps == 0)
		return ALL;
	if (caps & (FI_MSG | FI_TAGGED) && !(caps & (FI_SEND | FI_RECV)))
		caps |= FI_SEND | FI_RECV;
	if (caps & (FI_RMA | FI_ATOMIC)
	        && !(caps & (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)))
		caps |= FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	return caps | FI_LOCAL_COMM | FI_REMOTE_COMM;
}

/* Of what providers may require of programs, this one requires nothing. Of what programs say that
 * they can do, it uses keys of its own and virtual addresses. */
static int mr_mode_of(uint32_t version, const struct fi_info *hints)
{
	int asked = hints && hints->domain_attr ? hints->domain_attr->mr_mode : 0;
	if (FI_VERSION_LT(version, FI_VERSION(1, 5)))
		return asked == VFI_MR_BASIC ? VFI_MR_BASIC : VFI_MR_SCALABLE;
	if (asked == VFI_MR_BASIC)
		return VFI_MR_BASIC;
	if (asked == VFI_MR_SCALABLE)
		return VFI_MR_SCALABLE;
	return asked & MR_OBEYED;
}

static void fill_contexts(
	struct fi_info *info, const struct fi_info *hints, uint64_t caps, size_t inject)
{
	*info->tx_attr = (struct fi_tx_attr) { .caps = caps & TX_CAPS,
		.op_flags = hints && hints->tx_attr ? hints->tx_attr->op_flags : 0,
		.msg_order = VFI_MSG_ORDER,
		.inject_size = inject,
		.size = hints && hints->tx_attr && hints->tx_attr->size ? hints->tx_attr->size
									: VFI_TX_SIZE,
		.iov_limit = VSHMEM_PARTS,
		.rma_iov_limit = 1 };
	*info->rx_attr = (struct fi_rx_attr) { .caps = caps & RX_CAPS,
		.op_flags = hints && hints->rx_attr ? hints->rx_attr->op_flags : 0,
		.msg_order = VFI_MSG_ORDER,
		.size = hints && hints->rx_attr && hints->rx_attr->size ? hints->rx_attr->size
									: VFI_TX_SIZE,
		.iov_limit = VSHMEM_PARTS };
	*info->ep_attr = (struct fi_ep_attr) { .type = FI_EP_RDM,
		.protocol = FI_PROTO_UNSPEC,
		.protocol_version = 1,
		.max_msg_size = MOST_BYTES,
		.max_order_raw_size = MOST_BYTES,
		.max_order_waw_size = MOST_BYTES,
		.mem_tag_format = UINT64_MAX >> 1,
		.tx_ctx_cnt = 1,
		.rx_ctx_cnt = 1 };
}

static bool fill_domain(struct fi_info *info, uint32_t version, const struct fi_info *hints)
{
	const struct fi_domain_attr *asked = hints ? hints->domain_attr : NULL;
	struct fi_domain_attr *domain = info->domain_attr;
	*domain = (struct fi_domain_attr) { .name = strdup("vshmem"),
		.threading = asked && asked->threading != FI_THREAD_UNSPEC ? asked->threading
									   : FI_THREAD_SAFE,
		.control_progress = FI_PROGRESS_MANUAL,
		.data_progress = FI_PROGRESS_MANUAL,
		.resource_mgmt = FI_RM_ENABLED,
		.av_type = asked && asked->av_type != FI_AV_UNSPEC ? asked->av_type : FI_AV_UNSPEC,
		.mr_mode = mr_mode_of(version, hints),
		.mr_key_size = sizeof(uint64_t),
		.cq_data_size = sizeof(uint64_t),
		.cq_cnt = 1024,
		.ep_cnt = 1024,
		.tx_ctx_cnt = 1024,
		.rx_ctx_cnt = 1024,
		.max_ep_tx_ctx = 1,
		.max_ep_rx_ctx = 1,
		.cntr_cnt = 1024,
		.mr_iov_limit = 1,
		.caps = FI_LOCAL_COMM | FI_REMOTE_COMM,
		.mr_cnt = 65536 };
	/* The core adds the name of the provider. */
	*info->fabric_attr = (struct fi_fabric_attr) { .name = strdup("vshmem"),
		.prov_version = vfi_provider.version,
		.api_version = version };
	return domain->name && info->fabric_attr->name;
}

int vfi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
	const struct fi_info *hints, struct fi_info **found)
{
	/* Addresses are those of other processes' fi_getname: none is found by a name. */
	(void)node, (void)service, (void)flags;
	if (hints && !fits(hints))
		return -FI_ENODATA;
	const vshmem_pool *pool = vfi_pool();
	size_t inject = pool ? vfi_inject_bytes(pool) : 0;
	if (!pool || (hints && hints->tx_attr && hints->tx_attr->inject_size > inject))
		return -FI_ENODATA;
	struct fi_info *info = vfi_core.dupinfo(NULL);
	if (!info)
		return -FI_ENOMEM;
	info->caps = caps_of(hints);
	info->addr_format = FI_FORMAT_UNSPEC;
	fill_contexts(info, hints, info->caps, inject);
	if (!fill_domain(info, version, hints)) {
		vfi_core.freeinfo(info);
		return -FI_ENOMEM;
	}
	*found = info;
	return 0;
}
