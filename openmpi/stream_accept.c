/* Connections of others: who does not show the secret soon is dropped. */
#include "stream.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

/* Those that have not shown it yet: so many at once, each for so many seconds. */
enum { GUESTS = 64, PATIENCE = 3 };

static int listener = -1;
static struct guest {
	int fd; /* 0: none */
	time_t since;
	size_t got;
	struct vshmem_greeting greeting;
} guests[GUESTS];

static bool is_of_use(const struct ifaddrs *one, bool loopback)
{
	if (!one->ifa_addr || !(one->ifa_flags & IFF_UP)
		|| !(one->ifa_flags & IFF_LOOPBACK) == loopback)
		return false;
	if (one->ifa_addr->sa_family == AF_INET)
		return true;
	return one->ifa_addr->sa_family == AF_INET6
		&& !IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)one->ifa_addr)->sin6_addr);
}

static void enter(struct vshmem_place *own, const struct ifaddrs *one)
{
	uint8_t *address = own->addresses[own->count++];
	memset(address, 0, 16);
	if (one->ifa_addr->sa_family == AF_INET) {
		address[10] = address[11] = 255;
		memcpy(address + 12, &((struct sockaddr_in *)one->ifa_addr)->sin_addr, 4);
	} else {
		memcpy(address, &((struct sockaddr_in6 *)one->ifa_addr)->sin6_addr, 16);
	}
}

/* Of all interfaces, those of IPv4 first; of the loopback where there is no other. */
static void find_addresses(struct vshmem_place *own)
{
	struct ifaddrs *all;
	own->count = 0;
	if (getifaddrs(&all) != 0)
		return;
	for (int turn = 0; turn < 4; turn++) {
		int family = turn % 2 == 0 ? AF_INET : AF_INET6;
		if (turn == 2 && own->count > 0)
			break;
		for (const struct ifaddrs *one = all; one && own->count < 4; one = one->ifa_next)
			if (is_of_use(one, turn >= 2) && one->ifa_addr->sa_family == family)
				enter(own, one);
	}
	freeifaddrs(all);
}

static int listen_at(int family, struct vshmem_place *own)
{
	static const int off = 0;
	struct sockaddr_storage at = { .ss_family = (sa_family_t)family };
	socklen_t size = family == AF_INET6 ? sizeof(struct sockaddr_in6)
					    : sizeof(struct sockaddr_in);
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, (struct sockaddr *)&at, size) != 0 || listen(fd, SOMAXCONN) != 0
		|| getsockname(fd, (struct sockaddr *)&at, &size) != 0) {
		close(fd);
		return -1;
	}
	/* In the same place for both. */
	own->port = ntohs(((struct sockaddr_in *)&at)->sin_port);
	return fd;
}

bool vshmem_accept_open(struct vshmem_place *own)
{
	*own = (struct vshmem_place) { 0 };
	if (getrandom(own->secret, sizeof(own->secret), 0) != sizeof(own->secret))
		return false;
	listener = listen_at(AF_INET6, own);
	if (listener < 0)
		listener = listen_at(AF_INET, own);
	if (listener >= 0)
		find_addresses(own);
	return listener >= 0;
}

static void drop(struct guest *guest)
{
	close(guest->fd);
	*guest = (struct guest) { 0 };
}

void vshmem_accept_close(void)
{
	for (struct guest *guest = guests; guest < guests + GUESTS; guest++)
		if (guest->fd)
			drop(guest);
	if (listener >= 0)
		close(listener);
	listener = -1;
}

static void let_in(void)
{
	for (int nth = 0; nth < GUESTS; nth++) {
		struct guest *room = guests;
		int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			return;
		/* Where there is no room, who has come first goes. */
		for (struct guest *guest = guests; guest < guests + GUESTS && room->fd; guest++)
			if (!guest->fd || guest->since < room->since)
				room = guest;
		if (room->fd)
			drop(room);
		*room = (struct guest) { .fd = fd, .since = vshmem_seconds() };
	}
}

/* 1: it has shown all; 0: not yet; -1: it is to go. */
static int hear(struct guest *guest, const struct vshmem_place *own)
{
	uint8_t *room = (uint8_t *)&guest->greeting;
	ssize_t got = recv(
		guest->fd, room + guest->got, sizeof(guest->greeting) - guest->got, MSG_DONTWAIT);
	if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
		return -1;
	guest->got += got > 0 ? (size_t)got : 0;
	if (guest->got < sizeof(guest->greeting))
		return vshmem_seconds() - guest->since > PATIENCE ? -1 : 0;
	/* In a time that does not tell how much of it is right. */
	uint8_t differs = 0;
	for (size_t at = 0; at < sizeof(own->secret); at++)
		differs |= own->secret[at] ^ guest->greeting.secret[at];
	return !differs && memcmp(guest->greeting.kind, VSHMEM_GREETING, 8) == 0 ? 1 : -1;
}

int vshmem_accept(const struct vshmem_place *own, uint32_t to, struct vshmem_greeting *said,
	bool (*place_of)(const struct vshmem_greeting *said, struct vshmem_place *place))
{
	struct vshmem_place place;
	if (listener >= 0)
		let_in();
	for (struct guest *guest = guests; guest < guests + GUESTS; guest++) {
		int rc = guest->fd ? hear(guest, own) : 0;
		if (rc == 0)
			continue;
		int fd = guest->fd;
		*said = guest->greeting;
		if (rc == 1 && said->to == to && place_of(said, &place)
			&& send(fd, place.secret, sizeof(place.secret), MSG_NOSIGNAL)
				== sizeof(place.secret)) {
			*guest = (struct guest) { 0 };
			return fd;
		}
		drop(guest);
	}
	return -1;
}
