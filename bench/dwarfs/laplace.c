/* Laplace's equation on the unit square by Jacobi's iteration, with a look at convergence in every
 * round. The edge is that of x x - y y, which the five-point formula solves exactly, and the start
 * is off by one eigenvector of the iteration: so what every point is after any number of rounds is
 * known. */
#include <math.h>
#include <stdlib.h>

#include "../run.h"
#include "dwarf.h"

/* Converged: the mean square of the last changes is below the square of this. */
#define SMALL_CHANGE 1e-9

struct grid {
	double *now[2]; /* n + 2 rows */
	long stride;
	long done;
};

static long stride_of(long n) { return (n + 2 + 15) / 16 * 16; }

static size_t bytes(long n)
{ return 2 * array_bytes((size_t)((n + 2) * stride_of(n)) * sizeof(double)); }

static void prepare(struct work *work)
{
	struct grid *grid = work->state = calloc(1, sizeof *grid);
	if (grid == NULL)
		give_up("no memory for a dwarf's state");
	grid->stride = stride_of(work->n);
	for (int i = 0; i < 2; i++)
		grid->now[i] = team_array(
			work->team, (size_t)((work->n + 2) * grid->stride) * sizeof(double));
}

static double solution(const struct work *work, long i, long j, double off)
{
	double step = 1 / (double)(work->n + 1), y = (double)i * step, x = (double)j * step;
	return x * x - y * y + off * sin(M_PI * x) * sin(M_PI * y);
}

static void reset(struct work *work)
{
	struct grid *grid = work->state;
	struct part own = own_part(work->team, work->n);
	/* Rows of the interior are counted from 1; who has the first or the last has the edge
	 * beside it, too. */
	long first = own.first == 0 ? 0 : own.first + 1,
	     end = own.end == work->n ? work->n + 2 : own.end + 1;
	for (long i = first; i < end; i++)
		for (long j = 0; j < work->n + 2; j++)
			grid->now[0][i * grid->stride + j] = grid->now[1][i * grid->stride + j] =
				solution(work, i, j, 1);
	work->converged = false;
	team_barrier(work->team);
	team_halo(work->team, grid->now[0], (size_t)grid->stride * sizeof(double), work->n);
}

EVERY_PROCESSOR
static double sweep(
	long n, long stride, struct part rows, const double *restrict from, double *restrict to)
{
	double sum = 0;
	for (long i = rows.first + 1; i < rows.end + 1; i++) {
		const double *at = from + i * stride;
		double *new = to + i *stride;
		for (long j = 1; j < n + 1; j++) {
			new[j] = 0.25 * (at[j - stride] + at[j + stride] + at[j - 1] + at[j + 1]);
			double change = new[j] - at[j];
			sum += change * change;
		}
	}
	return sum;
}

static long run(struct work *work, long rounds)
{
	struct grid *grid = work->state;
	struct part own = own_part(work->team, work->n);
	double enough = SMALL_CHANGE * SMALL_CHANGE * (double)work->n * (double)work->n;
	for (long round = 0; round < rounds; round++) {
		double *to = grid->now[(round + 1) % 2];
		double change = sweep(work->n, grid->stride, own, grid->now[round % 2], to);
		team_sum(work->team, &change, 1);
		team_halo(work->team, to, (size_t)grid->stride * sizeof(double), work->n);
		if (change < enough) {
			work->converged = true;
			return round + 1;
		}
	}
	return rounds;
}

/* Each looks at its own part. */
static double check(struct work *work, long rounds)
{
	struct grid *grid = work->state;
	struct part own = own_part(work->team, work->n);
	double off = pow(cos(M_PI / (double)(work->n + 1)), (double)rounds), wrong = 0;
	for (long i = own.first + 1; i < own.end + 1; i++)
		for (long j = 1; j < work->n + 1; j++) {
			double is = grid->now[rounds % 2][i * grid->stride + j],
			       difference = fabs(is - solution(work, i, j, off));
			wrong = difference <= wrong ? wrong : difference;
		}
	/* All sums of squares are at least the largest square. */
	wrong *= wrong;
	team_sum(work->team, &wrong, 1);
	return sqrt(wrong);
}

static double operations(long n) { return 7 * (double)n * (double)n; }

const struct dwarf laplace = {
	.name = "laplace",
	.does = "Jacobi in two dimensions until it converges; n: points in each direction",
	.unit = "flop",
	.operations = operations,
	.tolerance = 1e-10,
	.bytes = bytes,
	.prepare = prepare,
	.reset = reset,
	.run = run,
	.check = check,
	.smallest = 2,
};
