/* Which message goes to which receive. Both wait in lists, in the order of their coming. */
#include "vshmem_fi.h"

#include <stdlib.h>
#include <string.h>

static bool matches(const struct vfi_receive *receive, uint64_t tag, uint64_t nonce)
{
	return ((tag ^ receive->tag) & ~receive->ignore) == 0
	        && (receive->from == 0 || receive->from == nonce);
}

static struct vfi_receives *posted(struct vfi_endpoint *ep, bool tagged)
{ return tagged ? &ep->posted_tagged : &ep->posted; }

struct vfi_receive *vfi_match_posted(
	struct vfi_endpoint *ep, const struct vshmem_incoming *message, bool tagged)
{
	uint64_t tag = tagged ? message->header.message.tag : 0;
	uint64_t nonce = message->source->port.nonce;
	struct vfi_receive *receive = posted(ep, tagged)->first;
	while (receive && !matches(receive, tag, nonce))
		receive = receive->next;
	return receive;
}

struct vfi_unexpected *vfi_match_unexpected(
	struct vfi_endpoint *ep, const struct vfi_receive *receive, bool tagged, bool take)
{
	struct vfi_unexpecteds *list = tagged ? &ep->unexpected_tagged : &ep->unexpected;
	struct vfi_unexpected *message = list->first;
	while (message
	        && !matches(receive, tagged ? message->header.message.tag : 0, message->port.nonce))
		message = message->next;
	if (message && take)
		vfi_unlink_unexpected(list, message);
	return message;
}

void vfi_post_receive(struct vfi_endpoint *ep, struct vfi_receive *receive, bool tagged)
{
	struct vfi_receives *list = posted(ep, tagged);
	receive->next = NULL;
	receive->previous = list->last;
	if (list->last)
		list->last->next = receive;
	else
		list->first = receive;
	list->last = receive;
}

void vfi_unpost_receive(struct vfi_endpoint *ep, struct vfi_receive *receive, bool tagged)
{
	struct vfi_receives *list = posted(ep, tagged);
	if (receive->previous)
		receive->previous->next = receive->next;
	else
		list->first = receive->next;
	if (receive->next)
		receive->next->previous = receive->previous;
	else
		list->last = receive->previous;
}

void vfi_link_unexpected(struct vfi_unexpecteds *list, struct vfi_unexpected *message)
{
	message->next = NULL;
	message->previous = list->last;
	if (list->last)
		list->last->next = message;
	else
		list->first = message;
	list->last = message;
}

void vfi_unlink_unexpected(struct vfi_unexpecteds *list, struct vfi_unexpected *message)
{
	if (message->previous)
		message->previous->next = message->next;
	else
		list->first = message->next;
	if (message->next)
		message->next->previous = message->previous;
	else
		list->last = message->previous;
}

bool vfi_keep_unexpected(struct vfi_endpoint *ep, const struct vshmem_incoming *message)
{
	bool rendezvous = message->operation == VFI_READY_TO_SEND;
	bool tagged = rendezvous ? message->header.flags & VSHMEM_WIRE_TAGGED
				 : message->operation == VFI_EAGER_TAGGED;
	uint32_t bytes = message->header.bytes;
	/* Longer is no offer (cross_memory.c). */
	if (rendezvous && bytes > sizeof(struct vfi_offer_place))
		bytes = 0;
	struct vfi_unexpected *kept = malloc(sizeof(*kept) + bytes);
	if (!kept)
		return false;
	kept->header = message->header;
	kept->header.bytes = bytes;
	kept->port = message->source->port;
	kept->claimed = NULL;
	kept->rendezvous = rendezvous;
	memcpy(kept->payload, message->payload, bytes);
	vfi_link_unexpected(tagged ? &ep->unexpected_tagged : &ep->unexpected, kept);
	return true;
}

static void drop_all(struct vfi_unexpecteds *list)
{
	struct vfi_unexpected *message;
	while ((message = list->first)) {
		list->first = message->next;
		free(message);
	}
	list->last = NULL;
}

void vfi_matching_close(struct vfi_endpoint *ep)
{
	drop_all(&ep->unexpected);
	drop_all(&ep->unexpected_tagged);
	drop_all(&ep->claimed);
	struct vfi_receives *lists[] = { &ep->posted, &ep->posted_tagged };
	for (size_t nth = 0; nth < 2; nth++) {
		struct vfi_receive *receive;
		while ((receive = lists[nth]->first)) {
			lists[nth]->first = receive->next;
			free(receive);
		}
	}
}
