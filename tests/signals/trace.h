/* A child whose first thread is traced, and is stopped once at a system call that its tracer
 * chooses. */
#ifndef TRACE_H
#define TRACE_H

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/ptrace.h>

static inline void fail(const char *what)
{
	fprintf(stderr, "FAILED: %s: %s\n", what, strerror(errno));
	_exit(1);
}

/* Memory that a child and its tracer share, all zeros. */
static inline void *shared_memory(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		fail("memory");
	return at;
}

/* Flags in memory that threads, or a child and its tracer, share. */
static inline void set_flag(volatile int *flag, int value)
{
	__atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

static inline int read_flag(volatile int *flag)
{
	return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static inline void wait_for(volatile int *flag)
{
	while (!read_flag(flag))
		sched_yield();
}

/* In the child, when its other threads run: these are not traced. */
static inline void trace_me(void)
{
	if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0)
		fail("PTRACE_TRACEME");
	raise(SIGSTOP);
}

/* Lets the child run to its end. At the first system call of its first thread that `is_it` accepts,
 * this thread stays stopped before the call, as long as `meanwhile` takes. Returns the child's
 * status. */
static inline int run_traced(pid_t child, int (*is_it)(const struct ptrace_syscall_info *),
	void (*meanwhile)(pid_t))
{
	int status, is_over = 0;
	if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
		fail("to trace");
	ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD);
	while (WIFSTOPPED(status)) {
		int signal = WSTOPSIG(status), is_call = signal == (SIGTRAP | 0x80);
		struct ptrace_syscall_info call;
		if (is_call && !is_over
		        && ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(call), &call) > 0
		        && call.op == PTRACE_SYSCALL_INFO_ENTRY && is_it(&call)) {
			meanwhile(child);
			is_over = 1;
		}
		ptrace(is_over ? PTRACE_CONT : PTRACE_SYSCALL, child, 0,
			is_call || signal == SIGSTOP ? 0 : signal);
		if (waitpid(child, &status, 0) != child)
			fail("to wait");
	}
	if (!is_over && status == 0) {
		puts("FAILED: the system call was not made");
		exit(1);
	}
	return status;
}

#endif
