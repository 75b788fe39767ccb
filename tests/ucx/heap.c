/* heap: OpenSHMEM's calls between all processes of a job (`oshrun`), looked at: put, get, atomics,
 * a wait, a reduction. */
#include <shmem.h>
#include <stdio.h>

enum { WORDS = 1 << 16, TURNS = 1000 };

static long room[WORDS], counter, flag, sum, own;
static long work[SHMEM_REDUCE_MIN_WRKDATA_SIZE], sync_words[SHMEM_REDUCE_SYNC_SIZE];
static int passed, failed;

static void check(int good, const char *what) {
	good ? passed++ : failed++;
	if (!good)
		printf("FAILED in process %d: %s\n", shmem_my_pe(), what);
}

int main(void) {
	shmem_init();
	int me = shmem_my_pe(), all = shmem_n_pes(), good = 1;
	int next = (me + 1) % all, before = (me + all - 1) % all;
	static long text[WORDS], back[WORDS];
	for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++)
		sync_words[i] = SHMEM_SYNC_VALUE;
	for (long i = 0; i < WORDS; i++)
		text[i] = i * 3 + me;
	shmem_barrier_all();
	shmem_long_put(room, text, WORDS, next);
	shmem_barrier_all();
	for (long i = 0; i < WORDS; i++)
		good &= room[i] == i * 3 + before;
	check(good, "put");
	shmem_long_get(back, room, WORDS, next);
	good = 1;
	for (long i = 0; i < WORDS; i++)
		good &= back[i] == i * 3 + me;
	check(good, "get");
	for (int i = 0; i < TURNS; i++)
		(void)shmem_long_atomic_fetch_add(&counter, 1, 0);
	shmem_barrier_all();
	check(me != 0 || counter == (long)TURNS * all, "atomic fetch and add");
	for (long turn = 1; turn <= TURNS; turn++) {
		if (me == 0)
			shmem_long_p(&flag, turn, next);
		shmem_long_wait_until(&flag, SHMEM_CMP_GE, turn);
		if (me != 0)
			shmem_long_p(&flag, turn, next);
	}
	check(flag == TURNS, "a ring of waits");
	own = me + 1;
	shmem_barrier_all();
	shmem_long_sum_to_all(&sum, &own, 1, 0, 0, all, work, sync_words);
	check(sum == (long)all * (all + 1) / 2, "sum");
	shmem_barrier_all();
	if (me == 0)
		printf("%d passed, %d failed\n", passed, failed);
	shmem_finalize();
	return failed != 0;
}
