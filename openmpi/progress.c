/* Receiving, and what had to wait. */
#include "btl_vshmem.h"

#include <errno.h>

/* Messages taken in one go: others make progress, too. */
#define AT_ONCE 32

static int waiting(void)
{
	int done = 0;
	vshmem_endpoint *endpoint, *next;
	/* Endpoints are only ever added while there is something to send. */
	if (vshmem_btl.waiting)
		OPAL_LIST_FOREACH_SAFE(endpoint, next, &vshmem_btl.endpoints, vshmem_endpoint)
		done += vshmem_send_waiting(endpoint);
	/* Requests and answers wait for fragments. */
	return done + vshmem_one_sided_waiting();
}

/* A sender is gone. What was asked of those that are dead is not answered any more. */
static void fail_dead(void)
{
	vshmem_endpoint *endpoint, *next;
	OPAL_LIST_FOREACH_SAFE(endpoint, next, &vshmem_btl.endpoints, vshmem_endpoint)
	{
		/* Whom nothing is sent to by lanes may have left. */
		if (endpoint->pair.out != BY_LANE || vshmem_lane_alive(endpoint->peer.lane))
			continue;
		endpoint->meets = false;
		if (!endpoint->peer.error)
			vshmem_one_sided_fail(endpoint);
	}
}

static void take(const struct vshmem_message *message)
{
	if (OPAL_LIKELY(message->tag > VSHMEM_ONE_SIDED_LAST))
		vshmem_message_up(message->tag, message->text, message->bytes);
	else if (message->tag >= VSHMEM_PUT)
		vshmem_one_sided_arrived(
			message->lane, message->tag, message->text, message->bytes);
	else
		vshmem_over_heard(message->lane, message->tag, message->text, message->bytes);
}

/* A caller that waits for one message, and gets it, returns at once. Only when the next one is
 * there already as soon as it is looked for again are more taken in one go. */
static int receive(void)
{
	static bool many;
	struct vshmem_message message;
	int taken, looks = vshmem_btl.looks;
	for (taken = 0; taken < AT_ONCE; taken++) {
		int rc = vshmem_receive_soon(vshmem_btl.port, &message, looks);
		looks = 1;
		if (rc == 0) {
			many = taken > 1;
			break;
		}
		if (rc == 1) {
			vshmem_btl.got[message.lane]++;
			take(&message);
			vshmem_receive_done(vshmem_btl.port, &message);
			if (!many) {
				many = true;
				return 1;
			}
		} else if (rc == -EBADMSG) {
			vshmem_say(
				"what a peer (client %u of the pool) sends is invalid; it is not read any more",
				message.lane);
		} else if (rc == -EPIPE) {
			fail_dead();
		}
	}
	return taken;
}

int vshmem_btl_progress(void)
{
	static int32_t inside;
	/* A callback that makes progress itself must not take the message that it is about. */
	if (opal_using_threads()) {
		if (__atomic_exchange_n(&inside, 1, __ATOMIC_ACQUIRE))
			return 0;
	} else {
		if (inside)
			return 0;
		inside = 1;
	}
	vshmem_set_progress(true);
	int events = OPAL_LIKELY(vshmem_btl.port) ? receive() + waiting() : 0;
	if (OPAL_UNLIKELY(vshmem_btl.moving))
		events += vshmem_leave_step() + waiting();
	bool due = vshmem_watch_due();
	if (OPAL_UNLIKELY(due))
		vshmem_leave_look();
	vshmem_set_progress(false);
	__atomic_store_n(&inside, 0, __ATOMIC_RELEASE);
	vshmem_backoff(&vshmem_btl.backoff, events);
	if (OPAL_UNLIKELY(due))
		vshmem_watch_look();
	return events;
}
