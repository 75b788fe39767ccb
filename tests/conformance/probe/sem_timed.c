/* semtimedop: how long, and what of the time is refused. */
#include "case.h"

static const char *timed(int set, int n, int by, int flags, const struct timespec *t)
{
	struct sembuf o = { (unsigned short)n, (short)by, (short)flags };
	return got(semtimedop(set, &o, 1, t));
}

CASE(sem_timed_runs_out)
{
	int a = set_of(1);
	struct timespec before, after;
	clock_gettime(CLOCK_MONOTONIC, &before);
	const char *r = timed(a, 0, -1, 0, &(struct timespec) { 0, 50000000 });
	clock_gettime(CLOCK_MONOTONIC, &after);
	long ms = (after.tv_sec - before.tv_sec) * 1000
	        + (after.tv_nsec - before.tv_nsec) / 1000000;
	say("%s, not before its time: %s", r, yes(ms >= 49));
	say("ncnt %d, value %d, otime %s", asked(a, 0, GETNCNT), value(a, 0),
		when(set_state(a).sem_otime));
	step(a, 0, 1, 0);
	say("a later post stays: %d", value(a, 0));
}

CASE(sem_timed_zero)
{
	int a = set_of(1);
	say("blocked, timeout 0: %s", timed(a, 0, -1, 0, &(struct timespec) { 0, 0 }));
	say("possible, timeout 0: %s", timed(a, 0, 1, 0, &(struct timespec) { 0, 0 }));
	say("IPC_NOWAIT: %s", timed(a, 0, -5, IPC_NOWAIT, &(struct timespec) { 1000, 0 }));
}

CASE(sem_timed_invalid)
{
	int a = set_of(1);
	say("1e9 ns: %s", timed(a, 0, -1, 0, &(struct timespec) { 0, 1000000000 }));
	say("negative ns: %s", timed(a, 0, -1, 0, &(struct timespec) { 0, -1 }));
	say("negative s: %s", timed(a, 0, -1, 0, &(struct timespec) { -1, 0 }));
	say("1e9 ns where nothing blocks: %s",
		timed(a, 0, 1, 0, &(struct timespec) { 0, 1000000000 }));
	say("value %d", value(a, 0));
	say("bad pointer: %s", timed(a, 0, 1, 0, (void *)16));
	say("bad pointer and bad id: %s", timed(-1, 0, 1, 0, (void *)16));
	say("invalid time and bad id: %s", timed(-1, 0, 1, 0, &(struct timespec) { 0, -1 }));
	struct sembuf o = { 0, 1, 0 };
	say("invalid time and no operations: %s",
		got(semtimedop(a, &o, 0, &(struct timespec) { 0, -1 })));
	say("999999999 ns: %s", timed(a, 0, 1, 0, &(struct timespec) { 0, 999999999 }));
}

CASE(sem_timed_null)
{
	int a = set_of(1);
	say("no timeout: %s", timed(a, 0, 1, 0, NULL));
}

static void wait_timed(void *context)
{
	say("woken before the time: %s",
		timed(*(int *)context, 0, -1, 0, &(struct timespec) { 1000, 0 }));
}

CASE(sem_timed_woken)
{
	int a = set_of(1);
	pid_t child = start(wait_timed, &a);
	await_waiters(a, 0, GETNCNT, 1, child);
	step(a, 0, 1, 0);
	finish(child);
}

CASE(sem_timed_removed)
{
	int a = set_of(1);
	pid_t child = start(wait_timed, &a);
	await_waiters(a, 0, GETNCNT, 1, child);
	semctl(a, 0, IPC_RMID);
	finish(child);
}
