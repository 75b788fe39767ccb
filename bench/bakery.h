/* Semaphores in shared memory with nothing but loads and stores: P and V under Lamport's bakery lock, busy waiting. */
#ifndef BAKERY_H
#define BAKERY_H

#include <stdatomic.h>
#include <stdint.h>

enum { CUSTOMERS = 2 };

/* Zeroed before use. Each customer writes a line of its own; the count is written under the lock only. */
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

/* To be called in a loop that waits for another process, with the number of times so far: gives the CPU away rarely, in case
 * both are on one; never on the path of a prompt answer, for a system call costs 40 us in a User Mode Linux guest. */
void spin(unsigned spins);

#endif
