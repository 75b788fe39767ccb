#include "case.h"

#include <grp.h>

static void a_moment(void) { nanosleep(&(struct timespec) { .tv_nsec = 1000000 }, NULL); }

pid_t start(role_fn *role, void *context)
{
	pid_t child = fork();
	if (child == -1)
		broken("fork");
	if (child == 0) {
		role(context);
		_exit(0);
	}
	return child;
}

int finish(pid_t child)
{
	int status;
	while (waitpid(child, &status, 0) != child)
		if (errno != EINTR)
			broken("waitpid");
	return status;
}

void stop_by(pid_t child, int signal)
{
	kill(child, signal);
	finish(child);
}

static char state_of(pid_t thread)
{
	/* /proc/TID works for threads that are not leaders, though it is not listed. */
	char path[64], line[512];
	snprintf(path, sizeof path, "/proc/%d/stat", thread);
	int file = open(path, O_RDONLY | O_CLOEXEC);
	if (file == -1)
		return '?';
	ssize_t n = read(file, line, sizeof line - 1);
	close(file);
	if (n <= 0)
		return '?';
	line[n] = '\0';
	const char *after_name = strrchr(line, ')');
	return after_name ? after_name[2] : '?';
}

void await_thread_asleep(pid_t thread)
{
	/* Five looks in a row: a process may also sleep for an instant on its way into the call. */
	for (int asleep = 0; asleep < 5;) {
		asleep = state_of(thread) == 'S' ? asleep + 1 : 0;
		a_moment();
	}
}

void await_asleep(pid_t process) { await_thread_asleep(process); }

void await_waiters(int set, int n, int command, int count, pid_t process)
{
	while (asked(set, n, command) != count)
		a_moment();
	if (process != 0)
		await_asleep(process);
}

void await_attaches(int segment, long count)
{
	while (attaches(segment) != count)
		a_moment();
}

int faults(role_fn *role, void *context)
{
	int status = finish(start(role, context));
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

struct dressed {
	role_fn *role;
	void *context;
};

static void undressed(void *context)
{
	struct dressed *d = context;
	if (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
		broken("becoming another user");
	d->role(d->context);
}

void as_nobody(role_fn *role, void *context)
{
	if (geteuid() != 0)
		skip("needs root");
	struct dressed d = { role, context };
	int status = finish(start(undressed, &d));
	if (status != 0)
		say("the other user's process: %s", ended(status));
}

void as_ordinary(role_fn *role, void *context)
{
	struct dressed d = { role, context };
	int status = finish(geteuid() == 0 ? start(undressed, &d) : start(role, context));
	if (status != 0)
		say("the ordinary user's process: %s", ended(status));
}

void handle(int signal, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
	sigaction(signal, &action, NULL);
}

static void nothing(int signal) { (void)signal; }

void ignore_quietly(int signal) { handle(signal, nothing, 0); }

volatile int *shared_ints(void)
{
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		broken("mmap");
	return at;
}

void become(const char *part, int number)
{
	char text[16];
	snprintf(text, sizeof text, "%d", number);
	execl("/proc/self/exe", "probe", "--part", part, text, (char *)NULL);
	broken("exec of this program");
}
