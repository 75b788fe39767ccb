// SPDX-License-Identifier: GPL-2.0
/*
 * The driver's own test, for a guest: selftest DEVICE [CASE...]. Each case prints one line; the
 * exit code is the number of those that failed. The cases wait for states, not for clocks.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftest.h"
#include "uapi/vshmem.h"

#define SKIP (-1)

const char *place;
struct vshmem_info info;
static int failures;

int open_device(void)
{
	int file = open(place, O_RDWR | O_CLOEXEC);

	if (file < 0) {
		perror(place);
		exit(2);
	}
	return file;
}

void *map_part(int file, size_t offset, size_t bytes)
{ return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, offset); }

static long futex(uint32_t *word, int operation, uint32_t value)
{ return syscall(SYS_futex, word, operation, value, NULL, NULL, 0); }

bool sleeps(pid_t pid)
{
	char name[64], text[256], *behind;
	FILE *file;
	size_t length;

	snprintf(name, sizeof(name), "/proc/%d/stat", pid);
	file = fopen(name, "r");
	if (!file)
		return false;
	length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = 0;
	behind = strrchr(text, ')');
	return behind && behind[2] == 'S';
}

static int says_what_it_is(void)
{
	EXPECT(info.interface == VSHMEM_INTERFACE);
	EXPECT(info.bytes >= HUGE && info.bytes % HUGE == 0);
	EXPECT(strlen(info.name) < sizeof(info.name) && info.name[0]);
	if (info.features & VSHMEM_CAN_RING)
		EXPECT(info.peer >= 0 && info.vectors > 0);
	else
		EXPECT(info.peer == -1 && info.vectors == 0);
	return 0;
}

/* What the driver counts; -1 where it says nothing. */
static long counted(const char *what)
{
	char path[200];
	long count = -1;

	snprintf(path, sizeof(path), "/sys/class/misc/vshmem-%s/%s", strrchr(place, '/') + 1, what);
	FILE *file = fopen(path, "r");
	if (file && fscanf(file, "%ld", &count) != 1)
		count = -1;
	if (file)
		fclose(file);
	return count;
}

static int counts_pages_by_their_size(void)
{
	long pages = counted("pages_mapped"), huge_pages = counted("huge_pages_mapped");
	int file = open_device();
	volatile uint8_t *memory = map_part(file, 0, 2 * HUGE);

	EXPECT(pages >= 0 && huge_pages >= 0 && memory != MAP_FAILED);
	memory[0] = memory[PAGE] = memory[HUGE] = 1;
	EXPECT(counted("huge_pages_mapped") == huge_pages + 2);
	EXPECT(counted("pages_mapped") == pages);
	volatile uint8_t *part = map_part(file, PAGE, 3 * PAGE);
	EXPECT(part != MAP_FAILED);
	part[0] = part[PAGE] = 1;
	EXPECT(counted("huge_pages_mapped") == huge_pages + 2);
	EXPECT(counted("pages_mapped") == pages + 2);
	munmap((void *)memory, 2 * HUGE);
	munmap((void *)part, 3 * PAGE);
	close(file);
	return 0;
}

static int maps_whole_and_parts(void)
{
	int file = open_device();
	uint8_t *whole = map_part(file, 0, info.bytes);
	size_t offset = info.bytes - 3 * PAGE;
	uint8_t *part;

	EXPECT(whole != MAP_FAILED);
	part = map_part(file, offset, 2 * PAGE);
	EXPECT(part != MAP_FAILED);
	whole[offset + PAGE] = 17;
	EXPECT(part[PAGE] == 17);
	part[PAGE] = 23;
	EXPECT(whole[offset + PAGE] == 23);
	EXPECT(map_part(file, info.bytes, PAGE) == MAP_FAILED && errno == EINVAL);
	EXPECT(map_part(file, info.bytes - PAGE, 2 * PAGE) == MAP_FAILED && errno == EINVAL);
	EXPECT(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0) == MAP_FAILED);
	munmap(part, 2 * PAGE);
	munmap(whole, info.bytes);
	close(file);
	return 0;
}

static int uses_huge_pages(void)
{
	int file = open_device();
	struct rusage before, after;
	volatile uint8_t *whole = map_part(file, 0, info.bytes);
	size_t at;

	EXPECT(whole != MAP_FAILED);
	EXPECT(((uintptr_t)whole & (HUGE - 1)) == 0);
	getrusage(RUSAGE_SELF, &before);
	for (at = 0; at < info.bytes; at += PAGE)
		(void)whole[at];
	getrusage(RUSAGE_SELF, &after);
	/* One fault per huge page, and some of the program's own. */
	EXPECT(after.ru_minflt - before.ru_minflt <= (long)(info.bytes / HUGE) + 16);
	munmap((void *)whole, info.bytes);
	close(file);
	return 0;
}

static int lets_processes_sleep_on_it(void)
{
	int file = open_device();
	uint32_t *word = map_part(file, info.bytes - PAGE, PAGE);
	pid_t child;

	EXPECT(word != MAP_FAILED);
	__atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
	child = fork();
	if (!child) {
		while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == 1)
			if (futex(word, FUTEX_WAIT, 1) < 0 && errno != EAGAIN && errno != EINTR)
				_exit(errno);
		_exit(0);
	}
	while (!sleeps(child))
		sched_yield();
	__atomic_store_n(word, 2, __ATOMIC_SEQ_CST);
	EXPECT(futex(word, FUTEX_WAKE, 1) >= 0);
	EXPECT(outcome(child) == 0);
	munmap(word, PAGE);
	close(file);
	return 0;
}

/* What the kernel does with pages behind a program's back. */
static int stands_rough_handling(void)
{
	int file = open_device();
	size_t bytes = 2 * HUGE <= info.bytes ? 2 * HUGE : HUGE;
	uint8_t *memory = map_part(file, 0, bytes), *moved;
	uint8_t copy[64];
	struct iovec here = { copy, sizeof(copy) }, there;
	int pipes[2];
	size_t at = bytes - 8 * PAGE;

	EXPECT(memory != MAP_FAILED);
	memory[at] = 42;
	there = (struct iovec) { memory + at, sizeof(copy) };
	EXPECT(process_vm_readv(getpid(), &here, 1, &there, 1, 0) == sizeof(copy) && copy[0] == 42);
	EXPECT(process_vm_writev(getpid(), &here, 1, &there, 1, 0) == sizeof(copy));
	EXPECT(pipe(pipes) == 0 && write(pipes[1], memory + at, 64) == 64);
	EXPECT(vmsplice(pipes[1], &there, 1, 0) == 64);
	EXPECT(read(pipes[0], copy, 64) == 64 && copy[0] == 42);
	close(pipes[0]);
	close(pipes[1]);
	EXPECT(mprotect(memory + HUGE / 2, PAGE, PROT_READ) == 0);
	EXPECT(memory[at] == 42);
	EXPECT(mprotect(memory + HUGE / 2, PAGE, PROT_READ | PROT_WRITE) == 0);
	memory[HUGE / 2] = 1;
	EXPECT(munmap(memory + HUGE / 4, 3 * PAGE) == 0);
	EXPECT(memory[at] == 42);
	EXPECT(madvise(memory + at, PAGE, MADV_DONTNEED) == 0 && memory[at] == 42);
	madvise(memory + at, PAGE, MADV_PAGEOUT);
	madvise(memory, bytes, MADV_NOHUGEPAGE);
	madvise(memory, bytes, MADV_HUGEPAGE);
	madvise(memory + at, PAGE, MADV_REMOVE);
	mlock(memory + at, PAGE);
	msync(memory + at, PAGE, MS_SYNC);
	moved = mremap(memory + at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, memory + HUGE / 4);
	EXPECT(moved == memory + HUGE / 4 && moved[0] == 42);
	EXPECT(outcome(fork() ?: (_exit(moved[0] == 42 ? 0 : 1), 0)) == 0);
	munmap(memory, bytes);
	close(file);
	return 0;
}

static int tells_ends_of_processes(void)
{
	int file = open_device(), late, ready[2];
	int32_t pids[8];
	struct vshmem_deaths deaths = { .pids = (uintptr_t)pids, .room = 8 };
	struct pollfd look = { .fd = file, .events = POLLPRI };
	pid_t child, grandchild = 0;

	EXPECT(pipe(ready) == 0);
	EXPECT(poll(&look, 1, 0) == 0);
	child = fork();
	if (!child) {
		if (ioctl(file, VSHMEM_REGISTER) || ioctl(file, VSHMEM_REGISTER))
			_exit(1);
		/* Lives on with the same open file. */
		grandchild = fork();
		if (!grandchild) {
			for (;;)
				pause();
		}
		if (write(ready[1], &grandchild, sizeof(grandchild)) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	EXPECT(read(ready[0], &grandchild, sizeof(grandchild)) == sizeof(grandchild));
	late = open_device();
	EXPECT(ioctl(file, VSHMEM_DEATHS, &deaths) == 0 && deaths.count == 0);
	kill(child, SIGKILL);
	EXPECT(poll(&look, 1, -1) == 1 && look.revents == POLLPRI);
	deaths.room = 8;
	EXPECT(ioctl(file, VSHMEM_DEATHS, &deaths) == 0);
	EXPECT(deaths.count == 1 && pids[0] == child && deaths.missed == 0);
	EXPECT(poll(&look, 1, 0) == 0);
	deaths.room = 8;
	EXPECT(ioctl(file, VSHMEM_DEATHS, &deaths) == 0 && deaths.count == 0);
	/* Each open file gets its own notices. */
	deaths.room = 8;
	EXPECT(ioctl(late, VSHMEM_DEATHS, &deaths) == 0 && deaths.count == 1 && pids[0] == child);
	kill(grandchild, SIGKILL);
	outcome(child);
	close(file);
	close(late);
	close(ready[0]);
	close(ready[1]);
	return 0;
}

static int forgets_old_ends(void)
{
	int file = open_device(), i;
	int32_t pids[64];
	struct vshmem_deaths deaths = { .pids = (uintptr_t)pids, .room = 64 };
	unsigned reported = 0;

	for (i = 0; i < 1200; i++) {
		pid_t child = fork();

		if (!child)
			_exit(ioctl(file, VSHMEM_REGISTER) ? 1 : 0);
		EXPECT(outcome(child) == 0);
	}
	EXPECT(ioctl(file, VSHMEM_DEATHS, &deaths) == 0);
	EXPECT(deaths.missed > 0 && deaths.count == 64);
	reported = deaths.missed + deaths.count;
	do {
		deaths.room = 64;
		EXPECT(ioctl(file, VSHMEM_DEATHS, &deaths) == 0);
		reported += deaths.count + deaths.missed;
	} while (deaths.count);
	EXPECT(reported == 1200);
	close(file);
	return 0;
}

static int rings_and_is_rung(void)
{
	int file = open_device();
	struct pollfd look = { .fd = file, .events = POLLIN };
	struct vshmem_ring ring = { .peer = info.peer };
	uint64_t count = 0;

	if (!(info.features & VSHMEM_CAN_RING)) {
		EXPECT(ioctl(file, VSHMEM_RING, &ring) < 0 && errno == EOPNOTSUPP);
		EXPECT(read(file, &count, sizeof(count)) < 0 && errno == EOPNOTSUPP);
		close(file);
		return SKIP;
	}
	EXPECT(poll(&look, 1, 0) == 0);
	EXPECT(ioctl(file, VSHMEM_RING, &ring) == 0);
	EXPECT(poll(&look, 1, -1) == 1 && look.revents == POLLIN);
	EXPECT(read(file, &count, sizeof(count)) == sizeof(count) && count >= 1);
	/* No peer of that number: lost, and no harm done. */
	ring.peer = 65535;
	EXPECT(ioctl(file, VSHMEM_RING, &ring) == 0);
	ring.peer = 65536;
	EXPECT(ioctl(file, VSHMEM_RING, &ring) < 0 && errno == EINVAL);
	close(file);
	return 0;
}

static int waits_for_a_word(void)
{
	int file = open_device();
	uint32_t *word = map_part(file, info.bytes - PAGE, PAGE);
	struct vshmem_wait wait = { .offset = info.bytes - PAGE, .value = 5, .timeout_ns = -1 };
	struct vshmem_ring ring = { .peer = info.peer };
	pid_t child;

	EXPECT(word != MAP_FAILED);
	if (!(info.features & VSHMEM_CAN_RING)) {
		EXPECT(ioctl(file, VSHMEM_WAIT, &wait) < 0 && errno == EOPNOTSUPP);
		return SKIP;
	}
	*word = 4;
	EXPECT(ioctl(file, VSHMEM_WAIT, &wait) == 0);
	*word = 5;
	wait.timeout_ns = 1000;
	EXPECT(ioctl(file, VSHMEM_WAIT, &wait) < 0 && errno == ETIMEDOUT);
	wait.timeout_ns = -1;
	child = fork();
	if (!child)
		_exit(ioctl(file, VSHMEM_WAIT, &wait) ? errno : 0);
	while (!sleeps(child))
		sched_yield();
	/* A spurious notification does not wake a waiter for good. */
	EXPECT(ioctl(file, VSHMEM_RING, &ring) == 0);
	while (!sleeps(child))
		sched_yield();
	EXPECT(waitpid(child, NULL, WNOHANG) == 0);
	__atomic_store_n(word, 6, __ATOMIC_SEQ_CST);
	EXPECT(ioctl(file, VSHMEM_RING, &ring) == 0);
	EXPECT(outcome(child) == 0);
	wait.offset = info.bytes;
	EXPECT(ioctl(file, VSHMEM_WAIT, &wait) < 0 && errno == EINVAL);
	wait.offset = 2;
	EXPECT(ioctl(file, VSHMEM_WAIT, &wait) < 0 && errno == EINVAL);
	close(file);
	return 0;
}

static int nonsense(void) { return survives_nonsense(place); }

static const struct {
	const char *name;
	int (*run)(void);
	bool on_demand;
} cases[] = {
	{ "says_what_it_is", says_what_it_is, false },
	{ "maps_whole_and_parts", maps_whole_and_parts, false },
	{ "counts_pages_by_their_size", counts_pages_by_their_size, false },
	{ "uses_huge_pages", uses_huge_pages, false },
	{ "lets_processes_sleep_on_it", lets_processes_sleep_on_it, false },
	{ "stands_rough_handling", stands_rough_handling, false },
	{ "tells_ends_of_processes", tells_ends_of_processes, false },
	{ "forgets_old_ends", forgets_old_ends, false },
	{ "rings_and_is_rung", rings_and_is_rung, false },
	{ "waits_for_a_word", waits_for_a_word, false },
	{ "survives_nonsense", nonsense, false },
	{ "holds_on", holds_on, true },
	{ "lends_a_page", lends_a_page, true },
	{ "leaves_ends", leaves_ends, true },
};

int main(int argc, char **argv)
{
	size_t i;
	int file;

	if (argc < 2) {
		fprintf(stderr, "usage: selftest DEVICE [CASE...]\n");
		return 2;
	}
	place = argv[1];
	file = open_device();
	if (ioctl(file, VSHMEM_INFO, &info)) {
		perror("VSHMEM_INFO");
		return 2;
	}
	close(file);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool wanted = argc == 2 && !cases[i].on_demand;
		int n, result;

		for (n = 2; n < argc; n++)
			wanted |= !strcmp(argv[n], cases[i].name);
		if (!wanted)
			continue;
		result = cases[i].run();
		failures += result > 0;
		printf("%s %s\n",
			result == SKIP   ? "skip"
				: result ? "FAIL"
					 : "ok  ",
			cases[i].name);
		fflush(stdout);
	}
	return failures;
}
