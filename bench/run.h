/* One run of a measurement: its options, its deadline, its batches and its one line of JSON. */
#ifndef RUN_H
#define RUN_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum role { NO_ROLE, FIRST, SECOND, BOTH };

struct run {
	const char *transport;
	enum role role;
	size_t size;
	long rounds;
	long warmup;
	long each; /* rounds at the end that are timed one by one */
	long batches;
	long pairs;
	int timeout;      /* seconds without progress */
	int cpu;          /* -1: not pinned */
	int peer_cpu;     /* the second role's CPU under --both */
	long delay;       /* nanoseconds that the second role takes for an answer, at work */
	const char *path; /* for ftok */
	const char *host;
	int port;
};

/* Names of the two roles and of the transports that this program knows (NULL-terminated, or NULL
 * for none). */
struct program {
	const char *does;
	const char *first, *second;
	const char *const *transports;
	bool net;
};

void read_options(struct run *run, const struct program *program, int argc, char **argv);
/* The number that an option was given; exits with 2 if it is none, or smaller than that. */
long number(const char *option, const char *text, long least);
/* Splits the rounds into whole batches only, so that every batch is the same work. */
void split_into_batches(struct run *run);

/* After this every blocking call returns EINTR, and every spin sees deadline_passed, once the time
 * is up or the user has broken the run off: so objects of the kernel do not outlive it. The alarm
 * rings again and again, so a signal that lands just before a call blocks is not lost. */
void start_deadline(int seconds);
extern volatile sig_atomic_t deadline_passed;
/* What has been done so far: rounds, or batches of them. As long as this goes on, the time begins
 * anew: how fast a guest is, no deadline can know. A program that leaves it alone has one deadline
 * for all it does. */
extern volatile unsigned rounds_done;

void pin(int cpu);

/* To be called in a loop that waits for another process, with the number of times so far: gives the
 * CPU away rarely, in case both are on one; never on the path of a prompt answer, for a system call
 * costs 40 us in a User Mode Linux guest. Under --looks it also naps. */
void spin(unsigned spins);
/* One look of it. */
static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Called from every failing exit: removes what this side made. */
extern void (*on_failure)(void);
_Noreturn void give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* errno is EINTR because the deadline passed, or something really failed: either way one sentence
 * and exit 1. */
_Noreturn void give_up_call(const char *call);

uint64_t now_ns(void);

/* What one run comes to, in nanoseconds a round. */
struct reading {
	uint64_t rounds, lost;
	size_t batches;
	double median, min, p99, mean, clock;
};

/* Prints the line; `more` is further members of its object, each after a comma, or nothing. */
void print_reading(const struct run *run, const struct reading *reading, const char *more);

/* Calls rounds() batch by batch and prints the JSON line. Timing batches, not rounds: reading the
 * clock costs some 40 us in a User Mode Linux guest, and a round over shared memory a tenth of a
 * microsecond. What one reading costs is measured (clock_ns) and taken off each batch. The CPU time
 * of this role is printed as well (cpu_ns a round), by its kernel. Under --each so many rounds more
 * follow, each timed on its own by the processor's clock, and their quantiles are printed. */
typedef void rounds_fn(void *context, uint64_t first, uint64_t count);
void measure(const struct run *run, rounds_fn *rounds, void *context, const uint64_t *lost);
uint64_t total_rounds(const struct run *run);

/* Forks --pairs processes and, under --both, the second role of each; returns in the process that
 * plays a role, with run->role set to FIRST or SECOND and *pair to its number. The process that
 * forked waits and exits. */
void take_role(struct run *run, int *pair);

#endif
