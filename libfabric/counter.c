/* Counters, as programs read them. */
#include "vshmem_fi.h"

#include <stdlib.h>
#include <time.h>

static struct vfi_counter *of(struct fid_cntr *fid)
{ return container_of(fid, struct vfi_counter, fid); }

static uint64_t read_counter(struct fid_cntr *fid)
{
	struct vfi_counter *counter = of(fid);
	vfi_progress_bound(counter->domain, &counter->bound);
	return __atomic_load_n(&counter->value, __ATOMIC_ACQUIRE);
}

static uint64_t read_errors(struct fid_cntr *fid)
{
	struct vfi_counter *counter = of(fid);
	vfi_progress_bound(counter->domain, &counter->bound);
	return __atomic_load_n(&counter->errors, __ATOMIC_ACQUIRE);
}

static int add(struct fid_cntr *fid, uint64_t value)
{
	__atomic_add_fetch(&of(fid)->value, value, __ATOMIC_RELEASE);
	return 0;
}

static int set(struct fid_cntr *fid, uint64_t value)
{
	__atomic_store_n(&of(fid)->value, value, __ATOMIC_RELEASE);
	return 0;
}

static int add_errors(struct fid_cntr *fid, uint64_t value)
{
	__atomic_add_fetch(&of(fid)->errors, value, __ATOMIC_RELEASE);
	return 0;
}

static int set_errors(struct fid_cntr *fid, uint64_t value)
{
	__atomic_store_n(&of(fid)->errors, value, __ATOMIC_RELEASE);
	return 0;
}

static int64_t milliseconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int wait_for(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	struct vfi_counter *counter = of(fid);
	int64_t end = timeout >= 0 ? milliseconds() + timeout : INT64_MAX;
	uint64_t errors = __atomic_load_n(&counter->errors, __ATOMIC_ACQUIRE);
	for (unsigned looks = 0;; looks++) {
		if (read_counter(fid) >= threshold)
			return 0;
		if (__atomic_load_n(&counter->errors, __ATOMIC_ACQUIRE) != errors)
			return -FI_EAVAIL;
		if (timeout >= 0 && looks % 16 == 0 && milliseconds() >= end)
			return -FI_ETIMEDOUT;
	}
}

static int close_counter(struct fid *fid)
{
	struct vfi_counter *counter = container_of(fid, struct vfi_counter, fid.fid);
	if (counter->bound.count || __atomic_load_n(&counter->regions, __ATOMIC_ACQUIRE))
		return -FI_EBUSY;
	if (counter->wait)
		vfi_wait_close(counter->wait);
	__atomic_sub_fetch(&counter->domain->used, 1, __ATOMIC_RELAXED);
	pthread_rwlock_destroy(&counter->bound.lock);
	free(counter->bound.endpoints);
	free(counter);
	return 0;
}

static int control(struct fid *fid, int command, void *argument)
{
	struct vfi_counter *counter = container_of(fid, struct vfi_counter, fid.fid);
	return counter->wait ? vfi_wait_control(counter->wait, command, argument) : -FI_ENOSYS;
}

static struct fi_ops fid_ops = VFI_OPS(close_counter, vfi_no_bind, control, vfi_no_ops);

static struct fi_ops_cntr counter_ops = {
	.size = sizeof(struct fi_ops_cntr),
	.read = read_counter,
	.readerr = read_errors,
	.add = add,
	.set = set,
	.wait = wait_for,
	.adderr = add_errors,
	.seterr = set_errors,
};

int vfi_counter_open(
	struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **opened, void *context)
{
	struct vfi_domain *domain = container_of(fid, struct vfi_domain, fid);
	struct vfi_counter *counter = calloc(1, sizeof(*counter));
	if (!counter)
		return -FI_ENOMEM;
	pthread_rwlock_init(&counter->bound.lock, NULL);
	counter->fid.fid = (struct fid) {
		.fclass = FI_CLASS_CNTR, .context = context, .ops = &fid_ops
	};
	counter->fid.ops = &counter_ops;
	counter->domain = domain;
	enum fi_wait_obj kind = attr ? attr->wait_obj : FI_WAIT_NONE;
	int rc = 0;
	if (kind != FI_WAIT_NONE && kind != FI_WAIT_UNSPEC && kind != FI_WAIT_YIELD)
		rc = vfi_wait_open(domain, kind, &counter->wait);
	if (rc != 0) {
		free(counter);
		return rc;
	}
	__atomic_add_fetch(&domain->used, 1, __ATOMIC_RELAXED);
	*opened = &counter->fid;
	return 0;
}
