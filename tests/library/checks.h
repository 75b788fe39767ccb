/* What the programs of this folder share: a check that ends the program, and a pool. */
#ifndef CHECKS_H
#define CHECKS_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vshmem.h>

/* Ends the program when CALL does not return WANTED. */
#define returns(wanted, call) returned(#call, __LINE__, (long)(wanted), (long)(call))

static inline void returned(const char *call, int line, long wanted, long got)
{
	if (got == wanted)
		return;
	printf("FAILED: line %d: %s returned %ld instead of %ld\n", line, call, got, wanted);
	fflush(stdout);
	_Exit(1);
}

static inline vshmem_pool *opened(const char *name)
{
	vshmem_pool *pool;
	char message[512] = "";
	if (vshmem_open(name, &pool, message, sizeof message) < 0) {
		printf("FAILED: %s: %s\n", name, message);
		fflush(stdout);
		_Exit(1);
	}
	return pool;
}

#endif
