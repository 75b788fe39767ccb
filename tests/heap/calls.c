/* Every call that allocates, in the pool and across the border, which is at 64 KiB. */
#include "heap.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>

enum { SMALL = 1000, LARGE = 300000, LARGER = 5 << 20 };

/* More than there can be; the compiler is not to see it. */
static volatile size_t too_many = SIZE_MAX - 100;

static void where(void)
{
	void *small = malloc(SMALL), *large = malloc(LARGE), *border = malloc(65536);
	CHECK(small && !in_pool(small));
	CHECK(large && in_pool(large) && malloc_usable_size(large) >= LARGE);
	CHECK(border && in_pool(border));
	CHECK(malloc(too_many) == NULL && errno == ENOMEM);
	CHECK(malloc(too_many / 2) == NULL && calloc(too_many / 2, 4) == NULL);
	free(small);
	free(large);
	free(border);
	free(NULL);
}

static void zeros(void)
{
	for (int turn = 0; turn < 20; turn++) {
		char *memory = calloc(LARGE, 3);
		CHECK(in_pool(memory));
		for (size_t nth = 0; nth < LARGE * 3; nth++)
			if (memory[nth]) {
				CHECK(!"calloc gives zeros");
				break;
			}
		memset(memory, 1, LARGE * 3);
		free(memory);
	}
}

static void aligned(void)
{
	for (size_t align = 8; align <= 4 << 20; align *= 2) {
		void *one = memalign(align, LARGE),
		     *two = aligned_alloc(align, LARGE / align * align + align), *three = NULL;
		CHECK(one && in_pool(one) && (uintptr_t)one % align == 0);
		CHECK(two && in_pool(two) && (uintptr_t)two % align == 0);
		CHECK(posix_memalign(&three, align, LARGE) == 0 && in_pool(three)
			&& (uintptr_t)three % align == 0);
		free(one);
		free(two);
		free(three);
	}
	void *none = &none;
	CHECK(posix_memalign(&none, 24, LARGE) == EINVAL && none == &none);
}

static void resized(void)
{
	static const size_t sizes[] = { 100, 65535, 65536, 100000, LARGER, 70000, 1 << 20, 100,
		LARGER, 2 * LARGER, 65535, 10 };
	size_t before = 40;
	uint32_t *memory = malloc(before);
	fill(memory, before, 5);
	for (size_t nth = 0; nth < sizeof(sizes) / sizeof(*sizes); nth++) {
		size_t bytes = sizes[nth] / 4 * 4;
		uint32_t *moved = realloc(memory, sizes[nth]);
		CHECK(moved && in_pool(moved) == (sizes[nth] >= 65536));
		CHECK(is_filled(moved, before < bytes ? before : bytes, 5));
		memory = moved;
		fill(memory, bytes, 5);
		before = bytes;
	}
	CHECK(realloc(memory, 0) == NULL);
	memory = realloc(NULL, LARGE);
	CHECK(in_pool(memory));
	CHECK(realloc(memory, too_many / 2) == NULL);
	CHECK(realloc(memory, 0) == NULL);
	memory = reallocarray(NULL, LARGE, 4);
	CHECK(in_pool(memory));
	errno = 77;
	free(memory);
	CHECK(errno == 77);
}

static void *mix(void *argument)
{
	enum { BLOCKS = 24, TURNS = 4000 };
	uint32_t *block[BLOCKS] = { 0 }, seed = (uint32_t)(uintptr_t)argument, random = seed;
	size_t bytes[BLOCKS] = { 0 };
	for (int turn = 0; turn < TURNS; turn++) {
		random = random * 1664525 + 1013904223;
		unsigned nth = random >> 16 & 15, size = (random >> 8) % 180000 + 4;
		if (block[nth] && !is_filled(block[nth], bytes[nth], seed + nth))
			return "overwritten";
		if (random >> 31)
			block[nth] = realloc(block[nth], size);
		else {
			free(block[nth]);
			block[nth] = malloc(size);
		}
		bytes[nth] = size / 4 * 4;
		fill(block[nth], bytes[nth], seed + nth);
	}
	for (int nth = 0; nth < BLOCKS; nth++)
		free(block[nth]);
	return NULL;
}

static void threads(void)
{
	pthread_t thread[6];
	for (int nth = 0; nth < 6; nth++)
		pthread_create(&thread[nth], NULL, mix, (void *)(uintptr_t)(nth * 1000 + 1));
	for (int nth = 0; nth < 6; nth++) {
		void *wrong;
		pthread_join(thread[nth], &wrong);
		CHECK(wrong == NULL);
	}
}

static void *allocate_first(void *unused)
{
	(void)unused;
	return malloc(LARGE);
}

/* The thread that opens the pool may have little stack. */
static void first(void)
{
	pthread_attr_t small;
	pthread_t thread;
	void *memory;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN);
	CHECK(pthread_create(&thread, &small, allocate_first, NULL) == 0);
	pthread_join(thread, &memory);
	CHECK(in_pool(memory));
	free(memory);
}

int main(void)
{
	first();
	where();
	zeros();
	aligned();
	resized();
	threads();
	return failed;
}
