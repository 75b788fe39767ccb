/* Peers: the lane that each is sent to by, and what waits for room there. */
#include "vshmem_fi.h"

#include "../transport/tuning.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Parts of long messages that are sent in one go: an answer that says that no more are wanted is
 * then seen. */
#define PARTS 16

/* Of a message; no honest port has shorter ones. */
#define LEAST_BYTES (sizeof(struct vfi_wire) + 64)

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
	int rc = vshmem_lane_claim(ep->domain->pool, &port, ep->port, 0, &peer->lane);
	uint32_t most = rc == 0 ? vshmem_lane_most_bytes(peer->lane) : 0;
	/* What it had is still there until its agent has seen that it has ended. */
	bool gone = rc == 0 && !vshmem_lane_alive(peer->lane);
	if (gone || (rc == 0 && most < LEAST_BYTES)) {
		vshmem_lane_close(peer->lane);
		rc = gone ? -ENOENT : -EIO;
	}
	if (rc == 0) {
		peer->most = most < VFI_EAGER_BYTES ? most : VFI_EAGER_BYTES;
		peer->piece = most < VFI_PIECE_BYTES ? most : VFI_PIECE_BYTES;
		vfi_wake_open(ep, peer);
		return 0;
	}
	peer->lane = NULL;
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
	peer->error = rc == -ENOENT ? FI_EHOSTUNREACH : FI_EIO;
	peer->prov_errno = -rc;
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
	*rc = !peer->lane && !peer->error ? claim(ep, peer) : 0;
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

struct vfi_peer *vfi_peer_of_source(struct vfi_endpoint *ep, struct vfi_source *source)
{
	if (!source->peer)
		source->peer = vfi_peer_of_port(ep, &source->port);
	return source->peer;
}

bool vfi_peer_awaited(struct vfi_endpoint *ep, struct vfi_source *source)
{
	if (vfi_peer_of_source(ep, source))
		return false;
	const struct vfi_peer *peer = vfi_peer_known(ep, source->port.nonce);
	return peer && peer->again;
}

void vfi_peer_busy(struct vfi_endpoint *ep, struct vfi_peer *peer)
{
	if (peer->busy)
		return;
	peer->busy = true;
	peer->next_busy = ep->busy;
	ep->busy = peer;
}

int vfi_peer_post(struct vfi_endpoint *ep, struct vfi_peer *peer, uint8_t operation,
	const struct vfi_wire *header, const void *payload, uint32_t bytes)
{
	if (peer->error)
		return -EPIPE;
	if (peer->waiting.first)
		return -EAGAIN;
	int rc;
	if (bytes < 4096) {
		rc = vshmem_post(peer->lane, header, sizeof(*header), payload, bytes, operation);
	} else {
		/* Past the cache. */
		struct iovec parts[2] = { { (void *)(uintptr_t)header, sizeof(*header) },
			{ (void *)(uintptr_t)payload, bytes } };
		rc = vshmem_send(peer->lane, parts, 2, operation);
	}
	if (rc == 0 && peer->wake)
		vfi_wake(ep, peer);
	return rc;
}

static int put(struct vfi_endpoint *ep, struct vfi_peer *peer, struct vfi_outgoing *message)
{
	struct iovec parts[VFI_IOV_LIMIT + 1];
	parts[0] = (struct iovec) { &message->header, sizeof(message->header) };
	for (int nth = 0; nth < message->count; nth++)
		parts[nth + 1] = message->parts[nth];
	int rc = vshmem_send(peer->lane, parts, message->count + 1, message->operation);
	if (rc == 0 && peer->wake)
		vfi_wake(ep, peer);
	return rc;
}

void vfi_peer_send(struct vfi_endpoint *ep, struct vfi_peer *peer, struct vfi_outgoing *message)
{
	if (peer->error) {
		message->sent(ep, peer, message, peer->error, peer->prov_errno);
		return;
	}
	bool first = !peer->waiting.first;
	int rc = first ? put(ep, peer, message) : -EAGAIN;
	if (rc == 0 && !(message->follows && message->follows(message))) {
		message->sent(ep, peer, message, 0, 0);
		return;
	}
	vfi_queue_append(&peer->waiting, message);
	vfi_peer_busy(ep, peer);
	if (rc == 0)
		vfi_peer_push(ep, peer);
	else if (rc != -EAGAIN)
		vfi_peer_fail(ep, peer, FI_EIO, -rc);
}

static void answer_sent(struct vfi_endpoint *ep, struct vfi_peer *peer,
	struct vfi_outgoing *message, int error, int prov_errno)
{
	(void)ep, (void)error, (void)prov_errno;
	peer->answers--;
	free(message);
}

void vfi_peer_answer(struct vfi_endpoint *ep, struct vfi_peer *peer, uint8_t operation,
	const struct vfi_wire *header)
{
	if (peer->error || vfi_peer_post(ep, peer, operation, header, NULL, 0) == 0)
		return;
	if (peer->answers >= VFI_ANSWERS) {
		vfi_peer_fail(ep, peer, FI_EIO, ENOBUFS);
		return;
	}
	struct vfi_outgoing *message = calloc(1, sizeof(*message));
	if (!message)
		return;
	peer->answers++;
	message->header = *header;
	message->operation = operation;
	message->sent = answer_sent;
	vfi_peer_send(ep, peer, message);
}

int vfi_peer_push(struct vfi_endpoint *ep, struct vfi_peer *peer)
{
	int pushed = 0, parts = 0;
	struct vfi_outgoing *message;
	while ((message = peer->waiting.first) && parts < PARTS) {
		int rc = put(ep, peer, message);
		if (rc == -EAGAIN)
			break;
		if (rc != 0) {
			vfi_peer_fail(ep, peer, FI_EIO, -rc);
			break;
		}
		pushed++;
		if (message->follows && message->follows(message)) {
			parts++;
			continue;
		}
		vfi_queue_take(&peer->waiting);
		message->sent(ep, peer, message, 0, 0);
	}
	return pushed;
}

/* Ends all that is under way with a peer, and gives its lane back. */
static void end_peer(struct vfi_endpoint *ep, struct vfi_peer *peer, int error, int prov_errno)
{
	peer->error = error;
	peer->prov_errno = prov_errno;
	while (peer->waiting.first) {
		struct vfi_outgoing *message = vfi_queue_take(&peer->waiting);
		message->sent(ep, peer, message, error, prov_errno);
	}
	/* All whose pieces are sent are in the table. */
	peer->sending = (struct vfi_queue) { 0 };
	for (uint32_t index = 0; peer->under_way && index < ep->tokens.room; index++) {
		struct vfi_operation *operation = ep->tokens.entries[index].operation;
		if (!operation || operation->peer != peer)
			continue;
		vfi_token_leave(ep, operation);
		operation->failed(ep, operation, error, prov_errno);
	}
	if (peer->wake)
		vfi_wake_close(ep, peer);
	vfi_remote_close(ep, peer);
	vshmem_lane_close(peer->lane);
	peer->lane = NULL;
}

void vfi_peer_fail(struct vfi_endpoint *ep, struct vfi_peer *peer, int error, int prov_errno)
{
	if (peer->error)
		return;
	vfi_log(FI_LOG_WARN, FI_LOG_EP_CTRL, "a peer is gone: %s (%s)", strerror(error),
		strerror(prov_errno));
	end_peer(ep, peer, error, prov_errno);
}

/* Whether nothing leads to a peer any more: it is gone, and the program has no address of it. */
static bool is_forgotten(struct vfi_endpoint *ep, const struct vfi_peer *peer)
{
	return peer->error && peer->receives_failed && !peer->under_way && !peer->busy
	        && !peer->waiting.first
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

struct vfi_source *vfi_source_of(struct vfi_endpoint *ep, uint32_t lane)
{
	if (lane < ep->source_room && ep->sources[lane].known)
		return &ep->sources[lane];
	struct vshmem_sender sender;
	/* Lanes are counted by the port, which is this process's own. */
	if (lane >= 4096 || vshmem_sender(ep->port, lane, &sender) != 0)
		return NULL;
	if (lane >= ep->source_room) {
		uint32_t room = lane + 64;
		struct vfi_source *grown = realloc(ep->sources, room * sizeof(*grown));
		if (!grown)
			return NULL;
		memset(grown + ep->source_room, 0, (room - ep->source_room) * sizeof(*grown));
		ep->sources = grown;
		ep->source_room = room;
	}
	ep->sources[lane] = (struct vfi_source) { .known = true,
		.port = sender.port,
		.client = sender.client,
		.addr = FI_ADDR_NOTAVAIL };
	return &ep->sources[lane];
}

fi_addr_t vfi_source_addr(struct vfi_endpoint *ep, struct vfi_source *source)
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
		if (!peer->error)
			end_peer(ep, peer, FI_ECANCELED, 0);
		ep->peers = peer->next;
		free_peer(ep, peer);
	}
	free(ep->by_nonce);
	free(ep->by_addr);
	free(ep->sources);
}
