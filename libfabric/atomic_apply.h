/* What an atomic operation makes of numbers in memory that is mapped here: for this process
 * (one_sided.c), and for a peer that asks (serve.c). */
#ifndef VFI_ATOMIC_APPLY_H
#define VFI_ATOMIC_APPLY_H

#include <stdbool.h>
#include <stddef.h>

#include <rdma/fi_atomic.h>

/* The calls that an operation may be for: one that returns nothing, one that returns what was
 * there, one that compares first and returns what was there. */
enum vfi_atomic_call { VFI_ATOMIC_BASE, VFI_ATOMIC_FETCH, VFI_ATOMIC_COMPARE };

/* Bytes of a number; 0: not one that operations are done on. */
size_t vfi_number_bytes(enum fi_datatype datatype);

/* Whether such an operation is done here, for such a call. The values may be any. */
bool vfi_atomic_valid(enum fi_datatype datatype, enum fi_op op, enum vfi_atomic_call call);

/* Does a valid operation on COUNT numbers, each on its own. THERE is aligned to their size; the
 * others need not be. RESULT, if any, gets what was there. OPERANDS may be NULL for FI_ATOMIC_READ,
 * and COMPARE is for those that compare. */
void vfi_atomic_apply(void *there, enum fi_datatype datatype, enum fi_op op, const void *operands,
	const void *compare, void *result, size_t count);

#endif
