/* Memory of a pool that goes with its last user. A process holds some, and two children write into
 * it: one opens the pool anew and attaches the memory by its id, as any other process of the pool
 * would; the other was prepared before the fork and finds it where its parent has it.
 *   memory POOL */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vshmem.h>

enum { BYTES = 1 << 16 };

static vshmem_pool *opened(const char *name)
{
	vshmem_pool *pool;
	char message[512] = "";
	if (vshmem_open(name, &pool, message, sizeof message) < 0) {
		fprintf(stderr, "memory: %s\n", message);
		_exit(1);
	}
	return pool;
}

static int checked(const char *tried, int answer)
{
	if (answer >= 0)
		return answer;
	fprintf(stderr, "memory: %s: %s\n", tried, strerror(-answer));
	_exit(1);
}

/* What the parent has opened is of no use here. */
static void stranger(const char *name, int id)
{
	vshmem_pool *pool = opened(name);
	void *memory;
	checked("attach", vshmem_attach(pool, id, BYTES, &memory));
	strcpy(memory, "by its id");
	checked("release", vshmem_release(pool, memory));
	vshmem_close(pool);
	_exit(0);
}

static void heir(vshmem_pool *pool, vshmem_child *place, char *memory)
{
	checked("go on as a client", vshmem_fork_child(pool, place));
	strcpy(memory + BYTES / 2, "as a child");
	checked("release", vshmem_release(pool, memory));
	vshmem_close(pool);
	_exit(0);
}

static int failed(pid_t child)
{
	int status;
	return child < 0 || waitpid(child, &status, 0) < 0 || status != 0;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;
	vshmem_pool *pool = opened(name);
	/* Each process of a pool has it elsewhere: to pass a place on, pass its distance on. */
	char *from = vshmem_base(pool), *memory;
	printf("%llu bytes, room for %u attaches\n", (unsigned long long)vshmem_bytes(pool),
		vshmem_attaches(pool));
	checked("hold", vshmem_hold(pool, BYTES, (void **)&memory));
	int id = checked("ask for the id", vshmem_id(pool, memory));
	printf("memory %d, %zu bytes behind the pool's beginning\n", id, (size_t)(memory - from));
	fflush(stdout);

	pid_t child = fork();
	if (child == 0)
		stranger(name, id);
	if (failed(child))
		return 1;

	vshmem_child *place;
	checked("keep a place for a child", vshmem_fork_prepare(pool, &place));
	child = fork();
	if (child == 0)
		heir(pool, place, memory);
	checked("say who the child is", vshmem_fork_parent(pool, place, child));
	if (failed(child))
		return 1;

	printf("written %s and %s\n", memory, memory + BYTES / 2);
	/* What is only useful where others do not need the rest of the pool, nor see it. */
	void *more;
	if (vshmem_private(pool) == 1
	        && vshmem_hold_sparing(pool, BYTES, vshmem_bytes(pool) / 2, &more) == 0)
		checked("release", vshmem_release(pool, more));
	checked("release", vshmem_release(pool, memory));
	vshmem_close(pool);
	return 0;
}
