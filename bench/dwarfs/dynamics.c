/* Molecular dynamics: particles that all attract and repel each other (Lennard and Jones), moved by
 * the velocity form of Verlet's method. Energy must stay what it is, and the first steps must be
 * what one process alone computes. */
#include <math.h>
#include <stdlib.h>

#include "../run.h"
#include "dwarf.h"

#define STEP    0.002
#define SPACING 1.12
/* How far energy may drift, relative, and how far a particle may be from where it is without a
 * team. */
#define DRIFT  1e-3
#define ASTRAY 1e-9
enum { STEPS_ALONE = 3 };

struct particles {
	double *place; /* coordinates side by side, of all */
	double *speed, *pull;
	double energy_before, energy;
};

static size_t bytes(long n, int dimensions)
{ return 3 * array_bytes((size_t)(n * dimensions) * sizeof(double)); }

static void prepare(struct work *work, int dimensions)
{
	struct particles *p = work->state = calloc(1, sizeof *p);
	if (p == NULL)
		give_up("no memory for a dwarf's state");
	size_t bytes = (size_t)(work->n * dimensions) * sizeof(double);
	p->place = team_array(work->team, bytes);
	p->speed = team_array(work->team, bytes);
	p->pull = team_array(work->team, bytes);
}

/* Sets the pull on own particles; returns their half of the potential energy. */
static inline __attribute__((always_inline)) double pulls(const int dimensions, long n,
	struct part own, const double *restrict place, double *restrict pull)
{
	double potential = 0;
	for (long i = own.first; i < own.end; i++) {
		const double *at = place + i * dimensions;
		double sum[3] = { 0 }, energy = 0;
		for (int half = 0; half < 2; half++) {
			for (long j = half ? i + 1 : 0, end = half ? n : i; j < end; j++) {
				double apart[3], square = 0;
				for (int d = 0; d < dimensions; d++) {
					apart[d] = at[d] - place[j * dimensions + d];
					square += apart[d] * apart[d];
				}
				double inverse = 1 / square, sixth = inverse * inverse * inverse;
				double force = 24 * sixth * (2 * sixth - 1) * inverse;
				energy += 2 * sixth * (sixth - 1);
				for (int d = 0; d < dimensions; d++)
					sum[d] += force * apart[d];
			}
		}
		for (int d = 0; d < dimensions; d++)
			pull[i * dimensions + d] = sum[d];
		potential += energy;
	}
	return potential;
}

EVERY_PROCESSOR
static double pulls2(long n, struct part own, const double *place, double *pull)
{ return pulls(2, n, own, place, pull); }

EVERY_PROCESSOR
static double pulls3(long n, struct part own, const double *place, double *pull)
{ return pulls(3, n, own, place, pull); }

static double potential(int dimensions, struct work *work)
{
	struct particles *p = work->state;
	struct part own = own_part(work->team, work->n);
	return (dimensions == 2 ? pulls2 : pulls3)(work->n, own, p->place, p->pull);
}

static double kinetic(int dimensions, struct work *work)
{
	struct particles *p = work->state;
	struct part own = own_part(work->team, work->n);
	double sum = 0;
	for (long i = own.first * dimensions; i < own.end * dimensions; i++)
		sum += p->speed[i] * p->speed[i];
	return sum / 2;
}

static double speed_of(long i) { return 0.2 * sin((double)(i * i % 1013)); }

static void reset(struct work *work, int dimensions)
{
	struct particles *p = work->state;
	struct part own = own_part(work->team, work->n);
	long side = 1;
	while (pow((double)side, dimensions) < (double)work->n)
		side++;
	double drift[3] = { 0 };
	for (long i = 0; i < work->n * dimensions; i++)
		drift[i % dimensions] += speed_of(i) / (double)work->n;
	for (long i = own.first; i < own.end; i++) {
		long rest = i;
		for (int d = 0; d < dimensions; d++, rest /= side) {
			p->place[i * dimensions + d] = SPACING * (double)(rest % side);
			p->speed[i * dimensions + d] = speed_of(i * dimensions + d) - drift[d];
		}
	}
	team_gather(work->team, p->place, (size_t)dimensions * sizeof(double), work->n);
	double energy[2] = { potential(dimensions, work), kinetic(dimensions, work) };
	team_sum(work->team, energy, 2);
	p->energy_before = p->energy = energy[0] + energy[1];
}

static long run(struct work *work, long rounds, int dimensions)
{
	struct particles *p = work->state;
	struct part own = own_part(work->team, work->n);
	for (long round = 0; round < rounds; round++) {
		/* After the last sum all have done with the places that these were. */
		for (long i = own.first * dimensions; i < own.end * dimensions; i++) {
			p->speed[i] += STEP / 2 * p->pull[i];
			p->place[i] += STEP * p->speed[i];
		}
		team_gather(work->team, p->place, (size_t)dimensions * sizeof(double), work->n);
		double energy[2] = { potential(dimensions, work) };
		for (long i = own.first * dimensions; i < own.end * dimensions; i++)
			p->speed[i] += STEP / 2 * p->pull[i];
		energy[1] = kinetic(dimensions, work);
		team_sum(work->team, energy, 2);
		p->energy = energy[0] + energy[1];
	}
	return rounds;
}

static double check(struct work *work, long rounds, int dimensions)
{
	struct particles *p = work->state;
	double drift = fabs(p->energy - p->energy_before) / fabs(p->energy_before);
	long steps = rounds < STEPS_ALONE ? rounds : STEPS_ALONE;
	reset(work, dimensions);
	run(work, steps, dimensions);
	double astray = 0;
	if (work->team->rank == 0) {
		struct team one;
		alone(&one, bytes(work->n, dimensions));
		struct work same = { .team = &one, .n = work->n };
		prepare(&same, dimensions);
		reset(&same, dimensions);
		run(&same, steps, dimensions);
		const double *right = ((struct particles *)same.state)->place;
		for (long i = 0; i < work->n * dimensions; i++) {
			double off = fabs(p->place[i] - right[i]);
			astray = off <= astray ? astray : off;
		}
		free(same.state);
		free(one.arena);
	}
	/* The team's places stay until they have been compared. */
	team_barrier(work->team);
	astray *= DRIFT / ASTRAY;
	return drift <= astray ? astray : drift;
}

/* A pair: the distance, the force, the energy, and the sum. */
static double operations2(long n) { return 20 * (double)n * (double)(n - 1); }

static double operations3(long n) { return 25 * (double)n * (double)(n - 1); }

#define DIMENSIONS(D)                                                                             \
	static size_t bytes##D(long n) { return bytes(n, D); }                                    \
	static void prepare##D(struct work *work) { prepare(work, D); }                           \
	static void reset##D(struct work *work) { reset(work, D); }                               \
	static long run##D(struct work *work, long rounds) { return run(work, rounds, D); }       \
	static double check##D(struct work *work, long rounds) { return check(work, rounds, D); } \
	const struct dwarf dynamics##D = {                                                        \
		.name = "md" #D,                                                                  \
		.does = "molecular dynamics in " #D " dimensions; n: particles",                  \
		.unit = "flop",                                                                   \
		.operations = operations##D,                                                      \
		.tolerance = DRIFT,                                                               \
		.bytes = bytes##D,                                                                \
		.prepare = prepare##D,                                                            \
		.reset = reset##D,                                                                \
		.run = run##D,                                                                    \
		.check = check##D,                                                                \
		.smallest = 2,                                                                    \
	}

DIMENSIONS(2);
DIMENSIONS(3);
