/* Numbers as libfabric's pages describe their operations, in the widest type of their kind. */
#include "sides.h"

#include <string.h>

size_t number_bytes(enum fi_datatype datatype)
{
	static const size_t bytes[] = { 1, 1, 2, 2, 4, 4, 8, 8, 4, 8 };
	return (size_t)datatype < sizeof(bytes) / sizeof(bytes[0]) ? bytes[datatype] : 0;
}

static bool is_floating(enum fi_datatype datatype)
{ return datatype == FI_FLOAT || datatype == FI_DOUBLE; }
static bool is_signed(enum fi_datatype datatype) { return datatype % 2 == 0; }

bool is_valid(enum fi_datatype datatype, enum fi_op op, int call)
{
	bool bits = op == FI_BOR || op == FI_BAND || op == FI_BXOR || op == FI_MSWAP;
	if (number_bytes(datatype) == 0 || (bits && is_floating(datatype)))
		return false;
	return op >= FI_CSWAP ? call == 2 : op == FI_ATOMIC_READ ? call == 1 : call != 2;
}

void random_numbers(
	uint64_t (*any)(uint64_t), enum fi_datatype datatype, void *numbers, size_t count)
{
	for (size_t nth = 0; nth < count; nth++) {
		uint64_t bits = any(3) ? any(5) : (any(1u << 31) << 33) ^ any(UINT64_MAX);
		float single = (float)((double)any(2000) / 8 - 100);
		double whole = (double)any(2000) / 8 - 100;
		if (any(4) == 0)
			single = 0, whole = 0;
		const void *from = datatype == FI_FLOAT ? (void *)&single
			: datatype == FI_DOUBLE         ? (void *)&whole
							: (void *)&bits;
		size_t unit = number_bytes(datatype);
		memcpy((char *)numbers + nth * unit, from, unit);
	}
}

#define EITHER(type)                                                                     \
	static type choose_##type(enum fi_op op, type there, type operand, type compare) \
	{                                                                                \
		switch ((int)op) {                                                       \
		case FI_MIN: return operand < there ? operand : there;                   \
		case FI_MAX: return operand > there ? operand : there;                   \
		case FI_LOR: return there || operand;                                    \
		case FI_LAND: return there && operand;                                   \
		case FI_LXOR: return (there && !operand) || (!there && operand);         \
		case FI_ATOMIC_WRITE: return operand;                                    \
		case FI_CSWAP: return compare == there ? operand : there;                \
		case FI_CSWAP_NE: return compare != there ? operand : there;             \
		case FI_CSWAP_LE: return compare <= there ? operand : there;             \
		case FI_CSWAP_LT: return compare < there ? operand : there;              \
		case FI_CSWAP_GE: return compare >= there ? operand : there;             \
		case FI_CSWAP_GT: return compare > there ? operand : there;              \
		default: return there;                                                   \
		}                                                                        \
	}
typedef __int128 wide;
EITHER(wide)
EITHER(double)
EITHER(float)

static wide load(enum fi_datatype datatype, const char *at)
{
	uint64_t bits = 0;
	size_t unit = number_bytes(datatype), spare = 64 - 8 * unit;
	memcpy(&bits, at, unit);
	return is_signed(datatype) ? (wide)((int64_t)(bits << spare) >> spare) : (wide)bits;
}

static wide whole(enum fi_op op, wide there, wide operand, wide compare)
{
	switch ((int)op) {
	case FI_SUM: return there + operand;
	case FI_PROD: return (wide)((uint64_t)there * (uint64_t)operand);
	case FI_BOR: return there | operand;
	case FI_BAND: return there & operand;
	case FI_BXOR: return there ^ operand;
	case FI_MSWAP: return (operand & compare) | (there & ~compare);
	default: return choose_wide(op, there, operand, compare);
	}
}

void reference(enum fi_datatype datatype, enum fi_op op, void *there, const void *operands,
	const void *compare, size_t count)
{
	size_t unit = number_bytes(datatype);
	for (size_t nth = 0; nth < count; nth++) {
		char *at = (char *)there + nth * unit;
		const char *with = (const char *)operands + nth * unit,
			   *other = (const char *)compare + nth * unit;
		if (datatype == FI_FLOAT) {
			float a, b, c;
			memcpy(&a, at, 4), memcpy(&b, with, 4), memcpy(&c, other, 4);
			a = op == FI_SUM        ? a + b
				: op == FI_PROD ? a * b
						: choose_float(op, a, b, c);
			memcpy(at, &a, 4);
		} else if (datatype == FI_DOUBLE) {
			double a, b, c;
			memcpy(&a, at, 8), memcpy(&b, with, 8), memcpy(&c, other, 8);
			a = op == FI_SUM        ? a + b
				: op == FI_PROD ? a * b
						: choose_double(op, a, b, c);
			memcpy(at, &a, 8);
		} else {
			uint64_t bits = (uint64_t)whole(op, load(datatype, at),
				load(datatype, with), load(datatype, other));
			memcpy(at, &bits, unit);
		}
	}
}
