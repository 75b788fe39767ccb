/* Two roles meet in a segment found by key, in any start order, and exchange ids of private objects
 * there.
 *
 * Either role creates the segment. The first role offers a number that no earlier run used, the
 * second answers with the same number, and only then does the run begin; a segment that a killed
 * run left behind therefore does no harm. The first role removes the segment as soon as both are
 * attached: nothing of it outlives the run. */
#ifndef RENDEZVOUS_H
#define RENDEZVOUS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "run.h"

struct rendezvous {
	_Alignas(64) _Atomic uint64_t offer;
	_Atomic uint64_t terms; /* size and rounds of the first role, to be compared */
	_Atomic int object; /* id of a semaphore set or queue that the first role made */
	_Alignas(64) _Atomic uint64_t answer;
	_Alignas(64) _Atomic uint64_t begin;
	_Alignas(64) unsigned char body[]; /* the transport's own */
};

/* Which project number of the path: one program and pair each. */
struct rendezvous *meet(const struct run *run, int project, size_t body_bytes, int object);

#endif
