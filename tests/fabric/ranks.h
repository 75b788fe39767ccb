/* The processes of a test, which find each other over TCP: PROGRAM RANK RANKS ADDRESS PORT
 * [WORDS...]. Rank 0 listens at the address; what others say goes through it. */
#ifndef RANKS_H
#define RANKS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern int rank, ranks;

/* Ends the process when it is not so: what was tested, and on which rank. */
#define must(condition, ...)                                                           \
	do {                                                                           \
		if (!(condition)) {                                                    \
			fprintf(stderr, "rank %d: %s:%d: ", rank, __FILE__, __LINE__); \
			fprintf(stderr, __VA_ARGS__);                                  \
			fprintf(stderr, "\n");                                         \
			_exit(1);                                                      \
		}                                                                      \
	} while (0)

/* Takes the first four words, and joins the others. What is behind them remains: its count. */
int ranks_begin(int argc, char **argv);
/* While a rank waits for the others it does this, with this argument. */
void ranks_meanwhile(void (*something)(void *), void *argument);
/* All have come here. Ranks that have died are not waited for. */
void together(void);
/* All get all ranks' bytes, in order; zeros of those that have died. */
void gather(const void *mine, void *all, size_t bytes);
/* Rank 0 alone: that rank's process has ended. */
int has_ended(int other);
/* Rank 0 alone: it waits for that. */
void wait_for_end(int other);

/* A case of this name has passed, on all ranks. */
void passed(const char *name);
/* A case that this provider has no means for. */
void left_out(const char *name, const char *why);
/* The last line, `N passed, 0 failed`, and the exit status. */
int ranks_end(void);

/* Bytes that tell who wrote them, in which round, and where they belong. */
static inline unsigned char byte_of(unsigned writer, unsigned round, size_t at)
{ return (unsigned char)(writer * 131 + round * 29 + at + (at >> 8) * 7 + (at >> 16) * 3); }

static inline void fill(void *memory, size_t bytes, unsigned writer, unsigned round)
{
	for (size_t at = 0; at < bytes; at++)
		((unsigned char *)memory)[at] = byte_of(writer, round, at);
}

static inline void verify(
	const void *memory, size_t bytes, unsigned writer, unsigned round, const char *what)
{
	for (size_t at = 0; at < bytes; at++)
		must(((const unsigned char *)memory)[at] == byte_of(writer, round, at),
			"%s: byte %zu of %zu from %u, round %u", what, at, bytes, writer, round);
}

#endif
