/* flock(2), locks of open file descriptions, and lockf(3), on shared memory objects. */
#include "posix_lock.h"

static void hold_whole(struct pair *p, int file)
{
	say("held %s", got(flock(file, LOCK_EX)));
	reached(p, 1);
	hold_on();
}

static void hold_shared(struct pair *p, int file)
{
	say("held %s", got(flock(file, LOCK_SH | LOCK_NB)));
	reached(p, 1);
	hold_on();
}

static const char *whole(int file, int operation) { return got(flock(file, operation | LOCK_NB)); }

BOTH_CASES(flock_keeps_others_away)
{
	pid_t child = held_by(p, hold_whole);
	int file = open_object(p, O_RDWR);
	say("exclusive %s, shared %s", whole(file, LOCK_EX), whole(file, LOCK_SH));
	say("record %s", tried(file, F_WRLCK, 0, 0));
	stop_by(child, SIGKILL);
	say("then %s", whole(file, LOCK_EX));
}

BOTH_CASES(flock_shared)
{
	pid_t child = held_by(p, hold_shared);
	int file = open_object(p, O_RDONLY);
	say("exclusive %s", whole(file, LOCK_EX));
	say("shared %s", whole(file, LOCK_SH));
	say("upgrade %s", whole(file, LOCK_EX));
	stop_by(child, SIGKILL);
	say("upgrade %s", whole(file, LOCK_EX));
	say("downgrade %s", whole(file, LOCK_SH));
	say("unlock %s", whole(file, LOCK_UN));
	say("again %s", whole(file, LOCK_UN));
}

static void change(struct pair *p, int file)
{
	say("held %s", got(flock(file, LOCK_EX)));
	reached(p, 1);
	await_step(p, 1, 1);
	say("downgraded %s", got(flock(file, LOCK_SH)));
	reached(p, 2);
	hold_on();
}

BOTH_CASES(flock_downgraded)
{
	pid_t child = held_by(p, change);
	int file = open_object(p, O_RDWR);
	say("before %s", whole(file, LOCK_SH));
	allow(p, 1);
	await_step(p, 0, 2);
	say("after %s, %s", whole(file, LOCK_SH), whole(file, LOCK_EX));
	stop_by(child, SIGKILL);
}

static void hold_by_duplicates(struct pair *p, int file)
{
	int second = dup(file);
	say("held %s", got(flock(file, LOCK_EX)));
	close(file);
	reached(p, 1);
	await_step(p, 1, 1);
	close(second);
	reached(p, 2);
	hold_on();
}

BOTH_CASES(flock_goes_with_the_last_duplicate)
{
	pid_t child = held_by(p, hold_by_duplicates);
	int file = open_object(p, O_RDWR);
	say("one left %s", whole(file, LOCK_SH));
	allow(p, 1);
	await_step(p, 0, 2);
	say("none left %s", whole(file, LOCK_EX));
	stop_by(child, SIGKILL);
}

static void hold_by_a_child(struct pair *p, int file)
{
	say("held %s", got(flock(file, LOCK_EX)));
	if (fork() == 0) {
		close(file);
		_exit(0);
	}
	wait(NULL);
	pid_t child = fork();
	if (child == 0) {
		reached(p, 1);
		await_step(p, 1, 1);
		say("the child unlocks %s", got(flock(file, LOCK_UN)));
		reached(p, 2);
		_exit(0);
	}
	close(file);
	finish(child);
}

BOTH_CASES(flock_shared_with_a_child)
{
	pid_t child = held_by(p, hold_by_a_child);
	int file = open_object(p, O_RDWR);
	say("held %s", whole(file, LOCK_SH));
	allow(p, 1);
	await_step(p, 0, 2);
	say("unlocked %s", whole(file, LOCK_EX));
	finish(child);
}

static void hold_whole_over_exec(struct pair *p, int file)
{
	say("held %s", got(flock(file, LOCK_EX)));
	fcntl(file, F_SETFD, 0);
	reached(p, 1);
	become("linger", 0);
}

BOTH_CASES(flock_kept_over_exec)
{
	pid_t child = held_by(p, hold_whole_over_exec);
	await_asleep(child);
	int file = open_object(p, O_RDWR);
	say("held %s", whole(file, LOCK_SH));
	stop_by(child, SIGKILL);
	say("then %s", whole(file, LOCK_SH));
}

CASE(posix_lock_flock_of_two_descriptions)
{
	struct pair *p = new_pair(false);
	int file = open_object(p, O_RDWR), second = open_object(p, O_RDWR);
	say("%s %s", whole(file, LOCK_EX), whole(second, LOCK_SH));
	say("close %s, then %s", got(close(file)), whole(second, LOCK_EX));
	say("bad %s %s", got(flock(second, 77)), got(flock(-1, LOCK_EX)));
}

static int description(int file, int type, off_t start, off_t length)
{ return record(file, F_OFD_SETLK, type, start, length); }

static void hold_description(struct pair *p, int file)
{
	int second = open_object(p, O_RDWR);
	say("held %s", got(description(file, F_WRLCK, 0, 10)));
	say("beside itself %s", got(description(second, F_RDLCK, 5, 1)));
	close(second);
	reached(p, 1);
	await_step(p, 1, 1);
	close(file);
	reached(p, 2);
	hold_on();
}

BOTH_CASES(description_keeps_others_away)
{
	pid_t child = held_by(p, hold_description);
	int file = open_object(p, O_RDWR);
	say("description %s", got(description(file, F_WRLCK, 9, 5)));
	say("process %s", tried(file, F_RDLCK, 0, 1));
	say("beside %s", got(description(file, F_WRLCK, 10, 5)));
	allow(p, 1);
	await_step(p, 0, 2);
	say("closed %s", got(description(file, F_WRLCK, 0, 0)));
	stop_by(child, SIGKILL);
}

CASE(posix_lock_description_tells)
{
	struct pair *p = new_pair(false);
	int file = open_object(p, O_RDWR), second = open_object(p, O_RDWR);
	say("%s", got(description(file, F_RDLCK, 3, 4)));
	say_holder("who", second, F_WRLCK, 0, 0, 0);
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_pid = 1 };
	say("with a number %s", got(fcntl(second, F_OFD_SETLK, &lock)));
	lock.l_pid = 0;
	say("asked %s: %d %ld %ld %d", got(fcntl(second, F_OFD_GETLK, &lock)), lock.l_type,
		(long)lock.l_start, (long)lock.l_len, (int)lock.l_pid);
	int third = dup(file);
	say("a duplicate %s", got(description(third, F_WRLCK, 0, 0)));
	say("record beside %s", tried(second, F_RDLCK, 0, 0));
	close(file);
	say("one left %s", got(description(second, F_RDLCK, 0, 0)));
	close(third);
	say("none left %s", got(description(second, F_RDLCK, 0, 0)));
}

static void hold_section(struct pair *p, int file)
{
	lseek(file, 100, SEEK_SET);
	say("held %s", got(lockf(file, F_LOCK, 50)));
	say("behind %s", got(lockf(file, F_TLOCK, -10)));
	say("own %s", got(lockf(file, F_TEST, 50)));
	reached(p, 1);
	await_step(p, 1, 1);
	say("half %s", got(lockf(file, F_ULOCK, 25)));
	reached(p, 2);
	hold_on();
}

BOTH_CASES(lockf_sections)
{
	pid_t child = held_by(p, hold_section);
	int file = open_object(p, O_RDWR);
	lseek(file, 120, SEEK_SET);
	say("test %s, take %s", got(lockf(file, F_TEST, 1)), got(lockf(file, F_TLOCK, 1)));
	say_holder("who", file, F_WRLCK, 0, 0, child);
	allow(p, 1);
	await_step(p, 0, 2);
	say("test %s, take %s", got(lockf(file, F_TEST, 5)), got(lockf(file, F_TLOCK, 5)));
	say("more %s", got(lockf(file, F_TLOCK, 6)));
	int reader = open_object(p, O_RDONLY);
	say("reader %s, bad %s", got(lockf(reader, F_TLOCK, 1)), got(lockf(file, 77, 1)));
	stop_by(child, SIGKILL);
}
