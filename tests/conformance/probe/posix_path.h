/* What the cases about paths below /dev/shm share. */
#ifndef POSIX_PATH_H
#define POSIX_PATH_H

#include "posix_shm.h"

const char *path_of(const char *name); /* of an object, by its name with the slash; good until the
                                          eighth call after it */
const char *fresh_path(void);          /* of an object that is not there; the runner unlinks it */
const char *base_of(const char *path); /* what is behind the last slash */
const char *beside(const char *path, const char *end); /* another path, which the case unlinks */
const char *folder(void);              /* a new one elsewhere; clear_folder removes it */
void clear_folder(const char *path);
int file_at(const char *path, const char *text); /* makes it, open for both, at its beginning */
const char *path_of_file(const char *text);      /* makes one, and closes it */
const char *content(const char *path);           /* at most 100 bytes, or "-1 ENOENT" */
void say_path(const char *when, const char *path); /* what stat says that is the same anywhere */

#endif
