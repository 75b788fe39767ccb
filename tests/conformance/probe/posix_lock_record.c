/* Record locks (F_SETLK, F_SETLKW, F_GETLK) on shared memory objects. */
#include "posix_lock.h"

static void hold_write(struct pair *p, int file)
{
	record(file, F_SETLK, F_WRLCK, 10, 10);
	reached(p, 1);
	hold_on();
}

static void hold_read(struct pair *p, int file)
{
	record(file, F_SETLK, F_RDLCK, 10, 10);
	reached(p, 1);
	hold_on();
}

BOTH_CASES(write_keeps_others_away)
{
	pid_t child = held_by(p, hold_write);
	int file = open_object(p, O_RDWR);
	say("write %s", tried(file, F_WRLCK, 0, 0));
	say("read %s", tried(file, F_RDLCK, 15, 1));
	say("last byte %s", tried(file, F_RDLCK, 19, 5));
	say("first byte %s", tried(file, F_WRLCK, 0, 11));
	stop_by(child, SIGKILL);
}

BOTH_CASES(read_admits_readers)
{
	pid_t child = held_by(p, hold_read);
	int file = open_object(p, O_RDWR);
	say("read %s", tried(file, F_RDLCK, 0, 0));
	say("write %s", tried(file, F_WRLCK, 12, 1));
	say("write beside %s", tried(file, F_WRLCK, 20, 100));
	stop_by(child, SIGKILL);
	say("write then %s", tried(file, F_WRLCK, 0, 0));
}

BOTH_CASES(ranges_beside_each_other)
{
	pid_t child = held_by(p, hold_write);
	int file = open_object(p, O_RDWR);
	say("before %s", tried(file, F_WRLCK, 0, 10));
	say("behind %s", tried(file, F_WRLCK, 20, 0));
	say("far behind %s", tried(file, F_WRLCK, 1l << 40, 1));
	stop_by(child, SIGKILL);
}

static void hold_all(struct pair *p, int file)
{
	record(file, F_SETLK, F_WRLCK, 100, 0);
	reached(p, 1);
	hold_on();
}

BOTH_CASES(to_the_end)
{
	pid_t child = held_by(p, hold_all);
	int file = open_object(p, O_RDWR);
	say("far %s", tried(file, F_RDLCK, 1l << 60, 1));
	say("last %s", tried(file, F_RDLCK, INT64_MAX, 1));
	say("before %s", tried(file, F_WRLCK, 0, 100));
	say_holder("who", file, F_RDLCK, 0, 0, child);
	stop_by(child, SIGKILL);
}

static void hold_backwards(struct pair *p, int file)
{
	say("back %s", tried(file, F_WRLCK, 20, -10));
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_END, .l_start = -96, .l_len = 6 };
	say("from the end %s", got(fcntl(file, F_SETLK, &lock)));
	lseek(file, 200, SEEK_SET);
	lock = (struct flock) { .l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_start = 5, .l_len = 1 };
	say("from here %s", got(fcntl(file, F_SETLK, &lock)));
	reached(p, 1);
	hold_on();
}

BOTH_CASES(bytes_named_otherwise)
{
	pid_t child = held_by(p, hold_backwards);
	int file = open_object(p, O_RDWR);
	say_holder("first", file, F_WRLCK, 0, 0, child);
	say_holder("next", file, F_WRLCK, 20, 500, child);
	say_holder("last", file, F_WRLCK, 3000, 0, child);
	say("%s %s", tried(file, F_WRLCK, 9, 1), tried(file, F_WRLCK, 10, 1));
	stop_by(child, SIGKILL);
}

static void hold_split(struct pair *p, int file)
{
	record(file, F_SETLK, F_WRLCK, 0, 30);
	record(file, F_SETLK, F_UNLCK, 10, 10);
	reached(p, 1);
	hold_on();
}

BOTH_CASES(split)
{
	pid_t child = held_by(p, hold_split);
	int file = open_object(p, O_RDWR);
	say("middle %s", tried(file, F_WRLCK, 10, 10));
	say("left %s, right %s", tried(file, F_RDLCK, 9, 1), tried(file, F_RDLCK, 20, 1));
	say_holder("who", file, F_WRLCK, 15, 100, child);
	stop_by(child, SIGKILL);
}

static void hold_merged(struct pair *p, int file)
{
	record(file, F_SETLK, F_WRLCK, 0, 10);
	record(file, F_SETLK, F_WRLCK, 20, 10);
	record(file, F_SETLK, F_WRLCK, 10, 10);
	reached(p, 1);
	hold_on();
}

BOTH_CASES(merged)
{
	pid_t child = held_by(p, hold_merged);
	int file = open_object(p, O_RDWR);
	say_holder("who", file, F_WRLCK, 12, 1, child);
	say("%s", tried(file, F_WRLCK, 29, 1));
	say("%s", tried(file, F_WRLCK, 30, 1));
	stop_by(child, SIGKILL);
}

static void hold_mixed(struct pair *p, int file)
{
	record(file, F_SETLK, F_WRLCK, 0, 30);
	record(file, F_SETLK, F_RDLCK, 10, 10);
	reached(p, 1);
	hold_on();
}

BOTH_CASES(downgraded_in_the_middle)
{
	pid_t child = held_by(p, hold_mixed);
	int file = open_object(p, O_RDWR);
	say("read there %s", tried(file, F_RDLCK, 10, 10));
	say("write there %s", tried(file, F_WRLCK, 10, 1));
	say("read beside %s", tried(file, F_RDLCK, 5, 1));
	say_holder("who", file, F_WRLCK, 10, 1, child);
	stop_by(child, SIGKILL);
}

BOTH_CASES(upgrade_alone)
{
	int file = open_object(p, O_RDWR);
	say("read %s", tried(file, F_RDLCK, 10, 10));
	say("write %s", tried(file, F_WRLCK, 0, 15));
	pid_t child = held_by(p, hold_write);
	say_holder("who", file, F_WRLCK, 0, 0, child);
	say("again %s", tried(file, F_WRLCK, 10, 10));
	stop_by(child, SIGKILL);
}

static void look_at_shared(struct pair *p, int file)
{
	say("the other: write %s, read %s", tried(file, F_WRLCK, 12, 1), tried(file, F_RDLCK, 12, 1));
	reached(p, 2);
	hold_on();
}

BOTH_CASES(upgrade_refused_keeps_what_was_held)
{
	int file = open_object(p, O_RDWR);
	say("read %s", tried(file, F_RDLCK, 10, 10));
	pid_t child = start_other(p, look_at_shared);
	await_step(p, 0, 2);
	say("upgrade %s", tried(file, F_WRLCK, 10, 10));
	say("upgrade of the rest %s", tried(file, F_WRLCK, 15, 5));
	say_holder("who", file, F_WRLCK, 0, 0, child);
	stop_by(child, SIGKILL);
	say("upgrade then %s", tried(file, F_WRLCK, 10, 10));
}

static void close_another(struct pair *p, int file)
{
	int second = open_object(p, O_RDWR);
	record(file, F_SETLK, F_WRLCK, 0, 0);
	reached(p, 1);
	await_step(p, 1, 1);
	close(second);
	reached(p, 2);
	hold_on();
}

BOTH_CASES(close_of_any_descriptor)
{
	pid_t child = held_by(p, close_another);
	int file = open_object(p, O_RDWR);
	say("before %s", tried(file, F_RDLCK, 0, 1));
	allow(p, 1);
	await_step(p, 0, 2);
	say("after %s", tried(file, F_WRLCK, 0, 1));
	stop_by(child, SIGKILL);
}

static void close_duplicate(struct pair *p, int file)
{
	record(file, F_SETLK, F_WRLCK, 0, 0);
	reached(p, 1);
	await_step(p, 1, 1);
	close(dup(file));
	reached(p, 2);
	hold_on();
}

BOTH_CASES(close_of_a_duplicate)
{
	pid_t child = held_by(p, close_duplicate);
	int file = open_object(p, O_RDWR);
	say("before %s", tried(file, F_RDLCK, 0, 1));
	allow(p, 1);
	await_step(p, 0, 2);
	say("after %s", tried(file, F_WRLCK, 0, 1));
	stop_by(child, SIGKILL);
}

BOTH_CASES(killed_holder)
{
	pid_t child = held_by(p, hold_write);
	int file = open_object(p, O_RDWR);
	say("before %s", tried(file, F_WRLCK, 10, 1));
	stop_by(child, SIGKILL);
	say("after %s", tried(file, F_WRLCK, 0, 0));
}

static void hold_and_end(struct pair *p, int file)
{
	record(file, F_SETLK, F_WRLCK, 0, 0);
	reached(p, 1);
	await_step(p, 1, 1);
}

BOTH_CASES(holder_that_ends)
{
	pid_t child = held_by(p, hold_and_end);
	int file = open_object(p, O_RDWR);
	say("before %s", tried(file, F_RDLCK, 10, 1));
	allow(p, 1);
	say("%s", ended(finish(child)));
	say("after %s", tried(file, F_WRLCK, 0, 0));
}

static void hold_with_a_child(struct pair *p, int file)
{
	record(file, F_SETLK, F_WRLCK, 0, 10);
	pid_t child = fork();
	if (child == 0) {
		say("the child: %s", tried(file, F_RDLCK, 0, 1));
		close(file);
		reached(p, 1);
		hold_on();
	}
	await_step(p, 1, 1);
	stop_by(child, SIGKILL);
}

BOTH_CASES(child_has_none_of_it)
{
	pid_t child = held_by(p, hold_with_a_child);
	int file = open_object(p, O_RDWR);
	say("still %s", tried(file, F_WRLCK, 5, 1));
	allow(p, 1);
	finish(child);
	say("after %s", tried(file, F_WRLCK, 5, 1));
}

static void hold_over_exec(struct pair *p, int file)
{
	record(file, F_SETLK, F_WRLCK, 0, 10);
	fcntl(file, F_SETFD, 0);
	reached(p, 1);
	become("linger", 0);
}

BOTH_CASES(kept_over_exec)
{
	pid_t child = held_by(p, hold_over_exec);
	await_asleep(child);
	int file = open_object(p, O_RDWR);
	say("kept %s", tried(file, F_RDLCK, 9, 1));
	stop_by(child, SIGKILL);
	say("after %s", tried(file, F_WRLCK, 9, 1));
}

static void lose_over_exec(struct pair *p, int file)
{
	record(file, F_SETLK, F_WRLCK, 0, 10);
	reached(p, 1);
	become("linger", 0);
}

BOTH_CASES(closed_by_exec)
{
	pid_t child = held_by(p, lose_over_exec);
	await_asleep(child);
	int file = open_object(p, O_RDWR);
	say("gone %s", tried(file, F_WRLCK, 9, 1));
	stop_by(child, SIGKILL);
}

BOTH_CASES(who_holds_it)
{
	pid_t child = held_by(p, hold_write);
	int file = open_object(p, O_RDWR);
	say_holder("write", file, F_WRLCK, 0, 0, child);
	say_holder("read", file, F_RDLCK, 12, 3, child);
	say_holder("beside", file, F_WRLCK, 20, 1, child);
	stop_by(child, SIGKILL);
	say_holder("after", file, F_WRLCK, 0, 0, child);
}

BOTH_CASES(who_reads_it)
{
	pid_t child = held_by(p, hold_read);
	int file = open_object(p, O_RDWR);
	say_holder("write", file, F_WRLCK, 0, 0, child);
	say_holder("read", file, F_RDLCK, 0, 0, child);
	stop_by(child, SIGKILL);
}

CASE(posix_lock_own_locks_are_not_in_the_way)
{
	struct pair *p = new_pair(false);
	int file = open_object(p, O_RDWR), second = open_object(p, O_RDWR);
	say("%s %s", tried(file, F_WRLCK, 0, 10), tried(second, F_RDLCK, 5, 10));
	say_holder("who", second, F_WRLCK, 0, 0, 0);
}

CASE(posix_lock_bad_arguments)
{
	struct pair *p = new_pair(false);
	int file = open_object(p, O_RDWR), reader = open_object(p, O_RDONLY);
	say("kind %s", tried(file, 77, 0, 0));
	struct flock lock = { .l_type = F_WRLCK, .l_whence = 9 };
	say("whence %s", got(fcntl(file, F_SETLK, &lock)));
	say("before the beginning %s", tried(file, F_WRLCK, -1, 5));
	say("back beyond it %s", tried(file, F_WRLCK, 5, -6));
	say("beyond the end %s", tried(file, F_WRLCK, INT64_MAX, 2));
	say("for a reader %s %s", tried(reader, F_WRLCK, 0, 0), tried(reader, F_RDLCK, 0, 0));
	say("flags %s", (fcntl(reader, F_GETFL) & O_ACCMODE) == O_RDONLY ? "reading" : "other");
	say("no descriptor %s", got(record(-1, F_SETLK, F_WRLCK, 0, 0)));
}

CASE(posix_lock_of_nothing)
{
	struct pair *p = new_pair(false);
	int file = open_object(p, O_RDWR);
	say("unlock %s", tried(file, F_UNLCK, 0, 0));
	say_holder("who", file, F_WRLCK, 0, 0, 0);
	say("close %s", got(close(file)));
	say("closed %s", got(record(file, F_SETLK, F_WRLCK, 0, 0)));
}
