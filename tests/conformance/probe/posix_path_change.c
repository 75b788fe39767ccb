/* unlink(2), rename(2), truncate(2), chmod(2), chown(2), utimensat(2) and their kin of paths below
 * /dev/shm. */
#include "posix_path.h"

#include <sys/syscall.h>
#include <utime.h>

CASE(posix_path_unlink)
{
	const char *path = path_of_file("x");
	say("%s", got(unlink(path)));
	say("%s %s", got(access(path, F_OK)), made(open(path, O_RDONLY)));
	say("again: %s", got(unlink(path)));
	say("by name: %s", made(shm_open(path + strlen("/dev/shm"), O_RDONLY, 0)));
}

CASE(posix_path_unlink_kin)
{
	const char *path = path_of_file("x");
	int folder = open("/dev/shm", O_RDONLY | O_DIRECTORY);
	say("rmdir %s", got(rmdir(path)));
	say("AT_REMOVEDIR %s", got(unlinkat(folder, base_of(path), AT_REMOVEDIR)));
	say("unlinkat %s", got(unlinkat(folder, base_of(path), 0)));
	say("remove %s", got(remove(path)));
	close(file_at(path, ""));
	say("remove %s", got(remove(path)));
}

CASE(posix_path_rename)
{
	const char *path = fresh_path(), *other = fresh_path();
	int file = file_at(path, "hello");
	say("%s", got(rename(path, other)));
	say("%s, %s", content(path), content(other));
	say_state("the descriptor's", file);
	say("%s", got(write(file, "J", 1)));
	say("%s", content(other));
	say("again: %s", got(rename(path, other)));
	say("to itself: %s", got(rename(other, other)));
	say("%s", content(other));
	say("by name: %s", yes(in_object(other + strlen("/dev/shm"), 0, "Jello")));
}

CASE(posix_path_rename_replaces)
{
	const char *path = path_of_file("new"), *other = fresh_path();
	int old = file_at(other, "old");
	char text[4] = "";
	say("%s", got(rename(path, other)));
	say("%s, %s", content(path), content(other));
	ssize_t bytes = read(old, text, 3);
	say("the old one: %s %s", got(bytes), text);
	say_state("it", old);
}

CASE(posix_path_rename_flags)
{
	const char *path = path_of_file("one"), *other = path_of_file("two"), *none = fresh_path();
	say("%s", got(renameat2(AT_FDCWD, path, AT_FDCWD, other, RENAME_NOREPLACE)));
	say("%s", got(renameat2(AT_FDCWD, path, AT_FDCWD, none, RENAME_NOREPLACE)));
	say("%s, %s, %s", content(path), content(other), content(none));
	say("%s", got(renameat2(AT_FDCWD, none, AT_FDCWD, path, 1 << 20)));
}

CASE(posix_path_rename_exchange)
{
	const char *path = path_of_file("one"), *other = path_of_file("two");
	say("%s", got(renameat2(AT_FDCWD, path, AT_FDCWD, other, RENAME_EXCHANGE)));
	say("%s, %s", content(path), content(other));
}

CASE(posix_path_rename_elsewhere)
{
	const char *path = path_of_file("here"), *place = folder(), *there = beside(place, "/file");
	say("out: %s", got(rename(path, there)));
	int file = open(there, O_RDWR | O_CREAT, 0600);
	say("%s", got(write(file, "there", 5)));
	say("in: %s", got(rename(there, path)));
	say("in, new: %s", got(rename(there, fresh_path())));
	say("none in: %s", got(rename(beside(there, "x"), path)));
	say("into no folder: %s", got(rename(path, "/dev/shm/probe-none/x")));
	say("%s, %s", content(path), content(there));
	clear_folder(place);
}

CASE(posix_path_rename_to_odd_ends)
{
	const char *path = path_of_file("x"), *other = path_of_file("y");
	say("%s", got(rename(path, beside(other, "/z"))));
	say("%s", got(rename(beside(path, "/z"), other)));
	say("%s", got(rename(path, "/dev/shm/.")));
	say("%s", got(rename("/dev/shm/..", path)));
	say("%s %s", content(path), content(other));
}

CASE(posix_path_rename_over_a_folder)
{
	const char *path = path_of_file("x"), *place = fresh_path();
	say("%s", got(mkdir(place, 0700)));
	say("%s", got(rename(path, place)));
	say("%s", got(rename(place, path)));
	say("%s", got(rmdir(place)));
	say("%s", content(path));
}

CASE(posix_path_link)
{
	const char *path = path_of_file("x"), *other = fresh_path();
	say("%s", got(link(path, other)));
	say("%s", content(other));
	unlink(other);
}

CASE(posix_path_link_refused)
{
	const char *path = path_of_file("x"), *other = path_of_file("y"), *place = folder();
	say("there: %s", got(link(path, other)));
	say("out: %s", got(link(path, beside(place, "/file"))));
	close(open(beside(place, "/own"), O_CREAT | O_RDWR, 0600));
	say("in: %s", got(link(beside(place, "/own"), fresh_path())));
	say("in, there: %s", got(link(beside(place, "/own"), path)));
	say("none: %s", got(link(beside(path, "x"), fresh_path())));
	say("below: %s", got(link(path, beside(other, "/z"))));
	clear_folder(place);
}

CASE(posix_path_truncate)
{
	const char *path = path_of_file("hello");
	say("%s", got(truncate(path, 2)));
	say("%s", content(path));
	say("%s", got(truncate(path, 10000)));
	say_path("longer", path);
	say("%s %s", got(truncate(path, -1)), got(truncate(beside(path, "x"), 1)));
	say("%s", got(truncate(path, 0)));
	say_path("empty", path);
	say("below: %s", got(truncate(beside(path, "/x"), 1)));
}

CASE(posix_path_chmod)
{
	const char *path = path_of_file("x");
	static const mode_t modes[] = { 0, 0777, 0640, 0111 };
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
		say("%s", got(chmod(path, modes[i])));
		say_path("chmod", path);
	}
	int folder = open("/dev/shm", O_RDONLY | O_DIRECTORY);
	say("%s", got(fchmodat(folder, base_of(path), 0604, 0)));
	say_path("fchmodat", path);
	say("none: %s", got(chmod(beside(path, "x"), 0600)));
}

CASE(posix_path_chown)
{
	const char *path = path_of_file("x");
	struct stat state;
	say("%s", got(chown(path, geteuid(), getegid())));
	say("%s", got(lchown(path, (uid_t)-1, (gid_t)-1)));
	say("%s", got(fchownat(AT_FDCWD, path, geteuid(), (gid_t)-1, AT_SYMLINK_NOFOLLOW)));
	say("none: %s", got(chown(beside(path, "x"), 1, 1)));
	if (geteuid() == 0) {
		say("%s", got(chown(path, 7, 8)));
		stat(path, &state);
		say("%d %d", (int)state.st_uid, (int)state.st_gid);
	}
}

CASE(posix_path_times)
{
	const char *path = path_of_file("x");
	say("%s %s", got(utime(path, NULL)), got(utimensat(AT_FDCWD, path, NULL, 0)));
	struct stat state;
	stat(path, &state);
	say("%s", when(state.st_mtime));
	say("none: %s %s", got(utime(beside(path, "x"), NULL)),
		got(utimensat(AT_FDCWD, beside(path, "x"), NULL, 0)));
}

CASE(posix_path_others_in_the_way)
{
	const char *path = path_of_file("x");
	say("mkdir %s", got(mkdir(path, 0700)));
	say("mkfifo %s", got(mkfifo(path, 0600)));
	say("symlink %s", got(symlink("/tmp", path)));
	say("opendir %s", made(open(path, O_RDONLY | O_DIRECTORY)));
	say("chdir %s", got(chdir(path)));
	say("%s", content(path));
}

CASE(posix_path_a_folder_stays)
{
	const char *place = fresh_path(), *path = beside(place, "/x");
	say("%s", got(mkdir(place, 0700)));
	int file = open(path, O_RDWR | O_CREAT, 0600);
	say("%s %s", made(file), got(write(file, "below", 5)));
	say("%s", content(path));
	say_path("below", path);
	say("%s", got(unlink(place)));
	say("%s", got(unlink(path)));
	say("%s", got(rmdir(place)));
}

CASE(posix_path_replaced_while_others_look)
{
	const char *path = path_of_file("0");
	const char *next = beside(path, ".next");
	pid_t child = fork();
	if (child == 0) {
		for (int i = 1; i <= 200; i++) {
			char text[12];
			snprintf(text, sizeof text, "%d", i);
			close(file_at(next, text));
			if (rename(next, path) != 0)
				_exit(1);
		}
		_exit(0);
	}
	int last = 0, back = 0, none = 0, status;
	while (waitpid(child, &status, WNOHANG) == 0) {
		const char *now = content(path);
		none += *now < '0' || *now > '9';
		back += atoi(now) < last;
		last = atoi(now);
	}
	say("%s, never without: %s, never back: %s", ended(status), yes(none == 0), yes(back == 0));
	say("%s", content(path));
}

CASE(posix_path_one_of_many_makes_it)
{
	const char *path = fresh_path();
	int ends[2];
	if (pipe(ends) != 0)
		broken("pipe");
	for (int i = 0; i < 8; i++)
		if (fork() == 0) {
			if (open(path, O_RDWR | O_CREAT | O_EXCL, 0600) != -1)
				write(ends[1], "x", 1);
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
	close(ends[1]);
	char text[9];
	say("%s", got(read(ends[0], text, 9)));
}
