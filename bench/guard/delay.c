/* A delay in semop, to be found by `vshmem bench guard`: loaded before the library that it
 * delays. */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/sem.h>

static int (*next)(int, struct sembuf *, size_t);
static long rounds;

__attribute__((constructor)) static void prepare(void)
{
	const char *text = getenv("DELAY_ROUNDS");
	*(void **)&next = dlsym(RTLD_NEXT, "semop");
	rounds = text ? atol(text) : 0;
}

int semop(int id, struct sembuf *operations, size_t count)
{
	for (volatile long round = 0; round < rounds; round++)
		continue;
	return next(id, operations, count);
}
