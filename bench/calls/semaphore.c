/* Semaphore calls that never wait. */
#include <sys/ipc.h>
#include <sys/sem.h>

#include "calls.h"

enum { MOST_SEMAPHORES = 3, SENTINEL = 7 };

static int set = -1;

static void remove_set(void)
{
	if (set != -1)
		semctl(set, 0, IPC_RMID);
	set = -1;
}

static void make_set(int semaphores)
{
	set = semget(IPC_PRIVATE, semaphores, 0600);
	if (set == -1)
		give_up_creating("semget");
	on_failure = remove_set;
}

struct arrays {
	struct sembuf up[MOST_SEMAPHORES], down[MOST_SEMAPHORES];
	size_t length;
};

static void pairs(void *context, uint64_t first, uint64_t count)
{
	struct arrays *arrays = context;
	(void)first;
	while (count--)
		if (semop(set, arrays->up, arrays->length) != 0
		        || semop(set, arrays->down, arrays->length) != 0)
			give_up_call("semop");
}

static void measure_pairs(const struct request *request, size_t length, short flags)
{
	make_set((int)length);
	struct arrays arrays = { .length = length };
	for (unsigned short i = 0; i < length; i++) {
		arrays.up[i] = (struct sembuf) { i, +1, flags };
		arrays.down[i] = (struct sembuf) { i, -1, flags };
	}
	/* A value that differs from nothing done at all. */
	for (unsigned short i = 0; i < length; i++)
		if (semctl(set, i, SETVAL, SENTINEL) != 0)
			give_up_call("SETVAL");
	measure(&request->run, pairs, &arrays, NULL);
	for (unsigned short i = 0; i < length; i++)
		if (semctl(set, i, GETVAL) != SENTINEL)
			give_up("semaphore %d is %d after as many ups as downs from %d", i,
				semctl(set, i, GETVAL), SENTINEL);
	if (semop(set, arrays.up, length) != 0
	        || semctl(set, (int)length - 1, GETVAL) != SENTINEL + 1)
		give_up("semaphore %zu is %d after one more up from %d", length - 1,
			semctl(set, (int)length - 1, GETVAL), SENTINEL);
	remove_set();
}

/* As programs call it: a set of which it is not the only semaphore, and operations that are written
 * down just before each call. */
static void fresh_pairs(void *context, uint64_t first, uint64_t count)
{
	const short *flags = context;
	(void)first;
	while (count--) {
		struct sembuf up = { 0, +1, *flags };
		if (semop(set, &up, 1) != 0)
			give_up_call("semop");
		struct sembuf down = { 0, -1, *flags };
		if (semop(set, &down, 1) != 0)
			give_up_call("semop");
	}
}

static void measure_fresh_pairs(const struct request *request, short flags)
{
	make_set(2);
	if (semctl(set, 0, SETVAL, SENTINEL) != 0)
		give_up_call("SETVAL");
	measure(&request->run, fresh_pairs, &flags, NULL);
	if (semctl(set, 0, GETVAL) != SENTINEL)
		give_up("the semaphore is %d after as many ups as downs from %d",
			semctl(set, 0, GETVAL), SENTINEL);
	remove_set();
}

void semaphore_program(const struct request *request) { measure_fresh_pairs(request, 0); }

void semaphore_program_with_undo(const struct request *request)
{ measure_fresh_pairs(request, SEM_UNDO); }

void semaphore_pair(const struct request *request) { measure_pairs(request, 1, 0); }

void semaphore_pair_with_undo(const struct request *request)
{ measure_pairs(request, 1, SEM_UNDO); }

void semaphore_arrays(const struct request *request) { measure_pairs(request, MOST_SEMAPHORES, 0); }

static void values(void *context, uint64_t first, uint64_t count)
{
	(void)context, (void)first;
	while (count--) {
		int value = semctl(set, 0, GETVAL);
		if (value != SENTINEL)
			give_up("GETVAL of a semaphore at %d returned %d", SENTINEL, value);
	}
}

void semaphore_value(const struct request *request)
{
	make_set(1);
	if (semctl(set, 0, SETVAL, SENTINEL) != 0)
		give_up_call("SETVAL");
	measure(&request->run, values, NULL, NULL);
	remove_set();
}
