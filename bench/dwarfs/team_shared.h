/* A team of processes over a System V segment: how they meet, and what the team's own calls need of
 * the segment. */
#ifndef TEAM_SHARED_H
#define TEAM_SHARED_H

#include <stddef.h>
#include <stdint.h>

#include "team.h"

/* Where processes that were started one by one find each other: by the key of a path, in any order
 * of starting. Rank 0 makes the segment anew (what a killed run left behind under the key is
 * removed), the others look for it; once all are there its key goes, and the segment itself with
 * its last user. `terms` must be the same in all ranks. */
void team_meet(struct team *team, const char *path, uint64_t terms);
/* The same for processes that are yet to be forked. */
void team_prepare_fork(struct team *team);
/* To be called by every rank once it is a process of its own: takes its place in the team. */
void team_start(struct team *team);

/* Whose barrier and sum it is: team.c's, or a library's. The room is zeroed, and on a page. */
extern const char *const team_model;
size_t team_room_bytes(int ranks);
void team_enter(struct team *team, void *room);
/* Before a rank ends. */
void team_leave(struct team *team);

#endif
