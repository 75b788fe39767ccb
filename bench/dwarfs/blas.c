/* Linear algebra of the three levels, single and double. Each multiplies something that is known in
 * advance, so that every result is compared with a closed form; and no two rounds in succession
 * have the same result, so that a stale value is found. */
#include <math.h>
#include <stdlib.h>

#include "../run.h"
#include "dwarf.h"
#include "gemm.h"

static void *new_state(struct work *work, size_t bytes)
{
	work->state = calloc(1, bytes);
	if (work->state == NULL)
		give_up("no memory for a dwarf's state");
	return work->state;
}

/* Small integers, so that sums of many of them are exact in single precision, too. */
static double x_of(long i) { return (double)(i % 5 - 2); }

static double y_of(long i) { return (double)(i % 3 + 1); }

static double blas1_operations(long n) { return 4.0 * (double)n; }

static double blas2_operations(long n) { return 2.0 * (double)n * (double)n; }

static double blas3_operations(long n) { return 2.0 * (double)n * (double)n * (double)n; }

#define REAL       float
#define NAME(what) what##_single
#define LETTER     "s"
#define PRECISION  1e-4
#include "blas_real.h"
#undef REAL
#undef NAME
#undef LETTER
#undef PRECISION

#define REAL       double
#define NAME(what) what##_double
#define LETTER     "d"
#define PRECISION  1e-11
#include "blas_real.h"
