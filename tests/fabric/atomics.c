/* Atomic operations: every operation on every type that the provider says it has, beside a shadow
 * of the memory; and counters that all raise at once.
 */
#include <string.h>

#include "endpoint.h"

static struct endpoint port;
static struct region region;
static int next;

enum { SLOT = 4096, COUNTERS = 64 };

/* What an operation makes of a word; sets *fits to 0 where it is none for this type. */
#define INTEGERS(T)                                                      \
	static T apply_##T(enum fi_op op, T was, T operand, T compare)   \
	{                                                                \
		switch (op) {                                            \
		case FI_MIN: return operand < was ? operand : was;       \
		case FI_MAX: return operand > was ? operand : was;       \
		case FI_SUM: return (T)(was + operand);                  \
		case FI_PROD: return (T)(was * operand);                 \
		case FI_LOR: return was || operand;                      \
		case FI_LAND: return was && operand;                     \
		case FI_LXOR: return !was != !operand;                   \
		case FI_ATOMIC_READ: return was;                         \
		case FI_ATOMIC_WRITE: return operand;                    \
		case FI_CSWAP: return compare == was ? operand : was;    \
		case FI_CSWAP_NE: return compare != was ? operand : was; \
		case FI_CSWAP_LE: return compare <= was ? operand : was; \
		case FI_CSWAP_LT: return compare < was ? operand : was;  \
		case FI_CSWAP_GE: return compare >= was ? operand : was; \
		case FI_CSWAP_GT: return compare > was ? operand : was;  \
		default: return bits_##T(op, was, operand, compare);     \
		}                                                        \
	}
#define BITS(T)                                                                 \
	static T bits_##T(enum fi_op op, T was, T operand, T mask)              \
	{                                                                       \
		switch (op) {                                                   \
		case FI_BOR: return was | operand;                              \
		case FI_BAND: return was & operand;                             \
		case FI_BXOR: return was ^ operand;                             \
		case FI_MSWAP: return (T)((operand & mask) | (was & (T)~mask)); \
		default: must(0, "operation %d", op); return 0;                 \
		}                                                               \
	}
#define NO_BITS(T)                                                       \
	static T bits_##T(enum fi_op op, T was, T operand, T mask)       \
	{                                                                \
		(void)operand, (void)mask;                               \
		must(0, "operation %d on a number with a fraction", op); \
		return was;                                              \
	}
#define TYPES(each)                                                                         \
	each(int8_t, FI_INT8) each(uint8_t, FI_UINT8) each(int16_t, FI_INT16)               \
		each(uint16_t, FI_UINT16) each(int32_t, FI_INT32) each(uint32_t, FI_UINT32) \
			each(int64_t, FI_INT64) each(uint64_t, FI_UINT64)
#define INTEGER(T, name) BITS(T) INTEGERS(T)
TYPES(INTEGER)
NO_BITS(float)
INTEGERS(float)
NO_BITS(double)
INTEGERS(double)

/* Applied to the shadow: `count` words from `at`; what was there goes to `before`. */
#define SHADOW(T, name)                                                                           \
	case name:                                                                                \
		for (size_t nth = 0; nth < count; nth++) {                                        \
			T *word = (T *)at + nth;                                                  \
			((T *)before)[nth] = *word;                                               \
			*word = apply_##T(                                                        \
				op, *word, ((const T *)operand)[nth], ((const T *)compare)[nth]); \
		}                                                                                 \
		return;
static void shadow(enum fi_datatype type, enum fi_op op, void *at, const void *operand,
	const void *compare, void *before, size_t count)
{
	switch ((int)type) {
		TYPES(SHADOW)
		SHADOW(float, FI_FLOAT)
		SHADOW(double, FI_DOUBLE)
	default: must(0, "type %d", type);
	}
}

#define NUMBER(T, name)                              \
	case name: {                                 \
		T number = (T)value;                 \
		memcpy(at, &number, sizeof(number)); \
		return sizeof(number);               \
	}
/* A small number of that type; its bytes. */
static size_t number(enum fi_datatype type, void *at, int value)
{
	switch ((int)type) {
		TYPES(NUMBER)
		NUMBER(float, FI_FLOAT)
		NUMBER(double, FI_DOUBLE)
	default: return 0;
	}
}

enum kind { PLAIN, FETCH, COMPARE };
static int valid(enum kind kind, enum fi_datatype type, enum fi_op op, size_t *count)
{
	*count = 0;
	return (kind == PLAIN ? fi_atomicvalid(port.ep, type, op, count)
			       : kind == FETCH ? fi_fetch_atomicvalid(port.ep, type, op, count)
					       : fi_compare_atomicvalid(port.ep, type, op, count))
	        == 0
	        && *count > 0;
}

/* One operation on my slot at the next one. */
static void one(enum kind kind, enum fi_datatype type, enum fi_op op, size_t count, char *mine,
	unsigned round)
{
	char operand[SLOT], compare[SLOT], before[SLOT], result[SLOT];
	size_t width = number(type, operand, 1);
	for (size_t nth = 0; nth < count; nth++) {
		number(type, operand + nth * width, (int)((round + nth * 3) % 5));
		number(type, compare + nth * width, (int)((round * 7 + nth) % 4));
	}
	memset(result, 0, sizeof(result));
	struct operation done = { 0 };
	uint64_t there = region.addresses[next] + (uint64_t)SLOT * (uint64_t)rank + COUNTERS * 8,
		 key = region.keys[next];
	fi_addr_t to = port.at[next];
	if (kind == PLAIN)
		taken(&port,
			fi_atomic(port.ep, operand, count, NULL, to, there, key, type, op, &done));
	else if (kind == FETCH)
		taken(&port,
			fi_fetch_atomic(port.ep, operand, count, NULL, result, NULL, to, there, key,
				type, op, &done));
	else
		taken(&port,
			fi_compare_atomic(port.ep, operand, count, NULL, compare, NULL, result,
				NULL, to, there, key, type, op, &done));
	finish(&port, &done);
	shadow(type, op, mine, operand, compare, before, count);
	must(kind == PLAIN || memcmp(result, before, count * width) == 0,
		"operation %d on type %d gave something else than was there", op, type);
}

/* The slot at the next one is as the shadow. */
static void agrees(const char *mine, size_t bytes, int type, int op)
{
	char got[SLOT];
	struct operation done = { 0 };
	taken(&port,
		fi_read(port.ep, got, bytes, NULL, port.at[next],
			region.addresses[next] + (uint64_t)SLOT * (uint64_t)rank + COUNTERS * 8,
			region.keys[next], &done));
	finish(&port, &done);
	must(memcmp(got, mine, bytes) == 0, "operation %d on type %d", op, type);
}

static void every_one(void)
{
	static const enum fi_op plain[] = { FI_MIN, FI_MAX, FI_SUM, FI_PROD, FI_LOR, FI_LAND,
		FI_BOR, FI_BAND, FI_LXOR, FI_BXOR, FI_ATOMIC_WRITE },
				fetched[] = { FI_MIN, FI_MAX, FI_SUM, FI_PROD, FI_LOR, FI_LAND,
					FI_BOR, FI_BAND, FI_LXOR, FI_BXOR, FI_ATOMIC_READ,
					FI_ATOMIC_WRITE },
				compared[] = { FI_CSWAP, FI_CSWAP_NE, FI_CSWAP_LE, FI_CSWAP_LT,
					FI_CSWAP_GE, FI_CSWAP_GT, FI_MSWAP };
	static const struct {
		const enum fi_op *ops;
		size_t count;
	} kinds[] = { { plain, 11 }, { fetched, 12 }, { compared, 7 } };
	int had = 0;
	for (int type = FI_INT8; type <= FI_DOUBLE; type++) {
		char mine[SLOT];
		size_t width = number((enum fi_datatype)type, mine, 0), span = SLOT - COUNTERS * 8;
		memset(mine, 0, sizeof(mine));
		struct operation cleared = { 0 };
		taken(&port,
			fi_write(port.ep, mine, span, NULL, port.at[next],
				region.addresses[next] + (uint64_t)SLOT * (uint64_t)rank
		                        + COUNTERS * 8,
				region.keys[next], &cleared));
		finish(&port, &cleared);
		for (enum kind kind = PLAIN; kind <= COMPARE; kind++)
			for (size_t nth = 0; nth < kinds[kind].count; nth++) {
				enum fi_op op = kinds[kind].ops[nth];
				size_t most;
				int bits = op == FI_BOR || op == FI_BAND || op == FI_BXOR
				        || op == FI_MSWAP;
				if (!valid(kind, (enum fi_datatype)type, op, &most)) {
					must(!is_ours() || (type >= FI_FLOAT && bits),
						"type %d has no operation %d", type, op);
					continue;
				}
				must(!(type >= FI_FLOAT && bits), "type %d has operation %d", type,
					op);
				if (most > span / width)
					most = span / width;
				for (unsigned round = 0; round < 4; round++, had++)
					one(kind, (enum fi_datatype)type, op,
						round ? 1 + (most - 1) * (round - 1) / 2 : 1, mine,
						round + (unsigned)op);
				agrees(mine, span, type, op);
			}
	}
	if (getenv("FABRIC_TEST_VERBOSE") && rank == 0)
		printf("  %d operations\n", had);
	passed("every operation on every type");
}

/* All raise the same counters, of every rank; and take a lock made of compare and swap. */
static void contended(void)
{
	enum { ROUNDS = 300 };
	size_t count;
	if (!valid(FETCH, FI_UINT64, FI_SUM, &count)
	        || !valid(COMPARE, FI_UINT64, FI_CSWAP, &count)) {
		left_out("counters that all raise", "no such operations");
		return;
	}
	uint64_t *counters = (uint64_t *)region.memory, one_more = 1, seen = 0;
	struct operation *adds = calloc(ROUNDS, sizeof(*adds));
	for (int round = 0; round < ROUNDS; round++) {
		int target = (rank + round) % ranks;
		struct operation fetched = { 0 };
		taken(&port,
			fi_atomic(port.ep, &one_more, 1, NULL, port.at[target],
				region.addresses[target], region.keys[target], FI_UINT64, FI_SUM,
				&adds[round]));
		taken(&port,
			fi_fetch_atomic(port.ep, &one_more, 1, NULL, &seen, NULL, port.at[target],
				region.addresses[target] + 8, region.keys[target], FI_UINT64,
				FI_SUM, &fetched));
		finish(&port, &fetched);
		must(seen < (uint64_t)ROUNDS * (uint64_t)ranks, "fetch and add gave %lu",
			(unsigned long)seen);
	}
	for (int round = 0; round < ROUNDS; round++)
		finish(&port, &adds[round]);
	for (int round = 0; round < 50; round++) {
		uint64_t mine = (uint64_t)rank + 1, none = 0, found = 1, value = 0;
		do {
			struct operation swap = { 0 };
			taken(&port,
				fi_compare_atomic(port.ep, &mine, 1, NULL, &none, NULL, &found,
					NULL, port.at[0], region.addresses[0] + 16, region.keys[0],
					FI_UINT64, FI_CSWAP, &swap));
			finish(&port, &swap);
		} while (found != 0);
		struct operation get = { 0 }, put = { 0 }, unlock = { 0 };
		taken(&port,
			fi_read(port.ep, &value, 8, NULL, port.at[0], region.addresses[0] + 24,
				region.keys[0], &get));
		finish(&port, &get);
		value++;
		taken(&port,
			fi_write(port.ep, &value, 8, NULL, port.at[0], region.addresses[0] + 24,
				region.keys[0], &put));
		finish(&port, &put);
		taken(&port,
			fi_atomic(port.ep, &none, 1, NULL, port.at[0], region.addresses[0] + 16,
				region.keys[0], FI_UINT64, FI_ATOMIC_WRITE, &unlock));
		finish(&port, &unlock);
		finish(&port, &unlock);
	}
	together();
	must(counters[0] + 0 == ROUNDS, "the first counter is %lu", (unsigned long)counters[0]);
	must(counters[1] == ROUNDS, "the second counter is %lu", (unsigned long)counters[1]);
	must(rank != 0 || counters[3] == 50u * (unsigned)ranks, "under the lock: %lu",
		(unsigned long)counters[3]);
	free(adds);
	passed("counters that all raise");
}

static void refused(void)
{
	uint64_t word = 1;
	struct operation outside = { 0 };
	ssize_t gave = fi_atomic(port.ep, &word, 1, NULL, port.at[next],
		region.addresses[next] + region.bytes - 4, region.keys[next], FI_UINT64, FI_SUM,
		&outside);
	if (gave == 0)
		wait_for(&port, &outside, 1);
	must(gave < 0 || outside.failed, "an operation beyond the end was done");
	passed("what lies outside is refused");
}

int main(int argc, char **argv)
{
	ranks_begin(argc, argv);
	next = (rank + 1) % ranks;
	struct wants wants = { .caps = FI_RMA | FI_ATOMIC,
		.mr_mode = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ALLOCATED,
		.tx_flags = FI_DELIVERY_COMPLETE };
	if (have_endpoint(&port, &wants, "FI_ATOMIC")) {
		region.bytes = (size_t)SLOT * (size_t)ranks + COUNTERS * 8;
		region.memory = aligned_alloc(4096, (region.bytes + 4095) / 4096 * 4096);
		memset(region.memory, 0, region.bytes);
		open_region(
			&port, &region, FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 5);
		every_one();
		contended();
		if (is_ours())
			refused();
		close_region(&region);
		free(region.memory);
		close_endpoint(&port);
	}
	return ranks_end();
}
