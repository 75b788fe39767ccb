/* A team of processes over one System V segment, whichever kernel each of them runs in. */
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "../run.h"
#include "team_shared.h"

struct team_line {
	/* Processors fetch lines in pairs. */
	_Alignas(128) _Atomic uint64_t sequence;
	double values[MOST_VALUES];
};

struct team_room {
	struct team_line lines[2][MOST_RANKS];
};

const char *const team_model = "sysv";

size_t team_room_bytes(int ranks)
{
	(void)ranks;
	return sizeof(struct team_room);
}

void team_enter(struct team *team, void *room) { team->model = room; }

void team_leave(struct team *team) { (void)team; }

/* How often a rank looks before it gives its CPU away: fewer times wherever that was in vain,
 * because then more ranks than CPUs are there, or strangers. */
enum { LEAST_LOOKS = 32, MOST_LOOKS = 4096, YIELDS = 64 };
static unsigned looks = MOST_LOOKS;

static bool has_come(struct team_line *line, uint64_t sequence)
{
	/* Pairs with the release in team_sum. */
	return atomic_load_explicit(&line->sequence, memory_order_acquire) == sequence;
}

static void await_slowly(struct team_line *line, uint64_t sequence)
{
	looks = looks / 2 > LEAST_LOOKS ? looks / 2 : LEAST_LOOKS;
	for (unsigned times = 0; !has_come(line, sequence); times++) {
		if (deadline_passed)
			give_up("another rank has ended, or did not come before the deadline");
		if (times < YIELDS)
			sched_yield();
		else
			nanosleep(&(struct timespec) { .tv_nsec = times < 2 * YIELDS ? 20000
										     : 500000 },
				NULL);
	}
}

static inline void await(struct team_line *line, uint64_t sequence)
{
	for (unsigned i = 0; i < looks; i++) {
		if (has_come(line, sequence)) {
			looks += looks < MOST_LOOKS;
			return;
		}
		relax();
	}
	await_slowly(line, sequence);
}

/* Each rank says in a line of its own how far it has come, and adds what it has to say to the same
 * line: an exchange moves one line in each direction. There are two lines, used in turns: a rank
 * writes a line again only after it has seen all others in the sum between, and by then they have
 * read it. Rounding is the same in all ranks: all add in the order of ranks. */
void team_sum(struct team *team, double *values, int count)
{
	if (team->ranks == 1)
		return;
	struct team_line(*lines)[MOST_RANKS] =
		&((struct team_room *)team->model)->lines[++team->sequence % 2];
	struct team_line *own = &(*lines)[team->rank];
	for (int i = 0; i < count; i++)
		own->values[i] = values[i];
	atomic_store_explicit(&own->sequence, team->sequence, memory_order_release);
	double sums[MOST_VALUES] = { 0 };
	for (int rank = 0; rank < team->ranks; rank++) {
		/* What is its own a rank does not read from the line: it would wait there until the
		 * line is its again. */
		const double *summand = values;
		if (rank != team->rank) {
			await(&(*lines)[rank], team->sequence);
			summand = (*lines)[rank].values;
		}
		for (int i = 0; i < count; i++)
			sums[i] += summand[i];
	}
	for (int i = 0; i < count; i++)
		values[i] = sums[i];
}

void team_barrier(struct team *team) { team_sum(team, NULL, 0); }
