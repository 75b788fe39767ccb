/* SEM_UNDO over fork, exec, spawn, threads and unshare: whose the adjustments are. */
#include "undo.h"

#include <pthread.h>
#include <sched.h>
#include <spawn.h>

static void change_and_fork(void *context)
{
	struct undoer *u = context;
	step(u->set, 0, -1, SEM_UNDO);
	pid_t child = fork();
	if (child == 0)
		_exit(0);
	finish(child);
	say("after the child's exit: %d", value(u->set, 0));
}

CASE(undo_not_inherited_by_fork)
{
	struct undoer u = scene(5, 0, false);
	finish(start(change_and_fork, &u));
	await_value(u.set, 0, 5);
	say("after the parent's exit: %d", value(u.set, 0));
}

static void change_and_exec(void *context)
{
	struct undoer *u = context;
	step(u->set, 0, -1, SEM_UNDO);
	become("linger", 0);
}

static bool runs_part(pid_t process)
{
	char path[64], line[64] = "";
	snprintf(path, sizeof path, "/proc/%d/cmdline", process);
	int file = open(path, O_RDONLY);
	ssize_t n = read(file, line, sizeof line - 1);
	close(file);
	return n > 12 && strcmp(line + 6, "--part") == 0;
}

CASE(undo_survives_exec)
{
	struct undoer u = scene(5, 0, false);
	pid_t child = start(change_and_exec, &u);
	while (!runs_part(child))
		a_moment();
	await_asleep(child);
	say("in the new program: %d", value(u.set, 0));
	stop_by(child, SIGKILL);
	await_value(u.set, 0, 5);
	say("after its end: %d", value(u.set, 0));
}

static void change_and_exec_to_exit(void *context)
{
	struct undoer *u = context;
	step(u->set, 0, -1, SEM_UNDO);
	become("exit", 7);
}

CASE(undo_after_exec_and_exit)
{
	struct undoer u = scene(5, 0, false);
	say("%s", ended(finish(start(change_and_exec_to_exit, &u))));
	await_value(u.set, 0, 5);
	say("after its end: %d", value(u.set, 0));
}

static void change_and_spawn(void *context)
{
	struct undoer *u = context;
	step(u->set, 0, -1, SEM_UNDO);
	char *arguments[] = { "probe", "--part", "exit", "0", NULL };
	extern char **environ;
	pid_t child;
	if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) != 0)
		broken("posix_spawn");
	finish(child);
	say("after a spawned program: %d", value(u->set, 0));
}

CASE(undo_not_inherited_by_spawn)
{
	struct undoer u = scene(5, 0, false);
	finish(start(change_and_spawn, &u));
	await_value(u.set, 0, 5);
	say("after the process: %d", value(u.set, 0));
}

static void *change_in_thread(void *context)
{
	struct undoer *u = context;
	step(u->set, 0, -1, SEM_UNDO);
	return NULL;
}

static void change_in_a_thread(void *context)
{
	struct undoer *u = context;
	pthread_t t;
	pthread_create(&t, NULL, change_in_thread, u);
	pthread_join(t, NULL);
	say("after the thread: %d", value(u->set, 0));
}

CASE(undo_belongs_to_the_process)
{
	struct undoer u = scene(5, 0, false);
	finish(start(change_in_a_thread, &u));
	await_value(u.set, 0, 5);
	say("after the process: %d", value(u.set, 0));
}

static void *after_main_thread(void *context)
{
	struct undoer *u = context;
	/* The main thread has ended when it is a zombie; the process goes on. */
	char path[64], line[256];
	snprintf(path, sizeof path, "/proc/%d/task/%d/stat", getpid(), getpid());
	for (;;) {
		int file = open(path, O_RDONLY);
		ssize_t n = read(file, line, sizeof line - 1);
		close(file);
		line[n > 0 ? n : 0] = '\0';
		char *state = strrchr(line, ')');
		if (state && state[2] == 'Z')
			break;
		a_moment();
	}
	say("after the main thread: %d", value(u->set, 0));
	_exit(0);
}

static void change_and_end_main_thread(void *context)
{
	struct undoer *u = context;
	step(u->set, 0, -1, SEM_UNDO);
	pthread_t t;
	pthread_create(&t, NULL, after_main_thread, u);
	pthread_exit(NULL);
}

CASE(undo_main_thread_ends_first)
{
	struct undoer u = scene(5, 0, false);
	finish(start(change_and_end_main_thread, &u));
	await_value(u.set, 0, 5);
	say("after the process: %d", value(u.set, 0));
}

static void change_and_unshare(void *context)
{
	struct undoer *u = context;
	step(u->set, 0, -1, SEM_UNDO);
	say("unshare(CLONE_SYSVSEM): %s", got(unshare(CLONE_SYSVSEM)));
	say("value %d", value(u->set, 0));
}

CASE(undo_unshare)
{
	struct undoer u = scene(5, 0, false);
	finish(start(change_and_unshare, &u));
	say("value %d", value(u.set, 0));
}
