#include "endpoint.h"

#include <sched.h>
#include <string.h>

int is_ours(void)
{
	const char *name = getenv("FI_PROVIDER");
	return name && strcmp(name, "vshmem") == 0;
}

static struct fi_info *hints_of(const struct wants *wants)
{
	struct fi_info *hints = fi_allocinfo();
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = wants->caps;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->tx_attr->op_flags = wants->tx_flags;
	hints->domain_attr->mr_mode = wants->mr_mode;
	hints->domain_attr->av_type = wants->av_type;
	hints->domain_attr->threading = wants->threading;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	return hints;
}

/* What an endpoint needs before it is enabled. */
static int bind_all(struct endpoint *endpoint, const struct wants *wants)
{
	int error = fi_ep_bind(endpoint->ep, &endpoint->av->fid, 0);
	if (!error)
		error = fi_ep_bind(endpoint->ep, &endpoint->cq->fid,
			FI_TRANSMIT | FI_RECV | wants->bind_flags);
	if (error || !wants->counters)
		return error;
	struct fi_cntr_attr attributes = { .events = FI_CNTR_EVENTS_COMP,
		.wait_obj = FI_WAIT_UNSPEC };
	if ((error = fi_cntr_open(endpoint->domain, &attributes, &endpoint->written, NULL))
	        || (error = fi_cntr_open(endpoint->domain, &attributes, &endpoint->read, NULL))
	        || (error = fi_ep_bind(endpoint->ep, &endpoint->written->fid, FI_WRITE))
	        || (error = fi_ep_bind(endpoint->ep, &endpoint->read->fid, FI_READ)))
		return error;
	if (!(wants->caps & FI_RMA_EVENT))
		return 0;
	error = fi_cntr_open(endpoint->domain, &attributes, &endpoint->remote_written, NULL);
	return error ? error
		     : fi_ep_bind(endpoint->ep, &endpoint->remote_written->fid, FI_REMOTE_WRITE);
}

int open_endpoint(struct endpoint *endpoint, const struct wants *wants)
{
	struct fi_info *hints = hints_of(wants);
	memset(endpoint, 0, sizeof(*endpoint));
	int error = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &endpoint->info);
	fi_freeinfo(hints);
	if (error)
		return error;
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED, .size = 4096 };
	struct fi_av_attr av = { .type = wants->av_type, .count = (size_t)ranks };
	if ((error = fi_fabric(endpoint->info->fabric_attr, &endpoint->fabric, NULL))
	        || (error = fi_domain(endpoint->fabric, endpoint->info, &endpoint->domain, NULL))
	        || (error = fi_av_open(endpoint->domain, &av, &endpoint->av, NULL))
	        || (error = fi_cq_open(endpoint->domain, &cq, &endpoint->cq, NULL))
	        || (error = fi_endpoint(endpoint->domain, endpoint->info, &endpoint->ep, NULL))
	        || (error = bind_all(endpoint, wants)))
		return error;
	return fi_enable(endpoint->ep);
}

int have_endpoint(struct endpoint *endpoint, const struct wants *wants, const char *what)
{
	int error = open_endpoint(endpoint, wants);
	must(!error || !is_ours(), "%s: %s", what, fi_strerror(-error));
	if (!error) {
		meet(endpoint);
		return 1;
	}
	close_endpoint(endpoint);
	left_out(what, fi_strerror(-error));
	return 0;
}

static void look_meanwhile(void *endpoint) { look(endpoint); }

void meet(struct endpoint *endpoint)
{
	enum { MOST = 256 };
	char mine[MOST] = { 0 }, *all = malloc((size_t)ranks * MOST);
	size_t bytes = 0;
	must(fi_getname(&endpoint->ep->fid, NULL, &bytes) == -FI_ETOOSMALL && bytes <= MOST,
		"the length of an address: %zu", bytes);
	must(fi_getname(&endpoint->ep->fid, mine, &bytes) == 0, "no address");
	gather(mine, all, MOST);
	endpoint->at = calloc((size_t)ranks, sizeof(*endpoint->at));
	for (int other = 0; other < ranks; other++)
		must(fi_av_insert(
			     endpoint->av, all + other * MOST, 1, &endpoint->at[other], 0, NULL)
		                == 1,
			"the address of rank %d", other);
	free(all);
	ranks_meanwhile(look_meanwhile, endpoint);
	together();
}

void close_endpoint(struct endpoint *endpoint)
{
	struct fid *fids[] = { endpoint->ep ? &endpoint->ep->fid : NULL,
		endpoint->written ? &endpoint->written->fid : NULL,
		endpoint->read ? &endpoint->read->fid : NULL,
		endpoint->remote_written ? &endpoint->remote_written->fid : NULL,
		endpoint->cq ? &endpoint->cq->fid : NULL, endpoint->av ? &endpoint->av->fid : NULL,
		endpoint->domain ? &endpoint->domain->fid : NULL,
		endpoint->fabric ? &endpoint->fabric->fid : NULL };
	if (endpoint->at)
		together(); /* nobody still needs this one's CPU */
	ranks_meanwhile(NULL, NULL);
	for (size_t nth = 0; nth < sizeof(fids) / sizeof(fids[0]); nth++) {
		int error = fids[nth] ? fi_close(fids[nth]) : 0;
		must(error == 0, "close of number %zu: %s", nth, fi_strerror(-error));
	}
	if (endpoint->info)
		fi_freeinfo(endpoint->info);
	free(endpoint->at);
	memset(endpoint, 0, sizeof(*endpoint));
}

static void read_error(struct endpoint *endpoint)
{
	struct fi_cq_err_entry error = { 0 };
	ssize_t got = fi_cq_readerr(endpoint->cq, &error, 0);
	if (got == -FI_EAGAIN || got == 0)
		return; /* another took it */
	must(got == 1, "readerr: %s", fi_strerror((int)-got));
	struct operation *operation = error.op_context;
	must(operation, "an error that belongs to nothing: %s", fi_strerror(error.err));
	operation->error = error;
	operation->failed = error.err;
	operation->done++;
}

void look(struct endpoint *endpoint)
{
	struct fi_cq_tagged_entry entries[8];
	fi_addr_t from[8];
	ssize_t got = endpoint->info->caps & FI_SOURCE
		? fi_cq_readfrom(endpoint->cq, entries, 8, from)
		: fi_cq_read(endpoint->cq, entries, 8);
	if (got == -FI_EAVAIL) {
		read_error(endpoint);
		return;
	}
	if (got == -FI_EAGAIN || got == 0) {
		sched_yield();
		return;
	}
	must(got > 0, "cq_read: %s", fi_strerror((int)-got));
	for (ssize_t nth = 0; nth < got; nth++) {
		struct fi_cq_tagged_entry *entry = &entries[nth];
		struct operation *operation = entry->op_context;
		if (operation) {
			operation->entry = *entry;
			operation->from = endpoint->info->caps & FI_SOURCE ? from[nth] : 0;
			if (operation->seen)
				operation->seen(operation, entry);
			operation->done++;
		} else {
			must(entry->flags & FI_REMOTE_CQ_DATA,
				"a completion of nothing: flags %llx",
				(unsigned long long)entry->flags);
			endpoint->data = entry->data;
			endpoint->datas++;
			if (endpoint->arrived)
				endpoint->arrived(endpoint, entry);
		}
	}
}

void wait_for(struct endpoint *endpoint, struct operation *operation, int completions)
{
	while (operation->done < completions && !operation->failed)
		look(endpoint);
}

void finish(struct endpoint *endpoint, struct operation *operation)
{
	wait_for(endpoint, operation, 1);
	must(!operation->failed, "an operation failed: %s (%d)", fi_strerror(operation->failed),
		operation->error.prov_errno);
}

void open_region(struct endpoint *endpoint, struct region *region, uint64_t access, uint64_t key)
{
	int mode = endpoint->info->domain_attr->mr_mode;
	int error = fi_mr_reg(endpoint->domain, region->memory, region->bytes, access, 0, key, 0,
		&region->mr, NULL);
	must(error == 0, "fi_mr_reg of %zu bytes: %s", region->bytes, fi_strerror(-error));
	if (mode & FI_MR_ENDPOINT) {
		must(fi_mr_bind(region->mr, &endpoint->ep->fid, 0) == 0, "fi_mr_bind");
		must(fi_mr_enable(region->mr) == 0, "fi_mr_enable");
	}
	region->desc = fi_mr_desc(region->mr);
	uint64_t mine[2] = { fi_mr_key(region->mr),
		mode & (FI_MR_VIRT_ADDR | MR_BASIC) ? (uint64_t)(uintptr_t)region->memory : 0 };
	uint64_t *all = calloc((size_t)ranks, sizeof(mine));
	gather(mine, all, sizeof(mine));
	region->keys = calloc((size_t)ranks, sizeof(uint64_t));
	region->addresses = calloc((size_t)ranks, sizeof(uint64_t));
	for (int other = 0; other < ranks; other++) {
		region->keys[other] = all[2 * other];
		region->addresses[other] = all[2 * other + 1];
	}
	free(all);
	together();
}

void close_region(struct region *region)
{
	together(); /* nobody still uses it */
	must(fi_close(&region->mr->fid) == 0, "close of a region");
	free(region->keys);
	free(region->addresses);
	region->mr = NULL;
}
