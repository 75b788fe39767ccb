/* Event queues. This provider has no event to tell: what is asked of it is done when the call
 * returns. Programs may write events of their own. */
#include "vshmem_fi.h"

#include <stdlib.h>
#include <string.h>

struct event {
	struct event *next;
	uint32_t event;
	size_t bytes;
	char data[];
};

struct event_queue {
	struct fid_eq fid;
	pthread_mutex_t lock;
	struct event *first, **last;
};

static ssize_t read_eq(
	struct fid_eq *fid, uint32_t *event, void *buffer, size_t bytes, uint64_t flags)
{
	struct event_queue *queue = container_of(fid, struct event_queue, fid);
	ssize_t rc = -FI_EAGAIN;
	pthread_mutex_lock(&queue->lock);
	struct event *first = queue->first;
	if (first && first->bytes > bytes) {
		rc = -FI_ETOOSMALL;
	} else if (first) {
		*event = first->event;
		memcpy(buffer, first->data, first->bytes);
		rc = (ssize_t)first->bytes;
		if (!(flags & FI_PEEK)) {
			queue->first = first->next;
			if (!queue->first)
				queue->last = &queue->first;
			free(first);
		}
	}
	pthread_mutex_unlock(&queue->lock);
	return rc;
}

static ssize_t read_error(struct fid_eq *fid, struct fi_eq_err_entry *entry, uint64_t flags)
{
	(void)fid, (void)entry, (void)flags;
	return -FI_EAGAIN;
}

static ssize_t write_eq(
	struct fid_eq *fid, uint32_t event, const void *data, size_t bytes, uint64_t flags)
{
	struct event_queue *queue = container_of(fid, struct event_queue, fid);
	(void)flags;
	struct event *made = malloc(sizeof(*made) + bytes);
	if (!made)
		return -FI_ENOMEM;
	made->next = NULL;
	made->event = event;
	made->bytes = bytes;
	memcpy(made->data, data, bytes);
	pthread_mutex_lock(&queue->lock);
	*queue->last = made;
	queue->last = &made->next;
	pthread_mutex_unlock(&queue->lock);
	return (ssize_t)bytes;
}

static ssize_t sread(struct fid_eq *fid, uint32_t *event, void *buffer, size_t bytes, int timeout,
	uint64_t flags)
{
	(void)timeout;
	return read_eq(fid, event, buffer, bytes, flags);
}

static const char *explain(
	struct fid_eq *fid, int prov_errno, const void *data, char *buffer, size_t bytes)
{
	(void)fid, (void)data, (void)buffer, (void)bytes;
	return strerror(prov_errno);
}

static int close_eq(struct fid *fid)
{
	struct event_queue *queue = container_of(fid, struct event_queue, fid.fid);
	struct event *event;
	while ((event = queue->first)) {
		queue->first = event->next;
		free(event);
	}
	pthread_mutex_destroy(&queue->lock);
	free(queue);
	return 0;
}

static struct fi_ops fid_ops = VFI_OPS(close_eq, vfi_no_bind, vfi_no_control, vfi_no_ops);

static struct fi_ops_eq eq_ops = {
	.size = sizeof(struct fi_ops_eq),
	.read = read_eq,
	.readerr = read_error,
	.write = write_eq,
	.sread = sread,
	.strerror = explain,
};

int vfi_eq_open(
	struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **opened, void *context)
{
	(void)fabric;
	if (attr && attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC)
		return -FI_ENOSYS;
	struct event_queue *queue = calloc(1, sizeof(*queue));
	if (!queue)
		return -FI_ENOMEM;
	queue->fid.fid = (struct fid) {
		.fclass = FI_CLASS_EQ, .context = context, .ops = &fid_ops
	};
	queue->fid.ops = &eq_ops;
	queue->last = &queue->first;
	pthread_mutex_init(&queue->lock, NULL);
	*opened = &queue->fid;
	return 0;
}
