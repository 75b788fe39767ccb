/* Threads in a storm of signals: each call either does what it was asked or ends with EINTR and has
 * done nothing. What went through the semaphores and the queue is counted.
 *   storm POOL */
#include "checks.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ipc.h>

enum { TURNS = 20000 };
static vshmem_pool *pool;
static int set, queue;
static atomic_long interrupted;
static atomic_bool is_over;

static void note(int signal)
{
	(void)signal;
	vshmem_interrupt();
}

/* Once more, as often as it is interrupted. */
#define done(wanted, call)                             \
	do {                                           \
		long got;                              \
		while ((got = (call)) == -EINTR)       \
			atomic_fetch_add(&interrupted, 1); \
		returned(#call, __LINE__, wanted, got);  \
	} while (0)

static void *giver(void *unused)
{
	struct sembuf up = { 0, 1, 0 }, down = { 1, -1, SEM_UNDO };
	for (long i = 0; i < TURNS; i++) {
		done(0, vshmem_semop(pool, set, &up, 1, NULL));
		done(0, vshmem_semop(pool, set, &down, 1, NULL));
		done(0, vshmem_msgsnd(pool, queue, 1, &i, sizeof i, 0));
	}
	return unused;
}

static void *taker(void *unused)
{
	struct sembuf down = { 0, -1, 0 }, up = { 1, 1, SEM_UNDO };
	for (long i = 0; i < TURNS; i++) {
		long text = -1, type;
		done(0, vshmem_semop(pool, set, &down, 1, NULL));
		done(0, vshmem_semop(pool, set, &up, 1, NULL));
		done(sizeof text, vshmem_msgrcv(pool, queue, &type, &text, sizeof text, 0, 0));
		returns(i, text);
	}
	return unused;
}

static void *sender_of_signals(void *threads)
{
	for (unsigned nth = 0; !atomic_load(&is_over); nth++) {
		pthread_kill(((pthread_t *)threads)[nth % 2], SIGUSR1);
		for (volatile unsigned spin = nth * 7919 % 4096; spin > 0; spin--)
			;
	}
	return threads;
}

int main(int count, char **words)
{
	if (count != 2)
		return 2;
	struct sigaction action = { .sa_handler = note, .sa_flags = SA_RESTART };
	returns(0, sigaction(SIGUSR1, &action, NULL));
	pool = opened(words[1]);
	set = vshmem_semget(pool, IPC_PRIVATE, 2, 0600);
	queue = vshmem_msgget(pool, IPC_PRIVATE, 0600);
	pthread_t threads[2], signals;
	returns(0, pthread_create(&threads[0], NULL, giver, NULL));
	returns(0, pthread_create(&threads[1], NULL, taker, NULL));
	returns(0, pthread_create(&signals, NULL, sender_of_signals, threads));
	pthread_join(threads[1], NULL);
	atomic_store(&is_over, 1);
	pthread_join(signals, NULL);
	pthread_join(threads[0], NULL);
	returns(0, vshmem_semval(pool, set, 0));
	returns(0, vshmem_semval(pool, set, 1));
	returns(-ENOMSG, vshmem_msgrcv(pool, queue, NULL, &count, 1, 0, IPC_NOWAIT));
	returns(1, atomic_load(&interrupted) > 0);
	returns(0, vshmem_semrm(pool, set));
	returns(0, vshmem_msgrm(pool, queue));
	vshmem_close(pool);
	return 0;
}
