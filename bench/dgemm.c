/* One matrix product in double precision, by whichever BLAS is installed or by the kernel of ours,
 * and what it takes of the machine: time, memory, page faults, swap, misses of the translation
 * buffers. */
#include <dlfcn.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dwarfs/gemm.h"
#include "named.h"
#include "run.h"

/* cblas.h's, which need not be installed. */
enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111 };
typedef void cblas_dgemm_fn(int, int, int, int, int, int, double, const double *, int,
	const double *, int, double, double *, int);

static cblas_dgemm_fn *find_dgemm(const char *library)
{
	void *opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	/* ISO C has no function pointers out of data pointers; POSIX has. */
	union {
		void *data;
		cblas_dgemm_fn *function;
	} symbol = { .data = opened ? dlsym(opened, "cblas_dgemm") : NULL };
	return symbol.function;
}

/* The file that it is really from, behind links such as an alternatives system makes. */
static const char *name_of(cblas_dgemm_fn *dgemm, char *path)
{
	union {
		void *data;
		cblas_dgemm_fn *function;
	} symbol = { .function = dgemm };
	Dl_info info;
	if (dladdr(symbol.data, &info) == 0 || realpath(info.dli_fname, path) == NULL)
		return "unknown";
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static int counter(uint64_t cache)
{
	struct perf_event_attr attributes = { .type = PERF_TYPE_HW_CACHE,
		.size = sizeof attributes,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.config = cache | PERF_COUNT_HW_CACHE_OP_READ << 8
		        | PERF_COUNT_HW_CACHE_RESULT_MISS << 16 };
	return (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void set_counter(int fd, unsigned long request)
{
	if (fd != -1)
		ioctl(fd, request, 0);
}

/* "null" where there is no such counter, or it never got to count. */
static const char *read_counter(int fd, char *text, size_t bytes)
{
	uint64_t count;
	snprintf(text, bytes, "null");
	if (fd != -1 && read(fd, &count, sizeof count) == sizeof count)
		snprintf(text, bytes, "%llu", (unsigned long long)count);
	return text;
}

/* In KiB, of this process. */
static long status_of(const char *member)
{
	char line[256];
	long value = 0;
	FILE *status = fopen("/proc/self/status", "re");
	while (status && fgets(line, sizeof line, status))
		if (strncmp(line, member, strlen(member)) == 0)
			value = strtol(line + strlen(member), NULL, 10);
	if (status)
		fclose(status);
	return value;
}

static double a_of(long i, long j) { return (double)((i * 7 + j * 3) % 17) / 16 - 0.5; }

static double b_of(long i, long j) { return (double)((i * 5 + j * 11) % 19) / 16 - 0.5; }

/* C x beside A (B x), for one x: off by more than rounding unless C is right. */
static double error(long n, const double *a, const double *b, const double *c)
{
	double *x = calloc(3 * (size_t)n, sizeof *x), *bx = x + n, *right = x + 2 * n, worst = 0;
	if (x == NULL)
		give_up("no memory for a check of %ld numbers", 3 * n);
	for (long i = 0; i < n; i++)
		x[i] = (double)(i * i % 13) / 8 - 0.7;
	for (long i = 0; i < n; i++)
		for (long j = 0; j < n; j++)
			bx[i] += b[i * n + j] * x[j];
	for (long i = 0; i < n; i++) {
		double is = 0;
		for (long j = 0; j < n; j++) {
			right[i] += a[i * n + j] * bx[j];
			is += c[i * n + j] * x[j];
		}
		double off = fabs(is - right[i]) / ((double)n * sqrt((double)n));
		worst = off <= worst ? worst : off;
	}
	free(x);
	return worst;
}

static double *matrix(long n)
{
	double *at = aligned_alloc(64, ((size_t)n * (size_t)n * sizeof *at + 63) / 64 * 64);
	if (at == NULL)
		give_up("no memory for a matrix of %ld by %ld", n, n);
	return at;
}

int main(int argc, char **argv)
{
	long n = 512, rounds = 1, warmup = 0, cpu = -1, timeout = 3600;
	const char *blas = "auto";
	const struct named options[] = { { "n", "N", "rows and columns (default 512)", .value = &n,
						 .least = 1 },
		{ "blas", "B",
			"auto, none (a kernel of ours), or a library that has cblas_dgemm (default auto)",
			.text = &blas },
		{ "rounds", "N", "products that count (default 1)", .value = &rounds, .least = 1 },
		{ "warmup", "N", "products before them (default 0)", .value = &warmup, .least = 0 },
		{ "cpu", "N", "pin to CPU N", .value = &cpu, .least = 0 },
		{ "timeout", "S", "give up after S seconds (default 3600)", .value = &timeout,
			.least = 1 },
		{ NULL } };
	read_named(argc, argv,
		"C = A B in double precision. Libraries use one thread unless their variables say otherwise.",
		options);
	if (n > 40000)
		give_up("--n %ld is beyond what an int of BLAS can count", n);
	pin((int)cpu);
	start_deadline((int)timeout);
	static const char *const threads[] = { "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS",
		"OMP_NUM_THREADS", "MKL_NUM_THREADS" };
	for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
		setenv(threads[i], "1", 0);
	static const char *const libraries[] = { "libopenblas.so.0", "libopenblas.so",
		"libblis.so.4", "libblis.so", "libcblas.so.3", "libcblas.so", "libsatlas.so",
		"libatlas.so.3", "libblas.so.3" };
	cblas_dgemm_fn *dgemm = NULL;
	char path[4096];
	const char *name = "none";
	if (strcmp(blas, "auto") == 0)
		for (size_t i = 0; !dgemm && i < sizeof libraries / sizeof *libraries; i++)
			dgemm = find_dgemm(libraries[i]);
	else if (strcmp(blas, "none") != 0 && (dgemm = find_dgemm(blas)) == NULL)
		give_up("'%s' cannot be loaded, or has no cblas_dgemm (install libopenblas0, or give --blas none)",
			blas);
	if (dgemm)
		name = name_of(dgemm, path);

	int data = counter(PERF_COUNT_HW_CACHE_DTLB), code = counter(PERF_COUNT_HW_CACHE_ITLB);
	double *a = matrix(n), *b = matrix(n), *c = matrix(n);
	void *room = aligned_alloc(64, gemm_room());
	if (room == NULL)
		give_up("no memory to pack a matrix");
	for (long i = 0; i < n; i++)
		for (long j = 0; j < n; j++) {
			a[i * n + j] = a_of(i, j);
			b[i * n + j] = b_of(i, j);
			c[i * n + j] = NAN;
		}
	uint64_t began = 0;
	struct rusage before, after;
	for (long round = -warmup; round < rounds; round++) {
		if (round == 0) {
			getrusage(RUSAGE_SELF, &before);
			set_counter(data, PERF_EVENT_IOC_ENABLE);
			set_counter(code, PERF_EVENT_IOC_ENABLE);
			began = now_ns();
		}
		if (dgemm)
			dgemm(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, (int)n, (int)n, (int)n, 1, a,
				(int)n, b, (int)n, 0, c, (int)n);
		else
			gemm_double(n, n, a, b, c, room);
		if (deadline_passed)
			give_up("broken off, or not done within %ld seconds", timeout);
	}
	double seconds = (double)(now_ns() - began) / 1e9,
	       flops = 2.0 * (double)n * (double)n * (double)n * (double)rounds;
	set_counter(data, PERF_EVENT_IOC_DISABLE);
	set_counter(code, PERF_EVENT_IOC_DISABLE);
	getrusage(RUSAGE_SELF, &after);
	long resident = status_of("VmRSS:"), swapped = status_of("VmSwap:");
	double wrong = error(n, a, b, c), tolerance = 1e-12;
	if (!(wrong <= tolerance))
		give_up("%s: the product of two matrices of %ld is wrong: the error is %g, and %g is allowed",
			name, n, wrong, tolerance);
	char misses[2][32];
	printf("{\"bench\":\"dgemm\",\"model\":\"none\",\"n\":%ld,\"ranks\":1,\"rounds\":%ld,\"seconds\":%.9f,\"work\":%.0f,\"unit\":\"flop\","
	       "\"check\":%.3g,\"tolerance\":%g,\"mflops\":%.1f,\"library\":\"%s\",\"resident_kib\":%ld,\"peak_kib\":%ld,\"swap_kib\":%ld,"
	       "\"minor_faults\":%ld,\"major_faults\":%ld,\"setup_minor_faults\":%ld,\"setup_major_faults\":%ld,\"dtlb_misses\":%s,"
	       "\"itlb_misses\":%s}\n",
		n, rounds, seconds, flops, wrong, tolerance, flops / seconds / 1e6, name, resident,
		after.ru_maxrss, swapped, after.ru_minflt - before.ru_minflt,
		after.ru_majflt - before.ru_majflt, before.ru_minflt, before.ru_majflt,
		read_counter(data, misses[0], sizeof misses[0]),
		read_counter(code, misses[1], sizeof misses[1]));
	return 0;
}
