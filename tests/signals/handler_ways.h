/* The ways in which a C program installs a signal handler, but for sigaction; x86-64's. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* What <signal.h> makes of signal() for programs that ask for C or POSIX alone. */
extern sighandler_t __sysv_signal(int, sighandler_t);
extern sighandler_t ssignal(int, sighandler_t);

void handler_ends(void);
__asm__("handler_ends: mov $15, %eax\n\tsyscall"); /* rt_sigreturn */

static bool by_number(int signal, sighandler_t handler)
{
	struct {
		sighandler_t handler;
		unsigned long flags;
		void (*restorer)(void);
		unsigned long mask;
	} action = { handler, 0x04000000 /* SA_RESTORER */, handler_ends, 0 };
	return syscall(SYS_rt_sigaction, signal, &action, NULL, sizeof action.mask) == 0;
}

static bool interrupting_later(int signal_number, sighandler_t handler)
{ return signal(signal_number, handler) != SIG_ERR && siginterrupt(signal_number, 1) == 0; }

static bool interrupting_before(int signal_number, sighandler_t handler)
{ return siginterrupt(signal_number, 1) == 0 && signal(signal_number, handler) != SIG_ERR; }

static bool by_way(const char *name, int signal_number, sighandler_t handler)
{
	if (strcmp(name, "signal") == 0)
		return signal(signal_number, handler) != SIG_ERR;
	if (strcmp(name, "__sysv_signal") == 0)
		return __sysv_signal(signal_number, handler) != SIG_ERR;
	if (strcmp(name, "ssignal") == 0)
		return ssignal(signal_number, handler) != SIG_ERR;
	if (strcmp(name, "sigset") == 0)
		return sigset(signal_number, handler) != SIG_ERR;
	if (strcmp(name, "siginterrupt-later") == 0)
		return interrupting_later(signal_number, handler);
	if (strcmp(name, "siginterrupt-before") == 0)
		return interrupting_before(signal_number, handler);
	return strcmp(name, "syscall") == 0 && by_number(signal_number, handler);
}
