// Which functions of a library a call enters, each once, in the order of their first entry.
//   trace LIBRARY OUT COMMAND... <ADDRESSES
// ADDRESSES: the functions of LIBRARY by their offset in it, one hexadecimal number a line. OUT
// gets a line for each that is entered: its own, and then those to which it and its callers return,
// as far as they lie in the library. COMMAND runs until a breakpoint of its own: there the call
// begins, and with the next one it ends. Children run untraced.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BREAKPOINT = 0xcc, TAKEN = 1 << 17, DEEP = 200 };

struct place {
	unsigned long at;
	unsigned char code;
	char is_set;
};

static struct place places[TAKEN];
static size_t count;

static void fail(const char *what)
{
	perror(what);
	exit(2);
}

static unsigned char exchange(pid_t process, unsigned long at, unsigned char code)
{
	errno = 0;
	unsigned long word = (unsigned long)ptrace(PTRACE_PEEKTEXT, process, at, 0);
	if (errno)
		fail("ptrace: peek");
	if (ptrace(PTRACE_POKETEXT, process, at, (word & ~0xfful) | code))
		fail("ptrace: poke");
	return word & 0xff;
}

static unsigned long begin_of(pid_t process, const char *library)
{
	char line[4096], name[64];
	snprintf(name, sizeof name, "/proc/%d/maps", (int)process);
	FILE *maps = fopen(name, "r");
	if (!maps)
		fail(name);
	unsigned long begin = 0;
	while (!begin && fgets(line, sizeof line, maps))
		if (strstr(line, library))
			begin = strtoul(line, NULL, 16);
	fclose(maps);
	if (!begin) {
		fprintf(stderr, "trace: the command has not loaded %s\n", library);
		exit(2);
	}
	return begin;
}

static struct place *place_at(unsigned long at)
{
	for (size_t i = 0; i < count; i++)
		if (places[i].at == at)
			return &places[i];
	return NULL;
}

static void set_all(pid_t process, unsigned long begin)
{
	for (size_t i = 0; i < count; i++) {
		places[i].code = exchange(process, begin + places[i].at, BREAKPOINT);
		// Two symbols of one address.
		places[i].is_set = places[i].code != BREAKPOINT;
	}
}

static void clear(pid_t process, unsigned long begin, struct place *place)
{
	if (place->is_set)
		exchange(process, begin + place->at, place->code);
	place->is_set = 0;
}

// The callers, by the chain of frame pointers: the callee has not made its frame yet.
static void print_callers(pid_t process, unsigned long begin, unsigned long stack,
			  unsigned long frame, FILE *out)
{
	unsigned long end = begin + places[count - 1].at;
	unsigned long back = (unsigned long)ptrace(PTRACE_PEEKDATA, process, stack, 0);
	for (int i = 0; i < DEEP && back >= begin && back < end; i++) {
		fprintf(out, " %lx", back - begin);
		back = (unsigned long)ptrace(PTRACE_PEEKDATA, process, frame + 8, 0);
		frame = (unsigned long)ptrace(PTRACE_PEEKDATA, process, frame, 0);
	}
	fputc('\n', out);
}

// A function is entered: its breakpoint has done its work. False where there is none of ours.
static int enter(pid_t process, unsigned long begin, FILE *out)
{
	struct user_regs_struct registers;
	if (ptrace(PTRACE_GETREGS, process, 0, &registers))
		fail("ptrace: registers");
	struct place *place = place_at(registers.rip - 1 - begin);
	if (!place || !place->is_set)
		return 0;
	fprintf(out, "%lx", place->at);
	print_callers(process, begin, registers.rsp, registers.rbp, out);
	clear(process, begin, place);
	registers.rip -= 1;
	if (ptrace(PTRACE_SETREGS, process, 0, &registers))
		fail("ptrace: registers");
	return 1;
}

static int follow(pid_t process, const char *library, FILE *out)
{
	unsigned long begin = 0;
	int status, calls = 0;
	while (waitpid(process, &status, 0) == process && WIFSTOPPED(status)) {
		int signal = WSTOPSIG(status);
		siginfo_t info = { 0 };
		if (signal == SIGTRAP) {
			ptrace(PTRACE_GETSIGINFO, process, 0, &info);
			signal = 0;
		}
		if (info.si_code == SI_KERNEL && !(begin && enter(process, begin, out))) {
			if (calls++ == 0) {
				begin = begin_of(process, library);
				set_all(process, begin);
			} else {
				for (size_t i = 0; i < count; i++)
					clear(process, begin, &places[i]);
			}
		}
		if (ptrace(PTRACE_CONT, process, 0, signal))
			fail("ptrace: continue");
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) || calls != 2) {
		fprintf(stderr, "trace: it has ended with %#x, after %d breakpoints\n", status, calls);
		return 1;
	}
	return 0;
}

int main(int arguments, char **argument)
{
	if (arguments < 4) {
		fprintf(stderr, "usage: trace LIBRARY OUT COMMAND... <ADDRESSES\n");
		return 2;
	}
	while (count < TAKEN && scanf("%lx", &places[count].at) == 1)
		count++;
	FILE *out = fopen(argument[2], "w");
	if (!out)
		fail(argument[2]);
	pid_t process = fork();
	if (process < 0)
		fail("fork");
	if (process == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		execvp(argument[3], argument + 3);
		fail(argument[3]);
	}
	int status = follow(process, argument[1], out);
	if (fclose(out))
		fail(argument[2]);
	return status;
}
