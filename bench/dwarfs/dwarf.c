#include "dwarf.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../run.h"

static const struct dwarf *const catalogue[] = {
	&blas1_single,
	&blas1_double,
	&blas2_single,
	&blas2_double,
	&blas3_single,
	&blas3_double,
	&laplace,
	&simpson,
	&dynamics2,
	&dynamics3,
	NULL,
};

static void usage(FILE *out, const char *name, int own_options)
{
	fprintf(out,
		"usage: %s --dwarf NAME --n N [options]%s\n"
		"Computes, checks the result, and prints one line of JSON (rank 0).\n"
		"  --dwarf NAME    which; --list shows them\n"
		"  --n N           its size\n"
		"  --rounds N      how often (default 100)\n"
		"  --warmup N      rounds before that, on the same values, that do not count (default 2: some have two\n"
		"                  arrays in turns)\n"
		"  --ranks K       processes or threads (default 2)\n"
		"  --timeout S     give up after S seconds (default 300)\n"
		"  --cpu N         pin rank i to CPU N + i\n"
		"  --list          the names\n",
		name, own_options & TAKES_RANK ? " --rank I | --fork" : "");
	if (own_options & TAKES_RANK)
		fprintf(out,
			"  --rank I        this process's, of 0 .. K - 1; it is then pinned to CPU N itself\n"
			"  --fork          all ranks from here\n"
			"  --path FILE     for ftok, the same in all ranks (default /etc/passwd)\n");
	for (const struct dwarf *const *dwarf = catalogue; *dwarf; dwarf++)
		fprintf(out, "%s %-8s %s\n", dwarf == catalogue ? "dwarfs:" : "       ",
			(*dwarf)->name, (*dwarf)->does);
}

static const struct dwarf *find(const char *name)
{
	for (const struct dwarf *const *dwarf = catalogue; *dwarf; dwarf++)
		if (strcmp((*dwarf)->name, name) == 0)
			return *dwarf;
	fprintf(stderr, "there is no dwarf '%s'; --list shows them\n", name);
	exit(2);
}

void read_job(struct job *job, int argc, char **argv, const char *model, int own_options)
{
	static const struct option long_options[] = {
		{ "dwarf", required_argument, NULL, 'd' },
		{ "n", required_argument, NULL, 'n' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "warmup", required_argument, NULL, 'w' },
		{ "ranks", required_argument, NULL, 'k' },
		{ "rank", required_argument, NULL, 'i' },
		{ "timeout", required_argument, NULL, 'T' },
		{ "cpu", required_argument, NULL, 'c' },
		{ "path", required_argument, NULL, 'p' },
		{ "fork", no_argument, NULL, 'f' },
		{ "list", no_argument, NULL, 'l' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	*job = (struct job) { .model = model,
		.path = "/etc/passwd",
		.rounds = 100,
		.warmup = 2,
		.ranks = 2,
		.rank = -1,
		.timeout = 300,
		.cpu = -1 };
	int option, index;
	bool wrong = false;
	while ((option = getopt_long(argc, argv, "h", long_options, &index)) != -1) {
		const char *name = option == '?' || option == 'h' ? "" : long_options[index].name;
		switch (option) {
		case 'd': job->dwarf = find(optarg); break;
		case 'n': job->n = number(name, optarg, 1); break;
		case 'r': job->rounds = number(name, optarg, 1); break;
		case 'w': job->warmup = number(name, optarg, 0); break;
		case 'k': job->ranks = (int)number(name, optarg, 1); break;
		case 'i': job->rank = (int)number(name, optarg, 0); break;
		case 'T': job->timeout = (int)number(name, optarg, 1); break;
		case 'c': job->cpu = (int)number(name, optarg, 0); break;
		case 'p': job->path = optarg; break;
		case 'f': job->fork = true; break;
		case 'l':
			for (const struct dwarf *const *dwarf = catalogue; *dwarf; dwarf++)
				printf("%s\n", (*dwarf)->name);
			exit(0);
		case 'h': usage(stdout, argv[0], own_options); exit(0);
		default: usage(stderr, argv[0], own_options); exit(2);
		}
	}
	wrong |= optind != argc || job->dwarf == NULL || job->n == 0 || job->ranks > MOST_RANKS;
	wrong |= own_options & TAKES_RANK ? job->fork == (job->rank != -1)
					  : job->fork || job->rank != -1;
	wrong |= job->rank >= job->ranks;
	if (wrong) {
		usage(stderr, argv[0], own_options);
		exit(2);
	}
	if (job->n < job->dwarf->smallest) {
		fprintf(stderr, "%s needs --n of at least %ld\n", job->dwarf->name,
			job->dwarf->smallest);
		exit(2);
	}
}

size_t job_bytes(const struct job *job) { return job->dwarf->bytes(job->n); }

uint64_t job_terms(const struct job *job)
{
	const uint64_t terms[] = { (uint64_t)job->n, (uint64_t)job->rounds, (uint64_t)job->warmup,
		(uint64_t)job->ranks };
	uint64_t sum = 1;
	for (const char *at = job->dwarf->name; *at; at++)
		sum = sum * 1000003 + (unsigned char)*at;
	for (size_t i = 0; i < sizeof terms / sizeof *terms; i++)
		sum = sum * 1000003 + terms[i];
	return sum;
}

size_t array_bytes(size_t bytes) { return (bytes + 127) / 128 * 128; }

void *team_array(struct team *team, size_t bytes)
{
	void *array = team->arena + team->used;
	team->used += array_bytes(bytes);
	if (team->used > team->bytes)
		give_up("arrays of %zu bytes do not fit into an arena of %zu", team->used,
			team->bytes);
	return array;
}

void alone(struct team *team, size_t bytes)
{
	*team = (struct team) { .ranks = 1, .bytes = bytes };
	team->arena = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
	if (team->arena == NULL)
		give_up("no memory for arrays of %zu bytes", bytes);
}

struct part part_of(long n, int rank, int ranks)
{ return (struct part) { n * rank / ranks, n * (rank + 1) / ranks }; }

struct part own_part(const struct team *team, long n)
{ return part_of(n, team->rank, team->ranks); }

void do_job(const struct job *job, struct team *team)
{
	const struct dwarf *dwarf = job->dwarf;
	struct work work = { .team = team, .n = job->n };
	dwarf->prepare(&work);
	if (job->warmup > 0) {
		dwarf->reset(&work);
		dwarf->run(&work, job->warmup);
	}
	dwarf->reset(&work);
	team_barrier(team);
	uint64_t began = now_ns();
	long rounds = dwarf->run(&work, job->rounds);
	team_barrier(team);
	uint64_t took = now_ns() - began;
	double error = dwarf->check(&work, rounds);
	if (team->rank == 0) {
		/* Not a number is an error, too. */
		if (!(fabs(error) <= dwarf->tolerance))
			give_up("%s of %ld with %d ranks is wrong after %ld rounds: the error is %g, and %g is allowed",
				dwarf->name, job->n, team->ranks, rounds, error, dwarf->tolerance);
		printf("{\"bench\":\"%s\",\"model\":\"%s\",\"n\":%ld,\"ranks\":%d,\"rounds\":%ld,\"seconds\":%.9f,\"work\":%.0f,"
		       "\"unit\":\"%s\",\"check\":%.3g,\"tolerance\":%g,\"converged\":%s}\n",
			dwarf->name, job->model, job->n, team->ranks, rounds, (double)took / 1e9,
			dwarf->operations(job->n) * (double)rounds, dwarf->unit, error,
			dwarf->tolerance, work.converged ? "true" : "false");
		fflush(stdout);
	}
	free(work.state);
}
