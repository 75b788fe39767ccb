/* The stack that a signal handler needs: on a pool at most 512 bytes more than the kernel's own
 * frame takes, also when the handler interrupts a semop(2) that sleeps. Measured by a signal stack
 * that is filled with a pattern; then tried on one of that size, with nothing below it. */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../conformance/share/direct.h"
#include "fail.h"

enum { MORE = 512, ROOM = 64 << 10, PATTERN = 0xa5 };

static int set;
static volatile sig_atomic_t ran;
static volatile uintptr_t lowest;

static void note(int signal)
{
	(void)signal;
	lowest = (uintptr_t)__builtin_frame_address(0);
	ran++;
}

static void use_stack(void *start, size_t bytes)
{
	stack_t stack = { .ss_sp = start, .ss_size = bytes };
	if (sigaltstack(&stack, NULL) != 0)
		fail("sigaltstack");
}

#if defined(__x86_64__)
/* rt_sigaction by instruction: the kernel enters the handler itself. */
struct kernel_action {
	void (*handler)(int);
	unsigned long flags;
	void (*restorer)(void);
	unsigned long mask;
};
__asm__("restore_rt:\n\tmov $15, %eax\n\tsyscall\n");
extern void restore_rt(void);
static void install_past_everybody(void)
{
	struct kernel_action action = { note, SA_ONSTACK | 0x04000000, restore_rt, 0 };
	if (direct(SYS_rt_sigaction, SIGUSR1, (long)&action, 0, 8) != 0)
		fail("rt_sigaction");
}
#else
static void install_past_everybody(void)
{
	struct {
		void (*handler)(int);
		unsigned long flags;
		unsigned long mask;
	} action = { note, SA_ONSTACK, 0 };
	if (direct(SYS_rt_sigaction, SIGUSR1, (long)&action, 0, 8) != 0)
		fail("rt_sigaction");
}
#endif

static void install(void)
{
	struct sigaction action = { .sa_handler = note, .sa_flags = SA_ONSTACK };
	if (sigaction(SIGUSR1, &action, NULL) != 0)
		fail("sigaction");
}

static void while_running(void)
{
	ran = 0;
	raise(SIGUSR1);
	if (ran != 1)
		fail("the handler did not run");
}

/* The signal comes when the thread sleeps in the wait queue. */
static void while_asleep(void)
{
	pid_t parent = getpid();
	ran = 0;
	pid_t child = fork();
	if (child == 0) {
		while (semctl(set, 0, GETNCNT) != 1)
			usleep(1000);
		kill(parent, SIGUSR1);
		_exit(0);
	}
	struct sembuf take = { 0, -1, 0 };
	if (semop(set, &take, 1) != -1 || errno != EINTR || ran != 1)
		fail("the handler was to end the call");
	if (semctl(set, 0, GETNCNT) != 0)
		fail("no thread is in the wait queue");
	waitpid(child, NULL, 0);
}

static size_t measured(void (*when)(void))
{
	static unsigned char room[ROOM] __attribute__((aligned(64)));
	memset(room, PATTERN, ROOM);
	use_stack(room, ROOM);
	when();
	size_t untouched = 0;
	while (untouched < ROOM && room[untouched] == PATTERN)
		untouched++;
	return ROOM - untouched;
}

int main(void)
{
	int wrong = 0;
	set = semget(IPC_PRIVATE, 1, 0600);
	if (set == -1)
		fail("semget");
	install_past_everybody();
	size_t kernel = measured(while_running);
	install();
	size_t running = measured(while_running), asleep = measured(while_asleep);
	size_t least = getauxval(51 /* AT_MINSIGSTKSZ */);
	if (least == 0)
		least = 2048;
	printf("signal stack used: %zu by the kernel's frame and a handler, %zu on a pool, %zu in a sleep; AT_MINSIGSTKSZ %zu\n",
		kernel, running, asleep, least);
	if (running > kernel + MORE || asleep > kernel + MORE) {
		printf("FAILED: more than %d bytes are added to the kernel's frame\n", MORE);
		wrong = 1;
	}
	fflush(stdout);

	/* The smallest stack, and no memory below it. */
	size_t page = sysconf(_SC_PAGESIZE), bytes = least + MORE;
	size_t pages = (bytes + page - 1) / page * page;
	char *start = mmap(NULL, pages + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (start == MAP_FAILED || mprotect(start + page, pages, PROT_READ | PROT_WRITE) != 0)
		fail("mmap");
	char *bottom = start + page;
	memset(bottom, PATTERN, pages - bytes);
	use_stack(bottom + pages - bytes, bytes);
	for (int time = 0; time < 5; time++) {
		while_running();
		while_asleep();
	}
	for (size_t at = 0; at < pages - bytes; at++)
		wrong |= (unsigned char)bottom[at] != PATTERN;
	if (wrong)
		puts("FAILED: a handler overflows a signal stack of AT_MINSIGSTKSZ + 512 bytes");
	semctl(set, 0, IPC_RMID);
	return wrong;
}
