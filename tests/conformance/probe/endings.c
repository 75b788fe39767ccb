/* Threads and processes that end, are cancelled or replaced while they sleep or hold something. */
#include "case.h"

#include <pthread.h>
#include <sched.h>
#include <linux/sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { PAGE = 4096 };

struct waiter {
	int id;
	volatile pid_t thread;
	long result;
	int error;
	volatile int cleaned;
};

static void note_cleaning(void *context) { ((struct waiter *)context)->cleaned = 1; }

static void *sleep_on_semaphore(void *context)
{
	struct waiter *s = context;
	pthread_cleanup_push(note_cleaning, s);
	s->thread = (pid_t)syscall(SYS_gettid);
	s->result = step(s->id, 0, -1, 0);
	s->error = errno;
	pthread_cleanup_pop(0);
	return NULL;
}

static void *sleep_to_receive(void *context)
{
	struct waiter *s = context;
	struct message m;
	pthread_cleanup_push(note_cleaning, s);
	s->thread = (pid_t)syscall(SYS_gettid);
	s->result = take(s->id, &m, 100, 0, 0);
	s->error = errno;
	pthread_cleanup_pop(0);
	return NULL;
}

static void *sleep_to_send(void *context)
{
	struct waiter *s = context;
	pthread_cleanup_push(note_cleaning, s);
	s->thread = (pid_t)syscall(SYS_gettid);
	s->result = put(s->id, 1, "0123456789", 0);
	s->error = errno;
	pthread_cleanup_pop(0);
	return NULL;
}

static pthread_t asleep_in(void *(*role)(void *), struct waiter *s)
{
	pthread_t t;
	if (pthread_create(&t, NULL, role, s) != 0)
		broken("pthread_create");
	while (s->thread == 0)
		sched_yield();
	await_thread_asleep(s->thread);
	return t;
}

static int full_queue(void)
{
	int q = queue_of();
	struct msqid_ds ds = queue_state(q);
	ds.msg_qbytes = 5;
	msgctl(q, IPC_SET, &ds);
	return q;
}

/* ---- cancellation: msgsnd and msgrcv are cancellation points, pthreads(7); semop is none ---- */

static void cancel(void *(*role)(void *), int id)
{
	struct waiter s = { .id = id };
	pthread_t t = asleep_in(role, &s);
	pthread_cancel(t);
	void *how;
	pthread_join(t, &how);
	say("cancelled: %s, its handler ran: %s", yes(how == PTHREAD_CANCELED), yes(s.cleaned));
}

CASE(end_cancel_receiver)
{
	int q = queue_of();
	cancel(sleep_to_receive, q);
	say("it takes nothing afterwards: %s", got(put(q, 1, "x", 0)));
	say("messages %lu", (unsigned long)queue_state(q).msg_qnum);
	cancel(sleep_to_receive, queue_of());
}

CASE(end_cancel_sender)
{
	int q = full_queue();
	struct message m;
	cancel(sleep_to_send, q);
	struct msqid_ds ds = queue_state(q);
	ds.msg_qbytes = 100;
	msgctl(q, IPC_SET, &ds);
	say("it sends nothing afterwards: %s", got(take(q, &m, 100, 0, IPC_NOWAIT)));
}

static void *receive_when_told(void *context)
{
	struct waiter *s = context;
	struct message m;
	pthread_cleanup_push(note_cleaning, s);
	while (s->thread == 0)
		;
	s->result = take(s->id, &m, 100, 0, IPC_NOWAIT);
	pthread_cleanup_pop(0);
	return NULL;
}

CASE(end_cancel_before_the_call)
{
	/* A cancellation that is pending acts at the call, even when it would not sleep. */
	struct waiter s = { .id = queue_of() };
	pthread_t t;
	put(s.id, 1, "x", 0);
	pthread_create(&t, NULL, receive_when_told, &s);
	pthread_cancel(t);
	s.thread = 1;
	void *how;
	pthread_join(t, &how);
	say("cancelled: %s, messages %lu", yes(how == PTHREAD_CANCELED),
		(unsigned long)queue_state(s.id).msg_qnum);
}

static void *disabled_to_receive(void *context)
{
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return sleep_to_receive(context);
}

CASE(end_cancel_disabled)
{
	struct waiter s = { .id = queue_of() };
	pthread_t t = asleep_in(disabled_to_receive, &s);
	pthread_cancel(t);
	put(s.id, 1, "four", 0);
	pthread_join(t, NULL);
	say("received %ld", s.result);
}

static void *asynchronously_on_semaphore(void *context)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	return sleep_on_semaphore(context);
}

CASE(end_cancel_asynchronous)
{
	struct waiter s = { .id = set_of(1) };
	pthread_t t = asleep_in(asynchronously_on_semaphore, &s);
	pthread_cancel(t);
	void *how;
	pthread_join(t, &how);
	say("cancelled: %s, its handler ran: %s", yes(how == PTHREAD_CANCELED), yes(s.cleaned));
	say("ncnt %d", asked(s.id, 0, GETNCNT));
	step(s.id, 0, 1, 0);
	say("value %d", value(s.id, 0));
}

/* ---- a process that ends, or becomes another program, while a thread of it sleeps ---- */

static void exit_with_waiter(void *context)
{
	struct waiter s = { .id = *(int *)context };
	asleep_in(sleep_on_semaphore, &s);
}

CASE(end_exit_while_a_thread_sleeps)
{
	int a = set_of(1);
	finish(start(exit_with_waiter, &a));
	say("ncnt %d", asked(a, 0, GETNCNT));
	step(a, 0, 1, 0);
	say("value %d", value(a, 0));
}

struct exec_scene {
	int set;
	volatile int *go; /* the waiter has been counted: without it, the exec may come before the
	                     count */
};

static void exec_with_waiter(void *context)
{
	struct exec_scene *scene = context;
	struct waiter s = { .id = scene->set };
	asleep_in(sleep_on_semaphore, &s);
	while (!*scene->go)
		sched_yield();
	become("linger", 0);
}

static void await_count(int set, int count)
{
	while (asked(set, 0, GETNCNT) != count)
		sched_yield();
}

CASE(end_exec_while_a_thread_sleeps)
{
	struct exec_scene scene = { set_of(1), shared_ints() };
	pid_t child = start(exec_with_waiter, &scene);
	await_count(scene.set, 1);
	*scene.go = 1;
	await_count(scene.set, 0);
	step(scene.set, 0, 1, 0);
	say("after exec nobody takes: value %d", value(scene.set, 0));
	stop_by(child, SIGKILL);
}

static void exec_with_receiver(void *context)
{
	struct waiter s = { .id = *(int *)context };
	int tell = s.id;
	asleep_in(sleep_to_receive, &s);
	become("send one", tell);
}

CASE(end_exec_while_a_thread_receives)
{
	int q = queue_of();
	finish(start(exec_with_receiver, &q));
	say("what the new program sent stays: %lu", (unsigned long)queue_state(q).msg_qnum);
}

static void *exec_from_thread(void *context) { become("count attaches", *(int *)context); }

static void exec_from_a_thread(void *context)
{
	int *ids = context;
	pthread_t t;
	attach(ids[0]);
	step(ids[1], 0, -1, SEM_UNDO);
	pthread_create(&t, NULL, exec_from_thread, ids);
	pause();
}

CASE(end_exec_from_a_thread)
{
	int ids[2] = { segment_of(PAGE), set_of(1) };
	set_value(ids[1], 0, 1);
	say("attaches seen: %s", ended(finish(start(exec_from_a_thread, ids))));
	say("value %d", value(ids[1], 0));
}

static void *thread_that_ends(void *context)
{
	int set = *(int *)context;
	step(set, 0, -1, SEM_UNDO);
	return NULL;
}

CASE(end_of_a_thread_undoes_nothing)
{
	int a = set_of(1);
	set_value(a, 0, 5);
	pthread_t t;
	pthread_create(&t, NULL, thread_that_ends, &a);
	pthread_join(t, NULL);
	say("value %d", value(a, 0));
}

/* ---- exec that fails in its several ways ---- */

CASE(end_exec_fails)
{
	int a = segment_of(PAGE), s = set_of(1);
	char *at = attach(a);
	char name[] = "/tmp/probe-XXXXXX";
	int file = mkstemp(name);
	char *arguments[] = { name, NULL }, *none[] = { NULL };
	step(s, 0, 1, SEM_UNDO);
	say("not executable: %s", got(execve(name, arguments, none)));
	if (file == -1 || write(file, "no program\n", 11) != 11 || fchmod(file, 0755) != 0)
		broken("a file");
	close(file);
	say("no program: %s", got(execve(name, arguments, none)));
	say("a directory: %s", got(execv("/tmp", arguments)));
	say("not in PATH: %s", got(execvp("probe-no-such-program", arguments)));
	say("empty name: %s", got(execlp("", "x", (char *)NULL)));
	say("bad descriptor: %s", got(fexecve(-1, arguments, none)));
	say("bad pointer: %s", got(execve((char *)16, arguments, none)));
	char *long_word = malloc(300000);
	memset(long_word, 'x', 299999);
	long_word[299999] = 0;
	say("too long a word: %s",
		got(execve("/proc/self/exe", (char *[]) { "probe", long_word, NULL }, none)));
	unlink(name);
	strcpy(at, "kept");
	say("attaches %ld, %s, value %d", attaches(a), at, value(s, 0));
	say("detach: %s", got(shmdt(at)));
}

/* ---- children by other ways than fork ---- */

static pid_t clone_three(unsigned long flags)
{
	struct clone_args arguments = { .flags = flags, .exit_signal = SIGCHLD };
	return (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
}

static void child_sees(const char *how, pid_t child, int a, int s)
{
	if (child == 0) {
		say("%s: attaches %ld, -1 with SEM_UNDO %s", how, attaches(a),
			got(step(s, 0, -1, SEM_UNDO)));
		_exit(0);
	}
	if (child == -1)
		broken("%s", how);
	finish(child);
	while (value(s, 0) != 5)
		sched_yield();
	say("%s: after it attaches %ld, value %d", how, attaches(a), value(s, 0));
}

CASE(end_children_by_other_ways)
{
	int a = segment_of(PAGE), s = set_of(1);
	attach(a);
	set_value(s, 0, 5);
	child_sees("clone3", clone_three(0), a, s);
#ifdef SYS_fork
	child_sees("fork by number", (pid_t)syscall(SYS_fork), a, s);
#endif
	child_sees("clone3 once more", clone_three(0), a, s);
}

static int in_clone(void *context)
{
	int *ids = context;
	say("clone(3): attaches %ld, -1 with SEM_UNDO %s", attaches(ids[0]),
		got(step(ids[1], 0, -1, SEM_UNDO)));
	return 0;
}

CASE(end_child_by_clone)
{
	int ids[2] = { segment_of(PAGE), set_of(1) };
	static char stack[1 << 16] __attribute__((aligned(16)));
	attach(ids[0]);
	set_value(ids[1], 0, 5);
	pid_t child = clone(in_clone, stack + sizeof stack, SIGCHLD, ids);
	finish(child);
	while (value(ids[1], 0) != 5)
		sched_yield();
	say("after it attaches %ld, value %d", attaches(ids[0]), value(ids[1], 0));
}

static void leave_by_number(void *context)
{
	int *ids = context;
	attach(ids[0]);
	step(ids[1], 0, -1, SEM_UNDO);
	syscall(SYS_exit_group, 0);
}

CASE(end_exit_by_number)
{
	int ids[2] = { segment_of(PAGE), set_of(1) };
	set_value(ids[1], 0, 5);
	finish(start(leave_by_number, ids));
	say("attaches %ld, value %d", attaches(ids[0]), value(ids[1], 0));
	pid_t child = start(leave_by_number, ids);
	int status;
	if (syscall(SYS_wait4, child, &status, 0, NULL) != child)
		broken("wait4 by number");
	say("waited for by number: attaches %ld, value %d", attaches(ids[0]), value(ids[1], 0));
}

static void exec_by_number(void *context)
{
	char text[16];
	int *ids = context;
	attach(ids[0]);
	snprintf(text, sizeof text, "%d", ids[0]);
	syscall(SYS_execve, "/proc/self/exe",
		(char *[]) { "probe", "--part", "count attaches", text, NULL }, environ);
	broken("execve by number");
}

CASE(end_exec_by_number)
{
	int ids[1] = { segment_of(PAGE) };
	say("attaches seen: %s", ended(finish(start(exec_by_number, ids))));
}

static void exec_without_library(void *context)
{
	int *ids = context;
	attach(ids[0]);
	step(ids[1], 0, -1, SEM_UNDO);
	/* "true" of the shell's own, with an environment in which no library is loaded. */
	unsetenv("LD_PRELOAD");
	execl("/bin/sh", "sh", "-c", "kill -STOP $$", (char *)NULL);
	broken("sh");
}

CASE(end_exec_of_another_program)
{
	int ids[2] = { segment_of(PAGE), set_of(1) }, status;
	set_value(ids[1], 0, 5);
	pid_t child = start(exec_without_library, ids);
	if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status))
		broken("sh did not stop");
	say("while it runs: attaches %ld, value %d", attaches(ids[0]), value(ids[1], 0));
	kill(child, SIGCONT);
	finish(child);
	while (value(ids[1], 0) != 5)
		sched_yield();
	say("after it: attaches %ld, value %d", attaches(ids[0]), value(ids[1], 0));
}

static void exec_with_cleared_environment(void *context)
{
	int *ids = context;
	char text[16];
	snprintf(text, sizeof text, "%d", ids[1]);
	clearenv();
	if (ids[0] == 0)
		execl("/proc/self/exe", "probe", "--part", "take one", text, (char *)NULL);
	else if (ids[0] == 1)
		execv("/proc/self/exe", (char *[]) { "probe", "--part", "take one", text, NULL });
	else
		execvp("/proc/self/exe", (char *[]) { "probe", "--part", "take one", text, NULL });
	broken("exec");
}

CASE(end_exec_with_cleared_environment)
{
	int ids[2] = { 0, set_of(1) };
	set_value(ids[1], 0, 5);
	for (ids[0] = 0; ids[0] < 3; ids[0]++)
		say("%d: %s, value %d", ids[0],
			ended(finish(start(exec_with_cleared_environment, ids))), value(ids[1], 0));
}

static void exec_with_another_preload(void *context)
{
	char text[16];
	snprintf(text, sizeof text, "%d", *(int *)context);
	setenv("LD_PRELOAD", "libpthread.so.0", 1);
	execl("/proc/self/exe", "probe", "--part", "take one", text, (char *)NULL);
	broken("exec");
}

CASE(end_exec_with_another_preload)
{
	int s = set_of(1);
	set_value(s, 0, 5);
	say("%s, value %d", ended(finish(start(exec_with_another_preload, &s))), value(s, 0));
}
