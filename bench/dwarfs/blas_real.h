/* Included once for each REAL. */

/* Level 1: y = y + x / 2 and y = y - x / 2 in turns, and each time the product of y and x. */

struct NAME(vectors) {
	REAL *x, *y;
	double wrong; /* the largest difference of a product from what it should be, relative */
	double xx, xy;
};

static size_t NAME(blas1_bytes)(long n) { return 2 * array_bytes((size_t)n * sizeof(REAL)); }

static void NAME(blas1_prepare)(struct work *work)
{
	struct NAME(vectors) *v = new_state(work, sizeof *v);
	v->x = team_array(work->team, (size_t)work->n * sizeof(REAL));
	v->y = team_array(work->team, (size_t)work->n * sizeof(REAL));
	for (long i = 0; i < work->n; i++) {
		v->xx += x_of(i) * x_of(i);
		v->xy += x_of(i) * y_of(i);
	}
}

static void NAME(blas1_reset)(struct work *work)
{
	struct NAME(vectors) *v = work->state;
	struct part own = own_part(work->team, work->n);
	for (long i = own.first; i < own.end; i++) {
		v->x[i] = (REAL)x_of(i);
		v->y[i] = (REAL)y_of(i);
	}
	v->wrong = 0;
}

EVERY_PROCESSOR
static void NAME(axpy)(long n, REAL factor, const REAL *restrict x, REAL *restrict y)
{
	for (long i = 0; i < n; i++)
		y[i] += factor * x[i];
}

EVERY_PROCESSOR
static REAL NAME(dot)(long n, const REAL *x, const REAL *y)
{
	REAL sum = 0;
	for (long i = 0; i < n; i++)
		sum += x[i] * y[i];
	return sum;
}

static long NAME(blas1_run)(struct work *work, long rounds)
{
	struct NAME(vectors) *v = work->state;
	struct part own = own_part(work->team, work->n);
	long mine = own.end - own.first;
	for (long round = 0; round < rounds; round++) {
		NAME(axpy)(
			mine, (REAL)(round % 2 ? -0.5 : 0.5), v->x + own.first, v->y + own.first);
		double sum = (double)NAME(dot)(mine, v->x + own.first, v->y + own.first);
		team_sum(work->team, &sum, 1);
		double right = v->xy + (round % 2 ? 0 : v->xx / 2),
		       off = fabs(sum - right) / (v->xx + 1);
		v->wrong = off <= v->wrong ? v->wrong : off;
	}
	return rounds;
}

static double NAME(blas1_check)(struct work *work, long rounds)
{
	(void)rounds;
	return ((struct NAME(vectors) *)work->state)->wrong;
}

const struct dwarf NAME(blas1) = {
	.name = "blas1-" LETTER,
	.does = "y = y + a x and x.y; n: their length",
	.unit = "flop",
	.operations = blas1_operations,
	.tolerance = PRECISION,
	.bytes = NAME(blas1_bytes),
	.prepare = NAME(blas1_prepare),
	.reset = NAME(blas1_reset),
	.run = NAME(blas1_run),
	.check = NAME(blas1_check),
	.smallest = 1,
};

/* Level 2: x = 2 A x and x = A x / 2 in turns; A = u v' / (v.u), of which u is an eigenvector of
 * value 1. */

struct NAME(system) {
	REAL *a, *x[2];
};

static double NAME(u_of)(long i) { return 1 + (double)(i % 7) / 8; }

static double NAME(v_of)(long i) { return 1 + (double)(i % 4) / 4; }

static size_t NAME(blas2_bytes)(long n)
{
	return array_bytes((size_t)n * (size_t)n * sizeof(REAL))
	        + 2 * array_bytes((size_t)n * sizeof(REAL));
}

static void NAME(blas2_prepare)(struct work *work)
{
	struct NAME(system) *s = new_state(work, sizeof *s);
	size_t n = (size_t)work->n;
	s->a = team_array(work->team, n * n * sizeof(REAL));
	for (int i = 0; i < 2; i++)
		s->x[i] = team_array(work->team, n * sizeof(REAL));
}

static void NAME(blas2_reset)(struct work *work)
{
	struct NAME(system) *s = work->state;
	struct part own = own_part(work->team, work->n);
	double product = 0;
	for (long i = 0; i < work->n; i++)
		product += NAME(u_of)(i) * NAME(v_of)(i);
	for (long i = own.first; i < own.end; i++) {
		for (long j = 0; j < work->n; j++)
			s->a[i * work->n + j] = (REAL)(NAME(u_of)(i) * NAME(v_of)(j) / product);
		s->x[0][i] = (REAL)NAME(u_of)(i);
	}
	team_gather(work->team, s->x[0], sizeof(REAL), work->n);
}

EVERY_PROCESSOR
static void NAME(gemv)(
	long rows, long n, REAL factor, const REAL *a, const REAL *restrict x, REAL *restrict y)
{
	for (long i = 0; i < rows; i++) {
		REAL sum = 0;
		for (long j = 0; j < n; j++)
			sum += a[i * n + j] * x[j];
		y[i] = factor * sum;
	}
}

/* Two vectors in turns: nobody writes what others may still read, with one barrier a round. */
static long NAME(blas2_run)(struct work *work, long rounds)
{
	struct NAME(system) *s = work->state;
	struct part own = own_part(work->team, work->n);
	for (long round = 0; round < rounds; round++) {
		REAL *from = s->x[round % 2], *to = s->x[(round + 1) % 2];
		NAME(gemv)(own.end - own.first, work->n, (REAL)(round % 2 ? 0.5 : 2),
			s->a + own.first * work->n, from, to + own.first);
		team_gather(work->team, to, sizeof(REAL), work->n);
	}
	return rounds;
}

static double NAME(blas2_check)(struct work *work, long rounds)
{
	struct NAME(system) *s = work->state;
	double wrong = 0;
	for (long i = 0; i < work->n; i++) {
		double right = NAME(u_of)(i) * (rounds % 2 ? 2 : 1),
		       off = fabs((double)s->x[rounds % 2][i] - right);
		wrong = off <= wrong ? wrong : off;
	}
	return wrong / (double)(rounds + 10) * 10;
}

const struct dwarf NAME(blas2) = {
	.name = "blas2-" LETTER,
	.does = "x = A x; n: rows and columns",
	.unit = "flop",
	.operations = blas2_operations,
	.tolerance = PRECISION,
	.bytes = NAME(blas2_bytes),
	.prepare = NAME(blas2_prepare),
	.reset = NAME(blas2_reset),
	.run = NAME(blas2_run),
	.check = NAME(blas2_check),
	.smallest = 1,
};

/* Level 3: X = H X with the reflection H = 1 - 2 v v' / (v.v), so that every second X is the first
 * again. */

struct NAME(matrices) {
	REAL *h, *x[2];
	void *room;
};

static double NAME(w_of)(long i) { return 1 + (double)(i % 3); }

static double NAME(b_of)(long i, long j) { return (double)((i * 3 + j * 5) % 16) / 8 - 1; }

static size_t NAME(blas3_bytes)(long n)
{ return 3 * array_bytes((size_t)n * (size_t)n * sizeof(REAL)); }

static void NAME(blas3_prepare)(struct work *work)
{
	struct NAME(matrices) *m = new_state(work, sizeof *m + 63 + gemm_room());
	size_t bytes = (size_t)work->n * (size_t)work->n * sizeof(REAL);
	m->h = team_array(work->team, bytes);
	for (int i = 0; i < 2; i++)
		m->x[i] = team_array(work->team, bytes);
	m->room = (void *)(((uintptr_t)(m + 1) + 63) / 64 * 64);
}

static double NAME(squares)(long n)
{
	double sum = 0;
	for (long i = 0; i < n; i++)
		sum += NAME(w_of)(i) * NAME(w_of)(i);
	return sum;
}

static void NAME(blas3_reset)(struct work *work)
{
	struct NAME(matrices) *m = work->state;
	long n = work->n;
	struct part own = own_part(work->team, n);
	double squares = NAME(squares)(n);
	for (long i = own.first; i < own.end; i++)
		for (long j = 0; j < n; j++) {
			m->h[i * n + j] = (REAL)((i == j)
			        - 2 * NAME(w_of)(i) * NAME(w_of)(j) / squares);
			m->x[0][i * n + j] = (REAL)NAME(b_of)(i, j);
		}
	team_gather(work->team, m->x[0], (size_t)n * sizeof(REAL), n);
}

static long NAME(blas3_run)(struct work *work, long rounds)
{
	struct NAME(matrices) *m = work->state;
	long n = work->n;
	struct part own = own_part(work->team, n);
	for (long round = 0; round < rounds; round++) {
		REAL *from = m->x[round % 2], *to = m->x[(round + 1) % 2];
		NAME(gemm)(own.end - own.first, n, m->h + own.first * n, from, to + own.first * n,
			m->room);
		team_gather(work->team, to, (size_t)n * sizeof(REAL), n);
	}
	return rounds;
}

static double NAME(blas3_check)(struct work *work, long rounds)
{
	struct NAME(matrices) *m = work->state;
	long n = work->n;
	if (work->team->rank != 0)
		return 0;
	double squares = NAME(squares)(n), wrong = 0;
	for (long j = 0; j < n; j++) {
		double product = 0;
		for (long i = 0; rounds % 2 && i < n; i++)
			product += NAME(w_of)(i) * NAME(b_of)(i, j);
		for (long i = 0; i < n; i++) {
			double right = NAME(b_of)(i, j) - 2 * NAME(w_of)(i) * product / squares;
			double off = fabs((double)m->x[rounds % 2][i * n + j] - right);
			wrong = off <= wrong ? wrong : off;
		}
	}
	return wrong / (double)(rounds + 10) * 10;
}

const struct dwarf NAME(blas3) = {
	.name = "blas3-" LETTER,
	.does = "X = H X; n: rows and columns",
	.unit = "flop",
	.operations = blas3_operations,
	.tolerance = PRECISION,
	.bytes = NAME(blas3_bytes),
	.prepare = NAME(blas3_prepare),
	.reset = NAME(blas3_reset),
	.run = NAME(blas3_run),
	.check = NAME(blas3_check),
	.smallest = 1,
};
