/* A run of two programs, of which either may start first.
 *
 * What a run leaves that did not finish (Ctrl-C, SIGKILL, a guest without power) looks like the
 * beginning of the next: objects with these keys, and semaphores above 0. So the set of a run counts
 * who takes part, with SEM_UNDO: however a program ends, its count is taken back. Objects that
 * somebody has joined and nobody uses any more are left over. */
#ifndef RUN_OF_TWO_H
#define RUN_OF_TWO_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

/* GATE is 1 while a program looks whether it joins; ALIVE and JOINED are there for each side. */
enum { GATE, ALIVE, JOINED = ALIVE + 2, RUN_SEMAPHORES = JOINED + 2 };
enum side { MAKER, TAKER };

/* IPC_PRIVATE: a run has none. */
struct run_keys {
	key_t set, segment, queue;
};

_Noreturn static inline void fail(const char *what, const char *object)
{
	fprintf(stderr, "%s of the %s failed: %s\n", what, object, strerror(errno));
	exit(1);
}

static inline key_t key_of(const char *path, int project)
{
	key_t key = ftok(path, project);
	if (key == (key_t)-1) {
		fprintf(stderr, "ftok of '%s' failed: %s (give an existing file with -k)\n", path,
			strerror(errno));
		exit(1);
	}
	return key;
}

static inline void step(int set, unsigned short semaphore, short by)
{
	struct sembuf operation = { .sem_num = semaphore, .sem_op = by };
	while (semop(set, &operation, 1) != 0)
		if (errno != EINTR)
			fail("semop", "semaphore set");
}

/* False: another program has removed the set. */
static inline int all_of(int set, struct sembuf *operations, size_t count)
{
	while (semop(set, operations, count) != 0)
		if (errno == EIDRM || errno == EINVAL)
			return 0;
		else if (errno != EINTR)
			fail("semop", "semaphore set");
	return 1;
}

static inline void remove_rest(struct run_keys keys)
{
	int id;
	if (keys.segment != IPC_PRIVATE && (id = shmget(keys.segment, 0, 0)) != -1
		&& shmctl(id, IPC_RMID, NULL) != 0)
		fail("removal", "segment of an earlier run");
	if (keys.queue != IPC_PRIVATE && (id = msgget(keys.queue, 0)) != -1
		&& msgctl(id, IPC_RMID, NULL) != 0)
		fail("removal", "message queue of an earlier run");
}

/* The set of a run that this program is a side of. Its further semaphores begin at RUN_SEMAPHORES. */
static inline int join_run(const char *name, struct run_keys keys, int semaphores, enum side side)
{
	int alive = ALIVE + side, joined = JOINED + side, has_said = 0;
	struct sembuf enter[] = { { GATE, 0, 0 }, { GATE, +1, SEM_UNDO } };
	struct sembuf leave = { GATE, -1, SEM_UNDO };
	struct sembuf join[] = { { alive, +1, SEM_UNDO }, { joined, +1, 0 }, leave };
	struct sembuf until_alone[] = { { ALIVE + MAKER, 0, 0 }, { ALIVE + TAKER, 0, 0 } };
	for (;;) {
		int set = semget(keys.set, semaphores, IPC_CREAT | 0600);
		if (set == -1)
			fail("semget", "semaphore set");
		unsigned short value[16];
		if (!all_of(set, enter, 2))
			continue;
		if (semctl(set, 0, GETALL, value) != 0)
			fail("GETALL", "semaphore set");
		if (!value[joined] && (value[ALIVE + MAKER] || value[ALIVE + TAKER]
					      || !value[JOINED + !side])) {
			if (all_of(set, join, 3))
				return set;
		} else if (!value[ALIVE + MAKER] && !value[ALIVE + TAKER]) {
			fprintf(stderr, "%s: an earlier run did not finish: removing what it left\n", name);
			remove_rest(keys);
			if (semctl(set, 0, IPC_RMID) != 0)
				fail("removal", "semaphore set of an earlier run");
		} else if (all_of(set, &leave, 1)) {
			if (!has_said++)
				fprintf(stderr, "%s: another run is under way: waiting until its programs have ended\n", name);
			all_of(set, until_alone, 2);
		}
	}
}

#endif
