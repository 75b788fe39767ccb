/* A pair's lanes and connections, as pair.c wants them; and what comes by connections. */
#include "btl_vshmem.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Frames of one peer that are taken in one go, and peers. */
enum { FRAMES = 32, PEERS = 32 };
/* Seconds before this process ends the job because of one that is silent for ever. */
enum { GRACE = 5 };

static int sources = -1; /* for epoll */
static bool refused;  /* some connection was, and it was said */

static vshmem_endpoint *endpoint_of(struct vshmem_pair *pair)
{
	return (vshmem_endpoint *)((char *)pair - offsetof(vshmem_endpoint, pair));
}

static int over(struct vshmem_pair *pair, uint64_t sent)
{
	vshmem_endpoint *endpoint = endpoint_of(pair);
	if (endpoint->stream.state != VSHMEM_OPEN)
		return -EAGAIN;
	/* From here on nothing of the peer's is read in the pool, which it is told by this. */
	endpoint->indirect = true;
	if (OPAL_THREAD_ADD_FETCH32(&endpoint->reads, 0) != 0)
		return -EAGAIN;
	return vshmem_post(endpoint->peer.lane, &sent, sizeof(sent), NULL, 0, VSHMEM_OVER);
}

static int say(struct vshmem_pair *pair, enum vshmem_word word, const void *text, size_t bytes)
{
	struct iovec part = { (void *)(uintptr_t)text, bytes };
	return vshmem_stream_put(&endpoint_of(pair)->stream, (uint8_t)word, 0, &part, 1);
}

/* Messages that wait are cut to what the lane before took. */
static int claim(struct vshmem_pair *pair)
{
	vshmem_endpoint *endpoint = endpoint_of(pair);
	int rc = vshmem_lane_claim(vshmem_btl.pool, &pair->they.port, vshmem_btl.port,
		vshmem_btl.me.rank, &endpoint->peer.lane);
	if (rc == 0 && vshmem_lane_most_bytes(endpoint->peer.lane) < endpoint->peer.most) {
		vshmem_lane_close(endpoint->peer.lane);
		rc = -EPROTO;
	}
	if (rc != 0)
		endpoint->peer.lane = NULL;
	return rc;
}

static void close_lane(struct vshmem_pair *pair)
{
	vshmem_endpoint *endpoint = endpoint_of(pair);
	if (endpoint->peer.lane)
		vshmem_lane_close(endpoint->peer.lane);
	endpoint->peer.lane = NULL;
}

static const struct vshmem_pair_calls calls = { over, say, claim, close_lane };

/* Nothing can be sent to it any more. */
static void fail(vshmem_endpoint *endpoint, int rc)
{
	OPAL_THREAD_LOCK(&endpoint->lock);
	bool was_gone = endpoint->gone;
	vshmem_stream_close(&endpoint->stream);
	endpoint->meets = false;
	endpoint->gone = true;
	endpoint->why = rc;
	endpoint->since = vshmem_seconds();
	OPAL_THREAD_UNLOCK(&endpoint->lock);
	if (!was_gone)
		vshmem_one_sided_fail(endpoint);
}

/* A process that ends in good order has said so, or has closed its port; of one that is dead mpirun
 * says so first. True: it is not waited for. */
static bool is_over(vshmem_endpoint *endpoint)
{
	if (endpoint->source.ended || endpoint->why == 0
		|| (endpoint->peer.lane && vshmem_lane_closed(endpoint->peer.lane) == 1))
		return true;
	if (vshmem_seconds() - endpoint->since <= GRACE)
		return false;
	vshmem_abort(
		"the connection to the process of rank %u, by which messages go while it or this one is not in "
		"the pool, is broken: %s",
		endpoint->rank, strerror(-endpoint->why));
	endpoint->why = 0;
	return true;
}

/* Whether it needs a connection now. */
static bool needs(const vshmem_endpoint *endpoint)
{
	const struct vshmem_pair *pair = &endpoint->pair;
	return vshmem_btl.me.leaving || pair->they_leave || pair->out != BY_LANE
		|| pair->owes_arrived || pair->owes_ready;
}

/* Nothing is to be sent or to come by connections: it is all the same how they end. */
static bool is_settled(const vshmem_endpoint *endpoint)
{
	return vshmem_pair_settled(&endpoint->pair) && !needs(endpoint);
}

/* With the endpoint's lock held. */
static int connect_to(vshmem_endpoint *endpoint)
{
	if (endpoint->stream.state == VSHMEM_OPEN && !endpoint->stream.ending)
		return 0;
	/* In the pool it need not look at connections before it is told to. */
	if (endpoint->pair.out == BY_LANE && !endpoint->met) {
		int rc = vshmem_post(endpoint->peer.lane, NULL, 0, NULL, 0, VSHMEM_MEET);
		if (rc != 0)
			return rc;
		endpoint->pair.sent++;
		endpoint->met = true;
	}
	int rc = vshmem_stream_connect(&endpoint->stream, vshmem_btl.me.rank, endpoint->rank,
		&vshmem_btl.modex.place, &endpoint->place);
	if (rc != 0 && rc != -EAGAIN && !refused) {
		refused = true;
		vshmem_say(
			"cannot connect to the process of rank %u (%s): as long as this is so, its messages do not "
			"go over to the network, and this process or that one does not leave the pool. Its machine "
			"must accept connections at port %u",
			endpoint->rank, strerror(-rc), endpoint->place.port);
	}
	return rc == 0 ? 0 : -EAGAIN;
}

bool vshmem_over_step(vshmem_endpoint *endpoint)
{
	int rc = 0, flushed = 0;
	if (endpoint->gone)
		return is_over(endpoint);
	OPAL_THREAD_LOCK(&endpoint->lock);
	if (needs(endpoint))
		rc = connect_to(endpoint);
	if (rc == 0)
		rc = vshmem_pair_step(&endpoint->pair, &vshmem_btl.me, &calls);
	endpoint->indirect = endpoint->pair.out != BY_LANE
		|| (endpoint->indirect && needs(endpoint));
	if (endpoint->pair.out != BY_LANE)
		endpoint->met = false;
	bool settled = is_settled(endpoint);
	if (settled)
		vshmem_stream_end(&endpoint->stream, VSHMEM_END);
	flushed = vshmem_stream_flush(&endpoint->stream);
	if (settled && flushed != 0) {
		vshmem_stream_close(&endpoint->stream);
		flushed = 0;
	}
	settled &= !endpoint->meets && endpoint->stream.state == VSHMEM_CLOSED;
	OPAL_THREAD_UNLOCK(&endpoint->lock);
	/* A lane whose reader is gone is no use, and says so; so is a connection. */
	if (rc != 0 && rc != -EAGAIN)
		fail(endpoint, -EPIPE);
	else if (flushed != 0)
		fail(endpoint, flushed);
	return settled;
}

void vshmem_over_heard(uint32_t lane, uint8_t tag, const void *text, uint32_t bytes)
{
	vshmem_endpoint *endpoint = vshmem_endpoint_of_lane(lane);
	uint64_t sent;
	if (!endpoint || endpoint->gone || (tag != VSHMEM_MEET && tag != VSHMEM_OVER))
		return;
	vshmem_btl.moving = true;
	if (tag == VSHMEM_MEET) {
		endpoint->meets = true;
		return;
	}
	bool sense = bytes == sizeof(sent);
	if (sense) {
		memcpy(&sent, text, sizeof(sent));
		/* But for this one. */
		uint64_t got = vshmem_btl.got[lane] - 1;
		vshmem_btl.got[lane] = 0;
		OPAL_THREAD_LOCK(&endpoint->lock);
		sense = vshmem_pair_over(&endpoint->pair, sent, got);
		OPAL_THREAD_UNLOCK(&endpoint->lock);
	}
	endpoint->meets = false;
	if (!sense)
		vshmem_abort(
			"of %llu messages that the process of rank %u has sent by the pool, %llu have arrived",
			bytes == sizeof(sent) ? (unsigned long long)sent : 0, endpoint->rank,
			(unsigned long long)endpoint->pair.got);
}

static bool hear(vshmem_endpoint *endpoint, const struct vshmem_frame *frame)
{
	if (frame->word == VSHMEM_END) {
		endpoint->source.ended = true;
		return frame->bytes == 0;
	}
	OPAL_THREAD_LOCK(&endpoint->lock);
	bool sense = vshmem_pair_hear(
		&endpoint->pair, &calls, frame->word, frame->text, frame->bytes);
	if (sense && frame->word == VSHMEM_HERE)
		endpoint->peer.nonce = endpoint->pair.they.port.nonce;
	OPAL_THREAD_UNLOCK(&endpoint->lock);
	if (sense && frame->word == VSHMEM_HERE)
		vshmem_watch_peer(endpoint);
	return sense;
}

static void take(vshmem_endpoint *endpoint, const struct vshmem_frame *frame)
{
	endpoint->streamed_here++;
	if (frame->tag >= VSHMEM_PUT && frame->tag <= VSHMEM_ONE_SIDED_LAST)
		vshmem_one_sided_streamed(endpoint, frame->tag, frame->text, frame->bytes);
	else
		vshmem_message_up(frame->tag, frame->text, frame->bytes);
}

/* Nothing more comes. Where nothing has come either, its attempt to connect was given up. */
static void end_source(vshmem_endpoint *endpoint, int rc)
{
	const struct vshmem_source *source = &endpoint->source;
	bool in_order = rc != -EBADMSG && (source->ended || !source->heard || is_settled(endpoint));
	vshmem_source_close(&endpoint->source);
	if (in_order)
		return;
	fail(endpoint, rc);
	if (rc == -EBADMSG)
		vshmem_abort("what the process of rank %u sends by a connection is invalid",
			endpoint->rank);
}

/* Texts are held back until the lane is read to its end. */
static int receive(vshmem_endpoint *endpoint)
{
	struct vshmem_source *source = &endpoint->source;
	int taken = 0, rc = 0;
	struct vshmem_frame frame;
	while (taken < FRAMES && source->fd > 0 && (rc = vshmem_source_next(source, &frame)) == 1) {
		if (frame.word == VSHMEM_TEXT && !source->ended) {
			if (endpoint->pair.in != BY_SOCKET)
				return taken;
			take(endpoint, &frame);
		} else if (source->ended || !hear(endpoint, &frame)) {
			rc = -EBADMSG;
			break;
		}
		source->heard = true;
		vshmem_source_done(source, &frame);
		taken++;
	}
	if (rc < 0)
		end_source(endpoint, rc);
	return taken;
}

/* A process with a connection that something is still to come by has no other. */
static bool place_of(const struct vshmem_greeting *said, struct vshmem_place *place)
{
	vshmem_endpoint *endpoint = vshmem_endpoint_of_rank(said->from);
	if (!endpoint || endpoint->gone || endpoint->pair.in != BY_LANE)
		return false;
	const struct vshmem_source *source = &endpoint->source;
	*place = endpoint->place;
	return said->attempt > source->attempt
		&& (source->fd <= 0 || !source->heard || source->ended);
}

static void let_in(void)
{
	struct vshmem_greeting said;
	int fd = vshmem_accept(&vshmem_btl.modex.place, vshmem_btl.me.rank, &said, place_of);
	vshmem_endpoint *endpoint = fd < 0 ? NULL : vshmem_endpoint_of_rank(said.from);
	if (!endpoint)
		return;
	vshmem_source_close(&endpoint->source);
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = endpoint };
	if (!vshmem_source_open(&endpoint->source, fd, said.attempt)
		|| epoll_ctl(sources, EPOLL_CTL_ADD, fd, &event) != 0)
		fail(endpoint, -ENOMEM);
}

int vshmem_over_receive(void)
{
	struct epoll_event events[PEERS];
	int taken = 0;
	int count = epoll_wait(sources, events, PEERS, 0);
	for (int nth = 0; nth < count; nth++)
		taken += receive(events[nth].data.ptr);
	/* What was read before, and held back or left for later. */
	vshmem_endpoint *endpoint, *next;
	OPAL_LIST_FOREACH_SAFE(endpoint, next, &vshmem_btl.endpoints, vshmem_endpoint)
	if (endpoint->source.from < endpoint->source.end)
		taken += receive(endpoint);
	let_in();
	return taken;
}

bool vshmem_over_open(void)
{
	sources = epoll_create1(EPOLL_CLOEXEC);
	return sources >= 0 && vshmem_accept_open(&vshmem_btl.modex.place);
}

void vshmem_over_close(void)
{
	vshmem_accept_close();
	if (sources >= 0)
		close(sources);
	sources = -1;
}
