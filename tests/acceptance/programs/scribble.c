/* A hostile member: maps a pool's file and writes nonsense over words that are in use. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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

static uint64_t nasty(uint64_t old)
{
	static const uint32_t values[] = { 0, 1, 2, 3, 4, 5, 0x7fffffff, 0x80000000, 0xfffffffe,
		0xffffffff };
	uint64_t high = old & 0xffffffff00000000u;
	switch (chance() % 6) {
	case 0: return chance();
	case 1: return high | (uint32_t)(old + 1);
	case 2: return high | (uint32_t)(old - 1);
	default: return high | values[chance() % 10];
	}
}

int main(int argc, char **argv)
{
	if (argc < 5) {
		fprintf(stderr, "usage: scribble FILE BYTES SECONDS PER-SECOND [SEED]\n");
		return 2;
	}
	size_t words = strtoull(argv[2], NULL, 0) / 8;
	time_t end = time(NULL) + atoi(argv[3]);
	long pause = 1000000000L / atol(argv[4]);
	state = argc > 5 ? strtoull(argv[5], NULL, 0) : 88172645463325252u;
	int file = open(argv[1], O_RDWR);
	if (file < 0) {
		perror(argv[1]);
		return 1;
	}
	volatile uint64_t *pool = mmap(
		NULL, words * 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (pool == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	unsigned long done = 0;
	while (time(NULL) < end) {
		/* From a random place on, the next word that is not zero; the superblock stays, so
		 * that others find the pool at all. */
		size_t at = 512 + chance() % (words - 512);
		while (at < words && pool[at] == 0)
			at++;
		if (at == words)
			continue;
		at += chance() % 4;
		if (at < words)
			pool[at] = nasty(pool[at]);
		done++;
		struct timespec rest = { .tv_nsec = pause };
		if (pause)
			nanosleep(&rest, NULL);
	}
	printf("%lu words\n", done);
	return 0;
}
