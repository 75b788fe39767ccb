/* open(2), creat(2), fopen(3), mkstemp(3) of paths below /dev/shm. */
#include "posix_path.h"

#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>

CASE(posix_path_opens_what_shm_open_made)
{
	const char *name = fresh_name();
	char *at = map_object(object_named(name, PAGE), PAGE);
	strcpy(at, "by name");
	say("%s", content(path_of(name)));
}

CASE(posix_path_shm_open_opens_what_open_made)
{
	const char *name = fresh_name();
	close(file_at(path_of(name), "by path"));
	say("%s", yes(in_object(name, 0, "by path")));
	say("unlinked by name: %s", got(shm_unlink(name)));
	say("%s", content(path_of(name)));
}

CASE(posix_path_flags_and_existence)
{
	static const int ways[] = { O_RDONLY, O_WRONLY, O_RDWR, O_RDWR | O_CREAT,
		O_RDONLY | O_CREAT, O_WRONLY | O_CREAT | O_EXCL, O_RDWR | O_EXCL, O_RDWR | O_TRUNC,
		O_WRONLY | O_CREAT | O_TRUNC, O_RDONLY | O_DIRECTORY, O_RDONLY | O_NOFOLLOW,
		O_WRONLY | O_APPEND, O_RDWR | O_CREAT | O_NOFOLLOW, O_RDWR | O_NONBLOCK,
		O_RDWR | O_CLOEXEC };
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		const char *path = fresh_path();
		say("%o, missing: %s", ways[i], made(open(path, ways[i], 0600)));
		unlink(path);
		close(file_at(path, "12345"));
		int file = open(path, ways[i], 0600);
		say("%o, there: %s size %ld flags %o %o", ways[i], made(file), (long)size_of(file),
			fcntl(file, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK),
			fcntl(file, F_GETFD));
		close(file);
		unlink(path);
	}
}

CASE(posix_path_modes_and_umask)
{
	static const mode_t masks[] = { 0, 022, 077, 0777 };
	static const mode_t modes[] = { 0, 0400, 0644, 0666, 0777 };
	for (size_t m = 0; m < sizeof masks / sizeof *masks; m++)
		for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
			umask(masks[m]);
			const char *path = fresh_path();
			close(open(path, O_RDWR | O_CREAT, modes[i]));
			say_path("new", path);
			unlink(path);
		}
}

CASE(posix_path_creat)
{
	const char *path = path_of_file("12345");
	int file = creat(path, 0600);
	say("%s, reads %s", made(file), got(read(file, &file, 1)));
	say_path("emptied", path);
	unlink(path);
	umask(0);
	say("%s", made(creat(path, 0640)));
	say_path("made", path);
}

CASE(posix_path_reads_and_writes)
{
	const char *path = fresh_path();
	int file = file_at(path, "hello world");
	char text[20] = "";
	ssize_t bytes = read(file, text, 5);
	say("read %s %s", got(bytes), text);
	say("write %s", got(write(file, "X", 1)));
	say("pread %s", got(pread(file, text, 11, 0)));
	say("%s", text);
	struct iovec parts[] = { { text, 2 }, { text + 10, 3 } };
	say("readv %s", got(readv(file, parts, 2)));
	say("pwrite %s", got(pwrite(file, "end", 3, 20)));
	say("%ld bytes", (long)size_of(file));
	say("seek %s", got(lseek(file, -3, SEEK_END)));
	memset(text, 0, sizeof text);
	bytes = read(file, text, 20);
	say("read %s %s", got(bytes), text);
}

CASE(posix_path_appends)
{
	const char *path = path_of_file("one");
	int file = open(path, O_WRONLY | O_APPEND), other = open(path, O_WRONLY | O_APPEND);
	say("%s", got(write(file, "two", 3)));
	say("%s", got(write(other, "three", 5)));
	say("%s", content(path));
}

CASE(posix_path_mapped)
{
	const char *path = path_of_file("hello");
	int file = open(path, O_RDWR);
	char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	say("%s", made(at == MAP_FAILED ? -1 : 0));
	at[0] = 'J';
	say("%s", content(path));
}

CASE(posix_path_is_not_close_on_exec)
{
	const char *path = path_of_file("");
	say("open %d", fcntl(open(path, O_RDONLY), F_GETFD));
	say("O_CLOEXEC %d", fcntl(open(path, O_RDONLY | O_CLOEXEC), F_GETFD));
	say("made %d", fcntl(open(beside(path, "x"), O_RDWR | O_CREAT, 0600), F_GETFD));
	unlink(beside(path, "x"));
	say("shm_open %d", fcntl(object_of(1), F_GETFD));
	say("fopen %d", fcntl(fileno(fopen(path, "re")), F_GETFD));
}

CASE(posix_path_odd_ends)
{
	const char *path = path_of_file("x");
	static const char *ends[] = { "/", "/.", "/..", "/y", "//", "/y/z" };
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		const char *other = beside(path, ends[i]);
		struct stat state;
		say("%s: open %s stat %s access %s", ends[i], made(open(other, O_RDONLY)),
			got(stat(other, &state)), got(access(other, F_OK)));
		say("unlink %s", got(unlink(other)));
	}
	say_path("there", path);
}

CASE(posix_path_too_long)
{
	char path[400];
	snprintf(path, sizeof path, "/dev/shm/probe-%0249d", 1);
	int file = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	say("the longest: %s", made(file));
	say("unlinked: %s", got(unlink(path)));
	snprintf(path, sizeof path, "/dev/shm/probe-%0250d", 1);
	say("longer: %s", made(open(path, O_RDWR | O_CREAT, 0600)));
	say("%s %s", got(unlink(path)), got(access(path, F_OK)));
}

CASE(posix_path_bad_pointers)
{
	char *nowhere = mmap(
		NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(nowhere + PAGE, PAGE, PROT_NONE);
	char *at_end = nowhere + PAGE - 9;
	memcpy(at_end, "/dev/shm/", 9);
	const char *bad[] = { NULL, (const char *)1, (const char *)-1, at_end, nowhere + PAGE };
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct stat state;
		say("%zu: %s %s", i, got(open(bad[i], O_RDWR | O_CREAT, 0600)),
			got(stat(bad[i], &state)));
		say("%s %s", got(unlink(bad[i])), got(rename(bad[i], "/dev/shm/probe-none")));
	}
	const char *path = path_of_file("x");
	say("stat into nothing: %s", got(syscall(SYS_newfstatat, AT_FDCWD, path, NULL, 0)));
}

CASE(posix_path_a_descriptor_outlives_the_name)
{
	const char *path = fresh_path();
	int file = file_at(path, "hello");
	char text[6] = "";
	say("%s", got(unlink(path)));
	ssize_t bytes = read(file, text, 5);
	say("read %s %s", got(bytes), text);
	say_state("unlinked", file);
	say("again: %s", made(open(path, O_RDWR | O_CREAT | O_EXCL, 0600)));
	say_path("the new one", path);
}

CASE(posix_path_by_number)
{
	const char *path = fresh_path();
	long file = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL, 0600);
	say("%s %s", made(file), got(write((int)file, "hello", 5)));
	struct stat state;
	long asked = syscall(SYS_newfstatat, AT_FDCWD, path, &state, 0);
	say("stat %s %ld", got(asked), (long)state.st_size);
	say("access %s", got(syscall(SYS_faccessat, AT_FDCWD, path, R_OK)));
	say("chmod %s", got(syscall(SYS_fchmodat, AT_FDCWD, path, 0640)));
	say_path("now", path);
	const char *other = fresh_path();
	say("rename %s", got(syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, other, 0)));
	say("readlink %s", got(syscall(SYS_readlinkat, AT_FDCWD, other, &state, 8)));
	say("truncate %s", got(syscall(SYS_truncate, other, 2L)));
	say("%s", content(other));
	say("unlink %s", got(syscall(SYS_unlinkat, AT_FDCWD, other, 0)));
	say("%s", content(other));
}

CASE(posix_path_sendfile)
{
	int from = file_at(fresh_path(), "hello world"), ends[2];
	char text[20] = "";
	off_t at = 6;
	if (pipe(ends) != 0)
		broken("pipe");
	ssize_t sent = sendfile(ends[1], from, &at, 100);
	say("%s %ld", got(sent), (long)at);
	ssize_t came = read(ends[0], text, 20);
	say("%s %s", got(came), text);
	say("%s", got(sendfile(ends[1], from, NULL, 5)));
	say("then at %s", got(lseek(from, 0, SEEK_CUR)));
	came = read(ends[0], text, 20);
	say("%s %.5s", got(came), text);
	int to = file_at(fresh_path(), "");
	at = 0;
	say("to another: %s", got(sendfile(to, from, &at, 11)));
	say("%ld bytes, then at %ld", (long)size_of(to), (long)at);
	say("behind the end: %s", got(sendfile(to, from, &at, 11)));
	say("for writing alone: %s", got(sendfile(to, open(path_of_file("x"), O_WRONLY), NULL, 1)));
	say("to one for reading: %s",
		got(sendfile(open(path_of_file("x"), O_RDONLY), from, NULL, 1)));
}

CASE(posix_path_fork_and_exec_keep_it)
{
	int file = file_at(fresh_path(), "hello");
	pid_t child = fork();
	if (child == 0) {
		dup2(file, 9);
		execl("/bin/sh", "sh", "-c", "test \"$(head -c 5 <&9)\" = hello", NULL);
		_exit(9);
	}
	say("%s", ended(finish(child)));
}

CASE(posix_path_other_user)
{
	const char *path = path_of_file("secret");
	chmod(path, 0640);
	umask(0);
	if (geteuid() != 0)
		skip("not root");
	pid_t child = fork();
	if (child == 0) {
		if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
			_exit(9);
		say("open %s %s", made(open(path, O_RDONLY)), made(open(path, O_RDWR)));
		say("access %s %s", got(access(path, R_OK)), got(access(path, F_OK)));
		say_path("stat", path);
		say("unlink %s chmod %s", got(unlink(path)), got(chmod(path, 0777)));
		say("chown %s rename %s", got(chown(path, NOBODY, -1)),
			got(rename(path, fresh_path())));
		say("truncate %s", got(truncate(path, 0)));
		const char *own = path_of_file("own");
		struct stat state;
		stat(own, &state);
		say("own: %s, %s", yes(state.st_uid == NOBODY), got(unlink(own)));
		_exit(0);
	}
	say("%s", ended(finish(child)));
}
