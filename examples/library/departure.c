/* A program that goes on when its domain leaves the pool: it is told, parts, and keeps the memory
 * that it had. `vshmem pool leave POOL` or `vshmem pool drain POOL DOMAIN` has it leave.
 *   departure POOL */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vshmem.h>

enum { BYTES = 1 << 16 };

static int checked(const char *tried, int answer)
{
	if (answer >= 0)
		return answer;
	fprintf(stderr, "departure: %s: %s\n", tried, strerror(-answer));
	exit(1);
}

/* On a thread of the library's. */
static void is_told(void *argument)
{
	printf("%s: the domain leaves the pool\n", (char *)argument);
	fflush(stdout);
}

int main(int count, char **words)
{
	vshmem_pool *pool;
	char message[512] = "";
	if (vshmem_open(count > 1 ? words[1] : NULL, &pool, message, sizeof message) < 0) {
		fprintf(stderr, "departure: %s\n", message);
		return 1;
	}
	void *memory;
	checked("hold", vshmem_hold(pool, BYTES, &memory));
	strcpy(memory, "written before");
	checked("give a call", vshmem_on_leave(pool, is_told, "departure"));
	struct pollfd told = {.fd = checked("ask", vshmem_leave_fd(pool)), .events = POLLIN};
	printf("departure: waiting\n");
	fflush(stdout);
	/* A program that computes asks now and then instead: that is one load. */
	while (!checked("look", vshmem_leaving(pool)))
		poll(&told, 1, -1);
	checked("part", vshmem_part(pool));
	strcat(memory, ", and after");
	void *more;
	printf("departure: %s; hold: %s\n", (char *)memory,
		strerror(-vshmem_hold(pool, BYTES, &more)));
	vshmem_close(pool);
	return strcmp(memory, "written before, and after") != 0;
}
