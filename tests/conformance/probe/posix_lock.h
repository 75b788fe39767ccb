/* What the cases about file locks on shared memory objects share. Each case is played twice: with
 * the other process beside this one, and `far`: in a PID namespace of its own, which is another
 * domain of a pool. */
#ifndef POSIX_LOCK_H
#define POSIX_LOCK_H

#include "case.h"

#include <sys/file.h>

/* What the two processes of a case know of each other. */
struct pair {
	const char *name;
	volatile int *words; /* 0: how far the other is; 1: what the first one allows */
	void (*other)(struct pair *p, int file);
	bool far;
};

/* An object of a page, and nobody beside it yet. */
struct pair *new_pair(bool far);
int open_object(struct pair *p, int flags);
/* The other process: it opens the object itself. */
pid_t start_other(struct pair *p, void (*other)(struct pair *p, int file));
/* As start_other, and waits until the other holds something: its first step. */
pid_t held_by(struct pair *p, void (*other)(struct pair *p, int file));
void reached(struct pair *p, int step);       /* says so to the other process */
void await_step(struct pair *p, int word, int step);
void allow(struct pair *p, int step);
_Noreturn void hold_on(void);                  /* until it is killed */

int record(int file, int command, int type, off_t start, off_t length);
const char *tried(int file, int type, off_t start, off_t length); /* F_SETLK */
/* Says what F_GETLK says; `other` is the process that may be named. */
void say_holder(const char *what, int file, int type, off_t start, off_t length, pid_t other);

/* A case beside, and the same one far. */
#define BOTH_CASES(name_)                             \
	static void name_##_of(struct pair *p);       \
	CASE(posix_lock_##name_) { name_##_of(new_pair(false)); } \
	CASE(posix_lock_far_##name_) { name_##_of(new_pair(true)); } \
	static void name_##_of(struct pair *p)

#endif
