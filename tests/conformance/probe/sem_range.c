/* semop(2) whose operations would wait, or leave the range of values: the first of them decides. */
#include "case.h"

static const char *two(int set, struct sembuf first, struct sembuf second)
{
	struct sembuf ops[2] = { first, second };
	return got(semtimedop(set, ops, 2, &(struct timespec) { 0, 1000000 }));
}

CASE(sem_wait_or_range)
{
	/* The array is gone through in order: what comes first decides. */
	int a = set_of(3);
	set_value(a, 0, 32767);
	set_value(a, 1, 1);
	say("{too large, blocks}: %s",
		two(a, (struct sembuf) { 0, 1, 0 }, (struct sembuf) { 1, 0, 0 }));
	say("{blocks, too large}: %s",
		two(a, (struct sembuf) { 1, 0, 0 }, (struct sembuf) { 0, 1, 0 }));
	say("adjustment to its end: %s", got(step(a, 2, 32767, SEM_UNDO)));
	say("and back without: %s", got(step(a, 2, -32767, 0)));
	say("{adjustment too large, blocks}: %s",
		two(a, (struct sembuf) { 2, 2, SEM_UNDO }, (struct sembuf) { 1, 0, 0 }));
	say("{blocks, adjustment too large}: %s",
		two(a, (struct sembuf) { 1, 0, 0 }, (struct sembuf) { 2, 2, SEM_UNDO }));
	say("{value too large, adjustment too large}: %s",
		two(a, (struct sembuf) { 0, 1, 0 }, (struct sembuf) { 2, 2, SEM_UNDO }));
	say("{adjustment over and back}: %s",
		two(a, (struct sembuf) { 2, 2, SEM_UNDO }, (struct sembuf) { 2, -2, SEM_UNDO }));
	say("values %d %d %d", value(a, 0), value(a, 1), value(a, 2));
}
