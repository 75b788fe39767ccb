/* What the first touch of a page costs: of malloc's memory, of anonymous shared memory, of a System
 * V segment, of a file or a device. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include "named.h"
#include "run.h"
#include "ticks.h"

static const char *kind = "malloc";
static long pages = 4096, timeout = 60;
static bool huge, by_file;
static int segment = -1;

static void remove_segment(void)
{
	if (segment != -1)
		shmctl(segment, IPC_RMID, NULL);
	segment = -1;
}

static void *map(size_t bytes, int fd, int flags)
{
	void *at = mmap(NULL, bytes, fd == -1 ? PROT_READ | PROT_WRITE : PROT_READ, flags, fd, 0);
	if (at == MAP_FAILED)
		give_up("mmap of %zu bytes of %s failed: %s", bytes, kind, strerror(errno));
	return at;
}

/* A file of a tmpfs whose pages are all there: a touch maps them, and the kernel may map some more
 * around. */
static int filled(size_t bytes)
{
	static const unsigned char zeros[1 << 16];
	int fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd == -1)
		give_up("/dev/shm: cannot make a file: %s", strerror(errno));
	for (size_t done = 0; done < bytes;) {
		size_t rest = bytes - done;
		ssize_t wrote = write(fd, zeros, rest < sizeof zeros ? rest : sizeof zeros);
		if (wrote <= 0)
			give_up("/dev/shm: cannot write %zu bytes: %s", bytes, strerror(errno));
		done += (size_t)wrote;
	}
	return fd;
}

static unsigned char *memory(size_t page)
{
	size_t bytes = (size_t)pages * page;
	if (strcmp(kind, "malloc") == 0) {
		/* One page more, so that pages begin where pages do. */
		unsigned char *at = malloc(bytes + page);
		if (at == NULL)
			give_up("malloc of %zu bytes failed: %s", bytes, strerror(errno));
		return at + (page - (uintptr_t)at % page);
	}
	if (strcmp(kind, "shared") == 0)
		return map(bytes, -1, MAP_SHARED | MAP_ANONYMOUS);
	if (strcmp(kind, "segment") == 0) {
		on_failure = remove_segment;
		segment = shmget(IPC_PRIVATE, bytes, 0600);
		if (segment == -1)
			give_up("shmget of %zu bytes failed: %s", bytes, strerror(errno));
		void *at = shmat(segment, NULL, 0);
		if (at == (void *)-1)
			give_up_call("shmat");
		remove_segment();
		return at;
	}
	int fd = strcmp(kind, "file") == 0 ? filled(bytes) : open(kind, O_RDONLY | O_CLOEXEC);
	struct stat status;
	if (fd == -1 || fstat(fd, &status) != 0)
		give_up("'%s' is no kind of memory, and cannot be opened as a file: %s", kind,
			strerror(errno));
	if (S_ISREG(status.st_mode) && (size_t)status.st_size < bytes)
		give_up("'%s' has %lld bytes, and %ld pages are to be touched (--pages)", kind,
			(long long)status.st_size, pages);
	by_file = true;
	return map(bytes, fd, MAP_SHARED);
}

static struct rusage usage_so_far(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return usage;
}

int main(int argc, char **argv)
{
	const struct named options[] = {
		{ "kind", "KIND",
			"malloc, shared, segment, file (of a tmpfs), or the path of a file or device, which is mapped and read (default malloc)",
			.text = &kind },
		{ "pages", "N", "pages to touch (default 4096)", .value = &pages, .least = 1 },
		{ "huge", NULL, "ask the kernel for huge pages", .on = &huge },
		{ "timeout", "S", "give up after S seconds (default 60)", .value = &timeout,
			.least = 1 },
		{ NULL }
	};
	read_named(argc, argv,
		"Touches each page of fresh memory once, and prints what a touch took. Memory is written, files are read.",
		options);
	start_deadline((int)timeout);
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	double *took = malloc((size_t)pages * sizeof *took), tick = ns_per_tick(),
	       cost = tick_cost(), sum = 0;
	if (took == NULL)
		give_up("no memory for %ld readings", pages);
	memset(took, 1, (size_t)pages * sizeof *took); /* its own faults come before */
	volatile unsigned char *at = memory(page);
	/* Asked for: on many machines nobody gets them unasked. */
	madvise((void *)at, (size_t)pages * page, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	unsigned wrong = 0;
	struct rusage before_all = usage_so_far();
	uint64_t began = now_ns();
	for (long i = 0; i < pages; i++) {
		uint64_t before = ticks();
		if (by_file)
			(void)at[(size_t)i * page];
		else
			at[(size_t)i * page] = (unsigned char)i;
		double spent = (double)(ticks() - before) - cost;
		took[i] = (spent > 0 ? spent : 0) * tick;
		if (deadline_passed)
			give_up("broken off, or not done within %ld seconds", timeout);
	}
	uint64_t ended = now_ns();
	struct rusage after_all = usage_so_far();
	long major = after_all.ru_majflt - before_all.ru_majflt,
	     faults = after_all.ru_minflt - before_all.ru_minflt + major;
	for (long i = 0; i < pages; i++) {
		sum += took[i];
		wrong += !by_file && at[(size_t)i * page] != (unsigned char)i;
	}
	/* Pages that had gone to a disk meanwhile have been fetched again. */
	long fetched = usage_so_far().ru_majflt - after_all.ru_majflt;
	if (wrong)
		give_up("%u of %ld pages do not keep what is written to them", wrong, pages);
	sort(took, pages);
	printf("{\"bench\":\"faults\",\"model\":\"none\",\"n\":%ld,\"ranks\":1,\"seconds\":%.9f,\"work\":%ld,\"unit\":\"page\",\"check\":0,"
	       "\"kind\":\"%s\",\"median_ns\":%.1f,\"min_ns\":%.1f,\"p99_ns\":%.1f,\"max_ns\":%.1f,\"mean_ns\":%.1f,\"page_bytes\":%zu,"
	       "\"faults\":%ld,\"major_faults\":%ld,\"fetched\":%ld,\"clock_ns\":%.1f}\n",
		pages, (double)(ended - began) / 1e9, pages, by_file ? "file" : kind,
		quantile(took, pages, 0.5), took[0], quantile(took, pages, 0.99), took[pages - 1],
		sum / (double)pages, page, faults, major, fetched, cost * tick);
	return 0;
}
