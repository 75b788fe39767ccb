/* Finds the fastest shape of a matrix product on this machine, as ATLAS does when it is built: how
 * large the blocks are that stay in the first cache (NB), how many sums are kept in registers (mu
 * by nu), how far the innermost loop is unrolled (ku), and how much of the second cache is used
 * (the edge: bytes of a row of blocks and a column of blocks that are used together). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dwarfs/dwarf.h"
#include "dwarfs/gemm.h"
#include "named.h"
#include "run.h"

enum { MOST_MU = 8, MOST_NU = 8 };

/* mu rows of A and nu columns of B, packed side by side for each of `depth` steps; adds to c. */
static inline __attribute__((always_inline)) void tile(const int mu, const int nu, const int ku,
	long depth, const double *restrict a, const double *restrict b, double *restrict c)
{
	double sums[MOST_MU][MOST_NU];
#pragma GCC unroll 8
	for (int i = 0; i < mu; i++)
#pragma GCC unroll 8
		for (int j = 0; j < nu; j++)
			sums[i][j] = 0;
	long k = 0;
	for (; k + ku <= depth; k += ku) {
#pragma GCC unroll 8
		for (int step = 0; step < ku; step++) {
#pragma GCC unroll 8
			for (int i = 0; i < mu; i++)
#pragma GCC unroll 8
				for (int j = 0; j < nu; j++)
					sums[i][j] += a[step * mu + i] * b[step * nu + j];
		}
		a += ku * mu;
		b += ku * nu;
	}
	for (; k < depth; k++, a += mu, b += nu)
#pragma GCC unroll 8
		for (int i = 0; i < mu; i++)
#pragma GCC unroll 8
			for (int j = 0; j < nu; j++)
				sums[i][j] += a[i] * b[j];
#pragma GCC unroll 8
	for (int i = 0; i < mu; i++)
#pragma GCC unroll 8
		for (int j = 0; j < nu; j++)
			c[i * nu + j] += sums[i][j];
}

typedef void tile_fn(long depth, const double *a, const double *b, double *c);
struct variant {
	int mu, nu, ku;
	tile_fn *tile;
};

#define VARIANT(MU, NU, KU)                                              \
	EVERY_PROCESSOR static void tile_##MU##_##NU##_##KU(             \
		long depth, const double *a, const double *b, double *c) \
	{ tile(MU, NU, KU, depth, a, b, c); }
#define UNROLLED(EACH, MU, NU) EACH(MU, NU, 1) EACH(MU, NU, 2) EACH(MU, NU, 4) EACH(MU, NU, 8)
#define SHAPES(EACH)                                                                        \
	UNROLLED(EACH, 1, 1)                                                                \
	UNROLLED(EACH, 2, 2) UNROLLED(EACH, 2, 4) UNROLLED(EACH, 4, 2) UNROLLED(EACH, 4, 4) \
		UNROLLED(EACH, 1, 8) UNROLLED(EACH, 2, 8) UNROLLED(EACH, 4, 8)              \
			UNROLLED(EACH, 6, 8) UNROLLED(EACH, 8, 8) UNROLLED(EACH, 8, 4)      \
				UNROLLED(EACH, 6, 4) UNROLLED(EACH, 3, 4)
SHAPES(VARIANT)
#define ENTRY(MU, NU, KU) { MU, NU, KU, tile_##MU##_##NU##_##KU },
static const struct variant variants[] = { SHAPES(ENTRY) };
enum { VARIANTS = sizeof variants / sizeof *variants };

struct choice {
	const struct variant *variant;
	long nb, edge; /* edge 0: all of a row of blocks */
};

static long n = 320, attempts = 5, timeout = 600;
static double *a, *b, *c, *right, *blocks_a, *blocks_b;
static double worst;

static long up(long value, long to) { return (value + to - 1) / to * to; }

/* Block (i, k) of A as strips of mu rows, step by step; rows and columns beyond the edge are zero.
 */
static void pack_a(const struct choice *t, double *to, long row, long column)
{
	for (long strip = 0; strip < t->nb; strip += t->variant->mu)
		for (long k = column; k < column + t->nb; k++)
			for (long i = strip; i < strip + t->variant->mu; i++)
				*to++ = i < t->nb && row + i < n && k < n ? a[(row + i) * n + k]
									  : 0;
}

static void pack_b(const struct choice *t, double *to, long row, long column)
{
	for (long strip = 0; strip < t->nb; strip += t->variant->nu)
		for (long k = row; k < row + t->nb; k++)
			for (long j = strip; j < strip + t->variant->nu; j++)
				*to++ = j < t->nb && column + j < n && k < n ? b[k * n + column + j]
									     : 0;
}

static void add_block(const struct choice *t, const double *of_a, const double *of_b, long row,
	long column, bool first)
{
	int mu = t->variant->mu, nu = t->variant->nu;
	double sums[MOST_MU * MOST_NU];
	for (long j = 0; j < t->nb && column + j < n; j += nu)
		for (long i = 0; i < t->nb && row + i < n; i += mu) {
			memset(sums, 0, sizeof sums);
			t->variant->tile(t->nb, of_a + i * t->nb, of_b + j * t->nb, sums);
			for (int x = 0; x < mu && i + x < t->nb && row + i + x < n; x++)
				for (int y = 0; y < nu && j + y < t->nb && column + j + y < n;
					y++) {
					double *at = &c[(row + i + x) * n + column + j + y];
					*at = (first ? 0 : *at) + sums[x * nu + y];
				}
		}
}

static void multiply(const struct choice *t)
{
	long nb = t->nb, count = (n + nb - 1) / nb, bytes_a = up(nb, t->variant->mu) * nb,
	     bytes_b = up(nb, t->variant->nu) * nb;
	long together = t->edge ? t->edge / (2 * nb * nb * (long)sizeof(double)) : count;
	together = together < 1 ? 1 : together;
	for (long i = 0; i < count; i++)
		for (long k = 0; k < count; k++) {
			pack_a(t, blocks_a + (i * count + k) * bytes_a, i * nb, k * nb);
			pack_b(t, blocks_b + (i * count + k) * bytes_b, k * nb, i * nb);
		}
	for (long k = 0; k < count; k += together)
		for (long j = 0; j < count; j++)
			for (long i = 0; i < count; i++)
				for (long l = k; l < count && l < k + together; l++)
					add_block(t, blocks_a + (i * count + l) * bytes_a,
						blocks_b + (j * count + l) * bytes_b, i * nb,
						j * nb, l == 0);
}

static FILE *tried; /* shown once all of it is known to be right */
/* Mflop/s of the fastest attempt, and another entry in the line. */
static double
try
	(const struct choice *t)
	{
		double fastest = 1e18;
		for (long attempt = 0; attempt < attempts; attempt++) {
			uint64_t began = now_ns();
			multiply(t);
			double took = (double)(now_ns() - began) / 1e9;
			fastest = took < fastest ? took : fastest;
		}
		if (deadline_passed)
			give_up("broken off, or not done within %ld seconds", timeout);
		for (long i = 0; i < n * n; i++) {
			double off = fabs(c[i] - right[i]) / (double)n;
			worst = off <= worst ? worst : off;
		}
		if (!(worst <= 1e-13))
			give_up("nb %ld mu %d nu %d ku %d edge %ld computes a wrong product: %g off",
				t->nb, t->variant->mu, t->variant->nu, t->variant->ku, t->edge,
				worst);
		double mflops = 2.0 * (double)n * (double)n * (double)n / fastest / 1e6;
		fprintf(tried,
			"%s{\"nb\":%ld,\"mu\":%d,\"nu\":%d,\"ku\":%d,\"edge\":%ld,\"mflops\":%.1f}",
			ftell(tried) ? "," : "", t->nb, t->variant->mu, t->variant->nu,
			t->variant->ku, t->edge, mflops);
		fflush(tried);
		return mflops;
	}

static void keep_better(struct choice *best, double *mflops, struct choice other)
{
	double its =
	try
		(&other);
	if (its > *mflops) {
		*mflops = its;
		*best = other;
	}
}

static double *numbers(long count)
{
	double *at = aligned_alloc(64, (size_t)up(count * (long)sizeof(double), 64));
	if (at == NULL)
		give_up("no memory for %ld numbers", count);
	return at;
}

int main(int argc, char **argv)
{
	static const long sizes[] = { 16, 24, 32, 40, 48, 56, 64, 80, 96, 128 };
	static const long edges[] = { 0, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10,
		1 << 20, 2 << 20, 4 << 20 };
	enum { SIZES = sizeof sizes / sizeof *sizes, EDGES = sizeof edges / sizeof *edges };
	long cpu = -1;
	const struct named options[] = { { "n", "N", "rows and columns (default 320)", .value = &n,
						 .least = 16 },
		{ "attempts", "N", "of which the fastest counts (default 5)", .value = &attempts,
			.least = 1 },
		{ "cpu", "N", "pin to CPU N", .value = &cpu, .least = 0 },
		{ "timeout", "S", "give up after S seconds (default 600)", .value = &timeout,
			.least = 1 },
		{ NULL } };
	read_named(argc, argv,
		"Sweeps blocking and unrolling of a matrix product, and prints the fastest choice and all that was tried.",
		options);
	pin((int)cpu);
	start_deadline((int)timeout);
	a = numbers(n * n);
	b = numbers(n * n);
	c = numbers(n * n);
	right = numbers(n * n);
	/* Blocks are rounded up in both directions, and strips once more. */
	long most = (n + 128 + MOST_MU * 16) * (n + 128);
	blocks_a = numbers(2 * most);
	blocks_b = numbers(2 * most);
	double *room = numbers((long)(gemm_room() / sizeof(double)));
	for (long i = 0; i < n * n; i++) {
		a[i] = (double)(i * 7 % 17) / 16 - 0.5;
		b[i] = (double)(i * 11 % 19) / 16 - 0.5;
	}
	gemm_double(n, n, a, b, right, room);

	char *table;
	size_t bytes;
	tried = open_memstream(&table, &bytes);
	if (tried == NULL)
		give_up("no memory for a table");
	uint64_t began = now_ns();
	struct choice best = { .nb = 64 };
	double mflops = 0;
	for (int i = 0; i < VARIANTS; i++)
		if (variants[i].mu == 4 && variants[i].nu == 4 && variants[i].ku == 4)
			best.variant = &variants[i];
	for (int i = 0; i < SIZES; i++)
		keep_better(&best, &mflops, (struct choice) { best.variant, sizes[i], 0 });
	struct choice shaped = best;
	for (int i = 0; i < VARIANTS; i++)
		if (variants[i].ku == 4)
			keep_better(&shaped, &mflops, (struct choice) { &variants[i], best.nb, 0 });
	best = shaped;
	for (int i = 0; i < VARIANTS; i++)
		if (variants[i].mu == shaped.variant->mu && variants[i].nu == shaped.variant->nu
		        && variants[i].ku != 4)
			keep_better(&best, &mflops, (struct choice) { &variants[i], best.nb, 0 });
	/* Other shapes of sums may want other blocks. */
	shaped = best;
	for (int i = 0; i < SIZES; i++)
		if (sizes[i] != shaped.nb)
			keep_better(
				&best, &mflops, (struct choice) { shaped.variant, sizes[i], 0 });
	shaped = best;
	for (int i = 1; i < EDGES; i++)
		keep_better(
			&best, &mflops, (struct choice) { shaped.variant, shaped.nb, edges[i] });
	double flops = 2.0 * (double)n * (double)n * (double)n;
	printf("{\"bench\":\"tune\",\"model\":\"none\",\"n\":%ld,\"ranks\":1,\"seconds\":%.9f,\"work\":%.0f,\"unit\":\"flop\",\"check\":%.3g,"
	       "\"choice\":{\"nb\":%ld,\"mu\":%d,\"nu\":%d,\"ku\":%d,\"edge\":%ld},\"mflops\":%.1f,\"search_seconds\":%.3f,\"tried\":[%s]}\n",
		n, flops / mflops / 1e6, flops, worst, best.nb, best.variant->mu, best.variant->nu,
		best.variant->ku, best.edge, mflops, (double)(now_ns() - began) / 1e9, table);
	fclose(tried);
	free(table);
	return 0;
}
