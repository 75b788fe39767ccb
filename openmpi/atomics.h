/* Atomic operations on memory of this process, for a peer that asks (one_sided.c). */
#ifndef VSHMEM_ATOMICS_H
#define VSHMEM_ATOMICS_H
#include "btl_vshmem.h"

/* Whether an operation is done here. Not the smaller and the larger of two numbers: it is not known
 * whether they have a sign. Nor the logical ones: their numbers may be of any kind. osc/rdma then
 * does both under a lock. */
static inline bool is_supported(int op)
{
	return op == MCA_BTL_ATOMIC_ADD || op == MCA_BTL_ATOMIC_AND || op == MCA_BTL_ATOMIC_OR
	        || op == MCA_BTL_ATOMIC_XOR || op == MCA_BTL_ATOMIC_SWAP;
}

/* What an operation makes of two numbers. */
static inline uint64_t combined(int op, uint64_t old, uint64_t operand)
{
	switch (op) {
	case MCA_BTL_ATOMIC_ADD: return old + operand;
	case MCA_BTL_ATOMIC_AND: return old & operand;
	case MCA_BTL_ATOMIC_OR: return old | operand;
	case MCA_BTL_ATOMIC_XOR: return old ^ operand;
	case MCA_BTL_ATOMIC_SWAP: return operand;
	default: return old;
	}
}

static inline uint64_t atomically64(uint64_t *word, int op, uint64_t operand)
{
	uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(
		word, &old, combined(op, old, operand), false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
	return old;
}

static inline uint32_t atomically32(uint32_t *word, int op, uint32_t operand)
{
	uint32_t old = __atomic_load_n(word, __ATOMIC_RELAXED), new;
	do
		new = (uint32_t)combined(op, old, operand);
	while (!__atomic_compare_exchange_n(
		word, &old, new, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
	return old;
}

/* Does an atomic operation on memory that is mapped here; returns what was there. */
static inline uint64_t apply_atomic(
	void *word, enum vshmem_one_sided what, int op, int flags, uint64_t first, uint64_t second)
{
	if (flags & MCA_BTL_ATOMIC_FLAG_32BIT) {
		uint32_t expected = (uint32_t)first;
		if (what != VSHMEM_SWAP_IF)
			return atomically32(word, op, (uint32_t)first);
		__atomic_compare_exchange_n((uint32_t *)word, &expected, (uint32_t)second, false,
			__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		return expected;
	}
	uint64_t expected = first;
	if (what != VSHMEM_SWAP_IF)
		return atomically64(word, op, first);
	__atomic_compare_exchange_n(
		(uint64_t *)word, &expected, second, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return expected;
}

static inline void store_result(void *local, int flags, uint64_t value)
{
	if (!local)
		return;
	if (flags & MCA_BTL_ATOMIC_FLAG_32BIT)
		*(uint32_t *)local = (uint32_t)value;
	else
		*(uint64_t *)local = value;
}

#endif
