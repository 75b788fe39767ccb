/* The symbols behind ours: libc's, or those of another library. */
#define _GNU_SOURCE
#include "heap.h"

#include <dlfcn.h>

void *heap_next(const char *name) { return dlsym(RTLD_NEXT, name); }
