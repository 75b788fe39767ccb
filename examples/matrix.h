/* What matrix_fill and matrix_check agree on. The semaphores start at 0, whichever program creates
 * the set. */
#ifndef MATRIX_H
#define MATRIX_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <unistd.h>

#include "earlier_run.h"

#define KEY_PATH "/etc/passwd" /* exists in every domain */

enum { MATRIX_SEGMENT = 'm', MATRIX_SET = 'M' };
enum matrix_semaphore { FILLED, CHECKED, MATRIX_SEMAPHORES };

struct matrix_choice {
	const char *path;
	size_t rows, columns;
	uint64_t seed;
};

/* splitmix64: each element differs, and depends on its place and the seed. */
static inline uint64_t element(uint64_t seed, size_t row, size_t column)
{
	uint64_t z = seed + 0x9e3779b97f4a7c15u * ((uint64_t)row << 32 | column);
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

_Noreturn static inline void fail(const char *what)
{
	int error = errno;
	fprintf(stderr, "%s failed: %s%s\n", what, strerror(error), advice(error));
	exit(1);
}

static inline void step(int set, unsigned short semaphore, short by)
{
	struct sembuf operation = { .sem_num = semaphore, .sem_op = by };
	while (semop(set, &operation, 1) != 0)
		if (errno != EINTR)
			fail("semop on the matrix's semaphore set");
}

static inline struct matrix_choice choose(int argc, char **argv, const char *does)
{
	struct matrix_choice c = { KEY_PATH, 1024, 1024, 1 };
	remove_when_broken_off();
	setlinebuf(stdout);
	int option;
	while ((option = getopt(argc, argv, "hk:r:c:s:")) != -1) {
		switch (option) {
		case 'k': c.path = optarg; break;
		case 'r': c.rows = strtoul(optarg, NULL, 10); break;
		case 'c': c.columns = strtoul(optarg, NULL, 10); break;
		case 's': c.seed = strtoull(optarg, NULL, 0); break;
		default:
			fprintf(option == 'h' ? stdout : stderr,
				"usage: %s [-r ROWS] [-c COLUMNS] [-s SEED] [-k PATH]\n%s\n"
				"  defaults: 1024 x 1024 numbers of 8 bytes, seed 1, ftok on " KEY_PATH
				"\n"
				"  rows, columns and seed must be the same on both sides\n",
				argv[0], does);
			exit(option == 'h' ? 0 : 2);
		}
	}
	if (c.rows == 0 || c.columns == 0) {
		fprintf(stderr, "the matrix needs at least one row and one column\n");
		exit(2);
	}
	return c;
}

/* The matrix, and its set. `begun`: those semaphores that are above 0 only when a run has begun. */
static inline uint64_t *open_matrix(const char *program, const struct matrix_choice *c,
	int attach_flags, unsigned begun, int *set)
{
	key_t segment_key = ftok(c->path, MATRIX_SEGMENT), set_key = ftok(c->path, MATRIX_SET);
	if (segment_key == (key_t)-1 || set_key == (key_t)-1)
		fail("ftok (-k names an existing file)");
	for (;;) {
		*set = set_in_use = semget(set_key, MATRIX_SEMAPHORES, IPC_CREAT | 0600);
		if (*set == -1)
			fail("semget of the matrix's semaphore set");
		if (!has_begun(*set, MATRIX_SEMAPHORES, begun))
			break;
		/* Of whatever size. */
		segment_in_use = shmget(segment_key, 0, 0);
		remove_earlier_run(program);
	}
	segment_in_use = shmget(
		segment_key, c->rows * c->columns * sizeof(uint64_t), IPC_CREAT | 0600);
	if (segment_in_use == -1)
		fail("shmget of the matrix");
	uint64_t *matrix = shmat(segment_in_use, NULL, attach_flags);
	if (matrix == (void *)-1)
		fail("shmat of the matrix");
	return matrix;
}

#endif
