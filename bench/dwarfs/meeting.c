#include <errno.h>
#include <stdatomic.h>
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
	_Alignas(
		64) _Atomic uint64_t closed; /* equals the offer once all are there: the key goes */
	_Atomic uint64_t begin; /* and once it is gone */
	struct {
		_Alignas(64) _Atomic uint64_t answer;
	} rank[MOST_RANKS];
	_Alignas(4096) unsigned char room[]; /* and after it, on a page, the arena */
};

enum { PROJECT = 247 };
static int segment = -1;
static struct meeting *met;

static size_t room_bytes(const struct team *team)
{ return (team_room_bytes(team->ranks) + 4095) / 4096 * 4096; }

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

static void take_rank(struct team *team, struct meeting *meeting)
{
	met = meeting;
	team->arena = meeting->room + room_bytes(team);
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
			give_up("the segment of key 0x%x is there and cannot be removed",
				(unsigned)key);
	}
	struct meeting *meeting = attach(segment);
	if (meeting == NULL)
		give_up_call("shmat of the team's segment");
	return meeting;
}

static void wait_a_little(const char *whom)
{
	nanosleep(&(struct timespec) { .tv_nsec = 500000 }, NULL);
	if (deadline_passed)
		give_up("%s did not turn up in time (is it on the same pool, with the same --path?)",
			whom);
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
	take_rank(team, meeting);
}

static void join(struct team *team, key_t key, uint64_t terms)
{
	struct meeting *meeting = NULL;
	uint64_t answered = 0;
	for (int mine = -1;; wait_a_little("rank 0")) {
		int found = shmget(key, 0, 0);
		/* Another segment, or none: either all are here, or this one was of a run that came
		 * to nothing. */
		if (meeting != NULL && found != mine
		        && (answered == 0 || atomic_load(&meeting->closed) != answered)) {
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
		/* Closed without this rank's answer: rank 0 was killed before it removed the key.
		 */
		if (answered == 0 && offer != 0 && atomic_load(&meeting->closed) != offer) {
			if (atomic_load(&meeting->terms) != terms)
				give_up("the ranks were started with different dwarfs, sizes, rounds or numbers of ranks");
			answered = offer;
			atomic_store(&meeting->rank[team->rank].answer, offer);
		}
		if (answered != 0 && atomic_load(&meeting->begin) == answered)
			break;
	}
	take_rank(team, meeting);
}

void team_meet(struct team *team, const char *path, uint64_t terms)
{
	key_t key = ftok(path, PROJECT);
	if (key == (key_t)-1)
		give_up("ftok of '%s' failed: %s", path, strerror(errno));
	if (team->rank == 0)
		gather_all(
			team, key, sizeof(struct meeting) + room_bytes(team) + team->bytes, terms);
	else
		join(team, key, terms);
}

void team_prepare_fork(struct team *team)
{
	struct meeting *meeting = make(
		IPC_PRIVATE, sizeof *meeting + room_bytes(team) + team->bytes);
	remove_segment();
	on_failure = NULL;
	take_rank(team, meeting);
}

void team_start(struct team *team) { team_enter(team, met->room); }
