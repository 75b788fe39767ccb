/* Cross-memory attach (CMA): a long message between two processes of one kernel is copied once, by
 * its receiver, from where it lies in the sender.
 *
 * Members can write anything in the pool, so nothing there says whose memory is read, or where. An
 * endpoint has a table of the messages that may be copied, in memory of its own, and a socket
 * (offers.c). The socket's name is the port's nonce and the table's address; who connects to it is
 * told by the kernel whose it is (SO_PEERCRED, unix(7)). A process of another user is not read.
 * What stands at that address then is a secret, which all entries have as long as there is a table.
 * The announcement of a message names an entry. The receiver reads that, with its secret: it tells
 * where the payload lies, for whom, and which message that is. So what is copied is what the sender
 * has for this endpoint. After the payload secret and token are read once more: the sender has not
 * given the message up, closed the endpoint, or begun to run another program meanwhile.
 *
 * Where one of this does not work (another network or PID namespace, another kernel, Yama, a filter
 * of system calls), the message goes in pieces through the pool.
 */
#define _GNU_SOURCE
#include "vshmem_fi.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Linux 6.5, socket(7); headers are older. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* To find a process: a queue of callers may be full, or an announcement forged. */
#define TRIES 4
/* Bytes of one call; process_vm_readv reads less than 2 GiB at once. */
#define AT_ONCE ((size_t)64 << 20)
/* Of a message that is read before its entry is known: longer ones gain less than they may lose. */
#define LIKELY ((size_t)256 << 10)

/* A connection to who listens there, which is a process of this user; -1. */
static int connect_to(uint64_t nonce, uint64_t offers, pid_t *id)
{
	struct sockaddr_un name;
	socklen_t bytes = vfi_offers_name(nonce, offers, &name);
	struct ucred owner = { 0 };
	socklen_t room = sizeof(owner);
	int caller = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (caller < 0)
		return -1;
	if (connect(caller, (struct sockaddr *)&name, bytes) == 0
	        && getsockopt(caller, SOL_SOCKET, SO_PEERCRED, &owner, &room) == 0 && owner.pid > 0
	        && owner.uid == geteuid()) {
		*id = owner.pid;
		return caller;
	}
	close(caller);
	return -1;
}

/* A descriptor of the process at the other end of a connection; -1. */
static int descriptor_of(int connected, pid_t id)
{
	int descriptor = -1;
	socklen_t bytes = sizeof(descriptor);
	if (getsockopt(connected, SOL_SOCKET, SO_PEERPIDFD, &descriptor, &bytes) == 0)
		return descriptor;
	/* On an older kernel the process may have ended, with its socket handed on, and its number
	 * may be another process's by now: one that this user may read anyway. To root that is no
	 * limit. */
	if (errno != ENOPROTOOPT || geteuid() == 0)
		return -1;
	char directory[32];
	struct stat found;
	snprintf(directory, sizeof(directory), "/proc/%d", (int)id);
	descriptor = (int)syscall(SYS_pidfd_open, id, 0);
	if (descriptor < 0 || (stat(directory, &found) == 0 && found.st_uid == geteuid()))
		return descriptor;
	close(descriptor);
	return -1;
}

/* 0, or an errno. */
static int read_memory(const struct vfi_process *process, const struct iovec *into,
	size_t into_count, const struct iovec *from, size_t from_count)
{
	ssize_t got = process_vm_readv(process->id, into, into_count, from, from_count, 0);
	if (got < 0)
		return errno;
	return (size_t)got == vshmem_bytes_of(into, into_count) ? 0 : EFAULT;
}

static struct iovec there(uint64_t at, size_t bytes)
{ return (struct iovec) { (void *)(uintptr_t)at, bytes }; }

/* What the table has. It is one still when its listener is there after that. */
static bool read_secret(struct vfi_process *process, uint64_t nonce)
{
	struct iovec into = { &process->secret, sizeof(process->secret) };
	struct iovec from = there(process->offers + offsetof(struct vfi_offers, entries[0].secret),
		into.iov_len);
	pid_t id;
	if (read_memory(process, &into, 1, &from, 1) != 0 || process->secret == 0)
		return false;
	int again = connect_to(nonce, process->offers, &id);
	if (again < 0)
		return false;
	close(again);
	return id == process->id;
}

/* As long as it was not waited for its number is no other's. */
static bool lives(int descriptor)
{ return syscall(SYS_pidfd_send_signal, descriptor, 0, NULL, 0) == 0; }

/* Two messages have to come from one place before it is guessed again. */
static void forget_place(struct vfi_process *process)
{
	process->repeated = false;
	process->last = (struct iovec) { NULL, 0 };
}

static void look_for(struct vfi_peer *peer, uint64_t offers)
{
	struct vfi_process *process = &peer->process;
	process->tries++;
	int caller = connect_to(peer->address.nonce, offers, &process->id);
	if (caller < 0)
		return;
	process->offers = offers;
	forget_place(process);
	int descriptor = descriptor_of(caller, process->id);
	close(caller);
	/* That it was this process until after that. Later its secret tells. */
	process->readable = descriptor >= 0 && read_secret(process, peer->address.nonce)
	        && lives(descriptor);
	if (descriptor >= 0)
		close(descriptor);
	if (!process->readable)
		vfi_log(FI_LOG_INFO, FI_LOG_EP_DATA,
			"memory of process %d cannot be read: its long messages go through the pool",
			(int)process->id);
}

/* The entry of a message as it was read from its sender's table: it must be that of this message,
 * and for this endpoint. */
static bool is_meant(const struct vfi_endpoint *ep, const struct vfi_peer *peer,
	const struct vshmem_wire *header, const struct vfi_offer *offer)
{
	return offer->secret == peer->process.secret && header->token != 0
		&& offer->token == header->token && offer->sender == peer->address.nonce
		&& offer->receiver == ep->address.nonce && offer->count != 0
		&& offer->count <= VSHMEM_PARTS
		&& vshmem_bytes_of(offer->parts, offer->count) == header->message.size;
}

/* What an entry begins with, read once more after the payload. */
struct marks {
	uint64_t secret, token;
};
_Static_assert(offsetof(struct vfi_offer, secret) == 0 && offsetof(struct vfi_offer, token) == 8,
	"an entry begins with these");

static bool stands(const struct vfi_offer *offer, const struct marks *now)
{ return now->token == offer->token && now->secret == offer->secret; }

/* Reads some of the payload, and then whether it was the payload still. */
static int read_payload(const struct vfi_process *process, const struct vfi_offer *offer,
	uint64_t at, const struct iovec *parts, size_t count, size_t start, size_t bytes)
{
	struct iovec into[VSHMEM_PARTS + 1], from[VSHMEM_PARTS + 1];
	struct marks now = { 0 };
	int into_count = vshmem_slice(parts, count, start, bytes, into);
	int from_count = vshmem_slice(offer->parts, offer->count, start, bytes, from);
	into[into_count++] = (struct iovec) { &now, sizeof(now) };
	from[from_count++] = there(at, sizeof(now));
	int error = read_memory(process, into, (size_t)into_count, from, (size_t)from_count);
	if (error != 0)
		return error;
	return stands(offer, &now) ? 0 : ESTALE;
}

/* What was read may be nothing that this endpoint was sent. */
static void wipe(const struct iovec *parts, size_t count, size_t bytes)
{
	struct iovec written[VSHMEM_PARTS];
	int slices = vshmem_slice(parts, count, 0, bytes, written);
	for (int nth = 0; nth < slices; nth++)
		memset(written[nth].iov_base, 0, written[nth].iov_len);
}

/* True as well where the pool is not mapped as a whole, and nobody can tell. */
static bool may_lie_in_pool(
	const struct vfi_domain *domain, const struct iovec *parts, size_t count)
{
	uintptr_t pool = (uintptr_t)domain->base;
	for (size_t nth = 0; nth < count; nth++) {
		uintptr_t start = (uintptr_t)parts[nth].iov_base;
		if (!pool || (start < pool + domain->bytes && start + parts[nth].iov_len > pool))
			return true;
	}
	return false;
}

/* Programs send from the same buffer again and again. A message that is likely to lie where the
 * two before it did is read from there in one call with its entry, which must say so. The place is
 * one that the sender has offered to this endpoint, not one that was read in the pool. What lies
 * there may be something else by now: no other member may see it until it is wiped. */
static bool is_likely(const struct vfi_endpoint *ep, const struct vfi_process *process,
	const struct iovec *parts, size_t count, size_t bytes)
{
	return process->repeated && bytes <= LIKELY && bytes <= process->last.iov_len
	        && !may_lie_in_pool(ep->domain, parts, count);
}

/* The entry comes before the payload and once more after it: an announcement may be forged, and
 * then say that a message is there which its sender is only about to write. */
static bool read_likely(const struct vfi_endpoint *ep, const struct vfi_peer *peer,
	const struct vshmem_wire *header, uint64_t at, const struct iovec *parts, size_t count,
	size_t bytes)
{
	const struct vfi_process *process = &peer->process;
	struct iovec into[VSHMEM_PARTS + 2];
	struct vfi_offer offer = { 0 };
	struct marks now = { 0 };
	struct iovec from[] = {
		there(at, sizeof(offer)),
		{ process->last.iov_base, bytes },
		there(at, sizeof(now)),
	};
	into[0] = (struct iovec) { &offer, sizeof(offer) };
	int into_count = 1 + vshmem_slice(parts, count, 0, bytes, into + 1);
	into[into_count++] = (struct iovec) { &now, sizeof(now) };
	return read_memory(process, into, (size_t)into_count, from, 3) == 0
	        && is_meant(ep, peer, header, &offer) && offer.count == 1
	        && offer.parts[0].iov_base == process->last.iov_base && stands(&offer, &now);
}

static void remember(struct vfi_process *process, const struct vfi_offer *offer)
{
	struct iovec only = offer->count == 1 ? offer->parts[0] : (struct iovec) { NULL, 0 };
	process->repeated = only.iov_base && only.iov_base == process->last.iov_base;
	process->last = only;
}

/* 0, or an errno; what the parts hold may have been written. */
static int read_offer(const struct vfi_endpoint *ep, struct vfi_peer *peer,
	const struct vshmem_wire *header, uint64_t at, const struct iovec *into, size_t count,
	size_t bytes)
{
	struct vfi_process *process = &peer->process;
	struct vfi_offer offer;
	struct iovec entry = { &offer, sizeof(offer) }, from = there(at, sizeof(offer));
	int error = read_memory(process, &entry, 1, &from, 1);
	if (error != 0 || !is_meant(ep, peer, header, &offer))
		return error != 0 ? error : ESTALE;
	for (size_t start = 0; start < bytes && error == 0; start += AT_ONCE) {
		size_t most = bytes - start < AT_ONCE ? bytes - start : AT_ONCE;
		error = read_payload(process, &offer, at, into, count, start, most);
		if (error != 0)
			wipe(into, count, start + most);
	}
	if (error == 0)
		remember(process, &offer);
	return error;
}

bool vfi_offer_read(const struct vfi_endpoint *ep, struct vfi_peer *peer,
	const struct vshmem_wire *header, const void *offered_at, const struct iovec *into,
	size_t count, size_t bytes)
{
	struct vfi_offer_place named;
	struct vfi_process *process = &peer->process;
	if (ep->offers.listener < 0 || header->bytes != sizeof(named))
		return false;
	memcpy(&named, offered_at, sizeof(named));
	if (!process->readable && process->tries < TRIES)
		look_for(peer, named.offers);
	if (!process->readable || named.offers != process->offers || named.index >= VFI_OFFERS)
		return false;
	uint64_t at = process->offers + offsetof(struct vfi_offers, entries)
	        + named.index * sizeof(struct vfi_offer);
	bool likely = is_likely(ep, process, into, count, bytes);
	if (likely && read_likely(ep, peer, header, at, into, count, bytes))
		return true;
	int error = read_offer(ep, peer, header, at, into, count, bytes);
	if (likely && error != 0) {
		/* A member that forges announcements has to wait for two true messages. */
		forget_place(process);
		wipe(into, count, bytes);
	}
	/* Of memory that cannot be read so (of a device, say) other messages know nothing. */
	if (error != 0 && error != EFAULT && error != ESTALE)
		process->readable = false;
	return error == 0;
}
