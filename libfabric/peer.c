/* Peers: the lane that each is sent to by, and what waits for room there. */
#include "vshmem_fi.h"

#include "../transport/tuning.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint32_t slot_of(const struct vfi_endpoint *ep, uint64_t nonce)
{ return (uint32_t)(nonce * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (ep->hash_room - 1); }

struct vfi_peer *vfi_peer_known(struct vfi_endpoint *ep, uint64_t nonce)
{
	struct vfi_peer *peer = ep->hash_room ? ep->by_nonce[slot_of(ep, nonce)] : NULL;
	while (peer && peer->address.nonce != nonce)
		peer = peer->next_in_hash;
	return peer;
}

static bool grow_hash(struct vfi_endpoint *ep)
{
	uint32_t room = ep->hash_room ? ep->hash_room * 2 : 64;
	struct vfi_peer **table = calloc(room, sizeof(struct vfi_peer *));
	if (!table)
		return false;
	free(ep->by_nonce);
	ep->by_nonce = table;
	ep->hash_room = room;
	for (struct vfi_peer *peer = ep->peers; peer; peer = peer->next) {
		struct vfi_peer **slot = &ep->by_nonce[slot_of(ep, peer->address.nonce)];
		peer->next_in_hash = *slot;
		*slot = peer;
	}
	return true;
}

static struct vfi_peer *add(struct vfi_endpoint *ep, const struct vfi_address *address)
{
	if (ep->peer_count >= ep->hash_room && !grow_hash(ep))
		return NULL;
	struct vfi_peer *peer = calloc(1, sizeof(*peer));
	if (!peer)
		return NULL;
	peer->address = *address;
	peer->base.nonce = address->nonce;
	peer->next = ep->peers;
	ep->peers = peer;
	ep->peer_count++;
	struct vfi_peer **slot = &ep->by_nonce[slot_of(ep, address->nonce)];
	peer->next_in_hash = *slot;
	*slot = peer;
	return peer;
}

/* Once for an endpoint: what is missing is the same for all peers as a rule. */
static void say_once(struct vfi_endpoint *ep, const char *why)
{
	if (!ep->warned)
		vfi_say("a peer cannot be sent to: %s", why);
	ep->warned = true;
}

/* 0, or -FI_E...; a port that is gone is no error here. */
static int claim(struct vfi_endpoint *ep, struct vfi_peer *peer)
{
	if (peer->again && vshmem_ticks() - peer->again < VSHMEM_LANE_INTERVAL)
		return -FI_EAGAIN;
	peer->again = 0;
	struct vshmem_address port = { .nonce = peer->address.nonce,
		.id = peer->address.id,
		.most_bytes = peer->address.most_bytes };
	int rc = vshmem_lane_claim(ep->domain->pool, &port, ep->port, 0, &peer->base.lane);
	uint32_t most = rc == 0 ? vshmem_lane_most_bytes(peer->base.lane) : 0;
	/* What it had is still there until its agent has seen that it has ended. */
	bool gone = rc == 0 && !vshmem_lane_alive(peer->base.lane);
	if (gone || (rc == 0 && most < VSHMEM_LEAST_MOST)) {
		vshmem_lane_close(peer->base.lane);
		rc = gone ? -ENOENT : -EIO;
	}
	if (rc == 0) {
		peer->base.most = most < VFI_EAGER_BYTES ? most : VFI_EAGER_BYTES;
		peer->piece = most < VFI_PIECE_BYTES ? most : VFI_PIECE_BYTES;
		vfi_wake_open(ep, peer);
		return 0;
	}
	peer->base.lane = NULL;
	if (rc == -EAGAIN) {
		peer->again = vshmem_ticks() | 1;
		return -FI_EAGAIN;
	}
	if (rc == -ENOSPC) {
		say_once(ep,
			"its port has no lane left, and the pool has no memory for more: make the pool larger");
		return -FI_ENOMEM;
	}
	if (rc == -ENOMEM) {
		say_once(ep,
			"the pool's table of attaches is full: make the pool with a larger --limit attaches=N");
		return -FI_ENOMEM;
	}
	peer->base.error = rc == -ENOENT ? FI_EHOSTUNREACH : FI_EIO;
	peer->base.prov_errno = -rc;
	return 0;
}

static struct vfi_peer *open_peer(
	struct vfi_endpoint *ep, const struct vfi_address *address, int *rc)
{
	struct vfi_peer *peer = vfi_peer_known(ep, address->nonce);
	if (!peer)
		peer = add(ep, address);
	*rc = -FI_ENOMEM;
	if (!peer)
		return NULL;
	/* It may have been a port that was only answered. */
	if (peer->address.record == 0)
		peer->address = *address;
	*rc = !peer->base.lane && !peer->base.error ? claim(ep, peer) : 0;
	return *rc == 0 ? peer : NULL;
}

int vfi_peer_of(struct vfi_endpoint *ep, fi_addr_t addr, struct vfi_peer **found)
{
	if (addr < ep->by_addr_room && ep->by_addr[addr]) {
		*found = ep->by_addr[addr];
		return 0;
	}
	struct vfi_address address;
	if (!ep->av || !vfi_av_address(ep->av, addr, &address))
		return -FI_EINVAL;
	int rc;
	struct vfi_peer *peer = open_peer(ep, &address, &rc);
	if (!peer)
		return rc;
	if (addr >= ep->by_addr_room) {
		size_t room = ep->by_addr_room ? ep->by_addr_room : 64;
		while (room <= addr)
			room *= 2;
		struct vfi_peer **grown = realloc(ep->by_addr, room * sizeof(struct vfi_peer *));
		if (!grown)
			return -FI_ENOMEM;
		memset(grown + ep->by_addr_room, 0,
			(room - ep->by_addr_room) * sizeof(struct vfi_peer *));
		ep->by_addr = grown;
		ep->by_addr_room = room;
	}
	ep->by_addr[addr] = peer;
	*found = peer;
	return 0;
}

struct vfi_peer *vfi_peer_of_port(struct vfi_endpoint *ep, const struct vshmem_address *port)
{
	struct vfi_address address = { .nonce = port->nonce, .id = port->id };
	int rc;
	/* Of one in the address vector more is known. */
	fi_addr_t addr = ep->av ? vfi_av_of_nonce(ep->av, port->nonce) : FI_ADDR_NOTAVAIL;
	if (addr != FI_ADDR_NOTAVAIL)
		vfi_av_address(ep->av, addr, &address);
	struct vfi_peer *peer = port->id ? open_peer(ep, &address, &rc) : NULL;
	return peer;
}

struct vfi_peer *vfi_peer_of_source(struct vfi_endpoint *ep, struct vshmem_source *source)
{
	if (!source->peer)
		source->peer = vfi_peer_of_port(ep, &source->port);
	return source->peer;
}

bool vfi_peer_awaited(struct vfi_endpoint *ep, struct vshmem_source *source)
{
	if (vfi_peer_of_source(ep, source))
		return false;
	const struct vfi_peer *peer = vfi_peer_known(ep, source->port.nonce);
	return peer && peer->again;
}

void vfi_peer_gone(struct vshmem_peers *peers, struct vshmem_peer *base)
{
	struct vfi_endpoint *ep = vfi_endpoint_of(peers);
	struct vfi_peer *peer = (struct vfi_peer *)base;
	if (base->error != FI_ECANCELED)
		vfi_log(FI_LOG_WARN, FI_LOG_EP_CTRL, "a peer is gone: %s (%s)",
			strerror(base->error), strerror(base->prov_errno));
	/* All whose pieces are sent were in the table. */
	peer->sending = (struct vshmem_queue) { 0 };
	if (peer->wake)
		vfi_wake_close(ep, peer);
	vfi_remote_close(peer);
	vshmem_lane_close(base->lane);
	base->lane = NULL;
}

/* Whether nothing leads to a peer any more: it is gone, and the program has no address of it. */
static bool is_forgotten(struct vfi_endpoint *ep, const struct vfi_peer *peer)
{
	return peer->base.error && peer->receives_failed && !peer->base.under_way
		&& !peer->base.busy && !peer->base.waiting.first
		&& vfi_av_of_nonce(ep->av, peer->address.nonce) == FI_ADDR_NOTAVAIL;
}

static void free_peer(struct vfi_endpoint *ep, struct vfi_peer *peer)
{
	struct vfi_peer **slot = &ep->by_nonce[slot_of(ep, peer->address.nonce)];
	while (*slot != peer)
		slot = &(*slot)->next_in_hash;
	*slot = peer->next_in_hash;
	for (uint32_t lane = 0; lane < ep->source_room; lane++)
		if (ep->sources[lane].peer == peer)
			ep->sources[lane].peer = NULL;
	ep->peer_count--;
	vfi_remote_free(ep, peer);
	free(peer);
}

void vfi_peers_forget(struct vfi_endpoint *ep)
{
	struct vfi_peer **link = &ep->peers, *peer;
	while ((peer = *link)) {
		if (!is_forgotten(ep, peer)) {
			link = &peer->next;
			continue;
		}
		*link = peer->next;
		free_peer(ep, peer);
	}
}

struct vshmem_source *vfi_source_of(struct vfi_endpoint *ep, uint32_t lane)
{
	if (lane < ep->source_room && ep->sources[lane].known)
		return &ep->sources[lane];
	struct vshmem_sender sender;
	/* Lanes are counted by the port, which is this process's own. */
	if (lane >= 4096 || vshmem_sender(ep->port, lane, &sender) != 0)
		return NULL;
	if (lane >= ep->source_room) {
		uint32_t room = lane + 64;
		struct vshmem_source *grown = realloc(ep->sources, room * sizeof(*grown));
		if (!grown)
			return NULL;
		memset(grown + ep->source_room, 0, (room - ep->source_room) * sizeof(*grown));
		ep->sources = grown;
		ep->source_room = room;
	}
	ep->sources[lane] = (struct vshmem_source) { .known = true,
		.port = sender.port,
		.client = sender.client,
		.addr = FI_ADDR_NOTAVAIL };
	return &ep->sources[lane];
}

fi_addr_t vfi_source_addr(struct vfi_endpoint *ep, struct vshmem_source *source)
{
	uint64_t version = __atomic_load_n(&ep->av->version, __ATOMIC_ACQUIRE);
	if (source->version != version) {
		source->addr = vfi_av_of_nonce(ep->av, source->port.nonce);
		source->version = version;
	}
	return source->addr;
}

void vfi_peers_close(struct vfi_endpoint *ep)
{
	struct vfi_peer *peer;
	while ((peer = ep->peers)) {
		vshmem_peer_fail(&ep->to, &peer->base, FI_ECANCELED, 0);
		ep->peers = peer->next;
		free_peer(ep, peer);
	}
	free(ep->by_nonce);
	free(ep->by_addr);
	free(ep->sources);
}
