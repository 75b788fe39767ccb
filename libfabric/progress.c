/* Progress: messages that have come, what waits for room, and peers that are gone. */
#include "vshmem_fi.h"

#include <errno.h>
#include <string.h>

/* Messages taken in one go, and pieces sent in one: so that both directions go on at once, and
 * others make progress, too. */
#define AT_ONCE 32
#define PIECES  4

static void handle(struct vfi_endpoint *ep, const struct vshmem_message *received)
{
	struct vfi_incoming message = { .operation = received->tag };
	message.source = vfi_source_of(ep, received->lane);
	if (!message.source || received->bytes < sizeof(message.header))
		return;
	memcpy(&message.header, received->text, sizeof(message.header));
	message.payload = (const uint8_t *)received->text + sizeof(message.header);
	message.header.bytes = received->bytes - (uint32_t)sizeof(message.header);
	switch (message.operation) {
	case VFI_EAGER:
	case VFI_EAGER_TAGGED:
		message.header.message.size = message.header.bytes;
		vfi_message_arrived(ep, &message);
		break;
	case VFI_READY_TO_SEND: vfi_message_arrived(ep, &message); break;
	case VFI_CLEAR_TO_SEND: vfi_rendezvous_cleared(ep, &message); break;
	case VFI_PIECE: vfi_rendezvous_piece(ep, &message); break;
	case VFI_ACK: vfi_send_acked(ep, &message); break;
	default:
		if (message.operation >= VFI_PUT && message.operation <= VFI_ONE_SIDED_LAST)
			vfi_rma_arrived(ep, &message);
	}
}

/* A port is gone, or what its owner writes makes no sense. */
static void lose(struct vfi_endpoint *ep, uint64_t nonce, int error, int prov_errno)
{
	struct vfi_peer *peer = vfi_peer_known(ep, nonce);
	if (peer)
		vfi_peer_fail(ep, peer, error, prov_errno);
	if (nonce)
		vfi_directed_fail(ep, nonce, error, prov_errno);
}

/* A sender's lane is closed, or not read any more: only its client's number is told. */
static void sender_gone(struct vfi_endpoint *ep, uint32_t client, int rc)
{
	for (uint32_t lane = 0; lane < ep->source_room; lane++) {
		struct vfi_source *source = &ep->sources[lane];
		struct vshmem_sender now;
		if (!source->known || source->client != client)
			continue;
		bool still = vshmem_sender(ep->port, lane, &now) == 0
		        && now.port.nonce == source->port.nonce;
		if (rc == -EPIPE && still)
			continue;
		source->known = rc != -EPIPE;
		lose(ep, source->port.nonce, rc == -EPIPE ? FI_ECONNRESET : FI_EIO, -rc);
	}
}

/* A caller that waits for one message, and gets it, returns at once. Only when the next one is
 * there already as soon as it is looked for again are more taken in one go. */
static int receive(struct vfi_endpoint *ep)
{
	struct vshmem_message message;
	int taken;
	for (taken = 0; taken < AT_ONCE; taken++) {
		int rc = vshmem_receive(ep->port, &message);
		if (rc == 0) {
			ep->many = taken > 1;
			break;
		}
		if (rc == 1) {
			handle(ep, &message);
			vshmem_receive_done(ep->port, &message);
			if (!ep->many) {
				ep->many = true;
				return 1;
			}
		} else if (rc == -EPIPE || rc == -EBADMSG) {
			sender_gone(ep, message.lane, rc);
		} else {
			break;
		}
	}
	return taken;
}

/* Peers with something in their queues. Those that still have are entered again. */
static int push(struct vfi_endpoint *ep)
{
	int done = 0;
	struct vfi_peer *peer = ep->busy;
	ep->busy = NULL;
	while (peer) {
		struct vfi_peer *next = peer->next_busy;
		peer->busy = false;
		if (!peer->error)
			done += vfi_peer_push(ep, peer);
		if (!peer->error && !peer->waiting.first)
			done += vfi_rendezvous_push(ep, peer, PIECES);
		if (!peer->error && (peer->waiting.first || peer->sending.first))
			vfi_peer_busy(ep, peer);
		peer = next;
	}
	return done;
}

/* Some ten times a second: peers whose process or domain has ended. */
static void look_after_peers(struct vfi_endpoint *ep)
{
	for (struct vfi_peer *peer = ep->peers; peer; peer = peer->next) {
		if (!peer->error && peer->lane && !vshmem_lane_alive(peer->lane))
			vfi_peer_fail(ep, peer, FI_ECONNRESET, EPIPE);
		if (peer->error && !peer->receives_failed) {
			peer->receives_failed = true;
			vfi_directed_fail(ep, peer->address.nonce, peer->error, peer->prov_errno);
		}
	}
	vfi_peers_forget(ep);
	vfi_offers_tidy(ep);
	/* A lane shows whether a process lives: one is claimed of those that are waited for. */
	struct vfi_receive *lists[] = { ep->posted.first, ep->posted_tagged.first };
	for (size_t nth = 0; nth < 2; nth++) {
		for (struct vfi_receive *one = lists[nth]; one; one = one->next) {
			struct vfi_peer *peer;
			if (one->from && !vfi_peer_known(ep, one->from)) {
				if (vfi_peer_of(ep, one->source, &peer) == 0)
					break;
			}
		}
	}
}

int vfi_progress(struct vfi_endpoint *ep)
{
	/* Another thread that is here makes the progress. */
	if (!vfi_try_lock(ep->domain, &ep->lock))
		return 0;
	int events = 0;
	if (ep->enabled) {
		events = receive(ep);
		if (ep->busy)
			events += push(ep);
		events += vfi_rma_progress(ep);
		if (vshmem_domains_due(&ep->due))
			look_after_peers(ep);
	}
	vfi_unlock(ep->domain, &ep->lock);
	return events;
}

int vfi_progress_bound(struct vfi_domain *domain, struct vfi_bound *bound)
{
	int events = 0;
	if (domain->threads)
		pthread_rwlock_rdlock(&bound->lock);
	for (uint32_t nth = 0; nth < bound->count; nth++)
		events += vfi_progress(bound->endpoints[nth]);
	if (domain->threads)
		pthread_rwlock_unlock(&bound->lock);
	/* One thread gives the CPU away for all. */
	if (vfi_try_lock(domain, &domain->backoff_lock)) {
		vshmem_backoff(&domain->backoff, events);
		vfi_unlock(domain, &domain->backoff_lock);
	}
	return events;
}
