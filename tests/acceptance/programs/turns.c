/* Takes turns with others at one semaphore until it has changed hands often enough: turns SET SEGMENT NAME HAND-OVERS.
 *
 * The semaphore (number 0 of the set, value 1) is held with SEM_UNDO, so whoever is killed with it gives it back. Under
 * it are counted, in the segment: how often it changed hands, all turns, and each name's turns. Names are 1 to 15. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/shm.h>

enum { NAMES = 16 };

struct table {
	volatile uint64_t hand_overs, last, turns, turns_of[NAMES];
};

_Noreturn static void fail(const char *what)
{
	fprintf(stderr, "turns: %s: %s\n", what, strerrorname_np(errno));
	exit(1);
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		fprintf(stderr, "usage: turns SET SEGMENT NAME HAND-OVERS\n");
		return 2;
	}
	int set = atoi(argv[1]);
	uint64_t name = strtoull(argv[3], NULL, 10) % NAMES, wanted = strtoull(argv[4], NULL, 10), own = 0;
	struct sembuf take = { 0, -1, SEM_UNDO }, give = { 0, +1, SEM_UNDO };
	struct table *table = shmat(atoi(argv[2]), NULL, 0);
	if (table == (void *)-1)
		fail("shmat");
	for (uint64_t seen = 0; seen < wanted; own++) {
		if (semop(set, &take, 1) != 0)
			fail("semop -1");
		if (table->last != name)
			table->hand_overs++;
		table->last = name;
		table->turns++;
		table->turns_of[name]++;
		seen = table->hand_overs;
		if (semop(set, &give, 1) != 0)
			fail("semop +1");
	}
	printf("%ju turns\n", (uintmax_t)own);
	return 0;
}
