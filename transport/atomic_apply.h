/* What an atomic operation makes of numbers in memory that is mapped here: for this process
 * itself, and for a peer that asks (serve.c). */
#ifndef VSHMEM_ATOMIC_APPLY_H
#define VSHMEM_ATOMIC_APPLY_H

#include <stdbool.h>
#include <stddef.h>

/* Kinds of numbers, and operations, as they are on the wire: with libfabric's numbers. */
enum vshmem_wire_number {
	VSHMEM_WIRE_INT8,
	VSHMEM_WIRE_UINT8,
	VSHMEM_WIRE_INT16,
	VSHMEM_WIRE_UINT16,
	VSHMEM_WIRE_INT32,
	VSHMEM_WIRE_UINT32,
	VSHMEM_WIRE_INT64,
	VSHMEM_WIRE_UINT64,
	VSHMEM_WIRE_FLOAT,
	VSHMEM_WIRE_DOUBLE,
};
enum vshmem_wire_change {
	VSHMEM_WIRE_MIN,
	VSHMEM_WIRE_MAX,
	VSHMEM_WIRE_SUM,
	VSHMEM_WIRE_PROD,
	VSHMEM_WIRE_LOR,
	VSHMEM_WIRE_LAND,
	VSHMEM_WIRE_BOR,
	VSHMEM_WIRE_BAND,
	VSHMEM_WIRE_LXOR,
	VSHMEM_WIRE_BXOR,
	VSHMEM_WIRE_READ,
	VSHMEM_WIRE_WRITE,
	VSHMEM_WIRE_SWAP_IF, /* these compare: equal, not equal, <=, <, >=, > */
	VSHMEM_WIRE_SWAP_NE,
	VSHMEM_WIRE_SWAP_LE,
	VSHMEM_WIRE_SWAP_LT,
	VSHMEM_WIRE_SWAP_GE,
	VSHMEM_WIRE_SWAP_GT,
	VSHMEM_WIRE_SWAP_MASKED,
};

/* The calls that an operation may be for: one that returns nothing, one that returns what was
 * there, one that compares first and returns what was there. */
enum vshmem_atomic_call { VSHMEM_ATOMIC_BASE, VSHMEM_ATOMIC_FETCH, VSHMEM_ATOMIC_COMPARE };

/* Bytes of a number; 0: not one that operations are done on. */
size_t vshmem_number_bytes(int number);

/* Whether such an operation is done here, for such a call. The values may be any. */
bool vshmem_atomic_valid(int number, int op, enum vshmem_atomic_call call);

/* Does a valid operation on COUNT numbers, each on its own. THERE is aligned to their size; the
 * others need not be. RESULT, if any, gets what was there. OPERANDS may be NULL for
 * VSHMEM_WIRE_READ, and COMPARE is for those that compare. */
void vshmem_atomic_apply(void *there, enum vshmem_wire_number number, enum vshmem_wire_change op,
	const void *operands, const void *compare, void *result, size_t count);

#endif
