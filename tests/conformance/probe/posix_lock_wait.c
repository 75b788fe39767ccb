/* Calls that wait for locks on shared memory objects. */
#include "posix_lock.h"

static volatile int handled;
static void note(int signal) { (void)signal, handled++; }

/* In an order of its own, however fast each of the two is. */
static void say_when_allowed(struct pair *p, int result, int error)
{
	reached(p, 2);
	await_step(p, 1, 1);
	errno = error;
	say("waited: %s", got(result));
}

static void wait_for_write(struct pair *p, int file)
{
	reached(p, 1);
	int result = record(file, F_SETLKW, F_WRLCK, 0, 0), error = errno;
	say_when_allowed(p, result, error);
}

static pid_t waiting(struct pair *p, void (*other)(struct pair *, int))
{
	pid_t child = start_other(p, other);
	await_step(p, 0, 1);
	await_asleep(child);
	return child;
}

BOTH_CASES(waits_for_the_unlock)
{
	int file = open_object(p, O_RDWR);
	say("held %s", tried(file, F_WRLCK, 5, 1));
	pid_t child = waiting(p, wait_for_write);
	say("step %d", p->words[0]);
	say("unlock %s", tried(file, F_UNLCK, 5, 1));
	await_step(p, 0, 2);
	say("now %s", tried(file, F_RDLCK, 5, 1));
	allow(p, 1);
	finish(child);
	say("at last %s", tried(file, F_RDLCK, 5, 1));
}

BOTH_CASES(waits_for_the_close)
{
	int file = open_object(p, O_RDWR);
	say("held %s", tried(file, F_WRLCK, 5, 1));
	pid_t child = waiting(p, wait_for_write);
	close(file);
	await_step(p, 0, 2);
	allow(p, 1);
	finish(child);
}

BOTH_CASES(waits_for_a_downgrade)
{
	int file = open_object(p, O_RDWR);
	say("held %s", tried(file, F_RDLCK, 5, 1));
	pid_t child = waiting(p, wait_for_write);
	say("more readers %s", tried(file, F_RDLCK, 0, 100));
	say("unlock %s", tried(file, F_UNLCK, 0, 0));
	await_step(p, 0, 2);
	allow(p, 1);
	finish(child);
}

static void hold_until_killed(struct pair *p, int file)
{
	record(file, F_SETLK, F_WRLCK, 0, 0);
	reached(p, 1);
	hold_on();
}

static void kill_it(void *context)
{
	pid_t *child = context;
	await_asleep(getppid());
	kill(*child, SIGKILL);
}

BOTH_CASES(waits_for_a_kill)
{
	pid_t child = start_other(p, hold_until_killed);
	await_step(p, 0, 1);
	int file = open_object(p, O_RDWR);
	pid_t killer = start(kill_it, &child);
	say("waited: %s", got(record(file, F_SETLKW, F_WRLCK, 0, 0)));
	finish(killer);
	finish(child);
}

static void wait_with_handler(struct pair *p, int file)
{
	handle(SIGUSR1, note, 0);
	wait_for_write(p, file);
	say("handled %d", handled);
}

BOTH_CASES(handler_ends_the_wait)
{
	int file = open_object(p, O_RDWR);
	say("held %s", tried(file, F_WRLCK, 5, 1));
	pid_t child = waiting(p, wait_with_handler);
	kill(child, SIGUSR1);
	await_step(p, 0, 2);
	say("still %s", tried(file, F_WRLCK, 5, 1));
	allow(p, 1);
	finish(child);
}

static void wait_restarted(struct pair *p, int file)
{
	handle(SIGUSR1, note, SA_RESTART);
	wait_for_write(p, file);
	say("handled %d", handled);
}

BOTH_CASES(handler_that_restarts)
{
	int file = open_object(p, O_RDWR);
	say("held %s", tried(file, F_WRLCK, 5, 1));
	pid_t child = waiting(p, wait_restarted);
	kill(child, SIGUSR1);
	await_asleep(child);
	say("step %d", p->words[0]);
	say("unlock %s", tried(file, F_UNLCK, 5, 1));
	await_step(p, 0, 2);
	allow(p, 1);
	finish(child);
}

static void wait_with_alarm(struct pair *p, int file)
{
	handle(SIGALRM, note, 0);
	reached(p, 1);
	alarm(1);
	say("waited: %s", got(record(file, F_SETLKW, F_RDLCK, 0, 0)));
	say("handled %d", handled);
}

BOTH_CASES(alarm_ends_the_wait)
{
	int file = open_object(p, O_RDWR);
	say("held %s", tried(file, F_WRLCK, 5, 1));
	pid_t child = start_other(p, wait_with_alarm);
	finish(child);
	say("still %s", tried(file, F_WRLCK, 5, 1));
}

BOTH_CASES(waiter_killed)
{
	int file = open_object(p, O_RDWR);
	say("held %s", tried(file, F_WRLCK, 5, 1));
	pid_t child = waiting(p, wait_for_write);
	stop_by(child, SIGKILL);
	say("unlock %s", tried(file, F_UNLCK, 5, 1));
	say("again %s", tried(file, F_WRLCK, 0, 0));
}

static void wait_for_whole(struct pair *p, int file)
{
	reached(p, 1);
	int result = flock(file, LOCK_EX), error = errno;
	say_when_allowed(p, result, error);
}

BOTH_CASES(flock_waits_for_the_unlock)
{
	int file = open_object(p, O_RDWR);
	say("held %s", got(flock(file, LOCK_SH)));
	pid_t child = waiting(p, wait_for_whole);
	say("step %d", p->words[0]);
	say("unlock %s", got(flock(file, LOCK_UN)));
	await_step(p, 0, 2);
	say("now %s", got(flock(file, LOCK_SH | LOCK_NB)));
	allow(p, 1);
	finish(child);
}

static void wait_for_whole_with_handler(struct pair *p, int file)
{
	handle(SIGUSR1, note, 0);
	wait_for_whole(p, file);
}

BOTH_CASES(flock_wait_ended_by_a_handler)
{
	int file = open_object(p, O_RDWR);
	say("held %s", got(flock(file, LOCK_EX)));
	pid_t child = waiting(p, wait_for_whole_with_handler);
	kill(child, SIGUSR1);
	await_step(p, 0, 2);
	allow(p, 1);
	finish(child);
}

static void wait_by_description(struct pair *p, int file)
{
	reached(p, 1);
	int result = record(file, F_OFD_SETLKW, F_WRLCK, 0, 10), error = errno;
	say_when_allowed(p, result, error);
}

BOTH_CASES(description_waits_for_the_unlock)
{
	int file = open_object(p, O_RDWR);
	say("held %s", tried(file, F_RDLCK, 5, 1));
	pid_t child = waiting(p, wait_by_description);
	say("unlock %s", tried(file, F_UNLCK, 0, 0));
	await_step(p, 0, 2);
	allow(p, 1);
	finish(child);
}

static void want_the_first(struct pair *p, int file)
{
	record(file, F_SETLK, F_WRLCK, 20, 1);
	reached(p, 1);
	int result = record(file, F_SETLKW, F_WRLCK, 10, 1), error = errno;
	say_when_allowed(p, result, error);
}

CASE(posix_lock_deadlock)
{
	struct pair *p = new_pair(false);
	int file = open_object(p, O_RDWR);
	say("first %s", tried(file, F_WRLCK, 10, 1));
	pid_t child = waiting(p, want_the_first);
	say("second %s", got(record(file, F_SETLKW, F_WRLCK, 20, 1)));
	say("unlock %s", tried(file, F_UNLCK, 10, 1));
	await_step(p, 0, 2);
	allow(p, 1);
	finish(child);
}
