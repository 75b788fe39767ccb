/* Included once for each REAL. */

typedef REAL NAME(strip) __attribute__((vector_size(STRIP), aligned(sizeof(REAL)), may_alias));

static inline __attribute__((always_inline)) void NAME(tile)(int tall, long depth, long n,
	const REAL *a, const REAL *packed, REAL *c, long width, int begin)
{
	enum { LANES = STRIP / sizeof(REAL) };
	NAME(strip) sums[TALL];
	for (int i = 0; i < tall; i++)
		sums[i] = (NAME(strip)) { 0 };
	for (long k = 0; k < depth; k++) {
		NAME(strip) b = *(const NAME(strip) *)(packed + k * LANES);
#pragma GCC unroll 6
		for (int i = 0; i < tall; i++)
			sums[i] += a[i * n + k] * b;
	}
	for (int i = 0; i < tall; i++)
		for (int j = 0; j < width; j++)
			c[i * n + j] = (begin ? 0 : c[i * n + j]) + sums[i][j];
}

EVERY_PROCESSOR
void NAME(gemm)(long rows, long n, const REAL *a, const REAL *b, REAL *c, void *room)
{
	enum { LANES = STRIP / sizeof(REAL) };
	REAL *packed = room;
	for (long j = 0; j < n; j += WIDE / (long)sizeof(REAL)) {
		long width = n - j < WIDE / (long)sizeof(REAL) ? n - j : WIDE / (long)sizeof(REAL);
		for (long k = 0; k < n; k += DEPTH) {
			long depth = n - k < DEPTH ? n - k : DEPTH;
			REAL *to = packed;
			for (long strip = 0; strip < width; strip += LANES)
				for (long row = k; row < k + depth; row++)
					for (long lane = strip; lane < strip + LANES; lane++)
						*to++ = lane < width ? b[row * n + j + lane] : 0;
			for (long i = 0; i < rows; i += TALL) {
				for (long strip = 0; strip < width; strip += LANES) {
					const REAL *from = packed + strip * depth,
						   *left = a + i * n + k;
					REAL *at = c + i * n + j + strip;
					int lanes = width - strip < LANES ? (int)(width - strip)
									  : LANES;
					if (rows - i >= TALL)
						NAME(tile)(TALL, depth, n, left, from, at, lanes,
							k == 0);
					else
						for (long rest = 0; rest < rows - i; rest++)
							NAME(tile)(1, depth, n, left + rest * n,
								from, at + rest * n, lanes, k == 0);
				}
			}
		}
	}
}
