/* Scientific dwarfs: small kernels that stand for what parallel programs do. Each is one source for
 * all programming models. */
#ifndef DWARF_H
#define DWARF_H

#include <stdbool.h>
#include <stdint.h>

#include "team.h"

struct work {
	struct team *team;
	long n;
	void *state; /* the dwarf's own: pointers into the arena, and numbers */
	bool converged;
	bool alone; /* with a team of its own of one, beside the others' */
};

struct dwarf {
	const char *name;
	const char *does; /* and what n is */
	const char *unit;
	double (*operations)(long n); /* of a round */
	double tolerance; /* for what check returns */
	/* Bytes of the arena. */
	size_t (*bytes)(long n);
	/* Takes arrays and makes the state. */
	void (*prepare)(struct work *work);
	/* Sets everything to what it is before the first round; also a second time. */
	void (*reset)(struct work *work);
	/* Computes so many rounds, or fewer if it is done; returns how many. */
	long (*run)(struct work *work, long rounds);
	/* The error after so many rounds, against an analytic or a serial value. All ranks call it;
	 * rank 0's value counts. */
	double (*check)(struct work *work, long rounds);
	long smallest; /* n */
};

extern const struct dwarf blas1_single, blas1_double, blas2_single, blas2_double, blas3_single,
	blas3_double;
extern const struct dwarf laplace, simpson, dynamics2, dynamics3;

struct job {
	const struct dwarf *dwarf;
	const char *model;
	const char *path; /* for ftok */
	long n, rounds, warmup;
	int ranks, rank; /* rank -1: not given */
	int timeout, cpu; /* seconds; -1: not pinned, otherwise rank i is on CPU + i */
	bool fork;
};

/* Which of the options a model has of its own. */
enum { TAKES_RANK = 1, TAKES_FORK = 2 };
void read_job(struct job *job, int argc, char **argv, const char *model, int own_options);
/* What the arenas of all arrays take. */
size_t job_bytes(const struct job *job);
/* The same in all ranks of one run. */
uint64_t job_terms(const struct job *job);
/* Plays team->rank: all the rounds, and in rank 0 the check and the line. */
void do_job(const struct job *job, struct team *team);

/* A team of one with an arena of its own. */
void alone(struct team *team, size_t bytes);

/* For inner loops: the best of what the processor has is found when the program starts. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define EVERY_PROCESSOR \
	__attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define EVERY_PROCESSOR
#endif

#endif
