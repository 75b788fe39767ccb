/* A filter that lets the calls pass which docs/reference/sysv-differences.md lists, and those that
 * the programs here make themselves. */
#ifndef FILTER_H
#define FILTER_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_CODE = 256 };

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct {
	const char *name;
	int number;
} library[] = {
#define CALL(name) { #name, SYS_##name }
	CALL(futex),
	CALL(sched_yield),
	CALL(nanosleep),
	CALL(clock_gettime),
	CALL(getpid),
	CALL(rt_sigprocmask),
	CALL(mmap),
	CALL(munmap),
	CALL(mremap),
	CALL(mprotect),
	CALL(madvise),
	CALL(fstat),
	CALL(fallocate),
	CALL(pwrite64),
	CALL(geteuid),
	CALL(getegid),
	CALL(getgroups),
	CALL(capget),
	CALL(prlimit64),
	CALL(exit_group),
};
/* What the program itself does: it prints, has handlers, makes a child and waits for it, and ends.
 */
static const int program[] = { SYS_write, SYS_rt_sigreturn, SYS_clone, SYS_wait4, SYS_gettid,
	SYS_tgkill, SYS_kill, SYS_set_robust_list, SYS_exit, SYS_rseq, SYS_getuid, SYS_brk };

static inline int is_allowed(unsigned long number)
{
	for (size_t at = 0; at < COUNT(library); at++)
		if ((unsigned long)library[at].number == number)
			return 1;
	for (size_t at = 0; at < COUNT(program); at++)
		if ((unsigned long)program[at] == number)
			return 1;
	return 0;
}

/* A filter: without `refused`, every call that is in neither list ends the process; else that one
 * gives EPERM. */
static inline size_t filter_of(const char *refused, struct sock_filter *code)
{
	size_t used = 0;
	code[used++] = (struct sock_filter)BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t at = 0; at < COUNT(library); at++) {
		int matches = refused && strcmp(refused, library[at].name) == 0;
		if (refused && !matches)
			continue;
		code[used++] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, library[at].number, 0, 1);
		code[used++] = (struct sock_filter)BPF_STMT(
			BPF_RET | BPF_K, matches ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_ALLOW);
	}
	for (size_t at = 0; at < COUNT(program); at++) {
		code[used++] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, program[at], 0, 1);
		code[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	code[used++] = (struct sock_filter)BPF_STMT(
		BPF_RET | BPF_K, refused ? SECCOMP_RET_ALLOW : SECCOMP_RET_KILL_PROCESS);
	return used;
}

/* Installs it for the calling thread. */
static inline int confine(const char *refused)
{
	struct sock_filter code[MOST_CODE];
	struct sock_fprog filter = { .len = filter_of(refused, code), .filter = code };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

/* Installs it for all threads. */
static inline int confine_all(void)
{
	struct sock_filter code[MOST_CODE];
	struct sock_fprog filter = { .len = filter_of(NULL, code), .filter = code };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -1;
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
}

#endif
