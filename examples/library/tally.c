/* A tally that processes of all domains of a pool keep together: a counter in a segment, guarded by
 * a semaphore, and a queue on which each says what it has added. Uses libvshmem instead of the
 * preload library, so it may be linked statically, and run as root or setuid:
 *   tally POOL add N      adds 1 N times, and says so
 *   tally POOL show       waits for what one process says, and prints the sum
 *   tally POOL remove     removes segment, semaphores and queue */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <vshmem.h>

struct tally {
	vshmem_pool *pool;
	int segment, mutex, queue;
	volatile long *count;
};

static int checked(const char *tried, int answer)
{
	if (answer >= 0)
		return answer;
	fprintf(stderr, "tally: %s: %s\n", tried, strerror(-answer));
	exit(1);
}

static struct tally meet(const char *name)
{
	struct tally t;
	char message[512] = "";
	if (vshmem_open(name, &t.pool, message, sizeof message) < 0) {
		fprintf(stderr, "tally: %s\n", message);
		exit(1);
	}
	int key = vshmem_key("tally");
	t.segment =
		checked("shmget", vshmem_shmget(t.pool, key, sizeof *t.count, IPC_CREAT | 0600));
	/* New semaphores are 0: a mutex that is open when it is 0 needs no first value. */
	t.mutex = checked("semget", vshmem_semget(t.pool, key, 1, IPC_CREAT | 0600));
	t.queue = checked("msgget", vshmem_msgget(t.pool, key, IPC_CREAT | 0600));
	void *memory;
	checked("attach", vshmem_attach(t.pool, t.segment, sizeof *t.count, &memory));
	t.count = memory;
	return t;
}

static void add(struct tally *t, long n)
{
	/* With SEM_UNDO: a process that is killed in between does not keep the others out. */
	struct sembuf lock[] = { { 0, 0, 0 }, { 0, 1, SEM_UNDO } }, unlock = { 0, -1, SEM_UNDO };
	for (long i = 0; i < n; i++) {
		checked("lock", vshmem_semop(t->pool, t->mutex, lock, 2, NULL));
		++*t->count;
		checked("unlock", vshmem_semop(t->pool, t->mutex, &unlock, 1, NULL));
	}
	checked("msgsnd", vshmem_msgsnd(t->pool, t->queue, 1, &n, sizeof n, 0));
}

static void show(struct tally *t)
{
	long added, type;
	struct timespec soon = { .tv_sec = 60 };
	struct sembuf lock[] = { { 0, 0, 0 }, { 0, 1, SEM_UNDO } }, unlock = { 0, -1, SEM_UNDO };
	checked("msgrcv", vshmem_msgrcv(t->pool, t->queue, &type, &added, sizeof added, 0, 0));
	checked("lock", vshmem_semop(t->pool, t->mutex, lock, 2, &soon));
	printf("somebody has added %ld, the sum is %ld\n", added, *t->count);
	checked("unlock", vshmem_semop(t->pool, t->mutex, &unlock, 1, NULL));
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: tally POOL add N | show | remove\n");
		return 2;
	}
	struct tally t = meet(argv[1]);
	if (strcmp(argv[2], "add") == 0 && argc == 4)
		add(&t, atol(argv[3]));
	else if (strcmp(argv[2], "show") == 0)
		show(&t);
	checked("release", vshmem_release(t.pool, (void *)t.count));
	if (strcmp(argv[2], "remove") == 0) {
		checked("shmrm", vshmem_shmrm(t.pool, t.segment));
		checked("semrm", vshmem_semrm(t.pool, t.mutex));
		checked("msgrm", vshmem_msgrm(t.pool, t.queue));
	}
	vshmem_close(t.pool);
	return 0;
}
