/* What the components tell their user, through Open MPI. */
#ifndef VSHMEM_SAY_H
#define VSHMEM_SAY_H

void vshmem_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
