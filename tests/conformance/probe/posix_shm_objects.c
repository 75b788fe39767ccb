#include "posix_shm.h"

int object_named(const char *name, off_t bytes)
{
	int file = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (file == -1 || ftruncate(file, bytes) != 0)
		broken("an object of %ld bytes", (long)bytes);
	return file;
}

int object_of(off_t bytes) { return object_named(fresh_name(), bytes); }

char *map_object(int file, size_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (at == MAP_FAILED)
		broken("mmap of an object");
	return at;
}

off_t size_of(int file)
{
	struct stat state;
	return fstat(file, &state) == 0 ? state.st_size : -1;
}

void say_state(const char *when, int file)
{
	struct stat state;
	if (fstat(file, &state) != 0) {
		say("%s: %s", when, got(-1));
		return;
	}
	say("%s: kind %o mode %04o links %ld size %ld", when, state.st_mode & S_IFMT,
		state.st_mode & 07777, (long)state.st_nlink, (long)state.st_size);
}

bool in_object(const char *name, size_t at, const char *text)
{
	int file = shm_open(name, O_RDONLY, 0);
	if (file == -1)
		broken("an object that is there");
	size_t bytes = (size_t)size_of(file);
	char *mapped = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
	if (mapped == MAP_FAILED)
		broken("mmap for reading");
	bool same = at + strlen(text) <= bytes && memcmp(mapped + at, text, strlen(text)) == 0;
	munmap(mapped, bytes);
	close(file);
	return same;
}
