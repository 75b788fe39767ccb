/* The owner of a window's memory is killed while another process writes into it: what the pool
 * gives to somebody else afterwards stays as it is. Two processes, in a job that mpirun lets go on
 * without one of them (--enable-recovery), on a pool of 128 MiB that has nothing else in it. */
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <vshmem.h>

#include "pattern.h"

enum { WINDOW = 16 << 20, REST = 50 << 20, PIECES = 100 };

static void breathe(void)
{
	struct timespec span = { .tv_nsec = 20000000 };
	nanosleep(&span, NULL);
}

int main(int argc, char **argv)
{
	begin(&argc, &argv, MPI_THREAD_SINGLE);
	must(ranks == 2, "two processes");
	char *base = room(WINDOW, 1), *rest = room(rank ? REST : 8, 1), *mine = malloc(WINDOW);
	MPI_Win win;
	MPI_Win_create(base, WINDOW, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	int owner = (int)getpid();
	MPI_Bcast(&owner, 1, MPI_INT, 1, MPI_COMM_WORLD);
	MPI_Win_lock_all(0, win);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int arrived; rank == 1;)
		MPI_Iprobe(0, 0, MPI_COMM_WORLD, &arrived, MPI_STATUS_IGNORE);
	memset(mine, 0x5a, WINDOW);
	MPI_Put(mine, WINDOW, MPI_BYTE, 1, 0, WINDOW, MPI_BYTE, win);
	MPI_Win_flush(1, win);
	kill(owner, SIGKILL);
	/* It is reaped when what else it had is free. */
	vshmem_pool *pool;
	void *piece[PIECES];
	int count = 0, most = 0;
	must(vshmem_open(getenv("OMPI_MCA_btl_vshmem_pool"), &pool, NULL, 0) == 0, "no pool");
	while (vshmem_hold(pool, REST - (1 << 20), &piece[0]) != 0)
		breathe();
	count = most = 1;
	while (count < PIECES && vshmem_hold(pool, 1 << 20, &piece[count]) == 0)
		most = ++count;
	/* No answer comes any more where one would be needed. */
	MPI_Put(mine, WINDOW, MPI_BYTE, 1, 0, WINDOW, MPI_BYTE, win);
	for (int nth = 0; nth < most; nth++) {
		size_t bytes = nth ? 1 << 20 : REST - (1 << 20);
		for (size_t at = 0; at < bytes; at++)
			must(((char *)piece[nth])[at] == 0,
				"byte %zu of piece %d that the pool gave to another is %02x", at, nth,
				((unsigned char *)piece[nth])[at]);
		vshmem_release(pool, piece[nth]);
	}
	no_room(rest, 1);
	printf("1 passed, 0 failed\n");
	fflush(stdout);
	/* There is nobody to meet in MPI_Finalize. */
	_exit(0);
}
