/* When what the program needs is loaded. */
#include "heap.h"

#include <stdlib.h>

__attribute__((constructor)) static void begin(void)
{
	const char *from = getenv("VSHMEM_HEAP"), *name = getenv("VSHMEM_HEAP_POOL");
	heap_follow_forks();
	if (from && name)
		heap_begin(from, name);
}
