/* The runner: each case in a process group of its own, with a deadline; whatever is left is killed
 * and removed. */
#include "case.h"
#include "runner.h"

#include <stdarg.h>
#include <sys/resource.h>

static struct probe_case *cases;
static const char *current = "?";
static int output = 1;
static int percent_of_turns = 100;

void register_case(struct probe_case *c)
{
	struct probe_case **at = &cases;
	while (*at && strcmp((*at)->name, c->name) < 0)
		at = &(*at)->next;
	c->next = *at;
	*at = c;
}

static void say_line(const char *format, va_list arguments)
{
	char line[1024];
	int n = snprintf(line, sizeof line, "%s: ", current);
	n += vsnprintf(line + n, sizeof line - (size_t)n - 1, format, arguments);
	if (n > (int)sizeof line - 2)
		n = (int)sizeof line - 2;
	line[n++] = '\n';
	/* One write for a line: processes of a case share the descriptor, opened with O_APPEND. */
	if (write(output, line, (size_t)n) != n)
		_exit(3);
}

void say(const char *format, ...)
{
	int saved = errno;
	va_list arguments;
	va_start(arguments, format);
	say_line(format, arguments);
	va_end(arguments);
	errno = saved;
}

int output_descriptor(void) { return output; }

int turns(int n) { return n * percent_of_turns < 100 ? 1 : n * percent_of_turns / 100; }

void broken(const char *format, ...)
{
	int saved = errno;
	va_list arguments;
	va_start(arguments, format);
	say_line(format, arguments);
	va_end(arguments);
	say("BROKEN (errno %s)", errno_name(saved));
	_exit(0);
}

void skip(const char *why)
{
	say("skipped (%s)", why);
	_exit(0);
}

/* One running case. */
struct place {
	struct probe_case *c;
	pid_t pid;
	int file;
	struct tracked *objects;
	uint64_t deadline;
	char *text;
	bool done;
};

/* How long cases have run, for their deadlines. What passes between two looks counts for some of it
 * at most: where the runner does not get on, neither do the cases beside it. */
static uint64_t now_ms(void)
{
	enum { MOST = 10 };
	static uint64_t looked, passed;
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	uint64_t now = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
	passed += now - looked < MOST ? now - looked : MOST;
	looked = now;
	return passed;
}

static void launch(struct place *p, int timeout)
{
	p->file = memfd_create("case", 0);
	fcntl(p->file, F_SETFL, O_APPEND);
	p->objects = new_tracking();
	p->deadline = now_ms() + (uint64_t)timeout * 1000;
	p->pid = fork();
	if (p->pid == -1) {
		perror("fork");
		exit(1);
	}
	if (p->pid != 0)
		return;
	setpgid(0, 0);
	current = p->c->name;
	output = p->file;
	use_tracking(p->objects);
	p->c->run();
	_exit(0);
}

static void collect(struct place *p, const char *note)
{
	kill(-p->pid, SIGKILL);
	while (waitpid(-p->pid, NULL, WNOHANG) > 0)
		;
	remove_tracked(p->objects);
	off_t length = lseek(p->file, 0, SEEK_END);
	size_t room = (size_t)length + strlen(p->c->name) + 64;
	p->text = calloc(1, room);
	if (p->text == NULL || pread(p->file, p->text, (size_t)length, 0) != length)
		exit(1);
	if (note)
		snprintf(p->text + length, room - (size_t)length, "%s: %s\n", p->c->name, note);
	close(p->file);
	p->done = true;
}

static void check_on(struct place *p)
{
	int status;
	if (waitpid(p->pid, &status, WNOHANG) == p->pid) {
		char note[64];
		snprintf(note, sizeof note, "CRASHED (%s)", ended(status));
		collect(p, status == 0 ? NULL : note);
	} else if (now_ms() > p->deadline) {
		kill(-p->pid, SIGKILL);
		kill(p->pid, SIGKILL);
		waitpid(p->pid, NULL, 0);
		collect(p, "TIMEOUT");
	}
}

static void run_all(struct place *places, size_t n, int jobs, int timeout)
{
	size_t started = 0, printed = 0;
	while (printed < n) {
		size_t busy = 0;
		for (size_t i = printed; i < started; i++) {
			if (!places[i].done)
				check_on(&places[i]);
			busy += !places[i].done;
		}
		while (started < n && busy < (size_t)jobs) {
			launch(&places[started++], timeout);
			busy++;
		}
		while (printed < n && places[printed].done) {
			fputs(places[printed].text, stdout);
			free(places[printed++].text);
			fflush(stdout);
		}
		nanosleep(&(struct timespec) { .tv_nsec = 500000 }, NULL);
	}
}

static int usage(FILE *out, const char *name)
{
	fprintf(out,
		"usage: %s [--list] [--jobs N] [--timeout SECONDS] [--turns PERCENT] [CASE...]\n"
		"Says, case by case, what System V IPC does here. CASE may end in '*'. Cases run one at a time unless\n"
		"--jobs says more; a case that takes longer than the timeout (default 20) is killed and prints TIMEOUT.\n"
		"--turns: cases that repeat something do so at so many percent of the turns.\n",
		name);
	return out == stdout ? 0 : 2;
}

static bool chosen(const char *name, char **patterns, int n)
{
	for (int i = 0; i < n; i++) {
		size_t length = strlen(patterns[i]);
		if (length > 0 && patterns[i][length - 1] == '*'
				? strncmp(name, patterns[i], length - 1) == 0
				: strcmp(name, patterns[i]) == 0)
			return true;
	}
	/* Those need limits that are small, and are asked for by name. */
	return n == 0 && strncmp(name, "limits_", 7) != 0;
}

/* What a user may have in all is shared by all cases that run at a time, and by other suites: it is
 * raised as far as it may be. Cases that need little of it are for those who may not raise it. */
static void raise_shared_limits(void)
{
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };
	if (setrlimit(RLIMIT_MSGQUEUE, &limit) == 0)
		return;
	getrlimit(RLIMIT_MSGQUEUE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_MSGQUEUE, &limit);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--part") == 0)
		return play_part(argc, argv);
	int jobs = 1, timeout = 20, at = 1;
	bool list = false;
	for (; at < argc && strncmp(argv[at], "--", 2) == 0; at++) {
		if (strcmp(argv[at], "--list") == 0)
			list = true;
		else if (strcmp(argv[at], "--jobs") == 0 && at + 1 < argc && atoi(argv[at + 1]) > 0)
			jobs = atoi(argv[++at]);
		else if (strcmp(argv[at], "--timeout") == 0 && at + 1 < argc
		        && atoi(argv[at + 1]) > 0)
			timeout = atoi(argv[++at]);
		else if (strcmp(argv[at], "--turns") == 0 && at + 1 < argc && atoi(argv[at + 1]) > 0)
			percent_of_turns = atoi(argv[++at]);
		else
			return usage(strcmp(argv[at], "--help") == 0 ? stdout : stderr, argv[0]);
	}
	size_t n = 0, total = 0;
	for (struct probe_case *c = cases; c; c = c->next)
		total++;
	struct place *places = calloc(total, sizeof *places);
	for (struct probe_case *c = cases; c; c = c->next)
		if (chosen(c->name, argv + at, argc - at))
			places[n++].c = c;
	if (n == 0) {
		fprintf(stderr, "no such case; --list shows them\n");
		return 2;
	}
	if (list)
		for (size_t i = 0; i < n; i++)
			puts(places[i].c->name);
	else {
		raise_shared_limits();
		run_all(places, n, jobs, timeout);
	}
	free(places);
	return 0;
}
