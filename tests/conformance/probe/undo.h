/* What the cases of SEM_UNDO share. */
#pragma once

#include "case.h"

static inline void a_moment(void) { nanosleep(&(struct timespec) { .tv_nsec = 1000000 }, NULL); }

/* A death may be noticed a little later where the kernel is not the one who sees it; the value must
 * come. */
static inline void await_value(int set, int n, int wanted)
{
	while (value(set, n) != wanted)
		a_moment();
}

struct undoer {
	int set;
	int by; /* on semaphore 0, with SEM_UNDO */
	bool wait; /* then for semaphore 1 */
};

static inline struct undoer scene(int start_value, int by, bool wait)
{
	struct undoer u = { set_of(3), by, wait };
	set_value(u.set, 0, start_value);
	return u;
}
