/* Loaded into the kernel of User Mode Linux (LD_PRELOAD) by the lab: ptrace() for processors whose
 * extended registers are larger than that kernel knows (AMX: 11008 bytes instead of 2696).
 *
 * It reads and writes a guest process's registers with a buffer of its own size. The host cuts what
 * it reads to that, but refuses to write less than the whole. So what lies behind is left as it is:
 * a guest's programs cannot use it, as the permission (ARCH_REQ_XCOMP_PERM) is asked of a kernel
 * that does not know of it. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* A kernel thread's stack is too small for it. One thread of that kernel runs at a time, and none
 * is preempted between here and the next system call. */
static char whole[64 << 10] __attribute__((aligned(64)));

static long set_registers(long pid, struct iovec *part)
{
	struct iovec all = { whole, sizeof(whole) };
	long result = syscall(SYS_ptrace, (long)PTRACE_GETREGSET, pid, NT_X86_XSTATE, &all);

	if (result == 0 && part->iov_len < all.iov_len) {
		memcpy(whole, part->iov_base, part->iov_len);
		part = &all;
	}
	return syscall(SYS_ptrace, (long)PTRACE_SETREGSET, pid, NT_X86_XSTATE, part);
}

long ptrace(enum __ptrace_request request, ...)
{
	va_list list;
	va_start(list, request);
	long pid = va_arg(list, pid_t);
	void *address = va_arg(list, void *);
	void *data = va_arg(list, void *);
	va_end(list);

	if (request == PTRACE_SETREGSET && (unsigned long)address == NT_X86_XSTATE)
		return set_registers(pid, data);
	if (request != PTRACE_PEEKTEXT && request != PTRACE_PEEKDATA && request != PTRACE_PEEKUSER)
		return syscall(SYS_ptrace, (long)request, pid, address, data);
	/* The kernel stores the word; the C library returns it. */
	long word;
	if (syscall(SYS_ptrace, (long)request, pid, address, &word) < 0)
		return -1;
	errno = 0;
	return word;
}
