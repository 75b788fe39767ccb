/* Atomic operations on numbers, by the CPU.
 *
 * Each number is changed by compare-and-swap on an integer of its size, by every process: so the
 * owner of the memory, its peers on the pool and those that ask by message agree.
 */
#include "atomic_apply.h"

#include <stdint.h>
#include <string.h>

/* What an operation makes of what is there. Those for whole numbers wrap around. */
#define COMMON_OPERATIONS(number)                                    \
	case FI_MIN: return operand < old ? operand : old;           \
	case FI_MAX: return operand > old ? operand : old;           \
	case FI_LOR: return (number)(old != 0 || operand != 0);      \
	case FI_LAND: return (number)(old != 0 && operand != 0);     \
	case FI_LXOR: return (number)((old != 0) != (operand != 0)); \
	case FI_ATOMIC_WRITE: return operand;                        \
	case FI_CSWAP: return compare == old ? operand : old;        \
	case FI_CSWAP_NE: return compare != old ? operand : old;     \
	case FI_CSWAP_LE: return compare <= old ? operand : old;     \
	case FI_CSWAP_LT: return compare < old ? operand : old;      \
	case FI_CSWAP_GE: return compare >= old ? operand : old;     \
	case FI_CSWAP_GT: return compare > old ? operand : old;

#define WHOLE_NUMBER(name, number)                                                      \
	static inline number combine_##name(                                            \
		enum fi_op op, number old, number operand, number compare)              \
	{                                                                               \
		switch ((int)op) {                                                      \
			COMMON_OPERATIONS(number)                                       \
		case FI_SUM: return (number)((uint64_t)old + (uint64_t)operand);        \
		case FI_PROD: return (number)((uint64_t)old * (uint64_t)operand);       \
		case FI_BOR: return (number)(old | operand);                            \
		case FI_BAND: return (number)(old & operand);                           \
		case FI_BXOR: return (number)(old ^ operand);                           \
		case FI_MSWAP: return (number)((operand & compare) | (old & ~compare)); \
		default: return old;                                                    \
		}                                                                       \
	}

#define FLOATING_NUMBER(name, number)                                      \
	static inline number combine_##name(                               \
		enum fi_op op, number old, number operand, number compare) \
	{                                                                  \
		switch ((int)op) {                                         \
			COMMON_OPERATIONS(number)                          \
		case FI_SUM: return old + operand;                         \
		case FI_PROD: return old * operand;                        \
		default: return old;                                       \
		}                                                          \
	}

/* WORD has the size of NUMBER. What is only read may lie in memory that cannot be written. */
#define APPLY(name, number, word)                                                          \
	_Static_assert(sizeof(number) == sizeof(word), "a number is swapped as a word");   \
	static void apply_##name(void *there, enum fi_op op, const char *operands,         \
		const char *compare, char *result, size_t count)                           \
	{                                                                                  \
		for (size_t nth = 0; nth < count; nth++) {                                 \
			size_t into = nth * sizeof(number);                                \
			word *at = (word *)there + nth;                                    \
			word before = __atomic_load_n(at, __ATOMIC_ACQUIRE), after;        \
			number old, new, operand = 0, wanted = 0;                          \
			if (operands)                                                      \
				memcpy(&operand, operands + into, sizeof(number));         \
			if (compare)                                                       \
				memcpy(&wanted, compare + into, sizeof(number));           \
			do {                                                               \
				memcpy(&old, &before, sizeof(number));                     \
				new = combine_##name(op, old, operand, wanted);            \
				memcpy(&after, &new, sizeof(number));                      \
			} while (op != FI_ATOMIC_READ                                      \
			        && !__atomic_compare_exchange_n(at, &before, after, false, \
					__ATOMIC_SEQ_CST, __ATOMIC_RELAXED));              \
			if (result)                                                        \
				memcpy(result + into, &before, sizeof(number));            \
		}                                                                          \
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
	void (*apply)(void *, enum fi_op, const char *, const char *, char *, size_t);
} numbers[] = {
	[FI_INT8] = { 1, false, apply_int8 },
	[FI_UINT8] = { 1, false, apply_uint8 },
	[FI_INT16] = { 2, false, apply_int16 },
	[FI_UINT16] = { 2, false, apply_uint16 },
	[FI_INT32] = { 4, false, apply_int32 },
	[FI_UINT32] = { 4, false, apply_uint32 },
	[FI_INT64] = { 8, false, apply_int64 },
	[FI_UINT64] = { 8, false, apply_uint64 },
	[FI_FLOAT] = { 4, true, apply_float },
	[FI_DOUBLE] = { 8, true, apply_double },
};

size_t vfi_number_bytes(enum fi_datatype datatype)
{
	size_t kind = (size_t)datatype;
	return kind < sizeof(numbers) / sizeof(numbers[0]) ? numbers[kind].bytes : 0;
}

bool vfi_atomic_valid(enum fi_datatype datatype, enum fi_op op, enum vfi_atomic_call call)
{
	if (vfi_number_bytes(datatype) == 0)
		return false;
	bool floating = numbers[datatype].floating;
	switch ((int)op) {
	case FI_MIN:
	case FI_MAX:
	case FI_SUM:
	case FI_PROD:
	case FI_LOR:
	case FI_LAND:
	case FI_LXOR:
	case FI_ATOMIC_WRITE: return call != VFI_ATOMIC_COMPARE;
	case FI_BOR:
	case FI_BAND:
	case FI_BXOR: return call != VFI_ATOMIC_COMPARE && !floating;
	case FI_ATOMIC_READ: return call == VFI_ATOMIC_FETCH;
	case FI_CSWAP:
	case FI_CSWAP_NE:
	case FI_CSWAP_LE:
	case FI_CSWAP_LT:
	case FI_CSWAP_GE:
	case FI_CSWAP_GT: return call == VFI_ATOMIC_COMPARE;
	case FI_MSWAP: return call == VFI_ATOMIC_COMPARE && !floating;
	default: return false;
	}
}

void vfi_atomic_apply(void *there, enum fi_datatype datatype, enum fi_op op, const void *operands,
	const void *compare, void *result, size_t count)
{ numbers[datatype].apply(there, op, operands, compare, result, count); }
