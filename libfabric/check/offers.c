#include "offers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../../transport/check/pool.h"

enum { TEXT = 30000 };

static struct {
	struct vfi_offers table;
	uint64_t nonce;
	int listener;
} theirs[PEERS];
static char text[TEXT] = "of";

/* The name is written anew here: it is what processes of other builds rely on. */
void peer_offers(uint32_t peer, uint64_t nonce)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1,
		"vshmem-fi-1-%016" PRIx64 "-%" PRIxPTR, nonce, (uintptr_t)&theirs[peer].table);
	if (theirs[peer].listener)
		close(theirs[peer].listener);
	theirs[peer].nonce = nonce;
	theirs[peer].table.entries[0].secret = any(4) ? 1 + any(3) : 0;
	theirs[peer].listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
	must(bind(theirs[peer].listener, (struct sockaddr *)&name, bytes) == 0);
	/* Of some nobody can ask. */
	must(any(4) == 0 || listen(theirs[peer].listener, 10) == 0);
}

/* Parts of a message of so many bytes, or of nearly so many. */
static void fill_parts(struct vfi_offer *offer, uint64_t size)
{
	uint64_t left = any(10) ? size : any(TEXT);
	for (uint64_t nth = 0; nth < offer->count && nth < VSHMEM_PARTS; nth++) {
		uint64_t bytes = nth + 1 == offer->count ? left : any(left + 1);
		void *at = any(20) ? text : (void *)(uintptr_t)any(UINT64_MAX);
		offer->parts[nth] = (struct iovec) { at, bytes };
		left -= bytes;
	}
}

struct vfi_offer_place any_offer(uint32_t peer, const struct vshmem_wire *header, uint64_t receiver)
{
	uint64_t index = any(VFI_OFFERS);
	struct vfi_offer *offer = &theirs[peer].table.entries[index];
	uint64_t secret = theirs[peer].table.entries[0].secret;
	*offer = (struct vfi_offer) { .secret = any(20) ? secret : any(4),
		.token = any(10) ? header->token : any(1000),
		.sender = any(20) ? theirs[peer].nonce : any(2000),
		.receiver = any(20) ? receiver : any(2000),
		.count = any(2)   ? 1
			: any(10) ? 1 + any(VSHMEM_PARTS)
				  : any(UINT64_MAX) };
	fill_parts(offer, header->message.size);
	return (struct vfi_offer_place) {
		.offers = any(20) ? (uintptr_t)&theirs[peer].table
			: any(2)  ? (uintptr_t)&theirs[any(PEERS)].table
				  : any(UINT64_MAX),
		.index = any(20) ? index : any(UINT64_MAX),
	};
}

bool was_offered(const char *bytes, uint64_t count)
{ return count >= 2 && bytes[0] == 'o' && bytes[1] == 'f'; }

void end_offers(void)
{
	for (uint32_t peer = 0; peer < PEERS; peer++)
		close(theirs[peer].listener);
}
