/* What an endpoint knows of a peer's memory. */
#include "one_sided.h"

#include <stdlib.h>

struct vfi_remote *vfi_remote_of(struct vfi_endpoint *ep, struct vfi_peer *peer)
{
	struct vfi_remote *remote = peer->memory;
	if (!remote && (remote = calloc(1, sizeof(*remote)))) {
		remote->next = ep->remotes;
		remote->peer = peer;
		ep->remotes = remote;
		peer->memory = remote;
	}
	return remote;
}

void vfi_remote_close(struct vfi_peer *peer)
{
	struct vfi_remote *remote = peer->memory;
	if (!remote)
		return;
	vfi_direct_close(remote->direct);
	remote->direct = NULL;
}

void vfi_remote_free(struct vfi_endpoint *ep, struct vfi_peer *peer)
{
	struct vfi_remote *remote = peer->memory, **link;
	if (!remote)
		return;
	vfi_remote_close(peer);
	for (link = &ep->remotes; *link != remote;)
		link = &(*link)->next;
	*link = remote->next;
	peer->memory = NULL;
	free(remote);
}
