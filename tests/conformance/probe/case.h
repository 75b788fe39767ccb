/* A case is a function that says what it observed. The runner forks a process for each, with a
 * deadline.
 *
 * Rules for cases, so that the output is the same on every run of a correct implementation:
 *   - say no raw id, pid, time or address: use the words below;
 *   - depend on no object but your own, and make objects through the calls below: the runner
 * removes them;
 *   - never sleep for a fixed time to let another process get somewhere: wait for its state. */
#ifndef CASE_H
#define CASE_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- registration and output ---- */

struct probe_case {
	const char *name;
	void (*run)(void);
	struct probe_case *next;
};
void register_case(struct probe_case *c);

#define CASE(name_)                                                                \
	static void name_(void);                                                   \
	__attribute__((constructor)) static void register_##name_(void)            \
	{                                                                          \
		static struct probe_case entry = { .name = #name_, .run = name_ }; \
		register_case(&entry);                                             \
	}                                                                          \
	static void name_(void)

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The case cannot go on: says why and ends it. */
_Noreturn void broken(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void skip(const char *why);
/* How often a case repeats what might fail: `n` times, or fewer in an emulated guest (--turns). */
int turns(int n);
int output_descriptor(void); /* where say() writes: a case that closes descriptors spares it */

/* ---- words (words.c) ---- */

const char *errno_name(int number);
const char *got(long result);          /* "0", "7", or "-1 EAGAIN" */
const char *made(long id);             /* "ok" for any id or address, or "-1 EACCES" */
const char *refused(
	long result);      /* "refused" when the errno is one that limits give, else as got() */
const char *who(pid_t pid, pid_t child); /* "self", "child", "0", "other" */
const char *when(time_t t);            /* "zero", "recent", "odd" */
const char *yes(bool b);
const char *ended(int status);         /* "exit 0", "SIGSEGV" */

/* ---- objects (objects.c) ---- */

union semun {
	int val;
	struct semid_ds *buf;
	unsigned short *array;
	struct seminfo *info;
};

key_t fresh_key(void);
const char *fresh_name(void); /* "/probe-...", for POSIX objects; the runner unlinks it in all three
                                 name spaces. Good until the eighth call after it. */
int track_segment(int id), track_set(int id),
	track_queue(int id); /* hands the id through; the runner removes it */
int segment_of(size_t bytes), set_of(int semaphores),
	queue_of(void);  /* private, 0600, or the case is broken */
char *attach(int segment);
struct shmid_ds segment_state(int segment);
long attaches(int segment);
struct semid_ds set_state(int set);
struct msqid_ds queue_state(int queue);
int value(int set, int n);
void set_value(int set, int n, int v);
int step(int set, int n, int by, int flags);
int asked(int set, int n, int command); /* GETNCNT, GETZCNT, GETPID */

struct message {
	long type;
	char text[16384];
};
int put(int queue, long type, const char *text, int flags);
ssize_t take(int queue, struct message *m, size_t room, long type, int flags);

/* ---- processes (processes.c) ---- */

typedef void role_fn(void *context);
pid_t start(role_fn *role, void *context); /* in a child, which exits 0 when the role returns */
int finish(pid_t child);                   /* wait status */
void stop_by(pid_t child, int signal);     /* kill and reap */
void await_asleep(pid_t process);          /* its only thread has been in state S for a while */
void await_thread_asleep(pid_t thread);
void await_waiters(int set, int n, int command, int count,
	pid_t process); /* and asleep, if process is not 0 */
void await_attaches(int segment, long count);
int faults(role_fn *role, void *context);  /* the signal that ended a child in role, or 0 */
void as_nobody(
	role_fn *role, void *context); /* root: in a child with another uid; else: says skipped */
void as_ordinary(role_fn *role,
	void *context); /* root: in a child with another uid; else: in a child as we are */
enum { NOBODY = 65534 };
void handle(int signal, void (*handler)(int), int flags);
void ignore_quietly(int signal); /* a handler that does nothing */

/* Replaces the child by this program playing a part after exec; the parts are listed in
 * exec_parts.c. */
_Noreturn void become(const char *part, int number);
int play_part(int argc, char **argv);

/* A few bytes shared by a case's processes, from mmap: memory of no object. */
volatile int *shared_ints(void);

#endif
