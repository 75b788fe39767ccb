/* How a program says what went wrong, and ends. */
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void fail(const char *what)
{
	printf("FAILED: %s: %s\n", what, strerror(errno));
	exit(1);
}
