/* Progress: messages that have come, what waits for room, and peers that are gone. */
#include "one_sided.h"

#include "../transport/tuning.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

/* Messages taken in one go: others make progress, too. */
#define AT_ONCE 32

/* Looks after which all lanes were looked at, 16 at a time; and messages that are taken before
 * something is closed, from peers that go on sending. */
#define ALL_LANES 512
#define ALL       (1 << 16)

/* Messages that their sender waits for an answer to. */
static bool is_answered(const struct vshmem_incoming *message)
{
	uint8_t operation = message->operation;
	if (operation == VFI_EAGER || operation == VFI_EAGER_TAGGED)
		return message->header.flags & VSHMEM_WIRE_ACK;
	return operation == VFI_READY_TO_SEND
		|| (operation >= VSHMEM_PUT && operation <= VSHMEM_ATOMIC);
}

/* False: it stays where it is, for it cannot be answered yet. */
static bool handle(struct vfi_endpoint *ep, const struct vshmem_message *received)
{
	struct vshmem_incoming message = { .operation = received->tag };
	message.source = vfi_source_of(ep, received->lane);
	if (!message.source || received->bytes < sizeof(message.header))
		return true;
	memcpy(&message.header, received->text, sizeof(message.header));
	message.payload = (const uint8_t *)received->text + sizeof(message.header);
	message.header.bytes = received->bytes - (uint32_t)sizeof(message.header);
	if (is_answered(&message) && !message.source->peer && vfi_peer_awaited(ep, message.source))
		return false;
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
		if (message.operation >= VSHMEM_PUT && message.operation <= VSHMEM_ONE_SIDED_LAST)
			vfi_rma_arrived(ep, &message);
	}
	return true;
}

/* A port is gone, or what its owner writes makes no sense. */
static void lose(struct vfi_endpoint *ep, uint64_t nonce, int error, int prov_errno)
{
	struct vfi_peer *peer = vfi_peer_known(ep, nonce);
	if (peer)
		vshmem_peer_fail(&ep->to, &peer->base, error, prov_errno);
	if (nonce)
		vfi_directed_fail(ep, nonce, error, prov_errno);
}

/* A sender's lane is closed, or not read any more: only its client's number is told. */
static void sender_gone(struct vfi_endpoint *ep, uint32_t client, int rc)
{
	for (uint32_t lane = 0; lane < ep->source_room; lane++) {
		struct vshmem_source *source = &ep->sources[lane];
		struct vshmem_sender now;
		if (!source->known || source->client != client)
			continue;
		bool still = vshmem_sender(ep->port, lane, &now) == 0
		        && now.port.nonce == source->port.nonce;
		if (rc == -EPIPE && still)
			continue;
		source->known = rc != -EPIPE;
		const struct vfi_peer *peer = vfi_peer_known(ep, source->port.nonce);
		int gone = peer && peer->base.lane && vshmem_lane_closed(peer->base.lane)
			? FI_ESHUTDOWN
			: FI_ECONNRESET;
		lose(ep, source->port.nonce, rc == -EPIPE ? gone : FI_EIO, -rc);
	}
}

/* One message, or a sender's end. -EAGAIN: a message that has to wait. */
static inline __attribute__((always_inline)) int take(
	struct vfi_endpoint *ep, struct vshmem_message *message, int rc)
{
	if (__builtin_expect(rc == 1, 1)) {
		if (!handle(ep, message))
			return -EAGAIN;
		vshmem_receive_done(ep->port, message);
	} else if (rc == -EPIPE || rc == -EBADMSG) {
		sender_gone(ep, message->lane, rc);
		return 1;
	}
	return rc;
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
		if (take(ep, &message, rc) != 1)
			break;
		if (!ep->many) {
			ep->many = true;
			return 1;
		}
	}
	return taken;
}

static void take_all(struct vfi_endpoint *ep)
{
	struct vshmem_message message;
	int taken = 0;
	while (taken < ALL
	        && take(ep, &message, vshmem_receive_soon(ep->port, &message, ALL_LANES)) == 1)
		taken++;
}

/* This process's domain leaves the pool: what it waits for never comes, and MPI is told. */
static bool leaves(struct vfi_endpoint *ep)
{
	static bool was_said;
	if (vshmem_leaving(ep->domain->pool) == 0)
		return false;
	if (!was_said)
		vfi_say("this domain leaves the pool. Messages over libfabric do not go over to the network: they fail");
	was_said = true;
	/* Those that may come from anybody. */
	vfi_directed_fail(ep, 0, FI_ENETDOWN, EIDRM);
	return true;
}

/* Peers that have closed their endpoint, or whose process or domain has ended. What one had sent
 * before that may end what is under way with it, so it is taken first. */
static void fail_ended(struct vfi_endpoint *ep)
{
	bool some = false, none_is_reached = leaves(ep);
	for (struct vfi_peer *peer = ep->peers; peer; peer = peer->next) {
		if (peer->base.error || !peer->base.lane)
			continue;
		peer->ended = none_is_reached                 ? FI_ENETDOWN
			: vshmem_lane_closed(peer->base.lane) ? FI_ESHUTDOWN
			: vshmem_lane_alive(peer->base.lane)  ? 0
							      : FI_ECONNRESET;
		some |= peer->ended != 0;
	}
	if (some)
		take_all(ep);
	for (struct vfi_peer *peer = ep->peers; some && peer; peer = peer->next)
		if (!peer->base.error && peer->ended)
			vshmem_peer_fail(&ep->to, &peer->base, peer->ended, EPIPE);
}

/* Some ten times a second. */
static void look_after_peers(struct vfi_endpoint *ep)
{
	fail_ended(ep);
	if (vshmem_port_grow(ep->port) < 0)
		vfi_say("the pool has no memory for more lanes of a port: some peers cannot send to this process. Make the pool larger");
	for (struct vfi_peer *peer = ep->peers; peer; peer = peer->next) {
		if (peer->base.error && !peer->receives_failed) {
			peer->receives_failed = true;
			vfi_directed_fail(
				ep, peer->address.nonce, peer->base.error, peer->base.prov_errno);
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
	/* Another thread that is here makes the progress, if it has a CPU: with more threads than
	 * CPUs those that look in vain would keep it from one. */
	if (!vfi_try_lock(ep->domain, &ep->lock)) {
		sched_yield();
		return 0;
	}
	int events = 0;
	if (ep->enabled) {
		events = receive(ep);
		if (ep->to.busy)
			events += vshmem_peers_push(&ep->to);
		vfi_rma_progress(ep);
		if (vshmem_domains_due(&ep->due))
			look_after_peers(ep);
	}
	vfi_unlock(ep->domain, &ep->lock);
	return events;
}

/* One thread gives the CPU away for all. */
static void give_way(struct vfi_domain *domain, int events)
{
	if (vfi_try_lock(domain, &domain->backoff_lock)) {
		vshmem_backoff(&domain->backoff, events);
		vfi_unlock(domain, &domain->backoff_lock);
	}
}

void vfi_settle(struct vfi_endpoint *ep, uint64_t linger)
{
	uint64_t since = vshmem_ticks();
	bool waits = false;
	/* What a parent has is not its child's to read. */
	if (!ep->enabled || ep->domain->opened_by != getpid())
		return;
	do {
		vfi_lock(ep->domain, &ep->lock);
		take_all(ep);
		fail_ended(ep);
		int events = vshmem_peers_push(&ep->to);
		waits = false;
		for (struct vfi_peer *peer = ep->peers; peer; peer = peer->next)
			waits |= peer->base.waiting.first != NULL;
		vfi_unlock(ep->domain, &ep->lock);
		if (events)
			since = vshmem_ticks();
		if (waits && linger)
			give_way(ep->domain, events);
	} while (waits && vshmem_ticks() - since < linger);
}

void vfi_settle_all(struct vfi_domain *domain)
{
	if (domain->threads)
		pthread_rwlock_rdlock(&domain->enabled.lock);
	for (uint32_t nth = 0; nth < domain->enabled.count; nth++)
		vfi_settle(domain->enabled.endpoints[nth], 0);
	if (domain->threads)
		pthread_rwlock_unlock(&domain->enabled.lock);
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
	give_way(domain, events);
	return events;
}
