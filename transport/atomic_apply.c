/* Atomic operations on numbers, by the CPU.
 *
 * Each number is changed by compare-and-swap on an integer of its size, by every process: so the
 * owner of the memory, its peers on the pool and those that ask by message agree.
 */
#include "atomic_apply.h"

#include <stdint.h>
#include <string.h>

/* What an operation makes of what is there. Those for whole numbers wrap around. */
#define COMMON_OPERATIONS(number)                                             \
	case VSHMEM_WIRE_MIN: return operand < old ? operand : old;           \
	case VSHMEM_WIRE_MAX: return operand > old ? operand : old;           \
	case VSHMEM_WIRE_LOR: return (number)(old != 0 || operand != 0);      \
	case VSHMEM_WIRE_LAND: return (number)(old != 0 && operand != 0);     \
	case VSHMEM_WIRE_LXOR: return (number)((old != 0) != (operand != 0)); \
	case VSHMEM_WIRE_WRITE: return operand;                               \
	case VSHMEM_WIRE_SWAP_IF: return compare == old ? operand : old;      \
	case VSHMEM_WIRE_SWAP_NE: return compare != old ? operand : old;      \
	case VSHMEM_WIRE_SWAP_LE: return compare <= old ? operand : old;      \
	case VSHMEM_WIRE_SWAP_LT: return compare < old ? operand : old;       \
	case VSHMEM_WIRE_SWAP_GE: return compare >= old ? operand : old;      \
	case VSHMEM_WIRE_SWAP_GT: return compare > old ? operand : old;

#define WHOLE_NUMBER(name, number)                                                         \
	static inline number combine_##name(                                               \
		enum vshmem_wire_change op, number old, number operand, number compare)    \
	{                                                                                  \
		switch ((int)op) {                                                         \
			COMMON_OPERATIONS(number)                                          \
		case VSHMEM_WIRE_SUM: return (number)((uint64_t)old + (uint64_t)operand);  \
		case VSHMEM_WIRE_PROD: return (number)((uint64_t)old * (uint64_t)operand); \
		case VSHMEM_WIRE_BOR: return (number)(old | operand);                      \
		case VSHMEM_WIRE_BAND: return (number)(old & operand);                     \
		case VSHMEM_WIRE_BXOR: return (number)(old ^ operand);                     \
		case VSHMEM_WIRE_SWAP_MASKED:                                              \
			return (number)((operand & compare) | (old & ~compare));           \
		default: return old;                                                       \
		}                                                                          \
	}

#define FLOATING_NUMBER(name, number)                                                   \
	static inline number combine_##name(                                            \
		enum vshmem_wire_change op, number old, number operand, number compare) \
	{                                                                               \
		switch ((int)op) {                                                      \
			COMMON_OPERATIONS(number)                                       \
		case VSHMEM_WIRE_SUM: return old + operand;                             \
		case VSHMEM_WIRE_PROD: return old * operand;                            \
		default: return old;                                                    \
		}                                                                       \
	}

/* WORD has the size of NUMBER. What is only read may lie in memory that cannot be written. */
#define APPLY(name, number, word)                                                               \
	_Static_assert(sizeof(number) == sizeof(word), "a number is swapped as a word");        \
	static void apply_##name(void *there, enum vshmem_wire_change op, const char *operands, \
		const char *compare, char *result, size_t count)                                \
	{                                                                                       \
		for (size_t nth = 0; nth < count; nth++) {                                      \
			size_t into = nth * sizeof(number);                                     \
			word *at = (word *)there + nth;                                         \
			word before = __atomic_load_n(at, __ATOMIC_ACQUIRE), after;             \
			number old, new, operand = 0, wanted = 0;                               \
			if (operands)                                                           \
				memcpy(&operand, operands + into, sizeof(number));              \
			if (compare)                                                            \
				memcpy(&wanted, compare + into, sizeof(number));                \
			do {                                                                    \
				memcpy(&old, &before, sizeof(number));                          \
				new = combine_##name(op, old, operand, wanted);                 \
				memcpy(&after, &new, sizeof(number));                           \
			} while (op != VSHMEM_WIRE_READ                                         \
				&& !__atomic_compare_exchange_n(at, &before, after, false,      \
					__ATOMIC_SEQ_CST, __ATOMIC_RELAXED));                   \
			if (result)                                                             \
				memcpy(result + into, &before, sizeof(number));                 \
		}                                                                               \
	}

WHOLE_NUMBER(int8, int8_t)
WHOLE_NUMBER(uint8, uint8_t)
WHOLE_NUMBER(int16, int16_t)
WHOLE_NUMBER(uint16, uint16_t)
WHOLE_NUMBER(int32, int32_t)
WHOLE_NUMBER(uint32, uint32_t)
WHOLE_NUMBER(int64, int64_t)
WHOLE_NUMBER(uint64, uint64_t)
FLOATING_NUMBER(float, float)
FLOATING_NUMBER(double, double)

APPLY(int8, int8_t, uint8_t)
APPLY(uint8, uint8_t, uint8_t)
APPLY(int16, int16_t, uint16_t)
APPLY(uint16, uint16_t, uint16_t)
APPLY(int32, int32_t, uint32_t)
APPLY(uint32, uint32_t, uint32_t)
APPLY(int64, int64_t, uint64_t)
APPLY(uint64, uint64_t, uint64_t)
APPLY(float, float, uint32_t)
APPLY(double, double, uint64_t)

static const struct {
	size_t bytes;
	bool floating;
	void (*apply)(void *, enum vshmem_wire_change, const char *, const char *, char *, size_t);
} numbers[] = {
	[VSHMEM_WIRE_INT8] = { 1, false, apply_int8 },
	[VSHMEM_WIRE_UINT8] = { 1, false, apply_uint8 },
	[VSHMEM_WIRE_INT16] = { 2, false, apply_int16 },
	[VSHMEM_WIRE_UINT16] = { 2, false, apply_uint16 },
	[VSHMEM_WIRE_INT32] = { 4, false, apply_int32 },
	[VSHMEM_WIRE_UINT32] = { 4, false, apply_uint32 },
	[VSHMEM_WIRE_INT64] = { 8, false, apply_int64 },
	[VSHMEM_WIRE_UINT64] = { 8, false, apply_uint64 },
	[VSHMEM_WIRE_FLOAT] = { 4, true, apply_float },
	[VSHMEM_WIRE_DOUBLE] = { 8, true, apply_double },
};

size_t vshmem_number_bytes(int number)
{
	size_t kind = (size_t)number;
	return kind < sizeof(numbers) / sizeof(numbers[0]) ? numbers[kind].bytes : 0;
}

bool vshmem_atomic_valid(int number, int op, enum vshmem_atomic_call call)
{
	if (vshmem_number_bytes(number) == 0)
		return false;
	bool floating = numbers[number].floating;
	switch ((int)op) {
	case VSHMEM_WIRE_MIN:
	case VSHMEM_WIRE_MAX:
	case VSHMEM_WIRE_SUM:
	case VSHMEM_WIRE_PROD:
	case VSHMEM_WIRE_LOR:
	case VSHMEM_WIRE_LAND:
	case VSHMEM_WIRE_LXOR:
	case VSHMEM_WIRE_WRITE: return call != VSHMEM_ATOMIC_COMPARE;
	case VSHMEM_WIRE_BOR:
	case VSHMEM_WIRE_BAND:
	case VSHMEM_WIRE_BXOR: return call != VSHMEM_ATOMIC_COMPARE && !floating;
	case VSHMEM_WIRE_READ: return call == VSHMEM_ATOMIC_FETCH;
	case VSHMEM_WIRE_SWAP_IF:
	case VSHMEM_WIRE_SWAP_NE:
	case VSHMEM_WIRE_SWAP_LE:
	case VSHMEM_WIRE_SWAP_LT:
	case VSHMEM_WIRE_SWAP_GE:
	case VSHMEM_WIRE_SWAP_GT: return call == VSHMEM_ATOMIC_COMPARE;
	case VSHMEM_WIRE_SWAP_MASKED: return call == VSHMEM_ATOMIC_COMPARE && !floating;
	default: return false;
	}
}

void vshmem_atomic_apply(void *there, enum vshmem_wire_number number, enum vshmem_wire_change op,
	const void *operands, const void *compare, void *result, size_t count)
{
	numbers[number].apply(there, op, operands, compare, result, count);
}
