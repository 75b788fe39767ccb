/* All that a program does with messages, each byte looked at, until it is told to stop: guests of
 * its processes may leave the pool meanwhile, and join it again.
 *
 *   moves FILE [one-sided|window|threads]     goes on until FILE is there; says each round in
 *                                             FILE.rounds
 *
 * With "window" there is one of MPI_Win_allocate, too, which lies in the pool; with "threads" a
 * second thread of each process does the same beside the first.
 */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "pattern.h"

enum { EACH = 6, LONGEST = 300000 };
static const size_t lengths[EACH] = { 8, 700, 4096, 20000, 70000, LONGEST };

/* To and from all others at once, of every length; in memory of either kind. */
static void exchange(unsigned turn, int pool)
{
	static char *out[2], *in[2];
	if (!out[pool]) {
		out[pool] = room((size_t)EACH * LONGEST, pool);
		in[pool] = room((size_t)ranks * EACH * LONGEST, pool);
	}
	MPI_Request *requests = calloc((size_t)ranks * EACH * 2, sizeof(*requests));
	int count = 0;
	for (unsigned nth = 0; nth < EACH; nth++)
		fill(out[pool] + nth * LONGEST, lengths[nth], (unsigned)rank, turn + nth);
	for (int peer = 0; peer < ranks; peer++)
		for (unsigned nth = 0; nth < EACH; nth++) {
			MPI_Irecv(in[pool] + ((size_t)peer * EACH + nth) * LONGEST, LONGEST,
				MPI_BYTE, peer, (int)nth, MPI_COMM_WORLD, &requests[count++]);
			MPI_Isend(out[pool] + nth * LONGEST, (int)lengths[nth], MPI_BYTE, peer,
				(int)nth, MPI_COMM_WORLD, &requests[count++]);
		}
	MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
	for (int peer = 0; peer < ranks; peer++)
		for (unsigned nth = 0; nth < EACH; nth++)
			verify(in[pool] + ((size_t)peer * EACH + nth) * LONGEST, lengths[nth],
				(unsigned)peer, turn + nth, "exchange");
	free(requests);
}

/* Many short ones to each neighbour in both directions, in order: the receiver is late. */
static void stream(unsigned turn)
{
	enum { MANY = 400 };
	static unsigned out[MANY], in;
	MPI_Request requests[MANY];
	int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
	for (unsigned nth = 0; nth < MANY; nth++) {
		out[nth] = turn * MANY + nth;
		MPI_Isend(&out[nth], 1, MPI_UNSIGNED, to, 99, MPI_COMM_WORLD, &requests[nth]);
	}
	for (unsigned nth = 0; nth < MANY; nth++) {
		MPI_Recv(&in, 1, MPI_UNSIGNED, from, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		must(in == turn * MANY + nth, "stream: %u instead of %u", in, turn * MANY + nth);
	}
	MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
}

/* As IS and CG communicate: sums, counts to all, keys to all, partners. */
static void kernels(unsigned turn)
{
	enum { KEYS = 2000 };
	double sum, one = rank + turn;
	MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	must(sum == ranks * (ranks - 1) / 2.0 + (double)ranks * turn, "allreduce");
	int *counts = calloc((size_t)ranks, sizeof(int)), *got = calloc((size_t)ranks, sizeof(int)),
	    *at = calloc((size_t)ranks, sizeof(int)), *from = calloc((size_t)ranks, sizeof(int));
	for (int peer = 0; peer < ranks; peer++)
		counts[peer] = KEYS + (int)((turn + (unsigned)(rank * peer)) % 7) * 100;
	MPI_Alltoall(counts, 1, MPI_INT, got, 1, MPI_INT, MPI_COMM_WORLD);
	int all_out = 0, all_in = 0;
	for (int peer = 0; peer < ranks; peer++) {
		must(got[peer] == counts[peer], "alltoall");
		at[peer] = all_out, from[peer] = all_in;
		all_out += counts[peer], all_in += got[peer];
	}
	char *out = malloc((size_t)all_out), *in = malloc((size_t)all_in);
	for (int peer = 0; peer < ranks; peer++)
		fill(out + at[peer], (size_t)counts[peer], (unsigned)rank, turn + (unsigned)peer);
	MPI_Alltoallv(out, counts, at, MPI_BYTE, in, got, from, MPI_BYTE, MPI_COMM_WORLD);
	for (int peer = 0; peer < ranks; peer++)
		verify(in + from[peer], (size_t)got[peer], (unsigned)peer, turn + (unsigned)rank,
			"alltoallv");
	int partner = rank ^ 1;
	if (partner < ranks) {
		fill(out, KEYS, (unsigned)rank, turn);
		MPI_Sendrecv(out, KEYS, MPI_BYTE, partner, 5, in, KEYS, MPI_BYTE, partner, 5,
			MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		verify(in, KEYS, (unsigned)partner, turn, "sendrecv");
	}
	int text = rank == (int)(turn % (unsigned)ranks) ? (int)turn : -1;
	MPI_Bcast(&text, 1, MPI_INT, (int)(turn % (unsigned)ranks), MPI_COMM_WORLD);
	must(text == (int)turn, "bcast");
	MPI_Request request;
	long mine = rank, most = -1;
	MPI_Iallreduce(&mine, &most, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD, &request);
	MPI_Barrier(MPI_COMM_SELF);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	must(most == ranks - 1, "iallreduce");
	free(counts), free(got), free(at), free(from), free(out), free(in);
}

/* Counters and memory of all, in private memory of each. */
static void one_sided(MPI_Win window, long *memory, unsigned turn)
{
	enum { WORDS = 5000 };
	static long out[WORDS], in[WORDS];
	int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
	for (int nth = 0; nth < WORDS; nth++)
		out[nth] = (long)turn * 1000000 + rank * 10000 + nth;
	long one = 1, was;
	MPI_Win_lock_all(0, window);
	for (int peer = 0; peer < ranks; peer++)
		MPI_Fetch_and_op(&one, &was, MPI_LONG, peer, 0, MPI_SUM, window);
	MPI_Put(out, WORDS, MPI_LONG, to, 1, WORDS, MPI_LONG, window);
	MPI_Win_flush_all(window);
	MPI_Get(in, WORDS, MPI_LONG, to, 1, WORDS, MPI_LONG, window);
	MPI_Win_unlock_all(window);
	must(memcmp(in, out, sizeof(in)) == 0, "get after put");
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
	must(memory[0] == (long)(turn + 1) * ranks, "counter %ld instead of %ld", memory[0],
		(long)(turn + 1) * ranks);
	for (int nth = 0; nth < WORDS; nth++)
		must(memory[1 + nth] == (long)turn * 1000000 + from * 10000 + nth, "put");
	MPI_Win_unlock(rank, window);
	MPI_Barrier(MPI_COMM_WORLD);
}

static int ending; /* the first thread has seen that it is to stop */

static void *beside(void *argument)
{
	enum { BYTES = 50000 };
	MPI_Comm *comm = argument;
	int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
	for (unsigned turn = 0, all = 0; !all; turn++) {
		char *out = room(BYTES, turn % 2), *in = room(BYTES, 1);
		fill(out, BYTES, (unsigned)rank, turn);
		MPI_Sendrecv(out, BYTES, MPI_BYTE, to, 1, in, BYTES, MPI_BYTE, from, 1, *comm,
			MPI_STATUS_IGNORE);
		verify(in, BYTES, (unsigned)from, turn, "second thread");
		no_room(out, turn % 2);
		no_room(in, 1);
		unsigned own = (unsigned)__atomic_load_n(&ending, __ATOMIC_ACQUIRE);
		MPI_Allreduce(&own, &all, 1, MPI_UNSIGNED, MPI_MIN, *comm);
	}
	return NULL;
}

static void say_round(const char *file, unsigned turn)
{
	char name[256], fresh[300];
	snprintf(name, sizeof(name), "%s.rounds", file);
	snprintf(fresh, sizeof(fresh), "%s.new", name);
	FILE *told = fopen(fresh, "w");
	must(told, "cannot write %s", fresh);
	fprintf(told, "%u\n", turn);
	fclose(told);
	rename(fresh, name);
}

int main(int argc, char **argv)
{
	bool threads = argc > 2 && strcmp(argv[2], "threads") == 0;
	pthread_t second;
	MPI_Comm other;
	begin(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
	must(argc > 1, "which file?");
	MPI_Comm_dup(MPI_COMM_WORLD, &other);
	if (threads)
		must(pthread_create(&second, NULL, beside, &other) == 0, "no thread");
	MPI_Win window = MPI_WIN_NULL;
	long *memory = calloc(6000, sizeof(long)), *allocated;
	if (argc > 2 && strcmp(argv[2], "window") == 0)
		MPI_Win_allocate(4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &allocated, &window);
	else if (argc > 2 && !threads)
		MPI_Win_create(memory, 6000 * sizeof(long), sizeof(long), MPI_INFO_NULL,
			MPI_COMM_WORLD, &window);
	unsigned turn = 0;
	for (int stop = 0; !stop; turn++) {
		exchange(turn, 0);
		exchange(turn, 1);
		stream(turn);
		kernels(turn);
		if (window != MPI_WIN_NULL && strcmp(argv[2], "one-sided") == 0)
			one_sided(window, memory, turn);
		if (rank == 0) {
			say_round(argv[1], turn + 1);
			stop = access(argv[1], F_OK) == 0;
		}
		MPI_Bcast(&stop, 1, MPI_INT, 0, MPI_COMM_WORLD);
	}
	__atomic_store_n(&ending, 1, __ATOMIC_RELEASE);
	if (threads)
		pthread_join(second, NULL);
	if (window != MPI_WIN_NULL)
		MPI_Win_free(&window);
	MPI_Comm_free(&other);
	if (rank == 0)
		printf("%u rounds\n", turn);
	cases = 1;
	return end();
}
