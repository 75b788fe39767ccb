/* A filter of system calls that one thread installs while another is in the middle of a call:
 *
 *   beside all     the other is about to make a system call that the filter, which is for all
 *                  threads, does not allow: the process goes on
 *
 *   beside failed  the other has begun to install a filter, which fails when the first one's is in
 *                  force: the library still knows that the program has confined itself
 */
#include <pthread.h>
#include <sched.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <time.h>

#include "filter.h"
#include "trace.h"

static struct {
	volatile int thread, calls, may_confine, has_confined, has_failed, is_over;
} *shared;
static int is_for_all;

static void slow_call(void)
{
	struct timespec soon = { 0, 10000000 };
	int id = shmget(IPC_PRIVATE, 4096, 0600);
	if (id == -1)
		fail("shmget");
	shmctl(id, IPC_RMID, NULL);
	/* The filter allows this one. */
	syscall(SYS_nanosleep, &soon, NULL);
}

static void count_call(void)
{
	slow_call();
	__atomic_add_fetch(&shared->calls, 1, __ATOMIC_RELEASE);
}

/* The library makes the calls that a filter may forbid once in a second. */
static void slow_calls(void)
{
	time_t begin = time(NULL);
	while (time(NULL) < begin + 3)
		slow_call();
}

static void *confines(void *nothing)
{
	set_flag(&shared->thread, gettid());
	wait_for(&shared->may_confine);
	if ((is_for_all ? confine_all() : confine(NULL)) != 0)
		fail("seccomp");
	set_flag(&shared->has_confined, 1);
	wait_for(&shared->has_failed);
	slow_calls();
	set_flag(&shared->is_over, 1);
	return nothing;
}

static void traced(void)
{
	pthread_t thread;
	slow_call();
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (pthread_create(&thread, NULL, confines, NULL) != 0)
		fail("a thread");
	wait_for(&shared->thread);
	trace_me();
	while (is_for_all && !read_flag(&shared->has_confined))
		count_call();
	if (!is_for_all && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) != -1)
		fail("a filter without code");
	set_flag(&shared->has_failed, 1);
	wait_for(&shared->is_over);
	_exit(0);
}

static int is_forbidden(const struct ptrace_syscall_info *call)
{
	return !is_allowed(call->entry.nr);
}

static int confines_itself(const struct ptrace_syscall_info *call)
{
	return call->entry.nr == SYS_prctl && call->entry.args[0] == PR_SET_SECCOMP;
}

static void trace_thread(pid_t thread)
{
	int status;
	if (ptrace(PTRACE_SEIZE, thread, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) != 0)
		fail("PTRACE_SEIZE");
	ptrace(PTRACE_INTERRUPT, thread, 0, 0);
	if (waitpid(thread, &status, __WALL) != thread)
		fail("to trace a thread");
}

/* Lets a traced thread run until it is about to sleep or to install the filter. */
static unsigned long call_that_decides(pid_t thread)
{
	int status;
	struct ptrace_syscall_info call;
	do {
		ptrace(PTRACE_SYSCALL, thread, 0, 0);
		if (waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status))
			fail("a thread has ended");
		if (ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof call, &call) <= 0)
			fail("PTRACE_GET_SYSCALL_INFO");
	} while (call.op != PTRACE_SYSCALL_INFO_ENTRY
		|| (call.entry.nr != SYS_nanosleep && call.entry.nr != SYS_seccomp));
	return call.entry.nr;
}

/* The thread that confines stays before its first sleep, in which it waits for the other's call,
 * until that is over. */
static void let_other_thread_confine(pid_t child)
{
	if (is_for_all)
		trace_thread(shared->thread);
	set_flag(&shared->may_confine, 1);
	if (is_for_all) {
		int calls = read_flag(&shared->calls);
		if (call_that_decides(shared->thread) == SYS_nanosleep) {
			ptrace(PTRACE_CONT, child, 0, 0);
			while (read_flag(&shared->calls) == calls)
				sched_yield();
		}
		ptrace(PTRACE_DETACH, shared->thread, 0, 0);
	}
	wait_for(&shared->has_confined);
}

int main(int count, char **words)
{
	is_for_all = count > 1 && strcmp(words[1], "all") == 0;
	shared = shared_memory(sizeof *shared);
	pid_t child = fork();
	if (child == 0)
		traced();
	int status = run_traced(
		child, is_for_all ? is_forbidden : confines_itself, let_other_thread_confine);
	if (status != 0)
		printf("FAILED: the process has status 0x%x\n", status);
	return status != 0;
}
