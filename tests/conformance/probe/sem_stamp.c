/* sem_otime and the counts of waiters, as others leave them: a waiter's operations are done by
 * the process that lets it continue. */
#include "case.h"

struct waiter {
	int set;
	struct sembuf operations[2];
	int count;
	const char *name;
};

static void sleep_and_say(void *context)
{
	struct waiter *s = context;
	say("%s: %s", s->name, got(semop(s->set, s->operations, (size_t)s->count)));
}

static void operated(int set, const char *after)
{ say("%s: otime %s", after, when(set_state(set).sem_otime)); }

CASE(sem_stamp_setval_that_wakes)
{
	struct waiter s = { set_of(1), { { 0, -2, 0 } }, 1, "takes 2" };
	pid_t child = start(sleep_and_say, &s);
	await_waiters(s.set, 0, GETNCNT, 1, child);
	operated(s.set, "asleep");
	set_value(s.set, 0, 1);
	operated(s.set, "SETVAL that is not enough");
	set_value(s.set, 0, 2);
	time_t at_once = set_state(s.set).sem_otime;
	finish(child);
	say("SETVAL that is: otime %s", when(at_once));
}

CASE(sem_stamp_setval_zero_that_wakes)
{
	struct waiter s = { set_of(1), { { 0, 0, 0 } }, 1, "for zero" };
	set_value(s.set, 0, 2);
	pid_t child = start(sleep_and_say, &s);
	await_waiters(s.set, 0, GETZCNT, 1, child);
	set_value(s.set, 0, 1);
	operated(s.set, "SETVAL 1");
	set_value(s.set, 0, 0);
	time_t at_once = set_state(s.set).sem_otime;
	finish(child);
	say("SETVAL 0: otime %s", when(at_once));
}

CASE(sem_stamp_setall_that_wakes)
{
	struct waiter s = { set_of(2), { { 0, -1, 0 }, { 1, -1, 0 } }, 2, "takes both" };
	pid_t child = start(sleep_and_say, &s);
	await_waiters(s.set, 0, GETNCNT, 1, child);
	semctl(s.set, 0, SETALL, (union semun) { .array = (unsigned short[]) { 1, 0 } });
	operated(s.set, "SETALL that is not enough");
	semctl(s.set, 0, SETALL, (union semun) { .array = (unsigned short[]) { 1, 1 } });
	time_t at_once = set_state(s.set).sem_otime;
	finish(child);
	say("SETALL that is: otime %s", when(at_once));
}

/* A waiter that can never go on ends with an error: nothing has been operated. */
CASE(sem_stamp_setval_that_refuses)
{
	struct waiter s = { set_of(2), { { 0, -1, 0 }, { 1, 1, 0 } }, 2, "raises too high" };
	set_value(s.set, 1, 32767);
	pid_t child = start(sleep_and_say, &s);
	await_waiters(s.set, 0, GETNCNT, 1, child);
	set_value(s.set, 0, 1);
	finish(child);
	operated(s.set, "SETVAL");
	say("values %d %d", value(s.set, 0), value(s.set, 1));
}

static void up_and_down_with_undo(void *context)
{
	int set = *(int *)context;
	step(set, 0, 1, SEM_UNDO);
	step(set, 0, -1, SEM_UNDO);
	time_t then = set_state(set).sem_otime;
	while (time(NULL) <= then)
		usleep(1000);
}

/* The end of a process operates on every set that it has adjustments for, even when they add up to
 * nothing. */
CASE(sem_stamp_exit_with_undo_of_nothing)
{
	int a = set_of(1);
	pid_t child = start(up_and_down_with_undo, &a);
	while (set_state(a).sem_otime == 0)
		usleep(1000);
	time_t before = set_state(a).sem_otime;
	finish(child);
	say("value %d, stamped at the exit: %s", value(a, 0), yes(set_state(a).sem_otime > before));
}

/* ---- where a waiter with several operations is counted, after others have passed it ---- */

/* Looks at once, and says it when the waiter that went on has said its own. */
static void counts(int set, const char *after, pid_t went_on)
{
	int seen[2][3];
	for (int n = 0; n < 2; n++) {
		seen[n][0] = asked(set, n, GETNCNT);
		seen[n][1] = asked(set, n, GETZCNT);
		seen[n][2] = value(set, n);
	}
	finish(went_on);
	for (int n = 0; n < 2; n++)
		say("%s: semaphore %d: ncnt %d, zcnt %d, value %d", after, n, seen[n][0],
			seen[n][1], seen[n][2]);
}

CASE(sem_count_of_the_overtaken)
{
	struct waiter a = { set_of(2), { { 0, -1, 0 }, { 1, -1, 0 } }, 2, "takes both" };
	struct waiter b = { a.set, { { 0, -1, 0 } }, 1, "takes the first" };
	pid_t both = start(sleep_and_say, &a);
	await_waiters(a.set, 0, GETNCNT, 1, both);
	pid_t one = start(sleep_and_say, &b);
	await_waiters(a.set, 0, GETNCNT, 2, one);
	step(a.set, 0, 1, 0);
	counts(a.set, "posted", one);
	semctl(a.set, 0, SETALL, (union semun) { .array = (unsigned short[]) { 1, 1 } });
	counts(a.set, "both posted", both);
}

CASE(sem_count_of_the_overtaken_by_setval)
{
	struct waiter a = { set_of(2), { { 0, -1, 0 }, { 1, 0, 0 } }, 2,
		"takes one when the other is zero" };
	struct waiter b = { a.set, { { 0, -1, 0 } }, 1, "takes the first" };
	set_value(a.set, 1, 1);
	pid_t mixed = start(sleep_and_say, &a);
	await_waiters(a.set, 0, GETNCNT, 1, mixed);
	pid_t one = start(sleep_and_say, &b);
	await_waiters(a.set, 0, GETNCNT, 2, one);
	set_value(a.set, 0, 1);
	counts(a.set, "SETVAL", one);
	set_value(a.set, 0, 1);
	say("SETVAL again: ncnt %d %d, zcnt %d %d", asked(a.set, 0, GETNCNT),
		asked(a.set, 1, GETNCNT), asked(a.set, 0, GETZCNT), asked(a.set, 1, GETZCNT));
	set_value(a.set, 1, 0);
	counts(a.set, "the other is zero", mixed);
}
