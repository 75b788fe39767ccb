/* SEM_UNDO: what a process that ends gives back, however it ends. */
#include "undo.h"

static void change(void *context)
{
	struct undoer *u = context;
	if (step(u->set, 0, u->by, SEM_UNDO) != 0)
		say("semop: %s", got(-1));
	if (u->wait) {
		step(u->set, 2, 1, 0); /* tell the parent */
		step(u->set, 1, -1, 0);
	}
}

static pid_t changing(struct undoer *u)
{
	pid_t child = start(change, u);
	if (u->wait)
		step(u->set, 2, -1, 0);
	return child;
}

CASE(undo_exit)
{
	struct undoer u = scene(5, -2, true);
	pid_t child = changing(&u);
	say("while it lives: %d", value(u.set, 0));
	step(u.set, 1, 1, 0);
	finish(child);
	await_value(u.set, 0, 5);
	say("after exit: %d, pid %s", value(u.set, 0), who(asked(u.set, 0, GETPID), child));
}

CASE(undo_exit_seen_at_once)
{
	struct undoer u = scene(5, -2, false);
	finish(changing(&u));
	say("right after waitpid: %d", value(u.set, 0));
}

CASE(undo_sigkill)
{
	struct undoer u = scene(5, -2, true);
	pid_t child = changing(&u);
	stop_by(child, SIGKILL);
	await_value(u.set, 0, 5);
	say("after SIGKILL: %d, pid %s", value(u.set, 0), who(asked(u.set, 0, GETPID), child));
}

CASE(undo_sigkill_seen_at_once)
{
	struct undoer u = scene(5, -2, true);
	stop_by(changing(&u), SIGKILL);
	say("right after waitpid: %d", value(u.set, 0));
}

static void change_and_abort(void *context)
{
	change(context);
	abort();
}

CASE(undo_abort)
{
	struct undoer u = scene(5, -2, false);
	say("%s", finish(start(change_and_abort, &u)) ? "ended by a signal" : "ended well");
	await_value(u.set, 0, 5);
	say("value %d", value(u.set, 0));
}

CASE(undo_of_an_addition)
{
	struct undoer u = scene(0, 3, true);
	pid_t child = changing(&u);
	say("while it lives: %d", value(u.set, 0));
	stop_by(child, SIGKILL);
	await_value(u.set, 0, 0);
	say("after: %d", value(u.set, 0));
}

CASE(undo_clamps_at_zero)
{
	struct undoer u = scene(0, 3, true);
	pid_t child = changing(&u);
	say("another takes 2: %s", got(step(u.set, 0, -2, IPC_NOWAIT)));
	stop_by(child, SIGKILL);
	await_value(u.set, 0, 0);
	say("after: %d", value(u.set, 0));
}

CASE(undo_clamps_at_32767)
{
	struct undoer u = scene(5, -5, true);
	pid_t child = changing(&u);
	say("another adds 32767: %s", got(step(u.set, 0, 32767, 0)));
	stop_by(child, SIGKILL);
	while (asked(u.set, 0, GETPID) != child)
		a_moment();
	say("after: %d", value(u.set, 0));
}

static void change_back_and_forth(void *context)
{
	int set = *(int *)context;
	step(set, 0, 4, SEM_UNDO);
	step(set, 0, -1, SEM_UNDO);
	step(set, 0, -1, 0);
	step(set, 0, 2, SEM_UNDO);
	say("value %d", value(set, 0));
}

CASE(undo_sums_up)
{
	/* +4 -1 +2 with SEM_UNDO makes -5; the -1 without stays. */
	int a = set_of(1);
	set_value(a, 0, 10);
	finish(start(change_back_and_forth, &a));
	await_value(a, 0, 9);
	say("after: %d", value(a, 0));
}

static void lock_unlock(void *context)
{
	int set = *(int *)context;
	for (int i = 0; i < 100; i++) {
		step(set, 0, -1, SEM_UNDO);
		step(set, 0, 1, SEM_UNDO);
	}
}

CASE(undo_balanced)
{
	int a = set_of(1);
	set_value(a, 0, 1);
	finish(start(lock_unlock, &a));
	say("after 100 locks and unlocks and exit: %d", value(a, 0));
}

static void change_several(void *context)
{
	int set = *(int *)context;
	struct sembuf o[] = { { 0, -1, SEM_UNDO }, { 1, 2, SEM_UNDO }, { 2, 1, 0 },
		{ 0, -1, SEM_UNDO } };
	if (semop(set, o, 4) != 0)
		say("semop: %s", got(-1));
}

CASE(undo_array)
{
	int a = set_of(3);
	set_value(a, 0, 5);
	finish(start(change_several, &a));
	await_value(a, 0, 5);
	say("values %d %d %d", value(a, 0), value(a, 1), value(a, 2));
}

static void change_and_fail(void *context)
{
	int set = *(int *)context;
	struct sembuf o[] = { { 0, 1, SEM_UNDO }, { 1, -1, SEM_UNDO | IPC_NOWAIT } };
	say("semop: %s", got(semop(set, o, 2)));
}

CASE(undo_nothing_of_a_failed_array)
{
	int a = set_of(2);
	set_value(a, 0, 5);
	finish(start(change_and_fail, &a));
	say("values %d %d, pid %s", value(a, 0), value(a, 1), who(asked(a, 0, GETPID), 0));
}

struct pair {
	int a, b;
};

static void change_two_sets(void *context)
{
	struct pair *p = context;
	step(p->a, 0, 1, SEM_UNDO);
	step(p->b, 1, 1, SEM_UNDO);
}

CASE(undo_two_sets)
{
	struct pair p = { set_of(2), set_of(2) };
	set_value(p.a, 0, 1);
	finish(start(change_two_sets, &p));
	await_value(p.a, 0, 1);
	await_value(p.b, 1, 0);
	say("%d %d", value(p.a, 0), value(p.b, 1));
}

CASE(undo_of_a_removed_set)
{
	struct undoer u = scene(5, -2, true);
	pid_t child = changing(&u);
	semctl(u.set, 0, IPC_RMID);
	int b = set_of(3);
	set_value(b, 0, 40);
	say("the process: %s", ended(finish(child)));
	say("a set made after it: %d", value(b, 0));
}

CASE(undo_cleared_by_setval)
{
	struct undoer u = scene(5, -2, true);
	pid_t child = changing(&u);
	set_value(u.set, 0, 7);
	step(u.set, 1, 1, 0);
	finish(child);
	say("after: %d, pid %s", value(u.set, 0), who(asked(u.set, 0, GETPID), child));
}

CASE(undo_cleared_by_setall)
{
	struct undoer u = scene(5, -2, true);
	pid_t child = changing(&u);
	semctl(u.set, 0, SETALL, (union semun) { .array = (unsigned short[]) { 7, 0, 0 } });
	step(u.set, 1, 1, 0);
	finish(child);
	say("after: %d", value(u.set, 0));
}

static void change_both_and_wait(void *context)
{
	int set = *(int *)context;
	step(set, 0, -1, SEM_UNDO);
	step(set, 1, -1, SEM_UNDO);
	step(set, 2, 1, 0);
	step(set, 3, -1, 0);
}

CASE(undo_setval_clears_only_its_own)
{
	int a = set_of(4);
	set_value(a, 0, 5);
	set_value(a, 1, 5);
	pid_t child = start(change_both_and_wait, &a);
	step(a, 2, -1, 0);
	set_value(a, 0, 20);
	stop_by(child, SIGKILL);
	await_value(a, 1, 5);
	say("set: %d, not set: %d", value(a, 0), value(a, 1));
}

static void take_one(void *context) { say("the waiter: %s", got(step(*(int *)context, 0, -1, 0))); }

CASE(undo_wakes_a_waiter)
{
	struct undoer u = scene(1, -1, true);
	pid_t holder = changing(&u), waiter = start(take_one, &u.set);
	await_waiters(u.set, 0, GETNCNT, 1, waiter);
	stop_by(holder, SIGKILL);
	finish(waiter);
	say("value %d, pid %s", value(u.set, 0), who(asked(u.set, 0, GETPID), waiter));
}

static void wait_for_zero(void *context)
{ say("the waiter for zero: %s", got(step(*(int *)context, 0, 0, 0))); }

CASE(undo_wakes_a_waiter_for_zero)
{
	struct undoer u = scene(0, 2, true);
	pid_t holder = changing(&u), waiter = start(wait_for_zero, &u.set);
	await_waiters(u.set, 0, GETZCNT, 1, waiter);
	stop_by(holder, SIGKILL);
	finish(waiter);
	say("value %d", value(u.set, 0));
}

static void sleep_with_undo(void *context) { step(*(int *)context, 0, -1, SEM_UNDO); }

CASE(undo_waiter_killed)
{
	/* It never got the semaphore: there is nothing to give back. */
	int a = set_of(1);
	pid_t child = start(sleep_with_undo, &a);
	await_waiters(a, 0, GETNCNT, 1, child);
	stop_by(child, SIGKILL);
	while (asked(a, 0, GETNCNT) != 0)
		a_moment();
	say("value %d, pid %s", value(a, 0), who(asked(a, 0, GETPID), child));
}

static void sleep_then_hold(void *context)
{
	int set = *(int *)context;
	say("woken: %s", got(step(set, 0, -1, SEM_UNDO)));
	step(set, 1, 1, 0);
	step(set, 2, -1, 0);
}

CASE(undo_after_a_sleep)
{
	int a = set_of(3);
	pid_t child = start(sleep_then_hold, &a);
	await_waiters(a, 0, GETNCNT, 1, child);
	step(a, 0, 1, 0);
	step(a, 1, -1, 0);
	say("value %d", value(a, 0));
	stop_by(child, SIGKILL);
	await_value(a, 0, 1);
	say("given back: %d", value(a, 0));
}

static void gather_too_much(void *context)
{
	int set = *(int *)context;
	/* The adjustment, too, must stay within 32767: the value goes down again without SEM_UNDO.
	 */
	say("+32767: %s", got(step(set, 0, 32767, SEM_UNDO)));
	step(set, 0, -32767, 0);
	say("+1 more: %s", got(step(set, 0, 1, SEM_UNDO)));
	say("value %d", value(set, 0));
	say("+2 more: %s", got(step(set, 0, 2, SEM_UNDO)));
	say("value %d", value(set, 0));
}

CASE(undo_range)
{
	int a = set_of(1);
	finish(start(gather_too_much, &a));
	await_value(a, 0, 0);
	say("after: %d", value(a, 0));
}

static void gather_too_much_down(void *context)
{
	int set = *(int *)context;
	say("-32767: %s", got(step(set, 0, -32767, SEM_UNDO)));
	step(set, 0, 32767, 0);
	say("-1 more: %s", got(step(set, 0, -1, SEM_UNDO)));
	say("value %d", value(set, 0));
}

CASE(undo_range_downwards)
{
	int a = set_of(1);
	set_value(a, 0, 32767);
	finish(start(gather_too_much_down, &a));
	while (asked(a, 0, GETPID) == 0)
		a_moment();
	say("after: %d", value(a, 0));
}

CASE(undo_zero_operation)
{
	int a = set_of(1);
	say("%s", got(step(a, 0, 0, SEM_UNDO)));
	say("value %d", value(a, 0));
}

static void die_holding(void *context)
{
	step(*(int *)context, 0, -1, SEM_UNDO);
	raise(SIGKILL);
}

CASE(undo_many_deaths)
{
	int a = set_of(1);
	set_value(a, 0, 1);
	for (int i = 0; i < 50; i++)
		finish(start(die_holding, &a));
	await_value(a, 0, 1);
	say("50 owners died holding it: %d", value(a, 0));
}
