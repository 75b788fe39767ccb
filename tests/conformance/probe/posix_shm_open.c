/* shm_open(3) and shm_unlink(3): names, flags, modes. */
#include "posix_shm.h"

CASE(posix_shm_new_is_empty)
{
	int file = shm_open(fresh_name(), O_RDWR | O_CREAT | O_EXCL, 0600);
	say("%s", made(file));
	say_state("new", file);
}

CASE(posix_shm_flags_and_existence)
{
	static const struct {
		const char *text;
		int flags;
	} ways[] = {
		{ "O_RDONLY", O_RDONLY },
		{ "O_RDWR", O_RDWR },
		{ "O_RDWR|O_CREAT", O_RDWR | O_CREAT },
		{ "O_RDONLY|O_CREAT", O_RDONLY | O_CREAT },
		{ "O_RDWR|O_CREAT|O_EXCL", O_RDWR | O_CREAT | O_EXCL },
		{ "O_RDWR|O_EXCL", O_RDWR | O_EXCL },
		{ "O_RDWR|O_TRUNC", O_RDWR | O_TRUNC },
	};
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		const char *name = fresh_name();
		say("%s, missing: %s", ways[i].text, made(shm_open(name, ways[i].flags, 0600)));
		shm_unlink(name);
		close(object_named(name, 100));
		int file = shm_open(name, ways[i].flags, 0600);
		say("%s, there: %s", ways[i].text, made(file));
		if (file != -1) {
			say("size %ld", (long)size_of(file));
			close(file);
		}
	}
}

CASE(posix_shm_wrong_names)
{
	char longest[300], too_long[300];
	snprintf(longest, sizeof longest, "/probe-%0249d", 1);
	snprintf(too_long, sizeof too_long, "/probe-%0250d", 1);
	const char *names[] = { "", "/", "//", "/a/b", "/a/", "a/b", too_long, "/.", "/..", ".",
		"/probe-of-nobody" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *text = strlen(names[i]) > 100 ? "too long" : names[i];
		say("open \"%s\": %s", text, made(shm_open(names[i], O_RDWR, 0600)));
		say("unlink \"%s\": %s", text, got(shm_unlink(names[i])));
	}
	int file = shm_open(longest, O_RDWR | O_CREAT | O_EXCL, 0600);
	say("the longest: %s, unlink %s", made(file), got(shm_unlink(longest)));
}

CASE(posix_shm_wrong_names_made)
{
	char too_long[300];
	snprintf(too_long, sizeof too_long, "/probe-%0250d", 1);
	const char *names[] = { "", "/", "/a/b", "/a/", too_long, "/.", "/.." };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		say("%zu: %s", i, made(shm_open(names[i], O_RDWR | O_CREAT, 0600)));
}

CASE(posix_shm_slashes_in_front)
{
	char bare[64], doubled[64];
	const char *name = fresh_name();
	snprintf(bare, sizeof bare, "%s", name + 1);
	snprintf(doubled, sizeof doubled, "//%s", name);
	close(object_named(name, 7));
	say("without one: %ld", (long)size_of(shm_open(bare, O_RDONLY, 0)));
	say("with three: %ld", (long)size_of(shm_open(doubled, O_RDONLY, 0)));
	say("unlinked without one: %s", got(shm_unlink(bare)));
	say("unlinked again: %s", got(shm_unlink(name)));
}

CASE(posix_shm_odd_bytes_in_a_name)
{
	char name[64];
	snprintf(name, sizeof name, "%s \t\xff\xc3\xa4\n*", fresh_name());
	say("%s", made(object_named(name, 3)));
	say("opened: %ld", (long)size_of(shm_open(name, O_RDONLY, 0)));
	say("unlinked: %s", got(shm_unlink(name)));
}

CASE(posix_shm_modes)
{
	static const mode_t masks[] = { 0, 022, 077, 0777 };
	static const mode_t modes[] = { 0, 0400, 0600, 0644, 0666, 0777 };
	for (size_t m = 0; m < sizeof masks / sizeof *masks; m++)
		for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
			umask(masks[m]);
			const char *name = fresh_name();
			int file = shm_open(name, O_RDWR | O_CREAT | O_EXCL, modes[i]);
			struct stat state;
			fstat(file, &state);
			say("mask %03o mode %05o: %05o", masks[m], modes[i], state.st_mode & 07777);
			close(file);
			shm_unlink(name);
		}
}

CASE(posix_shm_owner)
{
	struct stat state;
	fstat(object_of(1), &state);
	say("uid %s gid %s", yes(state.st_uid == geteuid()), yes(state.st_gid == getegid()));
}

CASE(posix_shm_unlinked_lives_on)
{
	const char *name = fresh_name();
	int file = object_named(name, PAGE);
	char *at = map_object(file, PAGE);
	strcpy(at, "kept");
	say("%s", got(shm_unlink(name)));
	say("opened by name: %s", made(shm_open(name, O_RDWR, 0)));
	say_state("unlinked", file);
	say("memory: %s", at);
	char *again = map_object(file, PAGE);
	say("mapped again: %s", again);
	close(file);
	strcat(again, " on");
	say("closed: %s", at);
}

CASE(posix_shm_name_made_again)
{
	const char *name = fresh_name();
	int old = object_named(name, PAGE);
	char *was = map_object(old, PAGE);
	strcpy(was, "old");
	shm_unlink(name);
	int new = object_named(name, 2 * PAGE);
	char *is = map_object(new, PAGE);
	say("sizes %ld %ld", (long)size_of(old), (long)size_of(new));
	say("new is zero: %s", yes(*is == 0));
	strcpy(is, "new");
	say("%s %s", was, is);
	struct stat a, b;
	fstat(old, &a);
	fstat(new, &b);
	say("same file: %s", yes(a.st_dev == b.st_dev && a.st_ino == b.st_ino));
}

CASE(posix_shm_same_file_by_two_opens)
{
	const char *name = fresh_name();
	int one = object_named(name, 10), two = shm_open(name, O_RDONLY, 0);
	struct stat a, b;
	fstat(one, &a);
	fstat(two, &b);
	say("same: %s", yes(a.st_dev == b.st_dev && a.st_ino == b.st_ino));
	fstat(object_of(10), &b);
	say("another: %s", yes(a.st_dev == b.st_dev && a.st_ino == b.st_ino));
}

CASE(posix_shm_truncated_by_open)
{
	const char *name = fresh_name();
	int file = object_named(name, PAGE);
	char *at = map_object(file, PAGE);
	strcpy(at, "gone");
	munmap(at, PAGE);
	int again = shm_open(name, O_RDWR | O_TRUNC, 0);
	say("sizes %ld %ld", (long)size_of(file), (long)size_of(again));
	say("%s", got(ftruncate(again, PAGE)));
	say("zero: %s", yes(*map_object(file, PAGE) == 0));
}

CASE(posix_shm_name_beginning_with_sem)
{
	char name[64];
	snprintf(name, sizeof name, "/sem.%s", fresh_name() + 1);
	int file = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	say("%s, unlink %s", made(file), got(shm_unlink(name)));
}

static void open_three_ways(void *context)
{
	const char *name = context;
	say("for reading: %s", made(shm_open(name, O_RDONLY, 0)));
	say("for both: %s", made(shm_open(name, O_RDWR, 0)));
	say("truncating: %s", made(shm_open(name, O_RDWR | O_TRUNC, 0)));
	say("exclusively: %s", made(shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0)));
	say("unlink: %s", got(shm_unlink(name)));
}

static void of_mode_for_nobody(mode_t mode)
{
	const char *name = fresh_name();
	int file = object_named(name, 10);
	fchmod(file, mode);
	as_nobody(open_three_ways, (void *)name);
	say("still %ld bytes", (long)size_of(file));
}

CASE(posix_shm_other_user_mode_0600) { of_mode_for_nobody(0600); }
CASE(posix_shm_other_user_mode_0604) { of_mode_for_nobody(0604); }
CASE(posix_shm_other_user_mode_0602) { of_mode_for_nobody(0602); }
CASE(posix_shm_other_user_mode_0606) { of_mode_for_nobody(0606); }
CASE(posix_shm_other_user_mode_0660) { of_mode_for_nobody(0660); }

static void own_with_mode(void *context)
{
	(void)context;
	static const mode_t modes[] = { 0, 0400, 0200, 0600, 0077 };
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
		const char *name = fresh_name();
		int file = shm_open(name, O_RDWR | O_CREAT, modes[i]);
		say("made with %04o: %s", modes[i], made(file));
		say("for reading: %s", made(shm_open(name, O_RDONLY, 0)));
		say("for both: %s", made(shm_open(name, O_RDWR, 0)));
		say("unlink: %s", got(shm_unlink(name)));
	}
}

CASE(posix_shm_own_mode_counts) { as_ordinary(own_with_mode, NULL); }

static void change_state(void *context)
{
	int file = *(int *)context;
	say("fchmod: %s", got(fchmod(file, 0666)));
	say("fchown: %s", got(fchown(file, NOBODY, NOBODY)));
	say("fchown of nothing: %s", got(fchown(file, (uid_t)-1, (gid_t)-1)));
	say("ftruncate: %s", got(ftruncate(file, 20)));
}

CASE(posix_shm_changed_by_other_user)
{
	int file = object_of(10);
	as_nobody(change_state, &file);
	say_state("then", file);
}

CASE(posix_shm_mode_changed)
{
	int file = object_of(10);
	static const mode_t modes[] = { 0, 0644, 0222, 0600 };
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
		say("%s", got(fchmod(file, modes[i])));
		say_state("mode", file);
	}
}

CASE(posix_shm_mode_above_nine_bits)
{
	umask(0);
	int file = shm_open(fresh_name(), O_RDWR | O_CREAT | O_EXCL, 01777);
	say_state("made", file);
	say("%s", got(fchmod(file, 06600)));
	say_state("changed", file);
}

CASE(posix_shm_owner_changed)
{
	if (geteuid() != 0)
		skip("needs root");
	int file = object_of(10);
	struct stat state;
	say("%s", got(fchown(file, 7, 8)));
	fstat(file, &state);
	say("%d %d", state.st_uid, state.st_gid);
	say("%s", got(fchown(file, (uid_t)-1, 9)));
	fstat(file, &state);
	say("%d %d", state.st_uid, state.st_gid);
}

CASE(posix_shm_mode_changed_after_open)
{
	const char *name = fresh_name();
	int file = object_named(name, PAGE);
	fchmod(file, 0);
	strcpy(map_object(file, PAGE), "open is enough");
	say("%s", got(ftruncate(file, 2)));
	say_state("then", file);
}
