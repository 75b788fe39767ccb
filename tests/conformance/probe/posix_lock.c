/* Helpers of the cases about file locks. */
#include "posix_lock.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

/* Another domain's process has no number here; to the kernel it is a process below. */
static bool is_far;

struct pair *new_pair(bool far)
{
	static struct pair pair;
	if (far && geteuid() != 0)
		skip("a PID namespace needs root");
	pair = (struct pair) { .name = fresh_name(), .words = shared_ints(), .far = far };
	is_far = far;
	int file = open_object(&pair, O_CREAT | O_RDWR);
	if (ftruncate(file, 4096) != 0)
		broken("ftruncate");
	close(file);
	return &pair;
}

int open_object(struct pair *p, int flags)
{
	int file = shm_open(p->name, flags, 0600);
	if (file == -1)
		broken("shm_open: %s", errno_name(errno));
	return file;
}

/*
 * A container has an agent that was started in it. Nothing, on the kernel. One that ends at once
 * and well, without a word, has found that there is one already: the library may have been faster.
 */
static void start_agent(void)
{
	const char *command = getenv("VSHMEM_COMMAND"), *pool = getenv("VSHMEM_POOL");
	int up[2], status;
	char said;
	if (!command || !pool)
		return;
	if (pipe(up) != 0)
		broken("pipe");
	pid_t child = fork();
	if (child == 0) {
		dup2(up[1], 1);
		close(up[0]);
		close(up[1]);
		unsetenv("LD_PRELOAD");
		execl(command, "vshmem", "agent", "--pool", pool, "--stay", (char *)NULL);
		_exit(1);
	}
	close(up[1]);
	if (read(up[0], &said, 1) != 1 && (waitpid(child, &status, 0) != child || status != 0))
		broken("no agent");
	close(up[0]);
}

static void play_other(void *context)
{
	struct pair *p = context;
	if (p->far) {
		/* Its /proc is that of its own namespace, as in a container. */
		if (unshare(CLONE_NEWNS) != 0
			|| mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0
			|| mount("proc", "/proc", "proc", 0, NULL) != 0)
			broken("a /proc of its own");
		start_agent();
	}
	p->other(p, open_object(p, O_RDWR));
}

pid_t start_other(struct pair *p, void (*other)(struct pair *p, int file))
{
	p->other = other;
	int own = -1;
	if (p->far) {
		/* From others the end of one that lived so short is seen late, by its lease. */
		struct stat initial;
		own = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
		if (stat("/proc/self/ns/pid", &initial) != 0 || initial.st_ino != 0xEFFFFFFC)
			skip("not in the initial PID namespace");
		if (own == -1 || unshare(CLONE_NEWPID) != 0)
			skip("no PID namespace");
	}
	pid_t child = start(play_other, p);
	if (own != -1 && (setns(own, CLONE_NEWPID) != 0 || close(own) != 0))
		broken("setns");
	return child;
}

void reached(struct pair *p, int step) { p->words[0] = step; }
void allow(struct pair *p, int step) { p->words[1] = step; }

void await_step(struct pair *p, int word, int step)
{
	while (p->words[word] < step)
		nanosleep(&(struct timespec) { .tv_nsec = 200000 }, NULL);
}

pid_t held_by(struct pair *p, void (*other)(struct pair *p, int file))
{
	pid_t child = start_other(p, other);
	await_step(p, 0, 1);
	return child;
}

void hold_on(void)
{
	for (;;)
		pause();
}

int record(int file, int command, int type, off_t start, off_t length)
{
	struct flock lock = {
		.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length
	};
	return fcntl(file, command, &lock);
}

const char *tried(int file, int type, off_t start, off_t length)
{
	return got(record(file, F_SETLK, type, start, length));
}

void say_holder(const char *what, int file, int type, off_t start, off_t length, pid_t other)
{
	struct flock lock = {
		.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length
	};
	int result = fcntl(file, F_GETLK, &lock);
	const char *kinds[] = { [F_RDLCK] = "read", [F_WRLCK] = "write", [F_UNLCK] = "free" };
	if (result == 0 && lock.l_type == F_UNLCK)
		say("%s: free", what);
	else
		say("%s: %s, %s from %ld, %ld bytes, of %s", what, got(result), kinds[lock.l_type],
			(long)lock.l_start, (long)lock.l_len,
			lock.l_pid == -1 ? "a description"
				: is_far && (lock.l_pid == 0 || lock.l_pid == other) ? "one elsewhere"
				: who(lock.l_pid, other));
}
