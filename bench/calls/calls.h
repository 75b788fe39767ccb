/* The cases of sysv_calls: what each is given, and what several of them share. */
#ifndef CALLS_H
#define CALLS_H

#include <stdatomic.h>

#include "../run.h"

struct request {
	struct run run;    /* rounds, warm-up, batches, size, CPU */
	long objects;      /* objects of the kind that there are */
	long depth;        /* messages that are in a queue at once */
	long clients;      /* processes that are attached, this one included */
	long processes;    /* processes that contend */
	long milliseconds; /* length of a run that is measured by time */
	bool random;       /* another object each round, instead of always the same */
	bool touch;        /* write to each page of a segment */
};

typedef void case_fn(const struct request *request);

case_fn semaphore_pair, semaphore_pair_with_undo, semaphore_program, semaphore_program_with_undo,
	semaphore_value, semaphore_arrays;
case_fn message;
case_fn segment_cycle, segment_attach, segment_sustained;
case_fn lookup_semop, lookup_semget, lookup_msgget, lookup_shmget;
case_fn contend_for_a_semaphore, contend_for_a_queue;
case_fn requests;
case_fn posix_message, posix_message_with_priority;
case_fn posix_semaphore, shared_mutex, robust_mutex, private_mutex, shared_rwlock;

/* As give_up_call; names the limit that it may have been. */
_Noreturn void give_up_creating(const char *call);

/* CPU time of this process, in nanoseconds; and of its children that it has waited for. */
uint64_t cpu_ns(void);
uint64_t cpu_ns_of_children(void);

/* Processes that have come about by fork, at a gate: each calls arrive() and is let go all
 * together. All of them end when the process that made them does. */
struct crowd {
	int gate[2], arrivals[2];
	long size;
};

void crowd_prepare(struct crowd *crowd);
/* Forks one more. True in the new process, which has then to call arrive(). */
bool crowd_enlarge(struct crowd *crowd);
void arrive(struct crowd *crowd);
/* Waits until all have arrived. */
void crowd_await(struct crowd *crowd);
/* Opens the gate. */
void crowd_release(struct crowd *crowd);
/* Waits for the end of all, or of so many; gives up if one failed. */
void crowd_end(struct crowd *crowd);
void crowd_end_some(struct crowd *crowd, long number);

enum { MOST_PROCESSES = 1024 };

/* What one process has done. */
struct tally {
	_Alignas(64) uint64_t done, sum;
};

/* Shared by fork, so that it is the same memory whether the calls are the kernel's or a pool's. */
struct arena {
	_Atomic bool stop;
	struct tally tallies[MOST_PROCESSES];
	unsigned char more[];
};

/* With so many bytes more, for the case's own use. */
struct arena *make_arena(long processes, size_t more);
static inline bool stopped(struct arena *arena)
{ return atomic_load_explicit(&arena->stop, memory_order_relaxed); }
/* Sleeps while the others work, and stops them; the time that it took. */
uint64_t let_work(struct arena *arena, long milliseconds);
uint64_t sum_of_done(const struct tally *tallies, long n);
/* What the one that did least has done, of what each would have done if all had done the same. */
double smallest_share(const struct tally *tallies, long n);
void tell_shared(const struct request *request, uint64_t wall, uint64_t done, double share);

#endif
