/* step [RUNS [CALL...]]: a signal at every instruction on the way to sleep. A child steps into a
 * blocking call (step_calls.h) under ptrace, up to the futex call that it sleeps in; its successors
 * get SIGUSR1 one instruction later each. Whatever the instruction: the handler finds no thread in
 * the wait queue and can use the pool, the call ends with EINTR, or goes on where it must and ends
 * when it is served, and the object serves the next one. HANDLER_BY names the way by which the
 * handler is installed, if not by sigaction. With LIBVSHMEM the child's call is one of libvshmem,
 * whose handlers say that they run. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#if !defined(__x86_64__)
int main(void)
{
	puts("    SKIPPED: single steps are written for x86-64");
	return 0;
}
#else

#include "step_calls.h"
#ifndef LIBVSHMEM
#include "handler_ways.h"
#endif

/* Instructions next to the sleep that are tried one by one; runs in all, or as the first argument
 * says. */
enum { MOST_STEPS = 200000, EACH = 20, RUNS = 70, NEAR = 400 };
enum { LATE = 1, RAN_WRONG = 2, IN_LINE = 3, NO_HANDLER = 4 };

static const struct call *call;
/* How often the handler has run in this child, which the parent sees, too. */
static volatile sig_atomic_t *ran;
static volatile sig_atomic_t in_line;

#ifdef LIBVSHMEM
static void join(void)
{
	char message[512];
	if (vshmem_open(NULL, &pool, message, sizeof message) != 0) {
		puts(message);
		_exit(9);
	}
}

static void note(int signal)
{
	(void)signal;
	vshmem_interrupt();
	++*ran;
}
#else
/* The first row's way to sleep has the child's joining in it; the others' begin behind that. */
static void join(void)
{
	if (call != calls && !set_works())
		_exit(9);
}

static void install(void);

static void note(int signal)
{
	int before = errno;
	(void)signal;
	/* It may be for one signal. */
	install();
	in_line |= semctl(set, 0, GETNCNT);
	errno = before;
	++*ran;
}
#endif

static void install(void)
{
	const char *by = getenv("HANDLER_BY");
	struct sigaction action = { .sa_handler = note, .sa_flags = call->flags };
#ifndef LIBVSHMEM
	if (by && !by_way(by, SIGUSR1, note))
		fail(by);
#endif
	if (!by && sigaction(SIGUSR1, &action, NULL) != 0)
		fail("sigaction");
}

/* The process that is stepped through: its first sleep. */
static void waiter(void)
{
	join();
	if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0)
		_exit(9);
	__asm__ volatile("int3");
	errno = 0;
	int result = call->wait();
	if (call->wake ? result != 0 : result != -1 || errno != EINTR)
		_exit(RAN_WRONG);
	if (in_line != 0)
		_exit(IN_LINE);
	_exit(*ran == 1 ? 0 : *ran == 2 ? LATE : NO_HANDLER);
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
	*ran = 0;
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

static int is_sleep(unsigned long long number, unsigned long long operation)
{
	enum { WAIT = 0, WAIT_BITSET = 9, COMMAND = 0x7f, WAITV = 449 };
	operation &= COMMAND;
	return number == WAITV
	        || (number == SYS_futex && (operation == WAIT || operation == WAIT_BITSET));
}

/* Whether the child is about to sleep. */
static int at_futex(pid_t child, const struct user_regs_struct *now)
{
	long word = ptrace(PTRACE_PEEKTEXT, child, now->rip, 0);
	return (word & 0xffff) == 0x050f && is_sleep(now->rax, now->rsi);
}

static int now_at;

/* The bound of a test that has failed: the child neither ends nor sleeps in the wait queue. */
static void hung(int signal)
{
	(void)signal;
	printf("FAILED: %s: after a signal at instruction %d the call does not end\n", call->name,
		now_at);
	fflush(stdout);
	_exit(1);
}

/* Whether the child sleeps where its call does; nobody else keeps it from going on. */
static bool is_asleep(pid_t child)
{
	char path[32], text[256] = "";
	unsigned long long number = 0, operation = 0;
	snprintf(path, sizeof path, "/proc/%d/syscall", child);
	FILE *file = fopen(path, "r");
	/* It has ended just now: the file is root's then. */
	if (!file)
		return false;
	bool inside = fgets(text, sizeof text, file)
	        && sscanf(text, "%llu 0x%*x 0x%llx", &number, &operation) == 2;
	fclose(file);
	return inside && is_sleep(number, operation);
}

/* Lets the child continue with a signal, and says how it ended. A call that goes on is served, and
 * a child whose signal came before the call began gets another. */
static int finish(pid_t child)
{
	int status, looks = 0, again = 0;
	if (ptrace(PTRACE_CONT, child, 0, SIGUSR1) != 0)
		fail("PTRACE_CONT");
	alarm(30);
	for (;;) {
		pid_t got = waitpid(child, &status, WNOHANG);
		if (got == child && WIFSTOPPED(status)) {
			ptrace(PTRACE_CONT, child, 0, WSTOPSIG(status));
			continue;
		}
		if (got == child)
			break;
		looks = *ran == 1 && is_asleep(child) ? looks + 1 : 0;
		if (!again && looks == 2) {
			again = 1;
			if (call->wake)
				call->wake();
			else
				kill(child, SIGUSR1);
		}
		usleep(100);
	}
	alarm(0);
	return status;
}

/* Instructions up to the sleep. */
static int steps_to_sleep(void)
{
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
	if (finish(child) != 0 || !call->works())
		fail("a signal just before it sleeps");
	return steps;
}

/* A signal after so many of them. Says where that was, and how the child ended. */
static int interrupt_at(int at, int steps, unsigned long long *where)
{
	pid_t child = begin();
	struct user_regs_struct here = registers(child);
	for (int now = 0; now < at; now++) {
		step(child);
		/* It may come to sleep some instructions sooner than the first one did. */
		if (now > steps - NEAR && (here = registers(child), at_futex(child, &here)))
			break;
	}
	here = registers(child);
	*where = here.rip;
	now_at = at;
	return finish(child);
}

static int try_all(int most)
{
	int steps = steps_to_sleep();
	/* The last instructions one by one, those before them with gaps. */
	int each = most < EACH ? most : EACH, begin_at = call == calls ? steps / 2 : 0,
	    range = steps - each - begin_at,
	    before = most < each + 1 ? 1 : most - each < range ? most - each : range;
	int runs = 0, wrong = 0, begun = 0;
	for (int nth = 0; nth <= before + each; nth++) {
		unsigned long long where;
		int at = nth < before ? begin_at + (int)((long)range * nth / before)
				      : steps - each + nth - before;
		int status = interrupt_at(at, steps, &where);
		runs++;
		bool late = WIFEXITED(status) && WEXITSTATUS(status) == LATE && !begun;
		begun |= !late;
		bool works = call->works();
		if ((late || status == 0) && works)
			continue;
		wrong++;
		if (wrong < 5)
			printf("FAILED: %s: a signal %d instructions before it sleeps, at 0x%llx: status 0x%x%s\n",
				call->name, steps - at, where, status,
				works ? "" : ", and the object does not serve the next one");
		if (!works)
			break;
	}
	if (!begun)
		fail("no signal ended the call");
	printf("%s: %d instructions to sleep, a signal at %d of them: %d wrong\n", call->name, steps,
		runs, wrong);
	fflush(stdout);
	return wrong;
}

int main(int count, char **words)
{
	int most = count > 1 ? atoi(words[1]) : RUNS, wrong = 0;
	signal(SIGALRM, hung);
	ran = mmap(NULL, sizeof *ran, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ran == MAP_FAILED)
		fail("mmap");
	set_up_set();
	for (size_t nth = 0; nth < sizeof calls / sizeof calls[0]; nth++) {
		call = &calls[nth];
		bool wanted = count < 3;
		for (int word = 2; word < count; word++)
			wanted |= strcmp(words[word], call->name) == 0;
		if (!wanted)
			continue;
		install();
		call->set_up();
		wrong += try_all(most);
	}
	semctl(set, 0, IPC_RMID);
	return wrong != 0;
}
#endif
