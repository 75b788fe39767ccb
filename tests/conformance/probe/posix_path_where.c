/* Ways that lead below /dev/shm: spellings, links, the current directory, descriptors. */
#include "posix_path.h"

#include <sys/syscall.h>

CASE(posix_path_spellings)
{
	const char *path = path_of_file("hello");
	static const char *before[] = { "//dev/shm/", "/dev//shm/", "/./dev/shm/", "/dev/./shm/./",
		"/dev/../dev/shm/", "/tmp/../dev/shm/", "/dev/shm/../shm/", "/dev/shm//",
		"/DEV/shm/", "/dev/shmx/" };
	for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
		const char *other = beside(before[i], base_of(path));
		struct stat state;
		say("%s: %s %s %s", before[i], content(other), got(stat(other, &state)),
			got(access(other, R_OK)));
	}
}

CASE(posix_path_spellings_made)
{
	static const char *before[] = { "//dev//shm//", "/tmp/../dev/shm/", "/dev/./shm/" };
	for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
		const char *path = fresh_path(), *other = beside(before[i], base_of(path));
		close(file_at(other, "hello"));
		say("%s: %s", before[i], content(path));
		say("%s", got(unlink(other)));
		say("%s", content(path));
	}
}

CASE(posix_path_from_the_current_directory)
{
	const char *path = path_of_file("hello"), *bare = base_of(path);
	say("%s", content(bare));
	say("%s", got(chdir("/dev/shm")));
	say("%s %s", content(bare), content(beside("./", bare)));
	say("%s", content(beside("../shm/", bare)));
	say("%s", got(unlink(bare)));
	close(file_at(bare, "again"));
	say("%s", content(path));
	say("%s", got(chdir("/")));
	say("%s %s", content(bare), content(beside("dev/shm/", bare)));
	close(file_at(beside("dev/shm/", beside(bare, "-x")), "below"));
	say("%s %s", content(beside(path, "-x")), got(unlink(beside(path, "-x"))));
}

CASE(posix_path_fchdir)
{
	const char *path = path_of_file("hello");
	int there = open("/dev/shm", O_RDONLY | O_DIRECTORY), before = open(".", O_RDONLY);
	say("%s", got(fchdir(there)));
	say("%s", content(base_of(path)));
	say("%s %s", got(rename(base_of(path), "probe-renamed")),
		content("/dev/shm/probe-renamed"));
	say("%s", got(unlink("probe-renamed")));
	say("%s", got(fchdir(before)));
	say("%s", content(base_of(path)));
}

CASE(posix_path_in_a_child_that_begins_there)
{
	char command[200];
	const char *path = path_of_file("hello");
	snprintf(command, sizeof command, "cd /dev/shm && exec sh -c 'test $(cat %s) = hello'",
		base_of(path));
	say("%s", ended(system(command)));
}

CASE(posix_path_from_a_descriptor)
{
	const char *path = fresh_path(), *bare = base_of(path);
	int folder = open("/dev/shm", O_RDONLY | O_DIRECTORY), other = open("/dev", O_PATH);
	int file = openat(folder, bare, O_RDWR | O_CREAT | O_EXCL, 0600);
	say("%s %s", made(file), got(write(file, "hello", 5)));
	say("%s", content(path));
	say("%s", made(openat(other, beside("shm/", bare), O_RDONLY)));
	say("%s", made(openat(other, bare, O_RDONLY)));
	say("absolute: %s", made(openat(-1, path, O_RDONLY)));
	say("closed: %s", made(openat(-1, bare, O_RDONLY)));
	say("%s", got(faccessat(folder, bare, R_OK, 0)));
	say("%s", got(renameat(folder, bare, folder, beside(bare, "-x"))));
	say("%s", got(renameat(folder, beside(bare, "-x"), other, beside("shm/", bare))));
	say("%s", content(path));
	say("%s", got(unlinkat(folder, bare, 0)));
}

CASE(posix_path_o_path_folder)
{
	const char *path = path_of_file("hello");
	int folder = open("/dev/shm", O_PATH);
	say("%s", made(openat(folder, base_of(path), O_RDONLY)));
	struct stat state;
	say("%s", got(fstatat(folder, base_of(path), &state, 0)));
}

CASE(posix_path_link_to_a_file)
{
	const char *path = path_of_file("hello"), *place = folder(), *way = beside(place, "/way");
	struct stat state;
	say("%s", got(symlink(path, way)));
	say("%s %s", content(way), got(access(way, R_OK)));
	say_path("by the link", way);
	say("itself: %s", got(lstat(way, &state)));
	say("a link %s", yes(S_ISLNK(state.st_mode)));
	say("O_NOFOLLOW %s", made(open(way, O_RDONLY | O_NOFOLLOW)));
	say("O_CREAT|O_EXCL %s", made(open(way, O_RDWR | O_CREAT | O_EXCL, 0600)));
	say("chmod %s truncate %s", got(chmod(way, 0640)), got(truncate(way, 2)));
	say_path("changed", path);
	char *whole = realpath(way, NULL);
	say("%s", yes(whole && strcmp(whole, path) == 0));
	say("rename of the link %s", got(rename(way, beside(way, "2"))));
	say("unlink of the link %s, the file %s", got(unlink(beside(way, "2"))), content(path));
	clear_folder(place);
}

CASE(posix_path_link_to_a_file_that_is_not_there)
{
	const char *path = fresh_path(), *place = folder(), *way = beside(place, "/way");
	say("%s", got(symlink(path, way)));
	say("%s", content(way));
	int file = open(way, O_RDWR | O_CREAT, 0600);
	say("%s %s", made(file), got(write(file, "made", 4)));
	say("%s %s", content(path), content(way));
	clear_folder(place);
}

CASE(posix_path_link_to_the_folder)
{
	const char *path = path_of_file("hello"), *place = folder(), *way = beside(place, "/way");
	say("%s", got(symlink("/dev/shm", way)));
	const char *by = beside(beside(way, "/"), base_of(path));
	say("%s %s", content(by), got(access(by, R_OK)));
	say_path("by the link", by);
	close(file_at(beside(by, "-x"), "below"));
	say("%s", content(beside(path, "-x")));
	say("%s", got(rename(beside(by, "-x"), beside(by, "-y"))));
	say("%s %s", content(beside(path, "-y")), got(unlink(beside(by, "-y"))));
	char *whole = realpath(by, NULL);
	say("%s", yes(whole && strcmp(whole, path) == 0));
	clear_folder(place);
}

CASE(posix_path_relative_links)
{
	const char *path = path_of_file("hello"), *place = folder(), *way = beside(place, "/way");
	say("%s", got(symlink(beside("../../dev/shm/", base_of(path)), way)));
	say("%s", content(way));
	say("%s", got(symlink("way", beside(place, "/other"))));
	say("%s", content(beside(place, "/other")));
	clear_folder(place);
}

CASE(posix_path_link_in_the_folder)
{
	const char *path = path_of_file("hello"), *way = fresh_path();
	say("%s", got(symlink(base_of(path), way)));
	say("%s", content(way));
	say_path("by the link", way);
	struct stat state;
	say("%s", got(lstat(way, &state)));
	say("a link %s", yes(S_ISLNK(state.st_mode)));
	say("%s", got(unlink(way)));
	say("%s", content(path));
}

CASE(posix_path_links_in_a_circle)
{
	const char *place = folder(), *one = beside(place, "/one"), *two = beside(place, "/two");
	symlink(one, two);
	symlink(two, one);
	struct stat state;
	say("%s %s %s", made(open(one, O_RDONLY)), made(open(one, O_RDWR | O_CREAT, 0600)),
		got(stat(one, &state)));
	clear_folder(place);
}

CASE(posix_path_by_proc)
{
	char way[64], text[6] = "";
	int file = file_at(fresh_path(), "hello");
	snprintf(way, sizeof way, "/proc/self/fd/%d", file);
	int again = open(way, O_RDONLY);
	ssize_t bytes = read(again, text, 5);
	say("%s %s", got(bytes), text);
	say("%s", got(chdir("/dev/shm")));
	const char *path = path_of_file("there");
	say("%s", content(beside("/proc/self/cwd/", base_of(path))));
}

CASE(posix_path_elsewhere_is_elsewhere)
{
	const char *place = folder(), *name = base_of(fresh_path());
	const char *path = beside(beside(place, "/"), name);
	close(file_at(path, "elsewhere"));
	say("%s, below /dev/shm %s", content(path), content(path_of(beside("/", name))));
	say("%s", got(mkdir(beside(place, "/dev"), 0700)));
	say("%s", got(mkdir(beside(place, "/dev/shm"), 0700)));
	say("%s", got(chdir(place)));
	close(file_at(beside("dev/shm/", name), "not there"));
	say("%s", content(path_of(beside("/", name))));
	clear_folder(place);
}

CASE(posix_path_vfork)
{
	const char *path = path_of_file("hello");
	for (int i = 0; i < 2; i++) {
		pid_t child = vfork();
		if (child == 0) {
			execl("/usr/bin/test", "test", "-e", i ? "/dev/shm/probe-none" : path,
				NULL);
			_exit(9);
		}
		say("%s", ended(finish(child)));
	}
}
