/* A team of processes, in memory that all have: every call of a team once, with small numbers. The
 * memory here is the pool's; a segment of shmget(2) or shared memory of mmap(2) does as well.
 *   teams POOL [MEMBERS] */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vshmem.h>

enum { MOST = 16, PAYLOAD = 4096 };

static vshmem_team *team;
static uint32_t rank, members;

/* A call that fails has ended the team, and the team knows why. */
static void must(const char *tried, int answer)
{
	char why[256] = "";
	if (answer == 0)
		return;
	int who = vshmem_team_failure(team, why, sizeof why);
	fprintf(stderr, "member %u: %s: %s (because of member %d: %s)\n", rank, tried,
		strerror(-answer), who, why);
	_exit(1);
}

static void is(const char *what, long got, long wanted)
{
	if (got == wanted)
		return;
	fprintf(stderr, "member %u: %s is %ld and not %ld\n", rank, what, got, wanted);
	_exit(1);
}

/* What is done while a member waits, and who may end its wait. */
static void give_way(void *argument)
{
	++*(unsigned long *)argument;
	sched_yield();
}
static int parent_is_gone(void *parent) { return getppid() != *(pid_t *)parent; }

/* The later of two years; what is combined is the caller's affair. */
static void later_year(const void *earlier, void *later, size_t count, void *argument)
{
	const short *one = earlier;
	short *other = later;
	(void)argument;
	for (size_t at = 0; at < count; at++)
		if (one[at] > other[at])
			other[at] = one[at];
}

static void numbers(void)
{
	double told = rank == 0 ? 2.5 : 0;
	must("broadcast", vshmem_team_broadcast(team, 0, &told, sizeof told));
	is("half of what was told", (long)(told * 2), 5);
	int mine[2] = { (int)rank, 1 }, sum[2];
	must("reduce",
		vshmem_team_reduce(team, 0, mine, rank == 0 ? sum : NULL, 2, VSHMEM_INT32,
			VSHMEM_SUM));
	if (rank == 0)
		is("the number of members", sum[1], members);
	must("allreduce", vshmem_team_allreduce(team, mine, sum, 2, VSHMEM_INT32, VSHMEM_MAX));
	is("the highest rank", sum[0], (long)members - 1);
	short year = (short)(2000 + rank), last;
	must("reduce_by",
		vshmem_team_reduce_by(team, 0, &year, rank == 0 ? &last : NULL, 1, sizeof year,
			later_year, NULL));
	must("allreduce_by",
		vshmem_team_allreduce_by(team, &year, &last, 1, sizeof year, later_year, NULL));
	is("the last year", last, 2000 + (long)members - 1);
	must("barrier", vshmem_team_barrier(team));
}

/* Member I's block for member J is 100 I + J. */
static void blocks(void)
{
	int all[MOST], given[MOST], got[MOST], own = (int)rank;
	must("allgather", vshmem_team_allgather(team, &own, all, sizeof own));
	for (uint32_t i = 0; i < members; i++) {
		is("a gathered block", all[i], i);
		given[i] = (int)(100 * rank + i);
	}
	must("alltoall", vshmem_team_alltoall(team, given, got, sizeof own));
	for (uint32_t i = 0; i < members; i++)
		is("a block for this member", got[i], 100 * i + rank);
	must("gather", vshmem_team_gather(team, 0, &own, rank == 0 ? all : NULL, sizeof own));
	must("scatter",
		vshmem_team_scatter(team, 0, rank == 0 ? all : NULL, &own, sizeof own));
	is("the block that comes back", own, rank);
}

/* Looks after a call that was started until it is done; there is time for other work between. */
#define FINISH(tried, poll)                    \
	do {                                   \
		int answer_;                   \
		while ((answer_ = (poll)) == 0) \
			sched_yield();         \
		must(tried, answer_ == 1 ? 0 : answer_); \
	} while (0)

static void started(void)
{
	struct vshmem_started one, two;
	int all[MOST] = { 0 }, given[MOST], got[MOST];
	long told = rank == 1 ? 42 : 0;
	short year = (short)(2000 + rank);
	all[rank] = (int)rank;
	for (uint32_t i = 0; i < members; i++)
		given[i] = (int)(100 * rank + i);
	/* Two are under way at once, and are looked after in their order. */
	vshmem_team_start(team, &one);
	vshmem_team_start(team, &two);
	FINISH("poll_allgather", vshmem_team_poll_allgather(team, &one, all, sizeof *all));
	FINISH("poll_alltoall", vshmem_team_poll_alltoall(team, &two, given, got, sizeof *got));
	for (uint32_t i = 0; i < members; i++) {
		is("a gathered block", all[i], i);
		is("a block for this member", got[i], 100 * i + rank);
	}
	vshmem_team_start(team, &one);
	FINISH("poll_broadcast",
		vshmem_team_poll_broadcast(team, &one, 1, &told, sizeof told));
	is("what was told", told, 42);
	vshmem_team_start(team, &one);
	FINISH("poll_allreduce_by",
		vshmem_team_poll_allreduce_by(
			team, &one, &year, 1, sizeof year, later_year, NULL));
	is("the last year", year, 2000 + (long)members - 1);
}

static void member(const char *name, int id, size_t bytes, pid_t parent)
{
	vshmem_pool *pool;
	void *memory;
	unsigned long waited = 0;
	char message[512] = "";
	if (vshmem_open(name, &pool, message, sizeof message) < 0 ||
		vshmem_attach(pool, id, bytes, &memory) < 0) {
		fprintf(stderr, "member %u: %s\n", rank, message);
		_exit(1);
	}
	must("join", vshmem_team_join(memory, members, PAYLOAD, rank, &team));
	vshmem_team_patience(team, 60000);
	vshmem_team_idle(team, give_way, &waited);
	vshmem_team_stop(team, parent_is_gone, &parent);
	numbers();
	blocks();
	started();
	must("barrier", vshmem_team_barrier(team));
	if (rank == 0)
		printf("%u members agree; the first has given way %lu time(s), and what it waited "
		       "for came %llu time(s)\n",
			members, waited, (unsigned long long)vshmem_team_arrivals());
	fflush(stdout);
	vshmem_team_leave(team);
	vshmem_release(pool, memory);
	vshmem_close(pool);
	_exit(0);
}

int main(int argc, char **argv)
{
	vshmem_pool *pool;
	void *memory;
	char message[512] = "";
	int status, bad = 0;
	pid_t parent = getpid();
	members = argc > 2 ? (uint32_t)atoi(argv[2]) : 4;
	if (argc < 2 || members < 2 || members > MOST) {
		fprintf(stderr, "usage: teams POOL [MEMBERS, from 2 to %d]\n", MOST);
		return 2;
	}
	if (vshmem_open(argv[1], &pool, message, sizeof message) < 0) {
		fprintf(stderr, "teams: %s\n", message);
		return 1;
	}
	size_t bytes = vshmem_team_bytes(members, PAYLOAD);
	int id = vshmem_hold(pool, bytes, &memory);
	id = id < 0 ? id : vshmem_id(pool, memory);
	if (id < 0) {
		fprintf(stderr, "teams: %s\n", strerror(-id));
		return 1;
	}
	for (rank = 0; rank < members; rank++)
		if (fork() == 0)
			member(argv[1], id, bytes, parent);
	while (wait(&status) > 0)
		bad |= status != 0;
	vshmem_release(pool, memory);
	vshmem_close(pool);
	return bad;
}
