/* The cases of sysv_calls: what each is given, and what several of them share. */
#ifndef CALLS_H
#define CALLS_H

#include "../run.h"

struct request {
	struct run run;    /* rounds, warm-up, batches, size, CPU */
	long objects;      /* objects of the kind that there are */
	long clients;      /* processes that are attached, this one included */
	long processes;    /* processes that contend */
	long milliseconds; /* length of a run that is measured by time */
	bool random;       /* another object each round, instead of always the same */
	bool touch;        /* write to each page of a segment */
};

typedef void case_fn(const struct request *request);

case_fn semaphore_pair, semaphore_pair_with_undo, semaphore_program, semaphore_program_with_undo, semaphore_value, semaphore_arrays;
case_fn message;
case_fn segment_cycle, segment_attach, segment_sustained;
case_fn lookup_semop, lookup_semget, lookup_msgget, lookup_shmget;
case_fn contend_for_a_semaphore, contend_for_a_queue;

/* As give_up_call; names the limit that it may have been. */
_Noreturn void give_up_creating(const char *call);

/* CPU time of this process, in nanoseconds; and of its children that it has waited for. */
uint64_t cpu_ns(void);
uint64_t cpu_ns_of_children(void);

/* Processes that have come about by fork, at a gate: each calls arrive() and is let go all together. All of them end
 * when the process that made them does. */
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

#endif
