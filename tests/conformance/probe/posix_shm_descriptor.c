/* A descriptor of an object is a descriptor: dup(2), poll(2), exec, SCM_RIGHTS and the like. */
#include "posix_shm.h"

#include <poll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>

CASE(posix_shm_close_on_exec)
{
	int file = object_of(1);
	say("%d", fcntl(file, F_GETFD));
	say("of a copy: %d", fcntl(dup(file), F_GETFD));
	say("of another: %d", fcntl(fcntl(file, F_DUPFD_CLOEXEC, 0), F_GETFD));
}

CASE(posix_shm_lowest_number)
{
	int low = dup(0);
	close(low);
	say("%s", yes(object_of(1) == low));
}

CASE(posix_shm_duplicates)
{
	int file = object_of(PAGE);
	strcpy(map_object(file, PAGE), "the same");
	int copies[] = { dup(file), dup2(file, 100), dup3(file, 101, O_CLOEXEC),
		fcntl(file, F_DUPFD, 102), fcntl(file, F_DUPFD_CLOEXEC, 103) };
	close(file);
	for (size_t i = 0; i < sizeof copies / sizeof *copies; i++) {
		say("%s, %ld bytes", yes(copies[i] >= 0), (long)size_of(copies[i]));
		say("%s", map_object(copies[i], PAGE));
		say("close: %s", got(close(copies[i])));
		say("again: %s", got(close(copies[i])));
	}
}

CASE(posix_shm_duplicate_keeps_it_alive)
{
	const char *name = fresh_name();
	int file = object_named(name, PAGE);
	char *at = map_object(file, PAGE);
	strcpy(at, "alive");
	munmap(at, PAGE);
	shm_unlink(name);
	int copy = dup(file);
	close(file);
	say("%ld, %s", (long)size_of(copy), map_object(copy, PAGE));
}

CASE(posix_shm_duplicated_over)
{
	int one = object_of(10), two = object_of(20), other = open("/dev/null", O_RDWR);
	say("%s", yes(dup2(one, two) == two));
	say("%ld", (long)size_of(two));
	say("%s", yes(dup2(two, two) == two));
	say("%ld", (long)size_of(two));
	say("same number: %s", got(dup3(two, two, 0)));
	dup2(other, two);
	struct stat state;
	fstat(two, &state);
	say("a device: %s", yes(S_ISCHR(state.st_mode)));
	say("of nothing: %s", got(dup2(1234, one)));
	say("%ld", (long)size_of(one));
}

CASE(posix_shm_offset_is_shared_by_duplicates)
{
	int file = object_of(10), copy = dup(file);
	lseek(file, 4, SEEK_SET);
	say("%s", got(lseek(copy, 0, SEEK_CUR)));
	write(copy, "ab", 2);
	say("%s", got(lseek(file, 0, SEEK_CUR)));
}

CASE(posix_shm_number_used_again)
{
	int file = object_of(PAGE);
	close(file);
	int other = open("/proc/self/exe", O_RDONLY);
	say("same number: %s", yes(other == file));
	char *at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, other, 0);
	say("%.3s", at + 1);
	say("%s", got(ftruncate(other, 10)));
}

CASE(posix_shm_closed_by_stdio)
{
	int file = object_of(PAGE);
	fclose(fdopen(file, "r+"));
	int other = open("/proc/self/exe", O_RDONLY);
	say("same number: %s", yes(other == file));
	char *at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, other, 0);
	say("%.3s, bytes: %s", at + 1, yes(size_of(other) > PAGE));
}

CASE(posix_shm_range_closed)
{
	int file = object_of(10);
	dup2(file, 200);
	dup2(file, 201);
	say("%s", got(close_range(200, 200, 0)));
	say("%ld %ld", (long)size_of(200), (long)size_of(201));
	say("%s", got(close_range(200, 300, CLOSE_RANGE_CLOEXEC)));
	say("%d %ld", fcntl(201, F_GETFD), (long)size_of(201));
	closefrom(201);
	say("%ld %ld", (long)size_of(201), (long)size_of(file));
	say("by number: %s", got(syscall(SYS_close, file)));
	say("%ld", (long)size_of(file));
}

CASE(posix_shm_poll)
{
	int file = object_of(10);
	struct pollfd p = { .fd = file, .events = POLLIN | POLLOUT | POLLPRI };
	say("%s", got(poll(&p, 1, 0)));
	say("%#x", p.revents);
}

CASE(posix_shm_sync)
{
	int file = object_of(10);
	say("%s %s", got(fsync(file)), got(fdatasync(file)));
}

CASE(posix_shm_no_terminal)
{
	int file = object_of(10);
	say("%s", got(isatty(file)));
}

CASE(posix_shm_seals)
{
	int file = object_of(10);
	say("%s", got(fcntl(file, F_GET_SEALS)));
	say("%s", got(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE)));
}

CASE(posix_shm_record_locks)
{
	int file = object_of(10);
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	say("fcntl %s", got(fcntl(file, F_SETLK, &lock)));
	say("flock %s", got(flock(file, LOCK_EX | LOCK_NB)));
	say("lockf %s", got(lockf(file, F_TLOCK, 0)));
}

CASE(posix_shm_copied_by_the_kernel)
{
	int from = object_of(10), pipes[2];
	memcpy(map_object(from, 10), "0123456789", 10);
	if (pipe(pipes) != 0)
		broken("pipe");
	char text[10] = "";
	ssize_t sent = sendfile(pipes[1], from, NULL, 10);
	if (sent == -1 && errno == EINVAL)
		sent = read(from, text, 10) == 10 ? write(pipes[1], text, 10) : -1;
	say("%s", got(sent));
	say("%s", got(read(pipes[0], text, 10)));
	say("%.10s", text);
}

CASE(posix_shm_no_descriptor_left)
{
	const char *name = fresh_name();
	close(object_named(name, 10));
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	int next = dup(0);
	close(next);
	limit.rlim_cur = (rlim_t)next;
	setrlimit(RLIMIT_NOFILE, &limit);
	say("%s", made(shm_open(name, O_RDWR, 0)));
	say("unlink: %s", got(shm_unlink(name)));
}

CASE(posix_shm_stat_family)
{
	int file = object_of(77);
	struct stat state;
	struct statx more;
	say("%s", got(fstatat(file, "", &state, AT_EMPTY_PATH)));
	say("%o %ld", state.st_mode, (long)state.st_size);
	say("%s", got(statx(file, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &more)));
	say("%o %ld, links %d", more.stx_mode, (long)more.stx_size, (int)more.stx_nlink);
	say("%s", got(syscall(SYS_fstat, file, &state)));
	say("%o %ld", state.st_mode, (long)state.st_size);
	say("block %ld", (long)state.st_blksize);
	say("times: %s %s", when(state.st_mtime), when(state.st_ctime));
}

static int passed(int file, int *into)
{
	int pair[2];
	socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	char byte = 'x', room[CMSG_SPACE(sizeof file)] __attribute__((aligned(8)));
	struct iovec data = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1,
		.msg_control = room, .msg_controllen = sizeof room
	};
	struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(sizeof file);
	memcpy(CMSG_DATA(rights), &file, sizeof file);
	if (sendmsg(pair[0], &message, 0) != 1)
		return -1;
	memset(room, 0, sizeof room);
	message.msg_controllen = sizeof room;
	if (recvmsg(pair[1], &message, 0) != 1 || !(rights = CMSG_FIRSTHDR(&message)))
		return -1;
	memcpy(into, CMSG_DATA(rights), sizeof *into);
	close(pair[0]);
	close(pair[1]);
	return 0;
}

CASE(posix_shm_passed_by_socket)
{
	int file = object_of(PAGE), other = -1;
	strcpy(map_object(file, PAGE), "passed");
	say("%s", got(passed(file, &other)));
	close(file);
	say("%ld %s", (long)size_of(other), map_object(other, PAGE));
}

struct passing {
	int pair[2];
};

static void send_object(void *context)
{
	struct passing *p = context;
	int file = object_of(PAGE);
	strcpy(map_object(file, PAGE), "from another process");
	char byte = 'x', room[CMSG_SPACE(sizeof file)] __attribute__((aligned(8)));
	struct iovec data = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1,
		.msg_control = room, .msg_controllen = sizeof room
	};
	struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
	*rights = (struct cmsghdr) {
		.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof file)
	};
	memcpy(CMSG_DATA(rights), &file, sizeof file);
	if (sendmsg(p->pair[0], &message, 0) != 1 || read(p->pair[0], &byte, 1) != 1)
		_exit(1);
}

CASE(posix_shm_passed_by_another_process)
{
	struct passing p;
	socketpair(AF_UNIX, SOCK_SEQPACKET, 0, p.pair);
	pid_t child = start(send_object, &p);
	char byte, room[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
	struct iovec data = { &byte, 1 };
	struct mmsghdr messages = { .msg_hdr = {
		.msg_iov = &data, .msg_iovlen = 1,
		.msg_control = room, .msg_controllen = sizeof room } };
	say("%s", got(recvmmsg(p.pair[1], &messages, 1, 0, NULL)));
	int file = -1;
	memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&messages.msg_hdr)), sizeof file);
	write(p.pair[1], "x", 1);
	say("%s", ended(finish(child)));
	say_state("received", file);
	say("%s", map_object(file, PAGE));
}

CASE(posix_shm_opened_by_its_number)
{
	int file = object_of(PAGE);
	strcpy(map_object(file, PAGE), "by /proc");
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	int other = open(path, O_RDWR);
	say("%s %ld", made(other), (long)size_of(other));
	say("%s", map_object(other, PAGE));
}
