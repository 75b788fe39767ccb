/* The dwarfs by OpenMP's threads. */
#include <omp.h>
#include <stdlib.h>

#include "dwarfs/dwarf.h"
#include "dwarfs/team_openmp.h"
#include "run.h"

int main(int argc, char **argv)
{
	struct job job;
	read_job(&job, argc, argv, "openmp", 0);
	start_deadline(job.timeout);
	struct team arena;
	alone(&arena, job_bytes(&job));
	struct openmp_room *room = aligned_alloc(128, sizeof *room);
	if (room == NULL)
		give_up("no memory for %d threads", job.ranks);
	int threads = 0;
	omp_set_dynamic(0);
#pragma omp parallel num_threads(job.ranks)
	{
#pragma omp single
		threads = omp_get_num_threads();
		struct team team = { .rank = omp_get_thread_num(),
			.ranks = threads,
			.arena = arena.arena,
			.bytes = arena.bytes,
			.model = room };
		pin(job.cpu < 0 ? -1 : job.cpu + team.rank);
		if (threads == job.ranks)
			do_job(&job, &team);
	}
	if (threads != job.ranks)
		give_up("OpenMP gives %d threads instead of %d (OMP_THREAD_LIMIT?)", threads,
			job.ranks);
	free(room);
	free(arena.arena);
	return 0;
}
