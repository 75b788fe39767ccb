#include "run.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

volatile sig_atomic_t deadline_passed;
volatile unsigned rounds_done;
void (*on_failure)(void);
static int deadline_seconds;
static volatile sig_atomic_t broken_off;
static unsigned looks_before_nap; /* 0: there are no naps */

static void usage(FILE *out, const struct program *p, const char *name)
{
	fprintf(out, "usage: %s [options] %s|%s%s\n%s\n", name, p->first, p->second,
		p->net ? "" : "  or  --both", p->does);
	if (p->transports) {
		fprintf(out, "  --transport T   one of:");
		for (int i = 0; p->transports[i]; i++)
			fprintf(out, " %s", p->transports[i]);
		fprintf(out, "\n");
	}
	fprintf(out,
		"  --size N        payload in bytes\n"
		"  --rounds N      rounds (or items) that count\n"
		"  --warmup N      rounds before them that do not\n"
		"  --each N        rounds after those, each timed on its own: the line has their quantiles (default 0)\n"
		"  --batches N     timed batches that the rounds are split into (default 50)\n"
		"  --pairs N       pairs at once; pair i is pinned to CPU + i\n"
		"  --timeout S     give up when no round has ended for S seconds (default 30)\n"
		"  --cpu N         pin to CPU N\n");
	if (p->net)
		fprintf(out,
			"  --host H        address to connect or bind to (default 127.0.0.1)\n"
			"  --port N        port of the first pair (default 7117)\n");
	else
		fprintf(out,
			"  --both          fork and play both roles\n"
			"  --peer-cpu N    under --both: the second role's CPU\n"
			"  --delay NS      sem and msg: nanoseconds that the second role works for an answer (default 0)\n"
			"  --path FILE     file for ftok, the same for both roles (default /etc/passwd)\n"
			"  --looks N       in shared memory: so many looks in vain, then naps of 50 us, for roles in two guests\n"
			"                  that share one CPU (default: no naps)\n");
	fprintf(out, "Size, rounds, warm-up, batches and pairs must be the same for both roles.\n");
}

long number(const char *option, const char *text, long least)
{
	char *end;
	errno = 0;
	long value = strtol(text, &end, 10);
	if (errno != 0 || *end != '\0' || end == text || value < least) {
		fprintf(stderr, "--%s needs a number of at least %ld, not '%s'\n", option, least,
			text);
		exit(2);
	}
	return value;
}

void read_options(struct run *run, const struct program *p, int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "transport", required_argument, NULL, 't' },
		{ "size", required_argument, NULL, 's' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "warmup", required_argument, NULL, 'w' },
		{ "each", required_argument, NULL, 'e' },
		{ "batches", required_argument, NULL, 'b' },
		{ "pairs", required_argument, NULL, 'P' },
		{ "timeout", required_argument, NULL, 'T' },
		{ "cpu", required_argument, NULL, 'c' },
		{ "peer-cpu", required_argument, NULL, 'C' },
		{ "path", required_argument, NULL, 'k' },
		{ "host", required_argument, NULL, 'H' },
		{ "port", required_argument, NULL, 'p' },
		{ "both", no_argument, NULL, 'B' },
		{ "looks", required_argument, NULL, 'l' },
		{ "delay", required_argument, NULL, 'd' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int option, index;
	while ((option = getopt_long(argc, argv, "h", long_options, &index)) != -1) {
		const char *name = option == '?' || option == 'h' ? "" : long_options[index].name;
		switch (option) {
		case 't': run->transport = optarg; break;
		case 's': run->size = (size_t)number(name, optarg, 0); break;
		case 'r': run->rounds = number(name, optarg, 1); break;
		case 'w': run->warmup = number(name, optarg, 0); break;
		case 'e': run->each = number(name, optarg, 0); break;
		case 'b': run->batches = number(name, optarg, 1); break;
		case 'P': run->pairs = number(name, optarg, 1); break;
		case 'T': run->timeout = (int)number(name, optarg, 1); break;
		case 'c': run->cpu = (int)number(name, optarg, 0); break;
		case 'C': run->peer_cpu = (int)number(name, optarg, 0); break;
		case 'k': run->path = optarg; break;
		case 'H': run->host = optarg; break;
		case 'p': run->port = (int)number(name, optarg, 1); break;
		case 'B': run->role = BOTH; break;
		case 'd': run->delay = number(name, optarg, 0); break;
		case 'l': looks_before_nap = (unsigned)number(name, optarg, 1); break;
		case 'h': usage(stdout, p, argv[0]); exit(0);
		default: usage(stderr, p, argv[0]); exit(2);
		}
	}
	if (optind < argc && run->role == NO_ROLE) {
		if (strcmp(argv[optind], p->first) == 0)
			run->role = FIRST;
		else if (strcmp(argv[optind], p->second) == 0)
			run->role = SECOND;
		optind += run->role != NO_ROLE;
	}
	bool known = p->transports == NULL;
	for (int i = 0; !known && p->transports[i]; i++)
		known = strcmp(run->transport, p->transports[i]) == 0;
	if (run->role == NO_ROLE || optind != argc || !known || (p->net && run->role == BOTH)) {
		usage(stderr, p, argv[0]);
		exit(2);
	}
	split_into_batches(run);
}

void split_into_batches(struct run *run)
{
	if (run->batches > run->rounds)
		run->batches = run->rounds;
	run->rounds -= run->rounds % run->batches;
}

static void deadline(int signal)
{
	static unsigned seen;
	if (signal == SIGALRM && rounds_done != seen) {
		/* Slow, as guests on a busy machine are: it goes on. */
		seen = rounds_done;
		alarm((unsigned)deadline_seconds);
		return;
	}
	broken_off |= signal != SIGALRM;
	deadline_passed = 1;
	alarm(1);
}

void start_deadline(int seconds)
{
	deadline_seconds = seconds;
	struct sigaction action = { .sa_handler = deadline }; /* no SA_RESTART */
	static const int signals[] = { SIGALRM, SIGINT, SIGTERM, SIGHUP };
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		sigaction(signals[i], &action, NULL);
	alarm((unsigned)seconds);
}

void pin(int cpu)
{
	if (cpu < 0)
		return;
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET((unsigned)cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set) != 0)
		give_up("cannot pin to CPU %d: %s", cpu, strerror(errno));
}

void give_up(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	if (on_failure)
		on_failure();
	exit(1);
}

void give_up_call(const char *call)
{
	if (broken_off)
		give_up("%s: broken off", call);
	if (deadline_passed)
		give_up("%s: the other side did not answer within %d seconds", call,
			deadline_seconds);
	give_up("%s failed: %s", call, strerror(errno));
}

void spin(unsigned spins)
{
	relax();
	if (deadline_passed)
		give_up("no answer in shared memory before the deadline");
	if (spins % (1u << 13) == 0)
		sched_yield();
	/* A kernel cannot give way to another one but by idling. */
	if (looks_before_nap != 0 && spins >= looks_before_nap)
		nanosleep(&(struct timespec) { .tv_nsec = 50000 }, NULL);
}

static uint64_t read_clock(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t now_ns(void) { return read_clock(CLOCK_MONOTONIC); }

uint64_t total_rounds(const struct run *run)
{ return (uint64_t)(run->warmup + run->rounds + run->each); }

void print_reading(const struct run *run, const struct reading *r, const char *more)
{
	/* A call of 5 ns is judged by a tenth of that. */
	printf("{\"transport\":\"%s\",\"size\":%zu,\"rounds\":%llu,\"median_ns\":%.3f,\"min_ns\":%.3f,\"p99_ns\":%.3f,"
	       "\"mean_ns\":%.3f,\"lost\":%llu,\"batches\":%zu,\"clock_ns\":%.0f%s}\n",
		run->transport, run->size, (unsigned long long)r->rounds, r->median, r->min, r->p99,
		r->mean, (unsigned long long)r->lost, r->batches, r->clock, more);
	fflush(stdout);
}

void take_role(struct run *run, int *pair)
{
	*pair = 0;
	if (run->role != BOTH && run->pairs == 1) {
		pin(run->cpu);
		start_deadline(run->timeout);
		return;
	}
	long children = run->pairs * (run->role == BOTH ? 2 : 1);
	for (long i = 0; i < children; i++) {
		pid_t child = fork();
		if (child == -1)
			give_up("fork failed: %s", strerror(errno));
		if (child != 0)
			continue;
		*pair = (int)(i % run->pairs);
		int cpu = run->cpu;
		if (run->role == BOTH) {
			cpu = i < run->pairs ? run->cpu : run->peer_cpu;
			run->role = i < run->pairs ? FIRST : SECOND;
		}
		pin(cpu < 0 ? -1 : cpu + *pair);
		start_deadline(run->timeout);
		return;
	}
	int failed = 0, status;
	while (wait(&status) != -1)
		failed |= status != 0;
	exit(failed);
}
