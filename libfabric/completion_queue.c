/* Completion queues, as programs read them. */
#include "vshmem_fi.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Every so many reads make progress, even when there is something to be read. */
#define PROGRESS 64

static size_t bytes_of(enum fi_cq_format format)
{
	switch (format) {
	case FI_CQ_FORMAT_CONTEXT: return sizeof(struct fi_cq_entry);
	case FI_CQ_FORMAT_MSG: return sizeof(struct fi_cq_msg_entry);
	case FI_CQ_FORMAT_DATA: return sizeof(struct fi_cq_data_entry);
	default: return sizeof(struct fi_cq_tagged_entry);
	}
}

/* Each format is the beginning of the next longer one. */
static ssize_t take(struct vfi_cq *cq, void *buffer, size_t count, fi_addr_t *sources)
{
	if (__atomic_load_n(&cq->count, __ATOMIC_RELAXED) == 0)
		return -FI_EAGAIN;
	size_t bytes = bytes_of(cq->format), taken = 0;
	ssize_t rc = -FI_EAGAIN;
	vfi_lock(cq->domain, &cq->lock);
	while (cq->count && taken < count) {
		struct vfi_completion *first = &cq->ring[cq->head];
		if (first->error) {
			rc = -FI_EAVAIL;
			break;
		}
		memcpy((char *)buffer + taken * bytes, &first->entry, bytes);
		if (sources)
			sources[taken] = first->source;
		taken++;
		cq->head = (cq->head + 1) & (cq->room - 1);
		__atomic_store_n(&cq->count, cq->count - 1, __ATOMIC_RELAXED);
	}
	vfi_unlock(cq->domain, &cq->lock);
	return taken ? (ssize_t)taken : rc;
}

static ssize_t read_from(struct fid_cq *fid, void *buffer, size_t count, fi_addr_t *sources)
{
	struct vfi_cq *cq = container_of(fid, struct vfi_cq, fid);
	/* With nothing to be read into, progress is all that is asked for. Who always finds
	 * something serves others now and then, too. */
	uint32_t reads = __atomic_load_n(&cq->reads, __ATOMIC_RELAXED) + 1;
	__atomic_store_n(&cq->reads, reads, __ATOMIC_RELAXED);
	ssize_t rc = reads % PROGRESS ? take(cq, buffer, count, sources) : -FI_EAGAIN;
	if (rc != -FI_EAGAIN && count)
		return rc;
	vfi_progress_bound(cq->domain, &cq->bound);
	return take(cq, buffer, count, sources);
}

static ssize_t read_cq(struct fid_cq *fid, void *buffer, size_t count)
{ return read_from(fid, buffer, count, NULL); }

static ssize_t read_error(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
	struct vfi_cq *cq = container_of(fid, struct vfi_cq, fid);
	struct fi_cq_err_entry *error = NULL;
	(void)flags;
	vfi_lock(cq->domain, &cq->lock);
	if (cq->count) {
		struct vfi_completion *first = &cq->ring[cq->head];
		error = first->error;
		if (error) {
			cq->head = (cq->head + 1) & (cq->room - 1);
			__atomic_store_n(&cq->count, cq->count - 1, __ATOMIC_RELAXED);
		}
	}
	vfi_unlock(cq->domain, &cq->lock);
	if (!error)
		return -FI_EAGAIN;
	/* What programs of interfaces before 1.5 pass ends before err_data_size. There is none. */
	memcpy(entry, error, offsetof(struct fi_cq_err_entry, err_data));
	free(error);
	return 1;
}

static int64_t milliseconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static ssize_t sread_from(struct fid_cq *fid, void *buffer, size_t count, fi_addr_t *sources,
	const void *condition, int timeout)
{
	struct vfi_cq *cq = container_of(fid, struct vfi_cq, fid);
	int64_t end = timeout >= 0 ? milliseconds() + timeout : INT64_MAX;
	(void)condition;
	for (unsigned looks = 0;; looks++) {
		ssize_t rc = read_from(fid, buffer, count, sources);
		if (rc != -FI_EAGAIN)
			return rc;
		if (__atomic_exchange_n(&cq->signalled, false, __ATOMIC_RELAXED))
			return -FI_EAGAIN;
		if (timeout >= 0 && looks % 16 == 0 && milliseconds() >= end)
			return -FI_EAGAIN;
	}
}

static ssize_t sread(
	struct fid_cq *fid, void *buffer, size_t count, const void *condition, int timeout)
{ return sread_from(fid, buffer, count, NULL, condition, timeout); }

static int signal_cq(struct fid_cq *fid)
{
	struct vfi_cq *cq = container_of(fid, struct vfi_cq, fid);
	__atomic_store_n(&cq->signalled, true, __ATOMIC_RELAXED);
	if (cq->wait)
		vfi_wait_signal(cq->wait);
	return 0;
}

static const char *explain(
	struct fid_cq *fid, int prov_errno, const void *data, char *buffer, size_t bytes)
{
	(void)fid, (void)data;
	const char *text = prov_errno ? strerror(prov_errno) : "no more is known";
	if (buffer && bytes) {
		strncpy(buffer, text, bytes - 1);
		buffer[bytes - 1] = '\0';
	}
	return text;
}

static int close_cq(struct fid *fid)
{
	struct vfi_cq *cq = container_of(fid, struct vfi_cq, fid.fid);
	if (cq->bound.count)
		return -FI_EBUSY;
	if (cq->wait)
		vfi_wait_close(cq->wait);
	for (uint32_t nth = 0; nth < cq->count; nth++)
		free(cq->ring[(cq->head + nth) & (cq->room - 1)].error);
	__atomic_sub_fetch(&cq->domain->used, 1, __ATOMIC_RELAXED);
	pthread_mutex_destroy(&cq->lock);
	pthread_rwlock_destroy(&cq->bound.lock);
	free(cq->bound.endpoints);
	free(cq->ring);
	free(cq);
	return 0;
}

static int control(struct fid *fid, int command, void *argument)
{
	struct vfi_cq *cq = container_of(fid, struct vfi_cq, fid.fid);
	return cq->wait ? vfi_wait_control(cq->wait, command, argument) : -FI_ENOSYS;
}

static struct fi_ops fid_ops = VFI_OPS(close_cq, vfi_no_bind, control, vfi_no_ops);

static struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = read_cq,
	.readfrom = read_from,
	.readerr = read_error,
	.sread = sread,
	.sreadfrom = sread_from,
	.signal = signal_cq,
	.strerror = explain,
};

int vfi_cq_open(
	struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **opened, void *context)
{
	struct vfi_domain *domain = container_of(fid, struct vfi_domain, fid);
	struct vfi_cq *cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -FI_ENOMEM;
	cq->fid.fid = (struct fid) { .fclass = FI_CLASS_CQ, .context = context, .ops = &fid_ops };
	cq->fid.ops = &cq_ops;
	cq->domain = domain;
	if (attr->format == FI_CQ_FORMAT_UNSPEC)
		attr->format = FI_CQ_FORMAT_CONTEXT;
	cq->format = attr->format;
	cq->room = 1024;
	cq->ring = malloc(cq->room * sizeof(*cq->ring));
	pthread_mutex_init(&cq->lock, NULL);
	pthread_rwlock_init(&cq->bound.lock, NULL);
	int rc = cq->ring ? 0 : -FI_ENOMEM;
	if (rc == 0 && attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC
	        && attr->wait_obj != FI_WAIT_YIELD)
		rc = vfi_wait_open(domain, attr->wait_obj, &cq->wait);
	if (rc != 0) {
		free(cq->ring);
		free(cq);
		return rc;
	}
	__atomic_add_fetch(&domain->used, 1, __ATOMIC_RELAXED);
	*opened = &cq->fid;
	return 0;
}
