/* stat(2), access(2), statfs(2) and their kin of paths below /dev/shm. */
#include "posix_path.h"

#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

CASE(posix_path_stat_of_a_file)
{
	const char *path = path_of_file("hello");
	say_path("new", path);
	chmod(path, 0751);
	say_path("with a mode", path);
	truncate(path, 3 * PAGE);
	say_path("longer", path);
	say_path("none", beside(path, "x"));
}

CASE(posix_path_stat_agrees_with_fstat)
{
	const char *path = fresh_path();
	int file = file_at(path, "hello");
	struct stat one, other, folder;
	if (stat(path, &one) != 0 || fstat(file, &other) != 0 || stat("/dev/shm", &folder) != 0)
		broken("stat");
	say("inode %s device %s", yes(one.st_ino == other.st_ino), yes(one.st_dev == other.st_dev));
	say("device of the folder %s", yes(one.st_dev == folder.st_dev));
	say("mode %s size %s", yes(one.st_mode == other.st_mode),
		yes(one.st_size == other.st_size));
	say("owner %s %s", yes(one.st_uid == other.st_uid), yes(one.st_gid == other.st_gid));
	say("times %s", yes(one.st_mtime == other.st_mtime && one.st_ctime == other.st_ctime));
	say("blocks %s of %ld", yes(one.st_blocks == other.st_blocks), (long)one.st_blksize);
	say("modified %s", when(one.st_mtime));
}

CASE(posix_path_all_ways_to_ask)
{
	const char *path = path_of_file("hello");
	struct stat a, b, c, d;
	struct statx e;
	int folder = open("/dev/shm", O_RDONLY | O_DIRECTORY);
	say("%s %s", got(stat(path, &a)), got(lstat(path, &b)));
	say("%s %s", got(fstatat(AT_FDCWD, path, &c, 0)),
		got(fstatat(folder, base_of(path), &d, 0)));
	say("%s", got(statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &e)));
	say("%s", yes(a.st_ino == b.st_ino && b.st_ino == c.st_ino && c.st_ino == d.st_ino));
	say("%s", yes(e.stx_ino == a.st_ino && e.stx_size == 5 && e.stx_mode == a.st_mode));
	say("%s", yes(makedev(e.stx_dev_major, e.stx_dev_minor) == a.st_dev));
	say("mask %s", yes((e.stx_mask & STATX_BASIC_STATS) == STATX_BASIC_STATS));
	say("nofollow %s", got(fstatat(folder, base_of(path), &d, AT_SYMLINK_NOFOLLOW)));
}

CASE(posix_path_two_files_are_two)
{
	struct stat one, other;
	stat(path_of_file(""), &one);
	stat(path_of_file(""), &other);
	say("%s", yes(one.st_ino != other.st_ino));
}

CASE(posix_path_access)
{
	static const mode_t modes[] = { 0, 0400, 0600, 0700, 0200, 0777 };
	static const int wanted[] = { F_OK, R_OK, W_OK, X_OK, R_OK | W_OK, 8 };
	const char *path = path_of_file("");
	for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
		for (size_t w = 0; w < sizeof wanted / sizeof *wanted; w++) {
			chmod(path, modes[m]);
			say("%03o %d: %s %s %s", modes[m], wanted[w], got(access(path, wanted[w])),
				got(euidaccess(path, wanted[w])),
				got(faccessat(AT_FDCWD, path, wanted[w], AT_EACCESS)));
		}
	say("none: %s", got(access(beside(path, "x"), F_OK)));
}

CASE(posix_path_statfs)
{
	struct statfs state, folder;
	struct statvfs other;
	const char *path = path_of_file("x");
	say("%s %s", got(statfs(path, &state)), got(statfs("/dev/shm", &folder)));
	say("tmpfs %s", yes(state.f_type == 0x01021994 && folder.f_type == 0x01021994));
	say("%s %ld %ld", yes(state.f_blocks == folder.f_blocks), (long)state.f_bsize,
		(long)state.f_namelen);
	say("%s", yes(state.f_bfree <= state.f_blocks && state.f_bavail > 0));
	say("%s", got(statvfs(path, &other)));
	say("%lu %lu", other.f_bsize, other.f_namemax);
	say("%s", yes(other.f_blocks == state.f_blocks));
	say("none: %s %s", got(statfs(beside(path, "x"), &state)),
		got(statvfs(beside(path, "x"), &other)));
	say("below: %s", got(statfs(beside(path, "/x"), &state)));
}

CASE(posix_path_fstatfs)
{
	struct statfs state;
	say("%s", got(fstatfs(file_at(fresh_path(), ""), &state)));
	say("tmpfs %s", yes(state.f_type == 0x01021994));
}

static unsigned long long free_blocks(void)
{
	struct statvfs state;
	if (statvfs("/dev/shm", &state) != 0)
		broken("statvfs");
	return state.f_bfree;
}

CASE(posix_path_room_shrinks)
{
	const char *path = path_of_file("");
	unsigned long long before = free_blocks();
	int file = open(path, O_RDWR);
	say("%s", got(posix_fallocate(file, 0, 64 * PAGE)));
	say("%s", yes(free_blocks() != before));
}

CASE(posix_path_attributes)
{
	const char *path = path_of_file("x");
	char text[100];
	say("%s", got(getxattr(path, "user.none", text, 100)));
	say("%s", got(lgetxattr(path, "user.none", text, 100)));
	say("%s", yes(listxattr(path, text, 100) >= 0));
	say("none: %s %s", got(getxattr(beside(path, "x"), "user.none", text, 100)),
		got(listxattr(beside(path, "x"), text, 100)));
}

CASE(posix_path_readlink)
{
	char text[100];
	const char *path = path_of_file("x");
	say("%s", got(readlink(path, text, 100)));
	say("%s", got(readlinkat(AT_FDCWD, path, text, 100)));
	say("%s", got(readlink(beside(path, "x"), text, 100)));
}

CASE(posix_path_realpath)
{
	const char *path = path_of_file("x");
	char text[PATH_MAX], odd[200];
	say("%s", yes(realpath(path, text) && strcmp(text, path) == 0));
	snprintf(odd, sizeof odd, "/dev/../dev//shm/./%s", base_of(path));
	char *own = realpath(odd, NULL);
	say("%s", yes(own && strcmp(own, path) == 0));
	own = canonicalize_file_name(path);
	say("%s", yes(own && strcmp(own, path) == 0));
	say("none: %s", made(realpath(beside(path, "x"), text) ? 0 : -1));
	say("below: %s", made(realpath(beside(path, "/x"), text) ? 0 : -1));
}
