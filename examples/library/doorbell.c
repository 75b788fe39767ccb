/* A visitor rings, a host opens: two processes and a word of a POSIX shared memory object at which
 * they wait for each other. Then the host waits until the visitor has gone for good.
 *   doorbell POOL */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vshmem.h>

enum { RINGS = 1000 };
static const char *const NAME = "doorbell.word";

struct door {
	_Atomic uint32_t word; /* odd: it rings; even: it is quiet */
	_Atomic uint64_t visitor;
};

static int checked(const char *tried, int answer)
{
	if (answer >= 0)
		return answer;
	fprintf(stderr, "doorbell: %s: %s\n", tried, strerror(-answer));
	_exit(1);
}

static struct door *entered(vshmem_pool *pool)
{
	void *memory;
	int id = vshmem_shm_open(pool, NAME, O_CREAT | O_RDWR, 0600, sizeof(struct door));
	checked("open the object", id);
	checked("attach it", vshmem_attach(pool, id, sizeof(struct door), &memory));
	checked("close it", vshmem_shm_close(pool, id));
	return memory;
}

static vshmem_pool *opened(const char *name)
{
	vshmem_pool *pool;
	char message[512] = "";
	if (vshmem_open(name, &pool, message, sizeof message) < 0) {
		fprintf(stderr, "doorbell: %s\n", message);
		_exit(1);
	}
	return pool;
}

/* Changes the word each time that it is even (the host: odd), and wakes the other one. */
static void play(vshmem_pool *pool, struct door *door, uint32_t own)
{
	for (int ring = 0; ring < RINGS; ring++) {
		uint32_t word;
		while ((word = atomic_load(&door->word)) % 2 != own)
			checked("wait", vshmem_wait(pool, (uint32_t *)&door->word, word, NULL));
		atomic_fetch_add(&door->word, 1);
		checked("wake", vshmem_wake(pool, (uint32_t *)&door->word, 1));
	}
}

/* A killed visitor, who leaves nothing: neither rings nor closes the pool. */
static void visit(const char *name)
{
	vshmem_pool *pool = opened(name);
	struct door *door = entered(pool);
	uint64_t client;
	checked("ask who this is", vshmem_client(pool, &client));
	atomic_store(&door->visitor, client);
	play(pool, door, 0);
	_exit(0);
}

static void tell(const char *name, void *count)
{
	*(int *)count += strcmp(name, NAME) == 0;
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: doorbell POOL\n");
		return 2;
	}
	pid_t visitor = fork();
	if (visitor == 0)
		visit(argv[1]);
	vshmem_pool *pool = opened(argv[1]);
	struct door *door = entered(pool);
	play(pool, door, 1);
	waitpid(visitor, NULL, 0);
	/* That somebody has ended without leaving is noticed by the agent. */
	struct timespec soon = { 0, 10000000 };
	while (checked("ask for the visitor", vshmem_client_alive(pool, atomic_load(&door->visitor)))) {
		uint32_t word = atomic_load(&door->word);
		if (vshmem_wait(pool, (uint32_t *)&door->word, word, &soon) != -ETIMEDOUT)
			return 1;
	}
	int count = 0;
	checked("list names", vshmem_shm_names(pool, "doorbell.", tell, &count));
	printf("%u changes; the visitor has gone, and %d object is there\n", atomic_load(&door->word),
		count);
	checked("unlink the object", vshmem_shm_unlink(pool, NAME));
	checked("release it", vshmem_release(pool, door));
	vshmem_close(pool);
	return 0;
}
