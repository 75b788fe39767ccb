/* ftruncate(2), posix_fallocate(3), lseek(2), read(2), write(2) and their kin on objects. */
#include "posix_shm.h"

#include <sys/uio.h>

CASE(posix_shm_sizes)
{
	static const off_t sizes[] = { 0, 1, 100, PAGE - 1, PAGE, PAGE + 1, 100000, 0, 5 };
	int file = object_of(0);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		say("to %ld: %s", (long)sizes[i], got(ftruncate(file, sizes[i])));
		say("is %ld", (long)size_of(file));
	}
}

CASE(posix_shm_wrong_sizes)
{
	const char *name = fresh_name();
	int file = object_named(name, 100), readable = shm_open(name, O_RDONLY, 0);
	say("negative: %s", got(ftruncate(file, -1)));
	say("for reading: %s", got(ftruncate(readable, 10)));
	say("closed: %s", got(ftruncate(1234, 10)));
	say("is %ld", (long)size_of(file));
}

CASE(posix_shm_shrunk_and_grown_reads_zeros)
{
	int file = object_of(3 * PAGE);
	char *at = map_object(file, 3 * PAGE);
	memset(at, 'x', 3 * PAGE);
	say("%s", got(ftruncate(file, PAGE + 10)));
	say("before the end: %d %d", at[PAGE], at[PAGE + 9]);
	say("behind it, in its page: %d %d", at[PAGE + 10], at[2 * PAGE - 1]);
	say("%s", got(ftruncate(file, 3 * PAGE)));
	say("back: %d %d %d %d", at[PAGE + 9], at[PAGE + 10], at[2 * PAGE], at[3 * PAGE - 1]);
}

CASE(posix_shm_grown_while_not_mapped)
{
	int file = object_of(100);
	char *at = map_object(file, PAGE);
	strcpy(at, "stays");
	munmap(at, PAGE);
	say("%s", got(ftruncate(file, 50 * PAGE)));
	at = map_object(file, 50 * PAGE);
	say("%s, zero behind: %s", at, yes(at[50 * PAGE - 1] == 0));
}

CASE(posix_shm_grown_while_mapped)
{
	int file = object_of(PAGE);
	char *at = map_object(file, PAGE);
	strcpy(at, "stays");
	say("%s", got(ftruncate(file, 2 * PAGE)));
	say("%ld bytes, %s", (long)size_of(file), at);
}

CASE(posix_shm_mapped_before_it_has_a_size)
{
	int file = object_of(0);
	char *at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	say("%s", made(at == MAP_FAILED ? -1 : 0));
	say("%s", got(ftruncate(file, 2 * PAGE)));
	if (at == MAP_FAILED)
		return;
	strcpy(at, "first mapped");
	say("%s", map_object(file, 2 * PAGE));
}

CASE(posix_shm_allocated)
{
	int file = object_of(0);
	say("%s", errno_name(posix_fallocate(file, 0, 100)));
	say("%ld", (long)size_of(file));
	say("less: %s", errno_name(posix_fallocate(file, 10, 20)));
	say("%ld", (long)size_of(file));
	say("no length: %s", errno_name(posix_fallocate(file, 0, 0)));
	say("negative: %s", errno_name(posix_fallocate(file, -1, 5)));
	say("%ld", (long)size_of(file));
}

CASE(posix_shm_allocated_by_fallocate)
{
	int file = object_of(0);
	say("%s", got(fallocate(file, 0, 100, 100)));
	say("%ld", (long)size_of(file));
	say("no length: %s", got(fallocate(file, 0, 0, 0)));
	say("negative: %s", got(fallocate(file, 0, -5, 5)));
	say("unknown: %s", got(fallocate(file, 0x4000, 0, 5)));
}

CASE(posix_shm_allocate_errors)
{
	const char *name = fresh_name();
	close(object_named(name, 5));
	int readable = shm_open(name, O_RDONLY, 0);
	say("for reading: %s", errno_name(posix_fallocate(readable, 0, 10)));
	say("closed: %s", errno_name(posix_fallocate(1234, 0, 10)));
	say("%ld", (long)size_of(readable));
}

CASE(posix_shm_seek)
{
	int file = object_of(1000);
	say("set %s", got(lseek(file, 10, SEEK_SET)));
	say("cur %s", got(lseek(file, 5, SEEK_CUR)));
	say("end %s", got(lseek(file, -1, SEEK_END)));
	say("beyond %s", got(lseek(file, 5000, SEEK_SET)));
	say("before %s", got(lseek(file, -2000, SEEK_END)));
	say("unknown %s", got(lseek(file, 0, 77)));
	say("where %s", got(lseek(file, 0, SEEK_CUR)));
	ftruncate(file, 2000);
	say("end %s", got(lseek(file, 0, SEEK_END)));
}

CASE(posix_shm_seek_data_and_holes)
{
	int file = object_of(PAGE);
	memset(map_object(file, PAGE), 'x', PAGE);
	for (off_t at = 0; at < 20; at += 10) {
		say("data %s", got(lseek(file, at, SEEK_DATA)));
		say("hole %s", got(lseek(file, at, SEEK_HOLE)));
	}
	say("at the end %s", got(lseek(file, PAGE, SEEK_DATA)));
	say("at the end %s", got(lseek(file, PAGE, SEEK_HOLE)));
	say("before the beginning %s", got(lseek(file, -1, SEEK_DATA)));
}

CASE(posix_shm_stream)
{
	const char *name = fresh_name();
	FILE *stream = fdopen(object_named(name, 0), "w+");
	say("%d", fprintf(stream, "line one\nline two\n"));
	say("flush %d", fflush(stream));
	say("%s", yes(in_object(name, 0, "line one\nline two\n")));
	rewind(stream);
	char text[32] = "";
	for (int i = 0; i < 3; i++)
		say("%s", fgets(text, sizeof text, stream) ? text : "end");
	say("seek %d", fseek(stream, -4, SEEK_END));
	say("tell %ld", ftell(stream));
	say("%c", fgetc(stream));
	say("close %d", fclose(stream));
}

CASE(posix_shm_stream_appends)
{
	const char *name = fresh_name();
	int file = object_named(name, 0);
	if (write(file, "abc", 3) != 3)
		broken("write");
	FILE *stream = fdopen(file, "a");
	fputs("def", stream);
	fclose(stream);
	say("%s", yes(in_object(name, 0, "abcdef")));
}

CASE(posix_shm_read)
{
	int file = object_of(10);
	memcpy(map_object(file, 10), "0123456789", 10);
	char text[32] = "";
	say("%s", got(read(file, text, 4)));
	say("%.4s", text);
	say("%s", got(read(file, text, sizeof text)));
	say("%.6s", text);
	say("end: %s", got(read(file, text, sizeof text)));
	say("nothing: %s", got(read(file, text, 0)));
	say("at 3: %s %.2s", got(pread(file, text, 2, 3)), text);
	say("at 9: %s %.1s", got(pread(file, text, 20, 9)), text);
	say("at 10: %s", got(pread(file, text, 20, 10)));
	say("at -1: %s", got(pread(file, text, 20, -1)));
	say("where: %s", got(lseek(file, 0, SEEK_CUR)));
}

CASE(posix_shm_write)
{
	const char *name = fresh_name();
	int file = object_named(name, 10);
	say("%s", got(write(file, "abc", 3)));
	say("%s", got(write(file, "def", 3)));
	say("%ld bytes: %s", (long)size_of(file), yes(in_object(name, 0, "abcdef")));
	say("at 4: %s", got(pwrite(file, "XY", 2, 4)));
	say("%s", yes(in_object(name, 0, "abcdXY")));
	say("where: %s", got(lseek(file, 0, SEEK_CUR)));
	say("at -1: %s", got(pwrite(file, "XY", 2, -1)));
	say("nothing: %s", got(write(file, "", 0)));
}

CASE(posix_shm_write_grows)
{
	const char *name = fresh_name();
	int file = object_named(name, 0);
	say("%s", got(write(file, "abc", 3)));
	say("%ld", (long)size_of(file));
	say("at 5000: %s", got(pwrite(file, "end", 3, 5000)));
	say("%ld %s", (long)size_of(file), yes(in_object(name, 0, "abc")));
	say("%s", yes(in_object(name, 5000, "end")));
}

CASE(posix_shm_vectors)
{
	int file = object_of(10);
	char one[4] = "", two[8] = "";
	struct iovec out[] = { { "abc", 3 }, { "", 0 }, { "defg", 4 } };
	struct iovec in[] = { { one, 2 }, { two, 5 } };
	say("%s", got(writev(file, out, 3)));
	lseek(file, 0, SEEK_SET);
	say("%s", got(readv(file, in, 2)));
	say("%.2s %.5s", one, two);
	say("at 1: %s", got(pwritev(file, out, 3, 1)));
	say("at 1: %s", got(preadv(file, in, 2, 1)));
	say("%.2s %.5s", one, two);
	volatile int absurd = -1;
	say("too many: %s", got(readv(file, in, absurd)));
}

CASE(posix_shm_access_mode_counts)
{
	const char *name = fresh_name();
	close(object_named(name, 10));
	char text[4];
	int file = shm_open(name, O_RDONLY, 0);
	say("read %s, write %s", got(read(file, text, 4)), got(write(file, "abcd", 4)));
	say("pwrite %s", got(pwrite(file, "abcd", 4, 0)));
	say("fcntl says %d", fcntl(file, F_GETFL) & O_ACCMODE);
	say("of both: %d", fcntl(shm_open(name, O_RDWR, 0), F_GETFL) & O_ACCMODE);
}

CASE(posix_shm_bad_buffers)
{
	int file = object_of(10);
	void *volatile bad = (void *)8;
	say("read %s", got(read(file, bad, 4)));
	say("write %s", got(write(file, bad, 4)));
	say("where: %s", got(lseek(file, 0, SEEK_CUR)));
	say("fstat %s", got(fstat(file, bad)));
}

CASE(posix_shm_append)
{
	int file = object_of(4);
	say("%s", got(fcntl(file, F_SETFL, O_APPEND)));
	say("append: %s", yes(fcntl(file, F_GETFL) & O_APPEND));
	say("%s", got(write(file, "ab", 2)));
	say("%ld", (long)size_of(file));
}
