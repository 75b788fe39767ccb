/* A run that was broken off leaves its objects, and they look like the beginning of the next one.
 * So Ctrl-C removes them; and what SIGKILL leaves is found at the start, by its semaphores or
 * messages. */
#ifndef EARLIER_RUN_H
#define EARLIER_RUN_H

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <unistd.h>

/* What this program uses; -1: nothing. */
static int segment_in_use = -1, set_in_use = -1, queue_in_use = -1;

static inline void remove_objects(void)
{
	if (segment_in_use != -1)
		shmctl(segment_in_use, IPC_RMID, NULL);
	if (set_in_use != -1)
		semctl(set_in_use, 0, IPC_RMID);
	if (queue_in_use != -1)
		msgctl(queue_in_use, IPC_RMID, NULL);
}

/* Nobody has its segment attached. The end of a program that was killed in another guest is noticed
 * a moment later. */
static inline int is_over(void)
{
	struct shmid_ds state;
	for (int moments = 0; moments < 100; moments++) {
		if (shmctl(segment_in_use, IPC_STAT, &state) != 0 || state.shm_nattch == 0)
			return 1;
		usleep(20000);
	}
	return 0;
}

static inline void remove_earlier_run(const char *program)
{
	if (!is_over()) {
		fprintf(stderr, "%s: another run is under way: wait for its end, or choose other keys with -k\n",
			program);
		exit(1);
	}
	remove_objects();
	fprintf(stderr, "%s: an earlier run was broken off: what it left is removed\n", program);
}

/* What to do when a call fails. */
static inline const char *advice(int error)
{
	return error == EIDRM || error == EINVAL ? ". The other side may have removed it: start both again" : "";
}

static inline void broken_off(int signal)
{
	remove_objects();
	_exit(128 + signal);
}

static inline void remove_when_broken_off(void)
{
	struct sigaction action = { .sa_handler = broken_off };
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

/* Whether one of these semaphores is above 0, of which only a run that has begun raises any:
 * `begun` has a bit for each. */
static inline int has_begun(int set, int semaphores, unsigned begun)
{
	unsigned short value[8];
	if (semctl(set, 0, GETALL, value) != 0)
		return 0;
	for (int n = 0; n < semaphores; n++)
		if (begun >> n & 1 && value[n] != 0)
			return 1;
	return 0;
}

#endif
