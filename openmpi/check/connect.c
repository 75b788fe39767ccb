/* Connections over this machine's network, real ones: a peer that connects, gives up and connects
 * again, whose texts arrive whole and in order; and strangers, who know its port and all but the
 * secret, and are never let in. What comes by a connection that was let in may be nonsense: it is
 * refused.
 *   connect [SEED [SECONDS]]
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../transport/check/random_steps.h"
#include "stream.h"

uint64_t first_seed, step, seed;

enum { PEER = 7, HERE = 3, STRANGERS = 80, WORD = 1, LAST = 2 };

static struct vshmem_place here, peer; /* the peer listens nowhere */
static struct vshmem_stream stream;
static struct vshmem_source source = { .fd = -1 };
static int strangers[STRANGERS];
static uint64_t let_in, texts, refused;
static uint64_t written, taken; /* texts by the present connection */

static bool place_of(const struct vshmem_greeting *said, struct vshmem_place *place)
{
	*place = peer;
	return said->from == PEER && said->attempt > source.attempt;
}

static void write_some(int fd, const void *bytes, size_t count)
{
	ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)sent;
}

/* All but the secret may be right; or it is, and another process is meant. */
static void be_a_stranger(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_port = htons(here.port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int *fd = &strangers[any(STRANGERS)];
	if (*fd) {
		close(*fd);
		*fd = 0;
		return;
	}
	*fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(*fd > 0);
	if (connect(*fd, (struct sockaddr *)&at, sizeof(at)) != 0)
		return;
	struct vshmem_greeting greeting = { VSHMEM_GREETING, PEER, HERE, UINT32_MAX, { 0 } };
	memcpy(greeting.secret, here.secret, sizeof(here.secret));
	switch (any(4)) {
	case 0: greeting.secret[any(16)] ^= (uint8_t)(1 << any(8)); break;
	case 1: greeting.to++; break;
	case 2: greeting.from++; break;
	default: greeting.kind[any(8)]++; break;
	}
	write_some(*fd, &greeting, any(4) ? sizeof(greeting) : any(sizeof(greeting)));
	for (uint64_t more = any(3); more; more--)
		write_some(*fd, &seed, any(8));
}

static void accept_one(void)
{
	struct vshmem_greeting said;
	int fd = vshmem_accept(&here, HERE, &said, place_of);
	if (fd < 0)
		return;
	must(said.from == PEER && memcmp(said.secret, here.secret, sizeof(here.secret)) == 0);
	must(said.attempt <= stream.attempts);
	vshmem_source_close(&source);
	must(vshmem_source_open(&source, fd, said.attempt));
	taken = 0;
	let_in++;
}

/* A text is its number, again and again, and the attempt of its connection. */
static void put(void)
{
	static uint64_t text[VSHMEM_LONGEST / 8];
	size_t words = 1 + any(any(4) ? 16 : VSHMEM_LONGEST / 8);
	for (size_t at = 0; at < words; at++)
		text[at] = (uint64_t)stream.attempts << 32 | written;
	struct iovec parts[2] = { { text, 8 }, { text + 1, (words - 1) * 8 } };
	int rc = vshmem_stream_put(&stream, WORD, (uint8_t)written, parts, 2);
	must(rc == 0 || rc == -EAGAIN);
	written += rc == 0;
}

static void go_on(void)
{
	if (stream.state != VSHMEM_OPEN) {
		int rc = vshmem_stream_connect(&stream, PEER, HERE, &peer, &here);
		must(rc == 0 || rc == -EAGAIN || rc == -ECONNREFUSED || rc == -ECONNRESET);
		written = 0;
		/* It is tried again at once. */
		stream.failed = false;
	} else if (any(500) == 0) {
		vshmem_stream_end(&stream, LAST);
	} else {
		put();
	}
	must(vshmem_stream_flush(&stream) == 0);
	if (stream.state != VSHMEM_OPEN && any(40) == 0)
		vshmem_stream_close(&stream);
}

static void take(void)
{
	struct vshmem_frame frame;
	int rc = source.fd > 0 ? vshmem_source_next(&source, &frame) : 0;
	/* One whose peer had given up: nothing has come by it. */
	must(rc == 1 || rc == 0
		|| ((rc == -EPIPE || rc == -ECONNRESET) && (source.ended || !source.heard)));
	if (rc < 0)
		vshmem_source_close(&source);
	if (rc != 1)
		return;
	must(!source.ended && (frame.word == WORD || frame.word == LAST));
	source.heard = true;
	source.ended = frame.word == LAST;
	for (size_t at = 0; at < frame.bytes; at += 8) {
		uint64_t is, wanted = (uint64_t)source.attempt << 32 | taken;
		memcpy(&is, frame.text + at, 8);
		must(is == wanted && frame.tag == (uint8_t)taken);
	}
	taken += frame.word == WORD;
	texts += frame.word == WORD;
	vshmem_source_done(&source, &frame);
}

/* Nonsense by a connection that was let in: frames that are there, nothing, or the end of it. */
static void be_hostile(void)
{
	int ends[2];
	uint64_t bytes[64];
	struct vshmem_source hostile;
	struct vshmem_frame frame;
	must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	for (size_t at = 0; at < 64; at++)
		bytes[at] = any(2) ? any(UINT64_MAX) : any(64);
	write_some(ends[0], bytes, any(sizeof(bytes)));
	close(ends[0]);
	must(vshmem_source_open(&hostile, ends[1], 1));
	int rc;
	for (int nth = 0; (rc = vshmem_source_next(&hostile, &frame)) >= 0; nth++) {
		must(nth < 128 && (rc == 0 || frame.bytes <= VSHMEM_LONGEST));
		if (rc == 1)
			vshmem_source_done(&hostile, &frame);
	}
	must(rc == -EBADMSG || rc == -EPIPE);
	refused += rc == -EBADMSG;
	vshmem_source_close(&hostile);
}

int main(int argc, char **argv)
{
	first_seed = seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	seed = seed * 0x9e3779b97f4a7c15u | 1;
	time_t until = argc > 2 ? time(NULL) + strtol(argv[2], NULL, 0) : 0;
	must(vshmem_accept_open(&here));
	/* The loopback is everywhere. */
	here.count = 1;
	memset(here.addresses, 0, sizeof(here.addresses));
	memcpy(here.addresses[0] + 10, (uint8_t[]) { 255, 255, 127, 0, 0, 1 }, 6);
	memset(peer.secret, 0x5a, sizeof(peer.secret));
	bool enough = false;
	for (; !enough || (until && time(NULL) < until); step++) {
		must(step < 20000000);
		enough = let_in > 100 && texts > 10000 && refused > 100;
		switch (any(16)) {
		case 0: be_a_stranger(); break;
		case 1: be_hostile(); break;
		case 2:
		case 3: accept_one(); break;
		default: any(2) ? go_on() : take();
		}
	}
	vshmem_stream_close(&stream);
	vshmem_source_close(&source);
	vshmem_accept_close();
	printf("%llu steps, %llu connections let in, %llu texts: 1 passed, 0 failed\n",
		(unsigned long long)step, (unsigned long long)let_in, (unsigned long long)texts);
	return 0;
}
