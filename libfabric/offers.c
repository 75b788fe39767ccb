/* The sender's side of cross-memory attach (cross_memory.c): a table of the messages that may be
 * copied, and a socket by which the kernel tells whose it is.
 *
 * A table is wiped after its listener is closed, and before its memory is used for anything else.
 */
#define _GNU_SOURCE
#include "vshmem_fi.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

/* Processes that have connected and wait to be forgotten; net.core.somaxconn allows so many. */
#define CALLERS 4096
/* Of them in one go: any process of this network namespace may connect. */
#define AT_ONCE 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct vfi_endpoint *listening;

socklen_t vfi_offers_name(uint64_t nonce, uint64_t offers, struct sockaddr_un *name)
{
	*name = (struct sockaddr_un) { .sun_family = AF_UNIX };
	/* After a byte 0: no file. The 1 is the layout of the table. */
	int length = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1,
		"vshmem-fi-1-%016" PRIx64 "-%" PRIx64, nonce, offers);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static socklen_t own_name(const struct vfi_endpoint *ep, struct sockaddr_un *name)
{ return vfi_offers_name(ep->address.nonce, (uintptr_t)&ep->offers, name); }

static int listen_at(const struct sockaddr_un *name, socklen_t bytes)
{
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener < 0)
		return -1;
	if (bind(listener, (const struct sockaddr *)name, bytes) == 0
	        && listen(listener, CALLERS) == 0)
		return listener;
	close(listener);
	return -1;
}

void vfi_offers_open(struct vfi_endpoint *ep)
{
	struct vfi_offers *offers = &ep->offers;
	struct sockaddr_un name;
	uint64_t secret;
	if (!vfi_parameters.cross_memory
	        || getrandom(&secret, sizeof(secret), GRND_NONBLOCK) != (ssize_t)sizeof(secret))
		return;
	for (int nth = 0; nth < VFI_OFFERS; nth++)
		offers->entries[nth].secret = secret | 1; /* 0 is none */
	offers->opener = getpid();
	socklen_t bytes = own_name(ep, &name);
	offers->listener = listen_at(&name, bytes);
	if (offers->listener < 0)
		return;
	pthread_mutex_lock(&lock);
	offers->next = listening;
	listening = ep;
	pthread_mutex_unlock(&lock);
}

/* Not a file of the program, which may have closed all that it does not know. */
static bool is_listener(const struct vfi_endpoint *ep)
{
	struct sockaddr_un own, found;
	socklen_t bytes = own_name(ep, &own), room = sizeof(found);
	return ep->offers.listener >= 0
	        && getsockname(ep->offers.listener, (struct sockaddr *)&found, &room) == 0
	        && room == bytes && memcmp(&own, &found, bytes) == 0;
}

void vfi_offers_tidy(struct vfi_endpoint *ep)
{
	if (!is_listener(ep))
		return;
	for (int times = 0; times < AT_ONCE; times++) {
		int caller = accept4(ep->offers.listener, NULL, NULL, SOCK_CLOEXEC);
		if (caller < 0)
			return;
		close(caller);
	}
}

void vfi_offers_close(struct vfi_endpoint *ep)
{
	pthread_mutex_lock(&lock);
	struct vfi_endpoint **link = &listening;
	while (*link && *link != ep)
		link = &(*link)->offers.next;
	if (*link)
		*link = ep->offers.next;
	pthread_mutex_unlock(&lock);
	if (is_listener(ep)) {
		/* Also where a child has it that was forked without handlers (_Fork). */
		if (ep->offers.opener == getpid())
			shutdown(ep->offers.listener, SHUT_RDWR);
		close(ep->offers.listener);
	}
	explicit_bzero(&ep->offers, sizeof(ep->offers));
	ep->offers.listener = -1;
}

/* A child has its parent's listeners, and would keep them open. */
void vfi_offers_forked(void)
{
	pthread_mutex_init(&lock, NULL);
	for (struct vfi_endpoint *ep = listening; ep; ep = ep->offers.next) {
		if (is_listener(ep))
			close(ep->offers.listener);
		ep->offers.listener = -1;
	}
	listening = NULL;
}

bool vfi_offer_make(struct vfi_endpoint *ep, const struct vfi_peer *peer, struct vfi_send *send)
{
	const struct vshmem_domain *here = &ep->address.member, *there = &peer->address.member;
	struct vfi_offers *offers = &ep->offers;
	if (offers->listener < 0 || offers->used == UINT64_MAX
	        || send->size < vfi_parameters.cross_memory || here->index != there->index
	        || here->epoch != there->epoch)
		return false;
	int index = __builtin_ctzll(~offers->used);
	struct vfi_offer *offer = &offers->entries[index];
	offers->used |= UINT64_C(1) << index;
	offer->sender = ep->address.nonce;
	offer->receiver = peer->address.nonce;
	offer->count = send->count;
	for (size_t nth = 0; nth < send->count; nth++)
		offer->parts[nth] = send->parts[nth];
	/* Who reads the token reads all of the entry. */
	__atomic_store_n(&offer->token, send->operation.token, __ATOMIC_RELEASE);
	send->offer = offer;
	send->offered_at = (struct vfi_offer_place) {
		.offers = (uintptr_t)offers, .index = (uint64_t)index
	};
	return true;
}

void vfi_offer_withdraw(struct vfi_endpoint *ep, struct vfi_send *send)
{
	if (!send->offer)
		return;
	__atomic_store_n(&send->offer->token, 0, __ATOMIC_RELAXED);
	/* Before what the program then writes. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	ep->offers.used &= ~(UINT64_C(1) << (send->offer - ep->offers.entries));
	send->offer = NULL;
}
