/* Bytes that tell who sent them, in which message, and where they belong. */
#ifndef PATTERN_H
#define PATTERN_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, ranks;

static inline unsigned char byte_of(unsigned sender, unsigned message, size_t at)
{ return (unsigned char)(sender * 131 + message * 29 + at + (at >> 8) * 7 + (at >> 16) * 3); }

static inline void fill(void *memory, size_t bytes, unsigned sender, unsigned message)
{
	for (size_t at = 0; at < bytes; at++)
		((unsigned char *)memory)[at] = byte_of(sender, message, at);
}

/* Ends the job when it is not so: what was tested, and on which rank. */
#define must(condition, ...)                                                           \
	do {                                                                           \
		if (!(condition)) {                                                    \
			fprintf(stderr, "rank %d: %s:%d: ", rank, __FILE__, __LINE__); \
			fprintf(stderr, __VA_ARGS__);                                  \
			fprintf(stderr, "\n");                                         \
			MPI_Abort(MPI_COMM_WORLD, 1);                                  \
			abort();                                                       \
		}                                                                      \
	} while (0)

static inline void verify(
	const void *memory, size_t bytes, unsigned sender, unsigned message, const char *what)
{
	for (size_t at = 0; at < bytes; at++)
		must(((const unsigned char *)memory)[at] == byte_of(sender, message, at),
			"%s: byte %zu of %zu from %u, message %u", what, at, bytes, sender,
			message);
}

/* Room for messages: of the library's choice (MPI_Alloc_mem) or private. */
static inline char *room(size_t bytes, int pool)
{
	char *memory;
	if (pool)
		MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &memory);
	else
		memory = malloc(bytes);
	must(memory, "no memory");
	return memory;
}

static inline void no_room(char *memory, int pool)
{
	if (pool)
		MPI_Free_mem(memory);
	else
		free(memory);
}

static int cases;
/* All ranks have come through a case. */
static inline void passed(const char *name)
{
	MPI_Barrier(MPI_COMM_WORLD);
	cases++;
	if (rank == 0 && getenv("MPI_TEST_VERBOSE"))
		printf("%s\n", name);
}

static inline void begin(int *argc, char ***argv, int threads)
{
	int given;
	MPI_Init_thread(argc, argv, threads, &given);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	must(given >= threads, "threads are not supported");
}

static inline int end(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("%d passed, 0 failed\n", cases);
	MPI_Finalize();
	return 0;
}

#endif
