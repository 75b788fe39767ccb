/* sem_open(3), sem_close(3), sem_unlink(3). */
#include "locks.h"

#include <sys/stat.h>

static sem_t *opened(const char *name, int flags, mode_t mode, unsigned value)
{ return sem_open(name, flags, mode, value); }
static const char *handed(sem_t *sem) { return sem == SEM_FAILED ? got(-1) : "ok"; }

static sem_t *fresh_sem(const char *name, unsigned value)
{
	sem_t *sem = opened(name, O_CREAT | O_EXCL, 0600, value);
	if (sem == SEM_FAILED)
		broken("sem_open");
	return sem;
}

CASE(posix_sem_open_creates)
{
	const char *name = fresh_name();
	say("before: %s", handed(sem_open(name, 0)));
	sem_t *sem = opened(name, O_CREAT, 0600, 4);
	say("O_CREAT: %s", handed(sem));
	say("value %d", sem_value(sem));
	tell("trywait", sem_trywait(sem), sem);
	say("unlink: %s", got(sem_unlink(name)));
	say("after: %s", handed(sem_open(name, 0)));
}

CASE(posix_sem_open_exclusively)
{
	const char *name = fresh_name();
	say("new: %s", handed(opened(name, O_CREAT | O_EXCL, 0600, 1)));
	say("again: %s", handed(opened(name, O_CREAT | O_EXCL, 0600, 1)));
	say("O_EXCL alone: %s", handed(sem_open(name, O_EXCL)));
	sem_unlink(name);
	say("after unlink: %s", handed(opened(name, O_CREAT | O_EXCL, 0600, 1)));
}

CASE(posix_sem_open_existing_keeps_its_value)
{
	const char *name = fresh_name();
	fresh_sem(name, 7);
	sem_t *sem = opened(name, O_CREAT, 0, 99);
	say("O_CREAT on it: %s, value %d", handed(sem), sem_value(sem));
	say("O_CREAT with a value too large: %s", handed(opened(name, O_CREAT, 0600, UINT_MAX)));
}

CASE(posix_sem_open_value_too_large)
{
	const char *name = fresh_name();
	say("SEM_VALUE_MAX + 1: %s",
		handed(opened(name, O_CREAT, 0600, (unsigned)SEM_VALUE_MAX + 1)));
	say("is there: %s", handed(sem_open(name, 0)));
	say("SEM_VALUE_MAX: %s", handed(opened(name, O_CREAT, 0600, SEM_VALUE_MAX)));
}

CASE(posix_sem_open_twice_is_one)
{
	const char *name = fresh_name();
	sem_t *a = fresh_sem(name, 1), *b = sem_open(name, 0);
	say("same address: %s", yes(a == b));
	say("close: %s", got(sem_close(a)));
	tell("used after one close: wait", sem_wait(b), b);
	say("close: %s", got(sem_close(b)));
	say("close once more: %s", got(sem_close(b)));
}

CASE(posix_sem_open_names)
{
	/* Of names that are none, or another way to say one. */
	const char *names[] = { "", "/", "//", "/a/b", "/a/", "a/b", ".", "..", "/.", "/.." };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		say("open \"%s\": %s", names[i], handed(sem_open(names[i], 0)));
		say("unlink \"%s\": %s", names[i], got(sem_unlink(names[i])));
	}
}

CASE(posix_sem_open_without_slash)
{
	const char *name = fresh_name();
	fresh_sem(name, 1);
	sem_t *b = sem_open(name + 1, 0);
	say("without the slash: %s, value %d", handed(b), sem_value(b));
	char two[64];
	snprintf(two, sizeof two, "/%s", name);
	say("two slashes: %s", handed(sem_open(two, 0)));
	say("unlink without: %s", got(sem_unlink(name + 1)));
}

CASE(posix_sem_open_long_names)
{
	char name[400];
	for (size_t length = 248; length <= 258; length++) {
		memset(name, 'x', sizeof name);
		name[0] = '/';
		snprintf(name + 1, 20, "%08x%08x", (unsigned)fresh_key(), (unsigned)fresh_key());
		name[17] = 'x';
		name[length + 1] = '\0';
		say("%zu bytes, missing: %s", length, handed(sem_open(name, 0)));
		say("%zu bytes: %s", length, handed(opened(name, O_CREAT, 0600, 1)));
		say("unlink: %s", got(sem_unlink(name)));
	}
	memset(name, 'y', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	say("399 bytes: %s", handed(opened(name, O_CREAT, 0600, 1)));
	say("unlink: %s", got(sem_unlink(name)));
}

CASE(posix_sem_open_names_of_any_bytes)
{
	char name[64];
	const char *name_of_ours = fresh_name();
	snprintf(name, sizeof name, "%s \x01\xff%%*", name_of_ours);
	say("create: %s", handed(opened(name, O_CREAT | O_EXCL, 0600, 3)));
	say("open: %s", handed(sem_open(name, 0)));
	say("of the beginning alone: %s", handed(sem_open(name_of_ours, 0)));
	say("unlink: %s", got(sem_unlink(name)));
}

CASE(posix_sem_unlink_errors)
{
	const char *name = fresh_name();
	say("missing: %s", got(sem_unlink(name)));
	fresh_sem(name, 1);
	say("there: %s", got(sem_unlink(name)));
	say("again: %s", got(sem_unlink(name)));
}

CASE(posix_sem_unlinked_is_used_on)
{
	const char *name = fresh_name();
	sem_t *old = fresh_sem(name, 1);
	sem_unlink(name);
	sem_t *new = fresh_sem(name, 50);
	say("two: %s", yes(old != new));
	tell("old one: wait", sem_wait(old), old);
	say("new one's value %d", sem_value(new));
	sem_t *again = sem_open(name, 0);
	say("the name means the new one: %s", yes(again == new));
}

CASE(posix_sem_close_of_none)
{
	sem_t *unnamed = (sem_t *)shared_ints();
	sem_init(unnamed, 1, 1);
	say("of an unnamed one: %s", got(sem_close(unnamed)));
}

static void post_by_name(void *context)
{
	sem_t *sem = sem_open(context, 0);
	tell("child", sem_post(sem), sem);
}

CASE(posix_sem_open_in_two_processes)
{
	const char *name = fresh_name();
	sem_t *sem = fresh_sem(name, 0);
	pid_t child = start(post_by_name, (void *)name);
	finish(child);
	tell("wait", sem_wait(sem), sem);
}

static void make_and_end(void *context)
{
	sem_t *sem = fresh_sem(context, 5);
	sem_wait(sem);
}

CASE(posix_sem_open_outlives_its_maker)
{
	const char *name = fresh_name();
	finish(start(make_and_end, (void *)name));
	sem_t *sem = sem_open(name, 0);
	say("open: %s, value %d", handed(sem), sem_value(sem));
}

static void make_and_be_killed(void *context)
{
	fresh_sem(context, 5);
	raise(SIGKILL);
}

CASE(posix_sem_open_outlives_a_killed_maker)
{
	const char *name = fresh_name();
	finish(start(make_and_be_killed, (void *)name));
	sem_t *sem = sem_open(name, 0);
	say("open: %s, value %d", handed(sem), sem_value(sem));
	sem_close(sem);
	sem = sem_open(name, 0);
	say("closed by all and opened: %s, value %d", handed(sem), sem_value(sem));
}

static void use_inherited(void *context)
{
	sem_t *sem = context;
	tell("child posts", sem_post(sem), sem);
	say("child closes: %s", got(sem_close(sem)));
	say("child closes again: %s", got(sem_close(sem)));
}

CASE(posix_sem_open_inherited)
{
	sem_t *sem = fresh_sem(fresh_name(), 2);
	finish(start(use_inherited, sem));
	tell("parent waits", sem_wait(sem), sem);
	say("parent closes: %s", got(sem_close(sem)));
}

static void wait_named(void *context) { say("waiter: %s", got(sem_wait(context))); }

CASE(posix_sem_open_wait_until_post)
{
	const char *name = fresh_name();
	sem_t *sem = fresh_sem(name, 0);
	pid_t child = start(wait_named, sem);
	await_asleep(child);
	sem_unlink(name);
	sem_post(sem);
	finish(child);
	say("value %d", sem_value(sem));
}

CASE(posix_sem_open_waiter_killed)
{
	sem_t *sem = fresh_sem(fresh_name(), 0);
	pid_t child = start(wait_named, sem);
	await_asleep(child);
	stop_by(child, SIGKILL);
	tell("post", sem_post(sem), sem);
	tell("trywait", sem_trywait(sem), sem);
}

static void open_all_ways(void *context)
{
	say("open: %s", handed(sem_open(context, 0)));
	say("O_CREAT: %s", handed(opened(context, O_CREAT, 0666, 1)));
	say("O_CREAT | O_EXCL: %s", handed(opened(context, O_CREAT | O_EXCL, 0666, 1)));
	say("unlink: %s", got(sem_unlink(context)));
}

static void with_mode(mode_t mode, mode_t mask)
{
	const char *name = fresh_name();
	umask(mask);
	if (opened(name, O_CREAT | O_EXCL, mode, 1) == SEM_FAILED)
		broken("sem_open");
	as_nobody(open_all_ways, (void *)name);
}

CASE(posix_sem_open_mode_none) { with_mode(0600, 0); }
CASE(posix_sem_open_mode_all) { with_mode(0666, 0); }
CASE(posix_sem_open_mode_read) { with_mode(0644, 0); }
CASE(posix_sem_open_mode_write) { with_mode(0622, 0); }
CASE(posix_sem_open_mode_masked) { with_mode(0666, 0077); }

static void own_without_rights(void *context)
{
	const char *name = context;
	say("create with mode 0: %s", handed(opened(name, O_CREAT | O_EXCL, 0, 1)));
	open_all_ways(context);
}

CASE(posix_sem_open_own_without_rights) { as_ordinary(own_without_rights, (void *)fresh_name()); }

enum { RACERS = 6, ROUNDS = 30 };
struct race {
	volatile int *won, *seen;
	const char *name;
	sem_t *gate;
};

static void race_to_make(void *context)
{
	struct race *r = context;
	sem_wait(r->gate);
	if (opened(r->name, O_CREAT | O_EXCL, 0600, 17) != SEM_FAILED)
		__atomic_fetch_add(&r->won[0], 1, __ATOMIC_SEQ_CST);
	/* It is there now, and whole. */
	sem_t *sem = sem_open(r->name, 0);
	if (sem != SEM_FAILED && sem_value(sem) == 17)
		__atomic_fetch_add(&r->won[1], 1, __ATOMIC_SEQ_CST);
}

CASE(posix_sem_open_race)
{
	struct race r = { .won = shared_ints() };
	for (int i = 0; i < turns(ROUNDS); i++) {
		pid_t children[RACERS];
		r.name = fresh_name();
		r.gate = (sem_t *)(shared_ints() + 16);
		sem_init(r.gate, 1, 0);
		for (int j = 0; j < RACERS; j++)
			children[j] = start(race_to_make, &r);
		for (int j = 0; j < RACERS; j++)
			sem_post(r.gate);
		for (int j = 0; j < RACERS; j++)
			finish(children[j]);
		sem_unlink(r.name);
	}
	say("one made it in each round: %s; all found it whole: %s", yes(r.won[0] == turns(ROUNDS)),
		yes(r.won[1] == turns(ROUNDS) * RACERS));
}

CASE(posix_sem_open_many)
{
	enum { MANY = 100 };
	char names[MANY][40];
	sem_t *sems[MANY];
	bool right = true;
	for (int i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof names[i], "%s", fresh_name());
		sems[i] = fresh_sem(names[i], (unsigned)i);
	}
	for (int i = 0; i < MANY; i++)
		right = right && sem_open(names[i], 0) == sems[i] && sem_value(sems[i]) == i;
	for (int i = 0; i < MANY; i++)
		right = right && sem_close(sems[i]) == 0 && sem_close(sems[i]) == 0
		        && sem_unlink(names[i]) == 0;
	say("each is itself: %s", yes(right));
}

CASE(posix_sem_open_and_shm_open_differ)
{
	/* A semaphore's name is not that of a shared memory object. */
	const char *name = fresh_name();
	fresh_sem(name, 1);
	say("shm_open: %s", got(shm_open(name, O_RDWR, 0)));
	say("shm_unlink: %s", got(shm_unlink(name)));
}
