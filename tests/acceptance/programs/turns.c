/* Takes turns with others at one semaphore until it has changed hands often enough: turns SET
 * SEGMENT NAME HAND-OVERS. Or, with 0 hand-overs, until another one that was given a number has
 * ended; with a nap after each turn.
 *
 * The semaphore (number 0 of the set, value 1) is held with SEM_UNDO, so if a process is killed
 * with it gives it back. Under it are counted, in the segment: how often it changed hands, all
 * turns, and each name's turns. Names are 1 to 15. What was counted is written at the end, too:
 * a process that was killed between two counts has left one turn without a name. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <time.h>

enum { NAMES = 16 };

struct table {
	volatile uint64_t hand_overs, last, turns, turns_of[NAMES], over;
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
	uint64_t name = strtoull(argv[3], NULL, 10) % NAMES, wanted = strtoull(argv[4], NULL, 10),
		 own = 0;
	struct sembuf take = { 0, -1, SEM_UNDO }, give = { 0, +1, SEM_UNDO };
	uint64_t all = 0, named = 0, hand_overs = 0;
	struct table *table = shmat(atoi(argv[2]), NULL, 0);
	if (table == (void *)-1)
		fail("shmat");
	for (int over = 0; !over; own++) {
		if (semop(set, &take, 1) != 0)
			fail("semop -1");
		if (table->last != name)
			table->hand_overs++;
		table->last = name;
		table->turns++;
		table->turns_of[name]++;
		over = wanted == 0 ? table->over != 0 : table->hand_overs >= wanted;
		if (over) {
			table->over = 1;
			all = table->turns;
			hand_overs = table->hand_overs;
			for (int i = 0; i < NAMES; i++)
				named += table->turns_of[i];
		}
		if (semop(set, &give, 1) != 0)
			fail("semop +1");
		if (wanted == 0)
			nanosleep(&(struct timespec) { .tv_nsec = 20000000 }, NULL);
	}
	printf("%ju turns\n%ju of all, %ju of somebody, %ju hand-overs\n", (uintmax_t)own,
		(uintmax_t)all, (uintmax_t)named, (uintmax_t)hand_overs);
	return 0;
}
