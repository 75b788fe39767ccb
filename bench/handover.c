/* Hands a counter over by semaphores, N times each way, and checks that no hand-over is lost or
 * doubled.
 *
 * The counter is written without atomics on purpose: only the semaphores order the two roles. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/sem.h>

#include "rendezvous.h"
#include "run.h"

struct shared {
	uint64_t counter;
	uint64_t wrong_at_second;
};

enum { FIRST_TURN, SECOND_TURN, FINISHED, SEMAPHORES };
static int set = -1;

static void remove_set(void)
{
	if (set != -1 && semctl(set, 0, IPC_RMID) != 0)
		fprintf(stderr, "removal of the semaphore set failed: %s\n", strerror(errno));
}

static void step(unsigned short semaphore, short by)
{
	struct sembuf operation = { .sem_num = semaphore, .sem_op = by };
	while (semop(set, &operation, 1) != 0)
		if (errno != EINTR || deadline_passed)
			give_up_call("semop");
}

int main(int argc, char **argv)
{
	static const struct program program = {
		"Semaphore hand-overs between two roles, each one checked.", "first", "second",
		NULL, false
	};
	struct run run = { .transport = "handover",
		.rounds = 10000,
		.batches = 1,
		.pairs = 1,
		.timeout = 60,
		.cpu = -1,
		.peer_cpu = -1,
		.path = "/etc/passwd" };
	read_options(&run, &program, argc, argv);
	int pair;
	take_role(&run, &pair);
	if (run.role == FIRST) {
		set = semget(IPC_PRIVATE, SEMAPHORES, 0600);
		if (set == -1)
			give_up_call("semget");
		on_failure = remove_set;
	}
	struct rendezvous *r = meet(&run, 241 + pair % 7, sizeof(struct shared), set);
	struct shared *shared = (void *)r->body;
	set = atomic_load(&r->object);

	uint64_t wrong = 0, n = total_rounds(&run);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t expected = 2 * i + (run.role == SECOND);
		if (run.role == SECOND)
			step(SECOND_TURN, -1);
		if (shared->counter != expected)
			wrong++;
		shared->counter++;
		if (run.role == SECOND) {
			step(FIRST_TURN, +1);
		} else {
			step(SECOND_TURN, +1);
			step(FIRST_TURN, -1);
		}
	}
	if (run.role == SECOND) {
		shared->wrong_at_second = wrong;
		step(FINISHED, +1);
	} else {
		step(FINISHED, -1);
		wrong += shared->wrong_at_second + (shared->counter != 2 * n);
		int left = semctl(set, FIRST_TURN, GETVAL) + semctl(set, SECOND_TURN, GETVAL);
		wrong += left != 0;
		remove_set();
	}
	printf("handover: %s: %llu hand-overs each way, %llu wrong\n",
		run.role == FIRST ? "first" : "second", (unsigned long long)n,
		(unsigned long long)wrong);
	return wrong != 0;
}
