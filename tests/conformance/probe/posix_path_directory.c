/* opendir(3), readdir(3), scandir(3), glob(3), ftw(3) of /dev/shm. */
#include "posix_path.h"

#include <dirent.h>
#include <ftw.h>
#include <glob.h>
#include <semaphore.h>

/* How often a name is shown, by a stream that is open. */
static int shown(DIR *stream, const char *name, struct dirent *as)
{
	int times = 0;
	for (struct dirent *entry; (entry = readdir(stream)) != NULL;)
		if (strcmp(entry->d_name, name) == 0) {
			times++;
			if (as)
				*as = *entry;
		}
	return times;
}

static int shown_in(const char *place, const char *path)
{
	DIR *stream = opendir(place);
	if (stream == NULL)
		broken("opendir");
	int times = shown(stream, base_of(path), NULL);
	closedir(stream);
	return times;
}

CASE(posix_path_readdir)
{
	const char *path = fresh_path();
	say("before: %d", shown_in("/dev/shm", path));
	close(file_at(path, "x"));
	say("made: %d", shown_in("/dev/shm", path));
	const char *other = fresh_path();
	rename(path, other);
	say("renamed: %d %d", shown_in("/dev/shm", path), shown_in("/dev/shm", other));
	unlink(other);
	say("unlinked: %d", shown_in("/dev/shm", other));
}

CASE(posix_path_readdir_of_shm_open)
{
	const char *name = fresh_name();
	close(object_named(name, 1));
	say("%d", shown_in("/dev/shm/", path_of(name)));
	say("%d", shown_in("/dev/../dev/shm", path_of(name)));
}

CASE(posix_path_entry)
{
	const char *path = path_of_file("x");
	DIR *stream = opendir("/dev/shm");
	struct dirent entry = { .d_ino = 0 };
	struct stat state;
	say("%d", shown(stream, base_of(path), &entry));
	stat(path, &state);
	say("inode %s, a file %s", yes(entry.d_ino == state.st_ino), yes(entry.d_type == DT_REG));
	say("%s", got(closedir(stream)));
}

CASE(posix_path_end_of_a_directory)
{
	DIR *stream = opendir("/dev/shm");
	errno = 0;
	while (readdir(stream))
		;
	say("%s", errno_name(errno));
	say("%s %s", yes(readdir(stream) == NULL), errno_name(errno));
	closedir(stream);
}

CASE(posix_path_dots_once)
{
	DIR *stream = opendir("/dev/shm");
	path_of_file("");
	say("%d", shown(stream, ".", NULL));
	rewinddir(stream);
	say("%d", shown(stream, "..", NULL));
	closedir(stream);
}

CASE(posix_path_rewinddir)
{
	DIR *stream = opendir("/dev/shm");
	while (readdir(stream))
		;
	const char *path = path_of_file("");
	rewinddir(stream);
	say("%d", shown(stream, base_of(path), NULL));
	rewinddir(stream);
	say("%d", shown(stream, base_of(path), NULL));
	closedir(stream);
}

CASE(posix_path_telldir)
{
	const char *path = path_of_file("");
	DIR *stream = opendir("/dev/shm");
	long place = telldir(stream);
	for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
		if (strcmp(entry->d_name, base_of(path)) == 0)
			break;
		place = telldir(stream);
	}
	while (readdir(stream))
		;
	seekdir(stream, place);
	struct dirent *entry = readdir(stream);
	say("%s", yes(entry && strcmp(entry->d_name, base_of(path)) == 0));
	closedir(stream);
}

CASE(posix_path_two_streams)
{
	const char *path = path_of_file("");
	DIR *one = opendir("/dev/shm"), *other = opendir("/dev/shm");
	readdir(one);
	say("%d", shown(other, base_of(path), NULL));
	closedir(other);
	rewinddir(one);
	say("%d", shown(one, base_of(path), NULL));
	closedir(one);
}

CASE(posix_path_fdopendir)
{
	const char *path = path_of_file("");
	DIR *stream = fdopendir(open("/dev/shm", O_RDONLY | O_DIRECTORY));
	say("%d", shown(stream, base_of(path), NULL));
	say("%s", yes(dirfd(stream) > 2));
	closedir(stream);
}

CASE(posix_path_readdir_r)
{
	const char *path = path_of_file("");
	DIR *stream = opendir("/dev/shm");
	struct dirent entry, *end;
	int times = 0;
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	while (readdir_r(stream, &entry, &end) == 0 && end)
		times += strcmp(end->d_name, base_of(path)) == 0;
	say("%d", times);
	closedir(stream);
}

CASE(posix_path_many_entries)
{
	char path[100];
	const char *first = fresh_path();
	for (int i = 0; i < 100; i++) {
		snprintf(path, sizeof path, "%s-%d", first, i);
		close(file_at(path, ""));
	}
	DIR *stream = opendir("/dev/shm");
	int times = 0;
	for (struct dirent *entry; (entry = readdir(stream)) != NULL;)
		times += strncmp(entry->d_name, base_of(first), strlen(base_of(first))) == 0;
	say("%d", times);
	closedir(stream);
	for (int i = 0; i < 100; i++) {
		snprintf(path, sizeof path, "%s-%d", first, i);
		unlink(path);
	}
}

static const char *wanted;
static int is_wanted(const struct dirent *entry)
{
	return strncmp(entry->d_name, wanted, strlen(wanted)) == 0;
}

CASE(posix_path_scandir)
{
	const char *path = path_of_file("");
	close(file_at(beside(path, "-b"), ""));
	close(file_at(beside(path, "-a"), ""));
	wanted = base_of(path);
	struct dirent **list;
	int count = scandir("/dev/shm", &list, is_wanted, alphasort);
	say("%s", got(count));
	for (int i = 0; i < count; i++)
		say("%s", list[i]->d_name + strlen(wanted));
	count = scandirat(AT_FDCWD, "/dev/shm", &list, is_wanted, NULL);
	say("%s", got(count));
	say("none: %s", got(scandir("/dev/shm/probe-none", &list, NULL, NULL)));
	unlink(beside(path, "-a"));
	unlink(beside(path, "-b"));
}

CASE(posix_path_glob)
{
	const char *path = path_of_file("");
	close(file_at(beside(path, "-b"), ""));
	close(file_at(beside(path, "-a"), ""));
	glob_t found;
	say("%s", got(glob(beside(path, "*"), 0, NULL, &found)));
	say("%zu", found.gl_pathc);
	for (size_t i = 0; i < found.gl_pathc; i++)
		say("%s", found.gl_pathv[i] + strlen(path));
	globfree(&found);
	say("exact %s", got(glob(path, 0, NULL, &found)));
	say("%zu", found.gl_pathc);
	globfree(&found);
	say("none %s", yes(glob(beside(path, "x*"), 0, NULL, &found) == GLOB_NOMATCH));
	if (chdir("/dev/shm") != 0)
		broken("chdir");
	say("%s", got(glob(beside(base_of(path), "-?"), 0, NULL, &found)));
	say("%zu", found.gl_pathc);
	globfree(&found);
	unlink(beside(path, "-a"));
	unlink(beside(path, "-b"));
}

static int seen, kind, depth, base;
static int visit(const char *path, const struct stat *state, int type)
{
	(void)state;
	if (strcmp(base_of(path), wanted) == 0)
		seen++, kind = type;
	return 0;
}
static int visit_more(const char *path, const struct stat *state, int type, struct FTW *where)
{
	(void)state;
	if (strcmp(path + where->base, wanted) == 0)
		seen++, kind = type, depth = where->level, base = where->base;
	return 0;
}

CASE(posix_path_ftw)
{
	const char *path = path_of_file("four");
	wanted = base_of(path);
	say("%s", got(ftw("/dev/shm", visit, 4)));
	say("%d, a file %s", seen, yes(kind == FTW_F));
	seen = 0;
	say("%s", got(nftw("/dev/shm", visit_more, 4, FTW_PHYS)));
	say("%d, a file %s, level %d, base %d", seen, yes(kind == FTW_F), depth, base);
	seen = 0;
	say("%s", got(nftw("/dev/shm", visit_more, 4, FTW_PHYS | FTW_DEPTH)));
	say("%d", seen);
	seen = 0;
	say("of the file: %s", got(nftw(path, visit_more, 4, FTW_PHYS)));
	say("%d, level %d, base %d", seen, depth, base);
}

CASE(posix_path_semaphores_are_shown)
{
	char path[100];
	const char *name = fresh_name();
	sem_t *semaphore;
	semaphore = sem_open(name, O_CREAT | O_EXCL, 0640, 3);
	snprintf(path, sizeof path, "/dev/shm/sem.%s", name + 1);
	say("%s", yes(semaphore != SEM_FAILED));
	say_path("it", path);
	say("%d", shown_in("/dev/shm", path));
	say("%s", got(access(path, R_OK)));
	say("%s", got(chmod(path, 0600)));
	say("%s", got(unlink(path)));
	say("%s", yes(sem_open(name, 0) == SEM_FAILED));
	say("posted %s", got(sem_post(semaphore)));
}
