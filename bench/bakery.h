/* Semaphores in shared memory with nothing but loads and stores: P and V under Lamport's bakery
 * lock, busy waiting. */
#ifndef BAKERY_H
#define BAKERY_H

#include <stdatomic.h>
#include <stdint.h>

enum { CUSTOMERS = 2 };

/* Zeroed before use. Each customer writes a line of its own; the count is written under the lock
 * only. */
struct bakery {
	struct {
		_Alignas(64) _Atomic uint32_t choosing;
		_Atomic uint32_t number; /* 0: does not want in */
	} customer[CUSTOMERS];
	_Alignas(64) _Atomic uint32_t count;
};

/* Waits until the count is above zero, and takes one. */
void bakery_p(struct bakery *bakery, int me);
void bakery_v(struct bakery *bakery, int me);

#endif
