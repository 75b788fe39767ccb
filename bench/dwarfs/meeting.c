#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <time.h>
#include <unistd.h>

#include "../run.h"
#include "team_shared.h"

struct meeting {
	_Alignas(64) _Atomic uint64_t offer; /* of rank 0: a number that no earlier run had */
	_Atomic uint64_t terms;
	_Alignas(64) _Atomic uint64_t closed; /* equals the offer once all are there: the key goes */
	_Atomic uint64_t begin;               /* and once it is gone */
	struct {
		_Alignas(64) _Atomic uint64_t answer;
	} rank[MOST_RANKS];
	struct team_room room;
	_Alignas(4096) unsigned char arena[];
};

enum { PROJECT = 247 };
static int segment = -1;

static void remove_segment(void)
{
	if (segment != -1)
		shmctl(segment, IPC_RMID, NULL);
	segment = -1;
}

static struct meeting *attach(int id)
{
	void *at = shmat(id, NULL, 0);
	return at == (void *)-1 ? NULL : at;
}

static void take_seat(struct team *team, struct meeting *meeting)
{
	team->model = &meeting->room;
	team->arena = meeting->arena;
}

/* Rank 0's. */
static struct meeting *make(key_t key, size_t bytes)
{
	on_failure = remove_segment;
	while ((segment = shmget(key, bytes, IPC_CREAT | IPC_EXCL | 0600)) == -1) {
		if (errno != EEXIST)
			give_up("a segment of %zu bytes cannot be had: %s", bytes, strerror(errno));
		int left = shmget(key, 0, 0);
		if (left != -1)
			shmctl(left, IPC_RMID, NULL);
		if (deadline_passed)
			give_up("the segment of key 0x%x is there and cannot be removed", (unsigned)key);
	}
	struct meeting *meeting = attach(segment);
	if (meeting == NULL)
		give_up_call("shmat of the team's segment");
	return meeting;
}

static void wait_a_little(const char *whom)
{
	nanosleep(&(struct timespec){ .tv_nsec = 500000 }, NULL);
	if (deadline_passed)
		give_up("%s did not turn up in time (is it on the same pool, with the same --path?)", whom);
}

static void gather_all(struct team *team, key_t key, size_t bytes, uint64_t terms)
{
	struct meeting *meeting = make(key, bytes);
	uint64_t offer = (now_ns() << 16 ^ (uint64_t)getpid()) | 1;
	atomic_store(&meeting->terms, terms);
	atomic_store(&meeting->offer, offer);
	for (int rank = 1; rank < team->ranks; rank++)
		while (atomic_load(&meeting->rank[rank].answer) != offer)
			wait_a_little("another rank");
	atomic_store(&meeting->closed, offer);
	remove_segment();
	on_failure = NULL;
	atomic_store(&meeting->begin, offer);
	take_seat(team, meeting);
}

static void join(struct team *team, key_t key, uint64_t terms)
{
	struct meeting *meeting = NULL;
	uint64_t answered = 0;
	for (int mine = -1;; wait_a_little("rank 0")) {
		int found = shmget(key, 0, 0);
		/* Another segment, or none: either all are here, or this one was of a run that came to nothing. */
		if (meeting != NULL && found != mine && (answered == 0 || atomic_load(&meeting->closed) != answered)) {
			shmdt(meeting);
			meeting = NULL;
		}
		if (meeting == NULL && found != -1) {
			meeting = attach(found);
			mine = found;
			answered = 0;
		}
		if (meeting == NULL)
			continue;
		uint64_t offer = atomic_load(&meeting->offer);
		/* Closed without this rank's answer: rank 0 was killed before it removed the key. */
		if (answered == 0 && offer != 0 && atomic_load(&meeting->closed) != offer) {
			if (atomic_load(&meeting->terms) != terms)
				give_up("the ranks were started with different dwarfs, sizes, rounds or numbers of ranks");
			answered = offer;
			atomic_store(&meeting->rank[team->rank].answer, offer);
		}
		if (answered != 0 && atomic_load(&meeting->begin) == answered)
			break;
	}
	take_seat(team, meeting);
}

void team_meet(struct team *team, const char *path, uint64_t terms)
{
	key_t key = ftok(path, PROJECT);
	if (key == (key_t)-1)
		give_up("ftok of '%s' failed: %s", path, strerror(errno));
	if (team->rank == 0)
		gather_all(team, key, sizeof(struct meeting) + team->bytes, terms);
	else
		join(team, key, terms);
}

void team_prepare_fork(struct team *team)
{
	struct meeting *meeting = make(IPC_PRIVATE, sizeof *meeting + team->bytes);
	remove_segment();
	on_failure = NULL;
	take_seat(team, meeting);
}

/* Two kernels do not have the same. */
static uint64_t kernel_name(void)
{
	char text[64] = "";
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	if (file == NULL || fgets(text, sizeof text, file) == NULL)
		give_up("/proc/sys/kernel/random/boot_id cannot be read: %s", strerror(errno));
	fclose(file);
	uint64_t name = 1;
	for (const char *at = text; *at; at++)
		name = name * 1000003 + (unsigned char)*at;
	return name;
}

/* With a CPU for each rank nobody is ahead by giving one away: on a busy machine it goes to a stranger for a whole time slice, and
 * all ranks wait for it. With fewer, somebody else's turn is what is waited for. */
void team_settle(struct team *team)
{
	enum { CROWDED = 1 << 4, ROOMY = 1 << 17 };
	struct team_room *room = team->model;
	uint64_t here = kernel_name();
	room->seats[team->rank].kernel = here;
	if (sched_getaffinity(0, sizeof(cpu_set_t), &room->seats[team->rank].cpus) != 0)
		give_up_call("sched_getaffinity");
	team_barrier(team);
	cpu_set_t cpus;
	int ranks = 0;
	CPU_ZERO(&cpus);
	for (int rank = 0; rank < team->ranks; rank++)
		if (room->seats[rank].kernel == here) {
			CPU_OR(&cpus, &cpus, &room->seats[rank].cpus);
			ranks++;
		}
	spins_before_yield = ranks > CPU_COUNT(&cpus) ? CROWDED : ROOMY;
}
