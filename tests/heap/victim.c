/* Allocates, writes, frees and forks without an end: to be killed. Says `going` and its pid when it
 * is. */
#include "heap.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

_Noreturn static void *allocate(void *argument)
{
	uint32_t random = (uint32_t)(uintptr_t)argument;
	char *block[8] = { 0 };
	for (;;) {
		random = random * 1664525 + 1013904223;
		size_t bytes = (random >> 8) % (3 << 20) + 65536;
		char **one = &block[random >> 29];
		free(*one);
		*one = malloc(bytes);
		memset(*one, 1, bytes);
	}
}

int main(void)
{
	pthread_t thread;
	char *first = malloc(1 << 20);
	CHECK(in_pool(first));
	if (failed)
		return 1;
	for (uintptr_t nth = 1; nth < 4; nth++)
		pthread_create(&thread, NULL, allocate, (void *)nth);
	printf("going %d\n", getpid());
	fflush(stdout);
	for (;;) {
		pid_t child = fork();
		if (child == 0)
			_exit(first[5] != 0);
		waitpid(child, NULL, 0);
	}
}
