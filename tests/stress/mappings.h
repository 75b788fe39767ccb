/* What the parts of the program `mappings` share: threads (actors), segments, and the model of what
 * is mapped. */
#ifndef MAPPINGS_H
#define MAPPINGS_H
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, THREADS = 6, SEGMENTS = 3, PAGES = 8, MOST = 96, BYSTANDERS = 4 };

#define FRESH     ((uintptr_t)1 << 44)
#define FRESH_END (FRESH + ((uintptr_t)THREADS << 36))

/* A mapping of a segment as the kernel counts it. Two neighbours are never one: the kernel does not
 * merge these. */
struct piece {
	char *at;
	int pages, first; /* first: the segment's page that is seen there */
	int attach; /* which shmat it comes from */
	int rights;
	bool locked, random, undumped, childless;
};

struct segment {
	int id, number;
	int count;
	struct piece pieces[MOST];
};

struct actor {
	int number;
	uint64_t random;
	struct segment segments[SEGMENTS];
	int handlers_segment, set, queue, attaches;
	long steps, handled;
	char last[8][96]; /* what it did last */
	int turn;
	pthread_t thread;
};

struct range {
	int piece, from, pages;
	char *at;
	size_t bytes;
};

/* model.c */
extern atomic_int children;    /* while one lives, counts are not ours alone */
extern atomic_long generation; /* of children */
extern uint64_t seed;
uint64_t next_random(uint64_t *random);
int chance(struct actor *a, int sides);
void note(struct actor *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void differs(struct actor *a, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
uint32_t stamp(int number, int page);
bool readable(const void *at);
void check_page(struct actor *a, struct segment *s, struct piece *p, int page);
void check_count(struct actor *a, struct segment *s);
void add(struct actor *a, struct segment *s, struct piece p);
void drop(struct segment *s, int index);
bool based_at(const struct piece *p, const char *base);
bool alike(const struct piece *p, const struct piece *q);
int cut(struct actor *a, struct segment *s, int index, int from, int pages);
struct range some_range(struct actor *a, struct segment *s);

/* segment.c */
void attach(struct actor *a, struct segment *s);
void detach(struct actor *a, struct segment *s);
void on_a_segment(struct actor *a);

#endif
