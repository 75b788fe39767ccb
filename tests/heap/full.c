/* A pool that is full: private memory, and no error; and again memory of the pool when some is
 * free. */
#include "heap.h"

enum { BLOCKS = 300, BYTES = 1 << 20 };

int main(void)
{
	static uint32_t *block[BLOCKS];
	int pooled = 0;
	for (int nth = 0; nth < BLOCKS; nth++) {
		block[nth] = malloc(BYTES);
		CHECK(block[nth] != NULL);
		pooled += in_pool(block[nth]);
		fill(block[nth], BYTES, (uint32_t)nth);
	}
	CHECK(pooled > 10 && pooled < BLOCKS);
	for (int nth = 0; nth < BLOCKS; nth++) {
		CHECK(is_filled(block[nth], BYTES, (uint32_t)nth));
		/* Across the border of a full pool, too. */
		block[nth] = realloc(block[nth], BYTES + 100000 * (nth % 3));
		CHECK(is_filled(block[nth], BYTES, (uint32_t)nth));
	}
	for (int nth = 0; nth < BLOCKS; nth++)
		free(block[nth]);
	void *again = malloc(BYTES);
	CHECK(in_pool(again));
	free(again);
	printf("%d of %d in the pool\n", pooled, BLOCKS);
	return failed;
}
