/* What the programs here share: whether memory lies in a pool, and checks. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed __attribute__((unused));
#define CHECK(condition)                                                       \
	do {                                                                   \
		if (!(condition)) {                                            \
			printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			failed = 1;                                            \
		}                                                              \
	} while (0)

/* By the kernel's word: the mapping that has this address is one of the file or device. */
static inline int in_pool(const void *memory)
{
	const char *pool = getenv("POOL_FILE");
	char line[512];
	int found = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps && pool && fgets(line, sizeof(line), maps)) {
		unsigned long begin, end;
		if (sscanf(line, "%lx-%lx", &begin, &end) == 2 && (uintptr_t)memory >= begin
			&& (uintptr_t)memory < end)
			found = strstr(line, pool) != NULL;
	}
	if (maps)
		fclose(maps);
	return found;
}

/* A pattern that differs by block and place. */
static inline void fill(uint32_t *words, size_t bytes, uint32_t seed)
{
	for (size_t nth = 0; nth < bytes / 4; nth++)
		words[nth] = seed * 2654435761u + (uint32_t)nth;
}
static inline int is_filled(const uint32_t *words, size_t bytes, uint32_t seed)
{
	for (size_t nth = 0; nth < bytes / 4; nth++)
		if (words[nth] != seed * 2654435761u + (uint32_t)nth)
			return 0;
	return 1;
}
