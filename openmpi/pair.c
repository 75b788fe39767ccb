/* See pair.h. */
#include "pair.h"

#include <errno.h>
#include <string.h>

static int leave(
	struct vshmem_pair *pair, const struct vshmem_me *me, const struct vshmem_pair_calls *calls)
{
	int rc = 0;
	if (me->leaving && !pair->leave_said) {
		rc = calls->say(pair, VSHMEM_LEAVE, NULL, 0);
		if (rc == 0) {
			pair->leave_said = true;
			pair->leave_seen = false;
		}
	}
	if (pair->claimed && (me->leaving || !pair->known)) {
		pair->claimed = false;
		calls->close(pair);
	}
	if (rc == 0 && pair->out == BY_LANE && (me->leaving || pair->they_leave)) {
		rc = calls->over(pair, pair->sent);
		if (rc == 0) {
			pair->out = BY_SOCKET;
			pair->unarrived = true;
			pair->told = 0;
		}
	}
	return rc;
}

/* What the other waits for. */
static int answer(struct vshmem_pair *pair, const struct vshmem_pair_calls *calls)
{
	int rc = 0;
	if (pair->owes_arrived) {
		rc = calls->say(pair, VSHMEM_ARRIVED, &pair->got, sizeof(pair->got));
		pair->owes_arrived = rc != 0;
	}
	if (rc == 0 && pair->owes_ready) {
		rc = calls->say(pair, VSHMEM_READY, NULL, 0);
		pair->owes_ready = rc != 0;
	}
	if (rc == 0 && pair->they_leave && pair->out == BY_SOCKET) {
		rc = calls->say(pair, VSHMEM_LEAVE_SEEN, NULL, 0);
		pair->they_leave = rc != 0;
	}
	return rc;
}

static int come_back(
	struct vshmem_pair *pair, const struct vshmem_me *me, const struct vshmem_pair_calls *calls)
{
	int rc = 0;
	if (pair->told != me->number) {
		rc = calls->say(pair, VSHMEM_HERE, &me->stay, sizeof(me->stay));
		if (rc != 0)
			return rc;
		pair->told = me->number;
	}
	if (!pair->known || pair->unarrived
		|| memcmp(pair->they.pool, me->stay.pool, sizeof(me->stay.pool)) != 0)
		return 0;
	if (!pair->claimed) {
		rc = calls->claim(pair);
		/* They have left again, and will say so; or their lanes are too short. */
		if (rc != 0 && rc != -EAGAIN)
			pair->known = false;
		if (rc != 0)
			return rc == -EAGAIN ? rc : 0;
		pair->claimed = true;
	}
	rc = calls->say(pair, VSHMEM_BACK, NULL, 0);
	if (rc == 0) {
		pair->claimed = false;
		pair->out = HELD;
	}
	return rc;
}

int vshmem_pair_step(
	struct vshmem_pair *pair, const struct vshmem_me *me, const struct vshmem_pair_calls *calls)
{
	int rc = leave(pair, me, calls);
	/* What is answered goes its way whatever else waits. */
	int answered = answer(pair, calls);
	if (rc == 0)
		rc = answered;
	if (rc == 0 && pair->out == BY_SOCKET && me->here && !me->leaving)
		rc = come_back(pair, me, calls);
	return rc;
}

bool vshmem_pair_over(struct vshmem_pair *pair, uint64_t sent, uint64_t got)
{
	pair->got += got;
	if (pair->in != BY_LANE || pair->got != sent)
		return false;
	pair->in = BY_SOCKET;
	pair->owes_arrived = true;
	return true;
}

static bool hear_number(struct vshmem_pair *pair, const struct vshmem_pair_calls *calls,
	const void *text, size_t bytes)
{
	uint64_t number;
	if (bytes != sizeof(number) || !pair->unarrived)
		return false;
	memcpy(&number, text, sizeof(number));
	pair->unarrived = false;
	calls->close(pair);
	return number == pair->sent;
}

bool vshmem_pair_hear(struct vshmem_pair *pair, const struct vshmem_pair_calls *calls,
	enum vshmem_word word, const void *text, size_t bytes)
{
	switch (word) {
	case VSHMEM_LEAVE:
		pair->they_leave = pair->they_left = true;
		pair->known = false;
		return true;
	case VSHMEM_LEAVE_SEEN: pair->leave_seen = true; return pair->leave_said;
	case VSHMEM_HERE:
		if (bytes != sizeof(pair->they))
			return false;
		memcpy(&pair->they, text, bytes);
		pair->known = true;
		pair->they_left = false;
		return true;
	case VSHMEM_ARRIVED: return hear_number(pair, calls, text, bytes);
	case VSHMEM_BACK:
		if (pair->in != BY_SOCKET)
			return false;
		pair->in = BY_LANE;
		pair->owes_ready = true;
		return true;
	case VSHMEM_READY:
		if (pair->out != HELD)
			return false;
		pair->out = BY_LANE;
		return true;
	default: return false;
	}
}

bool vshmem_pair_settled(const struct vshmem_pair *pair)
{
	return pair->out == BY_LANE && pair->in == BY_LANE && !pair->they_leave
		&& !pair->owes_arrived && !pair->owes_ready;
}

bool vshmem_pair_parted(const struct vshmem_pair *pair)
{
	return pair->leave_said && pair->leave_seen && pair->out == BY_SOCKET
		&& pair->in == BY_SOCKET && !pair->unarrived;
}
