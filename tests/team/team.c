/* A team of processes in a System V segment: of the kernel, or of a pool when run by `vshmem run`.
 *   team work MEMBERS     each is a process that attaches the segment; every result is looked at
 *   team killed MEMBERS   one of them is killed: the others get an error that names it
 *   team late             a member never comes
 *   team member KEY MEMBERS RANK ROUNDS     one member by hand, in a segment that it makes or
 * finds: also across guests Ends with 0 when all was right. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vshmem.h"

#define PAYLOAD 4096
#define DAY     86400000

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	_exit(1);
}

static vshmem_team *join(int id, uint32_t members, uint32_t rank)
{
	void *memory = shmat(id, NULL, 0);
	if (memory == (void *)-1)
		fail("shmat: %s", strerror(errno));
	vshmem_team *team;
	int rc = vshmem_team_join(memory, members, PAYLOAD, rank, &team);
	if (rc != 0)
		fail("member %u cannot join: %s", rank, strerror(-rc));
	return team;
}

static void must(const vshmem_team *team, int rc)
{
	char why[256] = "";
	if (rc == 0)
		return;
	vshmem_team_failure(team, why, sizeof(why));
	fail("%s: %s", strerror(-rc), why);
}

static void work(vshmem_team *team, uint32_t members, uint32_t rank, unsigned rounds)
{
	static double mine[3000], sum[3000];
	static unsigned char text[20000];
	for (unsigned round = 0; round < rounds; round++) {
		uint32_t root = round % members;
		size_t count = round * 37 % 3000, bytes = round * 331 % sizeof(text);
		for (size_t at = 0; at < count; at++)
			mine[at] = (double)(at + rank * round);
		memset(text, rank == root ? (int)(round % 251) : 255, bytes);
		must(team, vshmem_team_broadcast(team, root, text, bytes));
		for (size_t at = 0; at < bytes; at++)
			if (text[at] != round % 251)
				fail("round %u: byte %zu of a broadcast is %d", round, at,
					text[at]);
		double ranks = members * (members - 1) / 2.0;
		must(team,
			vshmem_team_reduce(team, root, mine, rank == root ? sum : NULL, count,
				VSHMEM_DOUBLE, VSHMEM_SUM));
		for (size_t at = 0; rank == root && at < count; at++)
			if (sum[at] != (double)at * members + ranks * round)
				fail("round %u: number %zu of a reduction is %f", round, at,
					sum[at]);
		must(team,
			vshmem_team_allreduce(team, mine, mine, count, VSHMEM_DOUBLE, VSHMEM_MAX));
		for (size_t at = 0; at < count; at++)
			if (mine[at] != (double)(at + (members - 1) * round))
				fail("round %u: number %zu of a maximum is %f", round, at,
					mine[at]);
		must(team, vshmem_team_barrier(team));
	}
	if (vshmem_team_reduce(team, 0, mine, mine, 1, VSHMEM_DOUBLE, VSHMEM_XOR) != -EINVAL)
		fail("bits of floating numbers are taken");
}

/* All wait at a barrier for the last one, which is killed. */
static void victim(vshmem_team *team, uint32_t members, uint32_t rank)
{
	char why[256] = "";
	vshmem_team_patience(team, DAY);
	must(team, vshmem_team_barrier(team));
	if (rank == members - 1)
		raise(SIGKILL);
	int rc = vshmem_team_barrier(team);
	int who = vshmem_team_failure(team, why, sizeof(why));
	if (rc != -EOWNERDEAD || who != (int)members - 1)
		fail("member %u of a team with a dead one: %d, member %d, %s", rank, rc, who, why);
	if (vshmem_team_broadcast(team, 0, &rc, sizeof(rc)) != -EOWNERDEAD)
		fail("a team goes on after its end");
	if (rank == 0)
		printf("%s\n", why);
}

static int family(int id, uint32_t members, int kill_one)
{
	for (uint32_t rank = 0; rank < members; rank++) {
		pid_t child = fork();
		if (child < 0)
			fail("fork: %s", strerror(errno));
		if (child == 0) {
			vshmem_team *team = join(id, members, rank);
			if (kill_one)
				victim(team, members, rank);
			else
				work(team, members, rank, 60);
			vshmem_team_leave(team);
			fflush(stdout);
			_exit(0);
		}
	}
	int status, killed = 0, failed = 0;
	while (wait(&status) > 0) {
		if (WIFSIGNALED(status))
			killed++;
		else if (WEXITSTATUS(status) != 0)
			failed++;
	}
	return failed != 0 || killed != kill_one;
}

static int late(int id)
{
	vshmem_team *team = join(id, 3, 0);
	char why[256] = "";
	vshmem_team_patience(team, 100);
	int rc = vshmem_team_barrier(team);
	int who = vshmem_team_failure(team, why, sizeof(why));
	printf("%s\n", why);
	return rc != -ETIMEDOUT || who != 1;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	uint32_t members = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 0) : 3;
	if (!strcmp(what, "member") && argc == 6) {
		uint32_t rank = (uint32_t)strtoul(argv[4], NULL, 0);
		members = (uint32_t)strtoul(argv[3], NULL, 0);
		int id = shmget((key_t)strtol(argv[2], NULL, 0),
			vshmem_team_bytes(members, PAYLOAD), IPC_CREAT | 0666);
		if (id < 0)
			fail("shmget: %s", strerror(errno));
		vshmem_team *team = join(id, members, rank);
		work(team, members, rank, (unsigned)strtoul(argv[5], NULL, 0));
		must(team, vshmem_team_barrier(team));
		vshmem_team_leave(team);
		printf("member %u: all right\n", rank);
		return 0;
	}
	int id = shmget(IPC_PRIVATE, vshmem_team_bytes(members, PAYLOAD), 0600);
	if (id < 0)
		fail("shmget: %s", strerror(errno));
	int rc = !strcmp(what, "work")    ? family(id, members, 0)
		: !strcmp(what, "killed") ? family(id, members, 1)
		: !strcmp(what, "late")   ? late(id)
					  : 2;
	shmctl(id, IPC_RMID, NULL);
	return rc;
}
