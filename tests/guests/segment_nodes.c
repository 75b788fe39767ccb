/* Makes segments on a CPU, and says of each on which memory node its pages lie, page by page
 * (move_pages(2)).
 *   segment_nodes CPU COUNT BYTES [KEY]
 * A line with a word for each segment: a node, or `mixed`; behind them how many kB of them are
 * mapped in huge pages. With a KEY the segments have it and the next ones. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, MOST = 64 };

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* The node of all pages, or -1. */
static int node_of(char *start, size_t bytes)
{
	int node = -1;
	for (size_t offset = 0; offset < bytes; offset += PAGE) {
		void *page = start + offset;
		int status = -1;
		start[offset] = 1;
		if (syscall(SYS_move_pages, 0, 1L, &page, NULL, &status, 0) != 0)
			fail("move_pages");
		if (offset > 0 && status != node)
			return -1;
		node = status;
	}
	return node;
}

/* How many kB of a mapping lie in pages larger than usual, as /proc/self/smaps tells. */
static long huge_kb(const void *start)
{
	FILE *maps = fopen("/proc/self/smaps", "r");
	char line[512];
	unsigned long from, to;
	long size = 0, page;
	int inside = 0;
	if (!maps)
		fail("smaps");
	while (fgets(line, sizeof line, maps)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = from <= (unsigned long)start && (unsigned long)start < to;
		else if (inside && sscanf(line, "Size: %ld kB", &size) == 1)
			;
		else if (inside && sscanf(line, "KernelPageSize: %ld kB", &page) == 1)
			break;
	}
	fclose(maps);
	return inside && page > 4 ? size : 0;
}

int main(int count, char **words)
{
	if (count < 4)
		return 2;
	int key = count > 4 ? (int)strtol(words[4], NULL, 0) : IPC_PRIVATE;
	int segments = atoi(words[2]), ids[MOST];
	size_t bytes = strtoul(words[3], NULL, 0);
	long huge = 0;
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(atoi(words[1]), &set);
	if (sched_setaffinity(0, sizeof set, &set) != 0)
		fail("sched_setaffinity");
	for (int i = 0; i < segments && i < MOST; i++) {
		ids[i] = shmget(key == IPC_PRIVATE ? key : key + i, bytes, IPC_CREAT | 0600);
		if (ids[i] < 0)
			fail("shmget");
		char *start = shmat(ids[i], NULL, 0);
		if (start == (char *)-1)
			fail("shmat");
		int node = node_of(start, bytes);
		printf(node < 0 ? "mixed " : "%d ", node);
		huge += huge_kb(start);
		if (shmdt(start) != 0)
			fail("shmdt");
	}
	printf("%ld\n", huge);
	for (int i = 0; i < segments && i < MOST; i++)
		if (shmctl(ids[i], IPC_RMID, NULL) != 0)
			fail("IPC_RMID");
	return 0;
}
