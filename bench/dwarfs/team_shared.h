/* What the ranks of a System V team share besides their arrays. */
#ifndef TEAM_SHARED_H
#define TEAM_SHARED_H

#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "team.h"

struct team_line {
	/* Processors fetch lines in pairs. */
	_Alignas(128) _Atomic uint64_t sequence;
	double values[MOST_VALUES];
};

struct team_room {
	struct team_line lines[2][MOST_RANKS];
	/* Where each rank runs: its kernel, and the CPUs it may use there. */
	struct {
		uint64_t kernel;
		cpu_set_t cpus;
	} seats[MOST_RANKS];
};

/* Where processes that were started one by one find each other: by the key of a path, in any order of starting. Rank 0 makes
 * the segment anew (what a killed run left behind under the key is removed), the others look for it; once all are there its key
 * goes, and the segment itself with its last user. `terms` must be the same in all ranks. */
void team_meet(struct team *team, const char *path, uint64_t terms);
/* The same for processes that are yet to be forked. */
void team_prepare_fork(struct team *team);
/* To be called by all ranks once they are where they stay: how long to spin depends on who else is there. */
void team_settle(struct team *team);

#endif
