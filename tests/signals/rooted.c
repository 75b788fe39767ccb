/* Who starts an agent, and as what: a process whose agent has been killed makes slow calls. AGENT
 * is a command that prints the agent's pid.
 *
 *   rooted same AGENT      where it began: there is an agent again
 *
 *   rooted closed AGENT    the same with all descriptors closed: none, and nothing breaks
 *
 *   rooted jail AGENT DIR  after a chroot that was not noticed, to a directory with a command of
 *                          another in the place of VSHMEM_COMMAND: it is not run
 *
 *   rooted user AGENT      as another user: none
 *
 *   rooted jail-late AGENT DIR     another thread makes the chroot when the library has looked
 *                                  where it is, and is about to make the child that becomes an
 *                                  agent: the dynamic linker in DIR is not run
 *
 *   rooted replaced-late AGENT DIR another thread replaces the library's descriptor just then: the
 *                                  file DIR/other, which that means now, is not run
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../conformance/share/direct.h"
#include "trace.h"

static int agent(const char *command)
{
	int pid = 0;
	FILE *pipe = popen(command, "r");
	if (!pipe || fscanf(pipe, "%d", &pid) != 1)
		pid = 0;
	if (pipe)
		pclose(pipe);
	return pid;
}

/* Calls that may take their time, over the turn of two seconds: the library looks once in each. */
static void slow_calls(void)
{
	time_t begin = time(NULL);
	while (time(NULL) < begin + 3) {
		int id = shmget(IPC_PRIVATE, 4096, 0600);
		if (id == -1)
			fail("shmget");
		shmctl(id, IPC_RMID, NULL);
		usleep(20000);
	}
}

/* What the traced process and its tracer tell each other: it is about to make a child, and its
 * other thread has done its part. */
static struct {
	volatile int is_about_to_clone, is_done;
	volatile int is_ready;
} *shared;
static const char *directory;
static int replaces;

/* The library's descriptor of the command means another file from now on. */
static void replace_command(int other)
{
	struct stat wanted, found;
	if (stat(getenv("VSHMEM_COMMAND"), &wanted) != 0)
		fail("VSHMEM_COMMAND");
	for (int number = 3; number < 1024; number++)
		if (number != other && fstat(number, &found) == 0
		        && found.st_ino == wanted.st_ino && found.st_dev == wanted.st_dev)
			direct(SYS_dup3, other, number, O_CLOEXEC, 0);
}

static void *other_thread(void *nothing)
{
	int other = open("other", O_PATH | O_CLOEXEC);
	if (replaces && other == -1)
		fail("other");
	shared->is_ready = 1;
	wait_for(&shared->is_about_to_clone);
	if (replaces)
		replace_command(other);
	else if (direct(SYS_chroot, (long)".", 0, 0, 0) != 0)
		fail("chroot");
	set_flag(&shared->is_done, 1);
	return nothing;
}

/* The process whose first thread is traced. */
static void traced(void)
{
	pthread_t thread;
	if (chdir(directory) != 0 || pthread_create(&thread, NULL, other_thread, NULL) != 0)
		fail("a thread");
	wait_for(&shared->is_ready);
	trace_me();
	slow_calls();
	_exit(0);
}

static int is_about_to_clone(const struct ptrace_syscall_info *call)
{
	return call->entry.nr == SYS_clone && call->entry.args[0] == 0;
}

static void let_other_thread_run(pid_t child)
{
	(void)child;
	set_flag(&shared->is_about_to_clone, 1);
	wait_for(&shared->is_done);
}

/* Between the library's last look and its child, another thread changes what was looked at. */
static int overtaken(int agent)
{
	int status;
	shared = shared_memory(sizeof *shared);
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
		fail("to prepare");
	pid_t child = fork();
	if (child == 0)
		traced();
	wait_for(&shared->is_ready);
	if (kill(agent, SIGKILL) != 0)
		fail("kill");
	if (run_traced(child, is_about_to_clone, let_other_thread_run) != 0)
		fail("the traced process");
	/* What it has started comes to this process. */
	while (waitpid(-1, &status, __WALL) > 0)
		;
	if (chdir(directory) != 0)
		fail(directory);
	if (access("run-by-root", F_OK) == 0) {
		puts("FAILED: a file of another user was run");
		return 1;
	}
	return 0;
}

int main(int count, char **words)
{
	if (count < 3)
		return 2;
	const char *way = words[1], *command = words[2];
	slow_calls();
	int pid = agent(command);
	if (pid == 0)
		fail("no agent to begin with");
	directory = words[3];
	replaces = strcmp(way, "replaced-late") == 0;
	if (replaces || strcmp(way, "jail-late") == 0)
		return overtaken(pid);
	if (strcmp(way, "closed") == 0)
		close_range(3, ~0U, 0);
	/* By instruction: past the library. */
	if (strcmp(way, "jail") == 0
	        && (direct(SYS_chroot, (long)words[3], 0, 0, 0) != 0 || chdir("/") != 0))
		fail("chroot");
	if (strcmp(way, "user") == 0 && direct(SYS_setresuid, 65534, 65534, 0, 0) != 0)
		fail("setresuid");
	if (strcmp(way, "user") == 0) {
		direct(SYS_setresuid, 0, 0, 0, 0);
		if (kill(pid, SIGKILL) != 0)
			fail("kill");
		direct(SYS_setresuid, 65534, 65534, 0, 0);
	} else if (kill(pid, SIGKILL) != 0) {
		fail("kill");
	}
	slow_calls();
	if (strcmp(way, "jail") == 0) {
		if (access("/run-by-root", F_OK) == 0) {
			puts("FAILED: a command of another user was run, as root");
			return 1;
		}
		return 0;
	}
	if (strcmp(way, "user") == 0)
		direct(SYS_setresuid, 0, 0, 0, 0);
	int next = agent(command);
	if (strcmp(way, "same") == 0) {
		while (next == 0 || next == pid) /* it may still come up */
			next = (usleep(10000), agent(command));
		return 0;
	}
	if (next != 0 && next != pid) {
		printf("FAILED: %s: an agent was started\n", way);
		return 1;
	}
	return 0;
}
