/* A signal while an exec is tried, just before the kernel finds that it cannot be done:
 *
 *   exec_tried      its handler finds the segment attached as before, and stores into it
 *
 *   exec_tried gone the segment was removed by another process meanwhile, and its pages are another
 *                   segment's: nothing is stored there. On a kernel the segment would still be
 *                   there; on a pool touching it is SIGSEGV
 *
 * And a program that is executed has the mask of signals that the one before it had.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "trace.h"

enum { BYTES = 1 << 20 };

static int id, removes, other = -1;
static char *at;
static char *volatile its;
static const char *text_file;
/* What the handler has found. */
static volatile unsigned long attaches;
static volatile int has_run;

static void stores(int signal)
{
	struct shmid_ds status;
	(void)signal;
	if (shmctl(id, IPC_STAT, &status) == 0)
		attaches = status.shm_nattch;
	memset(at, 1, BYTES);
	has_run = 1;
}

static void has_gone(int signal)
{
	(void)signal;
	_exit(0);
}

static void traced(void)
{
	char *words[] = { "it", NULL };
	struct shmid_ds status;
	signal(SIGUSR1, stores);
	if (removes)
		signal(SIGSEGV, has_gone);
	at = shmat(id, NULL, 0);
	if (at == (char *)-1)
		fail("shmat");
	trace_me();
	if (execve(text_file, words, words + 1) != -1 || errno != ENOEXEC)
		fail("execve");
	if (!has_run)
		fail("no signal came");
	if (shmctl(id, IPC_STAT, &status) != 0)
		status.shm_nattch = 0;
	if (!removes && (attaches != 1 || status.shm_nattch != 1)) {
		printf("FAILED: %lu attaches in the handler, %lu afterwards\n", attaches,
			(unsigned long)status.shm_nattch);
		fflush(stdout);
		_exit(1);
	}
	_exit(0);
}

static int executes(const struct ptrace_syscall_info *call)
{
	return call->entry.nr == SYS_execve;
}

static void interrupt(pid_t child)
{
	if (removes) {
		if (shmctl(id, IPC_RMID, NULL) != 0)
			fail("IPC_RMID");
		other = shmget(IPC_PRIVATE, BYTES, 0600);
		its = shmat(other, NULL, 0);
		if (other == -1 || its == (char *)-1)
			fail("another segment");
	}
	kill(child, SIGUSR1);
}

static int is_mask(int signal)
{
	sigset_t now;
	sigprocmask(SIG_BLOCK, NULL, &now);
	for (int one = 1; one < 32; one++)
		if (sigismember(&now, one) != (one == signal))
			return 0;
	return 1;
}

/* Executes this program with one signal blocked and a segment attached. */
static void execute(const char *self)
{
	char *words[] = { "exec_tried", "mask", NULL };
	sigset_t one;
	sigemptyset(&one);
	sigaddset(&one, SIGUSR2);
	sigprocmask(SIG_SETMASK, &one, NULL);
	if (shmat(id, NULL, 0) != (void *)-1)
		execv(self, words);
	fail("execv");
}

int main(int count, char **words)
{
	char name[] = "/tmp/exec_tried-XXXXXX";
	int status, file;
	if (count > 1 && strcmp(words[1], "mask") == 0)
		return !is_mask(SIGUSR2);
	removes = count > 1;
	id = shmget(IPC_PRIVATE, BYTES, 0600);
	file = mkstemp(name);
	if (id == -1 || file == -1 || write(file, "text", 4) != 4 || fchmod(file, 0700) != 0)
		fail("a segment and a file");
	close(file);
	text_file = name;
	pid_t child = fork();
	if (child == 0)
		traced();
	status = run_traced(child, executes, interrupt);
	unlink(name);
	if (status != 0) {
		printf("FAILED: the process has status 0x%x\n", status);
		return 1;
	}
	for (int byte = 0; removes && byte < BYTES; byte++)
		if (its[byte] != 0) {
			puts("FAILED: the handler has stored into another segment");
			return 1;
		}
	if (removes)
		return shmctl(other, IPC_RMID, NULL) != 0;
	child = fork();
	if (child == 0)
		execute("/proc/self/exe");
	if (waitpid(child, &status, 0) != child || status != 0) {
		printf("FAILED: the program that was executed has another mask (status 0x%x)\n", status);
		return 1;
	}
	return shmctl(id, IPC_RMID, NULL) != 0;
}
