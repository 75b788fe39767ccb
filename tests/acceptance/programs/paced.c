/* A load that is known: paced SET QUEUE TURNS A-SECOND. In each turn two operations on semaphore 0
 * of the set, and a message of 64 bytes and its receipt. Several may run at once: each takes any
 * message, and has sent one before. So many turns begin in a second, if the machine is
 * fast enough; how many it were is written at the end. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <time.h>

enum { BYTES = 64 };
#define BILLION 1000000000L

static void must(int works, const char *what)
{
	if (!works) {
		fprintf(stderr, "paced: %s: %s\n", what, strerrorname_np(errno));
		exit(1);
	}
}

static int64_t now(void)
{
	struct timespec at;
	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * BILLION + at.tv_nsec;
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		fprintf(stderr, "usage: paced SET QUEUE TURNS A-SECOND\n");
		return 2;
	}
	int set = atoi(argv[1]), queue = atoi(argv[2]);
	long turns = atol(argv[3]), pace = BILLION / atol(argv[4]);
	struct sembuf up = { 0, +1, 0 }, down = { 0, -1, 0 };
	struct {
		long type;
		char text[BYTES];
	} message = { 1, { 7 } };
	int64_t began = now();
	for (long i = 0; i < turns; i++) {
		/* By the beginning of all, so that one late turn does not make the others late. */
		int64_t at = began + i * pace;
		struct timespec until = { .tv_sec = at / BILLION, .tv_nsec = at % BILLION };
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
			;
		must(semop(set, &up, 1) == 0, "semop +1");
		must(semop(set, &down, 1) == 0, "semop -1");
		must(msgsnd(queue, &message, BYTES, 0) == 0, "msgsnd");
		must(msgrcv(queue, &message, BYTES, 0, 0) == BYTES, "msgrcv");
	}
	printf("%ld turns, %.1f a second\n", turns, (double)turns * BILLION / (double)(now() - began));
	return 0;
}
