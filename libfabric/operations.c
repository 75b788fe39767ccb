/* Sends and receives that are kept for later use: taking one costs no allocation as a rule. */
#include "vshmem_fi.h"

#include <stdlib.h>
#include <string.h>

/* 0: each is freed at once, so that the sanitizers see who still uses it. */
#ifndef VFI_KEEPS_OPERATIONS
#define VFI_KEEPS_OPERATIONS 1
#endif

struct vfi_send *vfi_send_new(struct vfi_endpoint *ep)
{
	struct vfi_send *send = ep->free_sends;
	if (send)
		ep->free_sends = send->next_free;
	else
		send = malloc(sizeof(*send));
	if (!send)
		return NULL;
	memset(send, 0, sizeof(*send));
	ep->outstanding++;
	return send;
}

void vfi_send_free(struct vfi_endpoint *ep, struct vfi_send *send)
{
	free(send->copy);
	ep->outstanding--;
	if (!VFI_KEEPS_OPERATIONS) {
		free(send);
		return;
	}
	send->next_free = ep->free_sends;
	ep->free_sends = send;
}

struct vfi_receive *vfi_receive_new(struct vfi_endpoint *ep)
{
	struct vfi_receive *receive = ep->free_receives;
	if (receive)
		ep->free_receives = receive->next;
	else
		receive = malloc(sizeof(*receive));
	if (receive)
		memset(receive, 0, sizeof(*receive));
	return receive;
}

void vfi_receive_free(struct vfi_endpoint *ep, struct vfi_receive *receive)
{
	if (!VFI_KEEPS_OPERATIONS) {
		free(receive);
		return;
	}
	receive->next = ep->free_receives;
	ep->free_receives = receive;
}

void vfi_operations_close(struct vfi_endpoint *ep)
{
	struct vfi_send *send;
	while ((send = ep->free_sends)) {
		ep->free_sends = send->next_free;
		free(send);
	}
	struct vfi_receive *receive;
	while ((receive = ep->free_receives)) {
		ep->free_receives = receive->next;
		free(receive);
	}
}
