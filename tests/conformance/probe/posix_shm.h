/* What the cases about POSIX shared memory share. */
#ifndef POSIX_SHM_H
#define POSIX_SHM_H

#include "case.h"

#include <sys/stat.h>

enum { PAGE = 4096 };

/* A new object of so many bytes under this name, open for both; or the case is broken. */
int object_named(const char *name, off_t bytes);
int object_of(off_t bytes); /* under a fresh name */
char *map_object(int file, size_t bytes);
off_t size_of(int file);
/* Says what fstat says that does not depend on the place: kind, mode, links, size. */
void say_state(const char *when, int file);
bool in_object(const char *name, size_t at, const char *text); /* opens it anew, and looks */

#endif
