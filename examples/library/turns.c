/* Two processes take turns in a segment: a semaphore of a set is the turn of each. Then one waits
 * for a turn that nobody gives, until an alarm ends the wait.
 *   turns POOL */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vshmem.h>

enum { TURNS = 1000 };

static int checked(const char *tried, int answer)
{
	if (answer >= 0)
		return answer;
	fprintf(stderr, "turns: %s: %s\n", tried, strerror(-answer));
	_exit(1);
}

static vshmem_pool *opened(const char *name)
{
	vshmem_pool *pool;
	char message[512] = "";
	if (vshmem_open(name, &pool, message, sizeof message) < 0) {
		fprintf(stderr, "turns: %s\n", message);
		_exit(1);
	}
	return pool;
}

/* Each adds 1 when it is its turn, and then it is the other one's. */
static void play(vshmem_pool *pool, int set, int segment, unsigned short own)
{
	void *memory;
	checked("attach", vshmem_attach(pool, segment, sizeof(long), &memory));
	volatile long *count = memory;
	struct sembuf wait = { own, -1, 0 }, give = { !own, 1, 0 };
	for (int turn = 0; turn < TURNS; turn++) {
		checked("wait", vshmem_semop(pool, set, &wait, 1, NULL));
		++*count;
		checked("give", vshmem_semop(pool, set, &give, 1, NULL));
	}
	if (own == 1)
		printf("%ld turns\n", *count);
	checked("release", vshmem_release(pool, memory));
}

/* An alarm that comes just before the wait ends it, too. */
static void on_alarm(int signal)
{
	(void)signal;
	vshmem_interrupt();
}

static int waits_until_the_alarm(vshmem_pool *pool, int set)
{
	struct sembuf wait = { 1, -1, 0 };
	struct sigaction action = { .sa_handler = on_alarm };
	sigaction(SIGALRM, &action, NULL);
	checked("set it to 0", vshmem_semset(pool, set, 1, 0));
	alarm(1);
	return vshmem_semop(pool, set, &wait, 1, NULL) == -EINTR &&
		vshmem_semval(pool, set, 1) == 0;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;
	vshmem_pool *pool = opened(name);
	/* On the memory node where this process runs; a number is a node of the host. */
	int segment = checked("make a segment",
		vshmem_shmget_on(pool, IPC_PRIVATE, sizeof(long), IPC_CREAT | 0600, -1));
	int set = checked("make a set", vshmem_semget(pool, IPC_PRIVATE, 2, IPC_CREAT | 0600));
	checked("begin with turn 0", vshmem_semset(pool, set, 0, 1));

	pid_t child = fork();
	if (child == 0) {
		vshmem_pool *own = opened(name);
		play(own, set, segment, 0);
		vshmem_close(own);
		_exit(0);
	}
	play(pool, set, segment, 1);
	int status, bad = waitpid(child, &status, 0) < 0 || status != 0;
	if (!waits_until_the_alarm(pool, set))
		bad = 1;
	else
		printf("the alarm has ended the wait\n");
	checked("remove the set", vshmem_semrm(pool, set));
	checked("remove the segment", vshmem_shmrm(pool, segment));
	vshmem_close(pool);
	return bad;
}
