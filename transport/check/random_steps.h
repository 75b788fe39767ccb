/* Random steps that can be repeated by their seed, and a check that names where it failed. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define must(condition)                                                                          \
	do {                                                                                     \
		if (!(condition)) {                                                              \
			fprintf(stderr, "%s:%d: %s: seed %llu, step %llu\n", __FILE__, __LINE__, \
				#condition, (unsigned long long)first_seed,                      \
				(unsigned long long)step);                                       \
			abort();                                                                 \
		}                                                                                \
	} while (0)

extern uint64_t first_seed, step, seed;
static inline uint64_t any(uint64_t below)
{
	seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
	return below ? (seed >> 11) % below : 0;
}
