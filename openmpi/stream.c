/* See stream.h. */
#include "stream.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Of each buffer: some of the longest fragments. */
#define BUFFER (256 << 10)
/* Seconds for an address; for an answer, which a process that computes gives when it communicates
 * next; and between attempts. */
enum { PATIENCE = 3, COMPUTING = 10, PAUSE = 1 };

struct head {
	uint32_t bytes;
	uint8_t word, tag;
	uint16_t zero;
};
_Static_assert(sizeof(struct head) == 8, "texts are aligned as in a lane");

static size_t padded(size_t bytes) { return (bytes + 7) & ~(size_t)7; }

time_t vshmem_seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* A guest that is moved may be silent for a while; one that is gone is noticed after ten minutes.
 */
static void keep_alive(int fd)
{
	static const int on = 1, idle = 120, interval = 60, count = 8;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

static bool begin(struct vshmem_stream *stream, const uint8_t address[16], uint16_t port)
{
	static const uint8_t mapped[12] = { [10] = 255, [11] = 255 };
	struct sockaddr_in old = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 new = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	bool is_old = memcmp(address, mapped, sizeof(mapped)) == 0;
	memcpy(&old.sin_addr, address + 12, 4);
	memcpy(&new.sin6_addr, address, 16);
	stream->fd = socket(
		is_old ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (stream->fd < 0)
		return false;
	keep_alive(stream->fd);
	stream->state = VSHMEM_CONNECTING;
	stream->since = vshmem_seconds();
	stream->attempts++;
	return connect(stream->fd, is_old ? (struct sockaddr *)&old : (struct sockaddr *)&new,
		       is_old ? sizeof(old) : sizeof(new))
		== 0
		|| errno == EINPROGRESS;
}

/* Not one that is ours, too, as containers' bridges are on every machine: somebody else might
 * listen there. But where none is left (within a machine) all are. */
static bool usable(const struct vshmem_place *own, const struct vshmem_place *there, unsigned nth)
{
	unsigned foreign = 0;
	bool is_foreign = true;
	for (unsigned other = 0; other < there->count; other++) {
		bool is_own = false;
		for (unsigned mine = 0; mine < own->count; mine++)
			is_own |= memcmp(there->addresses[other], own->addresses[mine], 16) == 0;
		foreign += !is_own;
		is_foreign = other == nth ? !is_own : is_foreign;
	}
	return is_foreign || foreign == 0;
}

static int greet(
	struct vshmem_stream *stream, uint32_t from, uint32_t to, const struct vshmem_place *there)
{
	struct pollfd look = { .fd = stream->fd, .events = POLLOUT };
	int error = 0;
	socklen_t size = sizeof(error);
	if (poll(&look, 1, 0) <= 0)
		return -EAGAIN;
	if (getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
		return error ? -error : -EIO;
	struct vshmem_greeting greeting = { VSHMEM_GREETING, from, to, stream->attempts, { 0 } };
	memcpy(greeting.secret, there->secret, sizeof(greeting.secret));
	/* A new connection has room for it. */
	if (send(stream->fd, &greeting, sizeof(greeting), MSG_NOSIGNAL) != sizeof(greeting))
		return -EIO;
	stream->state = VSHMEM_AWAITING;
	stream->greeted = 0;
	return -EAGAIN;
}

static int be_answered(struct vshmem_stream *stream, const struct vshmem_place *own)
{
	ssize_t got = recv(stream->fd, stream->answer + stream->greeted,
		sizeof(stream->answer) - stream->greeted, MSG_DONTWAIT);
	if (got <= 0)
		return got == 0 ? -ECONNREFUSED : errno == EINTR ? -EAGAIN : -errno;
	stream->greeted += (size_t)got;
	if (stream->greeted < sizeof(stream->answer))
		return -EAGAIN;
	if (memcmp(stream->answer, own->secret, sizeof(stream->answer)) != 0)
		return -EACCES;
	stream->buffer = malloc(BUFFER);
	stream->from = stream->end = 0;
	if (!stream->buffer)
		return -ENOMEM;
	stream->state = VSHMEM_OPEN;
	stream->failed = false;
	return 0;
}

/* The next address to be tried; COUNT: there is none. */
static unsigned next_of(
	unsigned nth, const struct vshmem_place *own, const struct vshmem_place *there)
{
	while (nth < there->count && !usable(own, there, nth))
		nth++;
	return nth;
}

/* This address does not answer. What that is, if it was the last. */
static int give_up(struct vshmem_stream *stream, const struct vshmem_place *own,
	const struct vshmem_place *there, int rc)
{
	unsigned next = next_of(stream->nth + 1, own, there);
	vshmem_stream_close(stream);
	stream->since = vshmem_seconds();
	stream->failed = true;
	stream->nth = next < there->count ? next : 0;
	return next < there->count ? -EAGAIN : rc;
}

int vshmem_stream_connect(struct vshmem_stream *stream, uint32_t from, uint32_t to,
	const struct vshmem_place *own, const struct vshmem_place *there)
{
	if (stream->state == VSHMEM_OPEN)
		return stream->ending ? -EAGAIN : 0;
	if (stream->state == VSHMEM_CLOSED) {
		if (stream->failed && stream->nth == 0 && vshmem_seconds() - stream->since < PAUSE)
			return -EAGAIN;
		stream->nth = next_of(stream->nth, own, there);
		if (stream->nth >= there->count)
			return give_up(stream, own, there, -EHOSTUNREACH);
		if (!begin(stream, there->addresses[stream->nth], there->port))
			return give_up(stream, own, there, -errno);
	}
	bool is_connecting = stream->state == VSHMEM_CONNECTING;
	int rc = is_connecting ? greet(stream, from, to, there) : be_answered(stream, own);
	time_t patience = is_connecting ? PATIENCE : COMPUTING;
	if (rc == -EAGAIN && vshmem_seconds() - stream->since > patience)
		rc = -ETIMEDOUT;
	return rc == 0 || rc == -EAGAIN ? rc : give_up(stream, own, there, rc);
}

int vshmem_stream_put(struct vshmem_stream *stream, uint8_t word, uint8_t tag,
	const struct iovec *parts, int count)
{
	size_t bytes = 0;
	for (int nth = 0; nth < count; nth++)
		bytes += parts[nth].iov_len;
	if (bytes > VSHMEM_LONGEST)
		return -EMSGSIZE;
	if (stream->state != VSHMEM_OPEN)
		return -EAGAIN;
	size_t whole = sizeof(struct head) + padded(bytes);
	if (stream->end + whole > BUFFER && stream->from > 0) {
		memmove(stream->buffer, stream->buffer + stream->from, stream->end - stream->from);
		stream->end -= stream->from;
		stream->from = 0;
	}
	if (stream->end + whole > BUFFER)
		return -EAGAIN;
	struct head head = { (uint32_t)bytes, word, tag, 0 };
	uint8_t *at = stream->buffer + stream->end;
	memcpy(at, &head, sizeof(head));
	at += sizeof(head);
	for (int nth = 0; nth < count; nth++) {
		if (parts[nth].iov_len)
			memcpy(at, parts[nth].iov_base, parts[nth].iov_len);
		at += parts[nth].iov_len;
	}
	memset(at, 0, padded(bytes) - bytes);
	stream->end += whole;
	return 0;
}

int vshmem_stream_flush(struct vshmem_stream *stream)
{
	while (stream->state == VSHMEM_OPEN && stream->from < stream->end) {
		ssize_t sent = send(stream->fd, stream->buffer + stream->from,
			stream->end - stream->from, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		stream->from += (size_t)sent;
	}
	if (stream->from == stream->end)
		stream->from = stream->end = 0;
	if (stream->ending && stream->end == 0)
		vshmem_stream_close(stream);
	return 0;
}

void vshmem_stream_end(struct vshmem_stream *stream, uint8_t word)
{
	if (stream->state != VSHMEM_OPEN)
		vshmem_stream_close(stream);
	else if (!stream->ending)
		stream->ending = vshmem_stream_put(stream, word, 0, NULL, 0) == 0;
}

void vshmem_stream_close(struct vshmem_stream *stream)
{
	if (stream->state != VSHMEM_CLOSED)
		close(stream->fd);
	free(stream->buffer);
	*stream = (struct vshmem_stream) { .fd = -1, .attempts = stream->attempts };
}

bool vshmem_source_open(struct vshmem_source *source, int fd, uint32_t attempt)
{
	*source = (struct vshmem_source) { .fd = fd, .attempt = attempt, .buffer = malloc(BUFFER) };
	if (!source->buffer)
		return false;
	keep_alive(fd);
	return true;
}

/* Reads more, if there is any. */
static int fill(struct vshmem_source *source)
{
	if (source->from > 0) {
		memmove(source->buffer, source->buffer + source->from, source->end - source->from);
		source->end -= source->from;
		source->from = 0;
	}
	ssize_t got = recv(
		source->fd, source->buffer + source->end, BUFFER - source->end, MSG_DONTWAIT);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (got == 0)
		return -EPIPE;
	source->end += (size_t)got;
	return 1;
}

int vshmem_source_next(struct vshmem_source *source, struct vshmem_frame *frame)
{
	struct head head;
	for (int turn = 0; turn < 2; turn++) {
		size_t here = source->end - source->from;
		if (here >= sizeof(head)) {
			memcpy(&head, source->buffer + source->from, sizeof(head));
			if (head.bytes > VSHMEM_LONGEST || head.zero)
				return -EBADMSG;
			*frame = (struct vshmem_frame) { head.bytes, head.word, head.tag,
				source->buffer + source->from + sizeof(head) };
			if (here >= sizeof(head) + padded(head.bytes))
				return 1;
		}
		int rc = turn == 0 ? fill(source) : 0;
		if (rc <= 0)
			return rc;
	}
	return 0;
}

void vshmem_source_done(struct vshmem_source *source, const struct vshmem_frame *frame)
{
	source->from += sizeof(struct head) + padded(frame->bytes);
}

void vshmem_source_close(struct vshmem_source *source)
{
	if (source->fd > 0)
		close(source->fd);
	free(source->buffer);
	*source = (struct vshmem_source) { .fd = -1, .attempt = source->attempt };
}
