/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of the driver's own test share. */
#ifndef SELFTEST_H
#define SELFTEST_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>
#include <sys/wait.h>

#include "uapi/vshmem.h"

#define HUGE (2ul << 20)
#define PAGE 4096ul

#define EXPECT(condition)                                                                   \
	do {                                                                                \
		if (!(condition)) {                                                         \
			fprintf(stderr, "  line %d: %s (errno %d)\n", __LINE__, #condition, \
				errno);                                                     \
			return 1;                                                           \
		}                                                                           \
	} while (0)

/* Waits for a child, 0 when it said so. */
static inline int outcome(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* selftest.c */
extern const char *place;
extern struct vshmem_info info;
int open_device(void);
void *map_part(int file, size_t offset, size_t bytes);
bool sleeps(pid_t pid);

/* taken_away.c */
int holds_on(void);
int lends_a_page(void);
int leaves_ends(void);

/* nonsense.c */
/* Calls with arguments of all kinds, as a user without rights, by four processes at once;
 * FUZZ_ROUNDS of each. */
int survives_nonsense(const char *place);

#endif
