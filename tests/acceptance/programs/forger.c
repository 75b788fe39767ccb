/* A hostile member: takes away, replaces and forges the marks and all else of the locks that
 * `locker` has in a pool, with glibc's kinds and with addresses of the locker's own memory.
 *
 *   forger FILE WRITES [SEED]
 *
 * Then it tells the locker to end. */
#include "arena.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static uint64_t state;

static uint64_t chance(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static struct arena *find(uint64_t *pool, size_t words)
{
	static const uint64_t magic[] = ARENA_MAGIC;
	for (size_t at = 0; at + sizeof(struct arena) / 8 <= words; at += 512)
		if (memcmp(&pool[at], magic, sizeof magic) == 0)
			return (struct arena *)&pool[at];
	return NULL;
}

/* Kinds of glibc's mutexes: robust, shared, of inherited and protected priority, and mixtures. */
static const uint32_t kinds[] = { 0, 1, 2, 3, 0x80, 0x90, 0x92, 0x10, 0x20, 0x30, 0xa0, 0xb0, 0x40,
	0xc0, 0xffffffff };

static uint64_t nasty(struct arena *arena, uint64_t old)
{
	uint64_t target = arena->targets[chance() % 8];
	switch (chance() % 8) {
	case 0: return 0;
	case 1: return chance();
	case 2: return target;
	case 3: return target + 8 + chance() % 128;
	case 4: return target | 1;
	case 5: return old ^ 1ull << chance() % 64;
	case 6: return kinds[chance() % (sizeof kinds / sizeof *kinds)];
	default: return (old & 0xffffffff00000000u) | (uint32_t)chance() % 5;
	}
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: forger FILE WRITES [SEED]\n");
		return 2;
	}
	unsigned long writes = strtoul(argv[2], NULL, 0);
	state = argc > 3 ? strtoull(argv[3], NULL, 0) : 88172645463325252u;
	int file = open(argv[1], O_RDWR);
	struct stat is;
	if (file < 0 || fstat(file, &is) != 0) {
		perror(argv[1]);
		return 1;
	}
	uint64_t *pool = mmap(
		NULL, (size_t)is.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (pool == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	struct arena *arena;
	const struct timespec a_moment = { .tv_nsec = 1000000 };
	while (!(arena = find(pool, (size_t)is.st_size / 8)) || !arena->ready)
		nanosleep(&a_moment, NULL);
	volatile uint64_t *words = (uint64_t *)arena->each;
	const size_t count = sizeof arena->each / 8;
	static uint64_t real[sizeof arena->each / 8];
	memcpy(real, arena->each, sizeof real);
	for (unsigned long i = 0; i < writes; i++) {
		size_t at = chance() % count;
		/* Often as it was made: the calls get further then. */
		words[at] = chance() % 4 == 0 ? real[at] : nasty(arena, words[at]);
		if (chance() % 64 == 0) {
			char *mutex = (char *)&arena->each[chance() % OF_EACH]
				+ (chance() % 2 ? sizeof(pthread_mutex_t) : 0);
			volatile uint32_t *kind = (uint32_t *)(mutex + 16);
			*kind = kinds[chance() % (sizeof kinds / sizeof *kinds)];
		}
		if (i % 65536 == 0)
			sched_yield();
	}
	arena->stop = 1;
	printf("%lu words\n", writes);
	return 0;
}
