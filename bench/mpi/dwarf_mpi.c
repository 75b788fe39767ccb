/* The dwarfs by MPI's processes, under mpirun. */
#include <mpi.h>
#include <unistd.h>

#include "../dwarfs/dwarf.h"
#include "../run.h"

static void abort_all(void) { MPI_Abort(MPI_COMM_WORLD, 1); }

int main(int argc, char **argv)
{
	struct job job;
	read_job(&job, argc, argv, "mpi", 0);
	MPI_Init(&argc, &argv);
	on_failure = abort_all;
	/* No handler: it is to end whatever MPI waits for. */
	alarm((unsigned)job.timeout);
	int rank, ranks;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (ranks != job.ranks)
		give_up("--ranks is %d, and mpirun started %d", job.ranks, ranks);
	pin(job.cpu < 0 ? -1 : job.cpu + rank);
	struct team team;
	alone(&team, job_bytes(&job));
	team.rank = rank;
	team.ranks = ranks;
	do_job(&job, &team);
	MPI_Finalize();
	return 0;
}
