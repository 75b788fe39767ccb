#include "posix_path.h"

#include <ftw.h>

static char *room(void)
{
	static char paths[8][PATH_MAX];
	static unsigned next;
	return paths[next++ % 8];
}

const char *path_of(const char *name)
{
	char *path = room();
	snprintf(path, PATH_MAX, "/dev/shm%s", name);
	return path;
}

const char *fresh_path(void) { return path_of(fresh_name()); }

const char *base_of(const char *path) { return strrchr(path, '/') + 1; }

const char *beside(const char *path, const char *end)
{
	char *other = room();
	snprintf(other, PATH_MAX, "%s%s", path, end);
	return other;
}

const char *folder(void)
{
	char *path = room();
	strcpy(path, "/tmp/probe-folder-XXXXXX");
	if (mkdtemp(path) == NULL)
		broken("mkdtemp");
	return path;
}

static int clear(const char *path, const struct stat *state, int kind, struct FTW *where)
{
	(void)state, (void)kind, (void)where;
	return remove(path);
}

void clear_folder(const char *path) { nftw(path, clear, 8, FTW_DEPTH | FTW_PHYS); }

int file_at(const char *path, const char *text)
{
	int file = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (file == -1 || write(file, text, strlen(text)) != (ssize_t)strlen(text)
		|| lseek(file, 0, SEEK_SET) != 0)
		broken("a file at a path below /dev/shm: %s", got(-1));
	return file;
}

const char *path_of_file(const char *text)
{
	const char *path = fresh_path();
	close(file_at(path, text));
	return path;
}

const char *content(const char *path)
{
	static char texts[4][101];
	static unsigned next;
	char *text = texts[next++ % 4];
	int file = open(path, O_RDONLY);
	if (file == -1)
		return got(-1);
	ssize_t bytes = read(file, text, 100);
	text[bytes > 0 ? bytes : 0] = 0;
	close(file);
	return bytes < 0 ? got(-1) : text;
}

void say_path(const char *when, const char *path)
{
	struct stat state;
	if (stat(path, &state) != 0)
		say("%s: %s", when, got(-1));
	else
		say("%s: kind %o mode %04o links %ld size %ld", when, state.st_mode & S_IFMT,
			state.st_mode & 07777, (long)state.st_nlink, (long)state.st_size);
}
