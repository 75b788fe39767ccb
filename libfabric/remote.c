/* What an endpoint knows of a peer's memory, and of what the peer reads here. */
#include "one_sided.h"

#include <stdlib.h>

struct vfi_remote *vfi_remote_of(struct vfi_endpoint *ep, struct vfi_peer *peer)
{
	struct vfi_rma *rma = ep->rma;
	struct vfi_remote *remote = peer->memory;
	if (!remote && (remote = calloc(1, sizeof(*remote)))) {
		remote->next = rma->remotes;
		remote->peer = peer;
		rma->remotes = remote;
		peer->memory = remote;
	}
	return remote;
}

void vfi_remote_close(struct vfi_endpoint *ep, struct vfi_peer *peer)
{
	struct vfi_remote *remote = peer->memory;
	struct vfi_rma *rma = ep->rma;
	if (!remote)
		return;
	vfi_direct_close(remote->direct);
	remote->direct = NULL;
	struct vfi_reading *reading;
	while ((reading = remote->first)) {
		remote->first = reading->next;
		remote->answers--;
		rma->reading--;
		free(reading);
	}
}

void vfi_remote_free(struct vfi_endpoint *ep, struct vfi_peer *peer)
{
	struct vfi_rma *rma = ep->rma;
	struct vfi_remote *remote = peer->memory, **link;
	if (!remote)
		return;
	vfi_remote_close(ep, peer);
	for (link = &rma->remotes; *link != remote;)
		link = &(*link)->next;
	*link = remote->next;
	peer->memory = NULL;
	free(remote);
}
