/* One endpoint over the stand-in of the pool, and its peers. */
#include <stdlib.h>
#include <string.h>

#include "one_endpoint.h"

uint64_t first_seed, step, seed = 1;
struct fi_provider *fi_prov_ini(void);

struct fid_domain *domain;
struct fid_ep *ep;
struct fid_cq *cq;
fi_addr_t addresses[PEERS];
static struct fid_fabric *fabric;
struct fid_av *av;
static struct fi_info *info;

static void was_sent(
	uint32_t peer, uint8_t operation, const struct vshmem_wire *header, uint32_t bytes)
{
	must(sent_count < SENT);
	sent[sent_count++] = (struct sent) { peer, operation, *header, bytes };
}

void open_endpoint(void)
{
	must(fi_endpoint(domain, info, &ep, NULL) == 0);
	must(fi_ep_bind(ep, &av->fid, 0) == 0);
	must(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) == 0);
	must(fi_enable(ep) == 0);
}

void come(uint32_t nth, int record)
{
	static uint64_t next_nonce = 1000;
	peers[nth].nonce = next_nonce++;
	peers[nth].state = OPEN;
	struct vfi_address address = { .nonce = peers[nth].nonce,
		.id = nth + 1,
		.most_bytes = MOST_BYTES,
		.member = { 0, 1 },
		.record = (uint32_t)record };
	memset(address.pool, 7, sizeof(address.pool));
	must(fi_av_insert(av, &address, 1, &addresses[nth], 0, NULL) == 1);
}

void open_all(void (*called)(
	uint32_t peer, uint8_t operation, const struct vshmem_wire *header, uint32_t bytes))
{
	pool_begin(called ? called : was_sent);
	struct fi_provider *provider = fi_prov_ini();
	must(provider);
	struct fi_info *hints = fi_allocinfo();
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_TAGGED | FI_MULTI_RECV | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV;
	hints->domain_attr->mr_mode = VFI_MR_BASIC;
	must(provider->getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info) == 0);
	fi_freeinfo(hints);
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	must(provider->fabric(info->fabric_attr, &fabric, NULL) == 0);
	must(fi_domain(fabric, info, &domain, NULL) == 0);
	must(fi_av_open(domain, &av_attr, &av, NULL) == 0);
	must(fi_cq_open(domain, &cq_attr, &cq, NULL) == 0);
	open_endpoint();
}

void close_all(void)
{
	struct fid *fids[] = { &ep->fid, &cq->fid, &av->fid, &domain->fid, &fabric->fid };
	for (size_t nth = 0; nth < sizeof(fids) / sizeof(fids[0]); nth++)
		must(fi_close(fids[nth]) == 0);
	fi_freeinfo(info);
}

/* With no room to read into, progress is made and nothing is read. */
static void progress(void)
{
	struct fi_cq_tagged_entry entry;
	fi_cq_read(cq, &entry, 0);
}
void (*look)(void) = progress;

void deliver_bytes(uint32_t lane, uint8_t operation, const struct vshmem_wire *header,
	const void *payload, uint64_t bytes)
{
	give(lane, operation, header, payload, (uint32_t)bytes);
	while (!taken())
		look();
}

void deliver(uint32_t lane, uint8_t operation, const struct vshmem_wire *header, uint64_t bytes,
	int fill)
{
	char *payload = malloc(bytes + 1);
	memset(payload, fill, bytes);
	deliver_bytes(lane, operation, header, payload, bytes);
	free(payload);
}
