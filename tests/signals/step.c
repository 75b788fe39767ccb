/* A signal at every instruction on the way to sleep. A child steps into semop(2) under ptrace, up
 * to the futex call that it sleeps in; its successors get SIGUSR1 one instruction later each.
 * Whatever the instruction: the handler finds no thread in the wait queue, the call ends with
 * EINTR, and the pool is whole. With LIBVSHMEM the child's call is one of libvshmem, whose handlers
 * say that they run. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef LIBVSHMEM
#include <vshmem.h>
#endif

#if !defined(__x86_64__)
int main(void)
{
	puts("    SKIPPED: single steps are written for x86-64");
	return 0;
}
#else

/* Instructions next to the sleep that are tried one by one; runs in all, or as the first argument
 * says. */
enum { MOST_STEPS = 200000, EACH = 20, RUNS = 70, NEAR = 400 };
enum { LATE = 1, RAN_WRONG = 2, IN_LINE = 3, NO_HANDLER = 4 };

static int set;
static volatile sig_atomic_t ran, in_line;

#ifdef LIBVSHMEM
static vshmem_pool *pool;

static void join(void)
{
	char message[512];
	if (vshmem_open(NULL, &pool, message, sizeof message) != 0) {
		puts(message);
		_exit(9);
	}
}

static int wait_at(int id, struct sembuf *take)
{
	int result = vshmem_semop(pool, id, take, 1, NULL);
	errno = -result;
	return result < 0 ? -1 : 0;
}

static void note(int signal)
{
	(void)signal;
	vshmem_interrupt();
	ran++;
}
#else
static void join(void) {}

static int wait_at(int id, struct sembuf *take)
{
	return semop(id, take, 1);
}

static void note(int signal)
{
	(void)signal;
	in_line |= semctl(set, 0, GETNCNT);
	ran++;
}
#endif

static void fail(const char *what)
{
	printf("FAILED: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* The process that is stepped through: its first sleep. */
static void waiter(void)
{
	struct sembuf take = { 0, -1, 0 };
	join();
	if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0)
		_exit(9);
	__asm__ volatile("int3");
	errno = 0;
	int result = wait_at(set, &take);
	if (result != -1 || errno != EINTR)
		_exit(RAN_WRONG);
	if (in_line != 0)
		_exit(IN_LINE);
	_exit(ran == 1 ? 0 : ran == 2 ? LATE : NO_HANDLER);
}

static struct user_regs_struct registers(pid_t child)
{
	struct user_regs_struct now;
	if (ptrace(PTRACE_GETREGS, child, 0, &now) != 0)
		fail("PTRACE_GETREGS");
	return now;
}

static void until_trap(pid_t child)
{
	int status;
	if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)
	        || WSTOPSIG(status) != SIGTRAP) {
		printf("FAILED: the child was to stop, and has status 0x%x\n", status);
		exit(1);
	}
}

static pid_t begin(void)
{
	pid_t child = fork();
	if (child < 0)
		fail("fork");
	if (child == 0)
		waiter();
	until_trap(child);
	if (ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_EXITKILL) != 0)
		fail("PTRACE_SETOPTIONS");
	return child;
}

static void step(pid_t child)
{
	if (ptrace(PTRACE_SINGLESTEP, child, 0, 0) != 0)
		fail("PTRACE_SINGLESTEP");
	until_trap(child);
}

/* Whether the child is about to sleep. */
static int at_futex(pid_t child, const struct user_regs_struct *now)
{
	long word = ptrace(PTRACE_PEEKTEXT, child, now->rip, 0);
	return (word & 0xffff) == 0x050f && now->rax == SYS_futex;
}

static int now_at;

/* The bound of a test that has failed: the child neither ends nor sleeps in the wait queue. */
static void hung(int signal)
{
	(void)signal;
	printf("FAILED: after a signal at instruction %d the call does not end\n", now_at);
	fflush(stdout);
	_exit(1);
}

static char state_of(pid_t child)
{
	char path[32], text[256] = "";
	snprintf(path, sizeof path, "/proc/%d/stat", child);
	FILE *file = fopen(path, "r");
	if (!file || !fgets(text, sizeof text, file))
		fail(path);
	fclose(file);
	return strrchr(text, ')')[2];
}

/* Lets the child continue with a signal, and says how it ended. One that came before the call began
 * leaves the child asleep: it gets another. */
static int finish(pid_t child)
{
	int status, again = 0;
	if (ptrace(PTRACE_CONT, child, 0, SIGUSR1) != 0)
		fail("PTRACE_CONT");
	alarm(30);
	for (;;) {
		pid_t got = waitpid(child, &status, WNOHANG);
		if (got == child && WIFSTOPPED(status)) {
			ptrace(PTRACE_CONT, child, 0, WSTOPSIG(status));
		} else if (got == child) {
			break;
		} else if (!again && semctl(set, 0, GETNCNT) == 1 && state_of(child) == 'S') {
			kill(child, SIGUSR1);
			again = 1;
		} else {
			usleep(100);
		}
	}
	alarm(0);
	return status;
}

int main(int count, char **words)
{
	int most = count > 1 ? atoi(words[1]) : RUNS;
	struct sigaction action = { .sa_handler = note, .sa_flags = SA_RESTART };
	if (sigaction(SIGUSR1, &action, NULL) != 0)
		fail("sigaction");
	signal(SIGALRM, hung);
	set = semget(IPC_PRIVATE, 1, 0600);
	if (set == -1)
		fail("semget");

	int steps = 0;
	pid_t child = begin();
	for (;;) {
		struct user_regs_struct now = registers(child);
		if (at_futex(child, &now))
			break;
		if (steps == MOST_STEPS)
			fail("it does not come to sleep");
		steps++;
		step(child);
	}
	if (finish(child) != 0)
		fail("a signal just before it sleeps");

	/* The last instructions one by one, those before them with gaps. */
	int begin_at = steps / 2, first = steps - EACH,
	    gap = 1 + (first - begin_at) / (most > EACH ? most - EACH : 1);
	int runs = 0, wrong = 0, begun = 0;
	for (int at = begin_at; at <= steps; at += at < first ? gap : 1) {
		child = begin();
		struct user_regs_struct here;
		for (int now = 0; now < at; now++) {
			step(child);
			/* It may come to sleep some instructions sooner than the first one did. */
			if (now > steps - NEAR && (here = registers(child), at_futex(child, &here)))
				break;
		}
		here = registers(child);
		now_at = at;
		int status = finish(child);
		runs++;
		if (WIFEXITED(status) && WEXITSTATUS(status) == LATE && begun == 0)
			continue;
		begun = 1;
		if (status != 0) {
			wrong++;
			if (wrong < 5)
				printf("FAILED: a signal %d instructions before it sleeps, at 0x%llx: status 0x%x\n",
					steps - at, here.rip, status);
			if (semctl(set, 0, GETVAL) == -1)
				fail("and the pool is destroyed");
		}
	}
	if (semctl(set, 0, GETVAL) != 0 || semctl(set, 0, GETNCNT) != 0)
		fail("the semaphore afterwards");
	semctl(set, 0, IPC_RMID);
	if (!begun)
		fail("no signal ended the call");
	printf("%d instructions to sleep, a signal at %d of them: %d wrong\n", steps, runs, wrong);
	return wrong != 0;
}
#endif
