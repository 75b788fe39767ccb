/* Completions, as they are made. Who reads them is in completion_queue.c and counter.c. */
#include "vshmem_fi.h"

#include <stdlib.h>
#include <string.h>

/* With the queue's lock held: a slot at the end, the queue growing with what nobody reads. */
static struct vfi_completion *append(struct vfi_cq *cq)
{
	if (cq->count == cq->room) {
		struct vfi_completion *ring = malloc(2 * (size_t)cq->room * sizeof(*ring));
		if (!ring)
			return NULL;
		for (uint32_t nth = 0; nth < cq->count; nth++)
			ring[nth] = cq->ring[(cq->head + nth) & (cq->room - 1)];
		free(cq->ring);
		cq->ring = ring;
		cq->room *= 2;
		cq->head = 0;
	}
	struct vfi_completion *slot = &cq->ring[(cq->head + cq->count) & (cq->room - 1)];
	__atomic_store_n(&cq->count, cq->count + 1, __ATOMIC_RELAXED);
	return slot;
}

void vfi_cq_add(struct vfi_cq *cq, const struct fi_cq_tagged_entry *entry, fi_addr_t source)
{
	vfi_lock(cq->domain, &cq->lock);
	struct vfi_completion *slot = append(cq);
	if (slot) {
		slot->entry = *entry;
		slot->source = source;
		slot->error = NULL;
	}
	vfi_unlock(cq->domain, &cq->lock);
	if (cq->wait)
		vfi_wait_signal(cq->wait);
	if (!slot)
		vfi_say("no memory for a completion: it is lost");
}

void vfi_cq_add_error(struct vfi_cq *cq, const struct fi_cq_err_entry *error, fi_addr_t source)
{
	struct fi_cq_err_entry *copy = malloc(sizeof(*copy));
	if (copy)
		*copy = *error;
	vfi_lock(cq->domain, &cq->lock);
	struct vfi_completion *slot = copy ? append(cq) : NULL;
	if (slot) {
		memset(&slot->entry, 0, sizeof(slot->entry));
		slot->source = source;
		slot->error = copy;
	}
	vfi_unlock(cq->domain, &cq->lock);
	if (cq->wait)
		vfi_wait_signal(cq->wait);
	if (!slot) {
		free(copy);
		vfi_say("no memory for a completion: it is lost");
	}
}

void vfi_count(struct vfi_counter *counter, bool failed)
{
	if (!counter)
		return;
	__atomic_add_fetch(failed ? &counter->errors : &counter->value, 1, __ATOMIC_RELEASE);
	if (counter->wait)
		vfi_wait_signal(counter->wait);
}

void vfi_tx_done(struct vfi_endpoint *ep, struct vfi_counter *counter, void *context,
	uint64_t flags, bool wanted)
{
	vfi_count(counter, false);
	if (!wanted || !ep->tx_cq)
		return;
	struct fi_cq_tagged_entry entry = { .op_context = context, .flags = flags };
	vfi_cq_add(ep->tx_cq, &entry, FI_ADDR_NOTAVAIL);
}

void vfi_tx_failed(struct vfi_endpoint *ep, struct vfi_counter *counter, void *context,
	uint64_t flags, int error, int prov_errno)
{
	vfi_count(counter, true);
	if (!ep->tx_cq || !flags)
		return;
	struct fi_cq_err_entry entry = {
		.op_context = context, .flags = flags, .err = error, .prov_errno = prov_errno
	};
	vfi_cq_add_error(ep->tx_cq, &entry, FI_ADDR_NOTAVAIL);
}
