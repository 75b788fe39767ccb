/* A team of processes over one System V segment, by the calls of vshmem.h: what a program would do
 * that has libvshmem. */
#include <string.h>
#include <vshmem.h>

#include "../run.h"
#include "team_shared.h"

enum { PAYLOAD = 64 };
const char *const team_model = "vshmem";

static void succeed(struct team *team, const char *call, int status)
{
	if (status >= 0)
		return;
	char message[256] = "";
	if (team->model)
		vshmem_team_failure(team->model, message, sizeof message);
	give_up("%s failed: %s (%s)", call, strerror(-status), message);
}

size_t team_room_bytes(int ranks) { return vshmem_team_bytes((uint32_t)ranks, PAYLOAD); }

void team_enter(struct team *team, void *room)
{
	vshmem_team *joined = NULL;
	succeed(team, "vshmem_team_join",
		vshmem_team_join(
			room, (uint32_t)team->ranks, PAYLOAD, (uint32_t)team->rank, &joined));
	team->model = joined;
	/* The deadline's signal ends the program at its time; a member's timeout is not to end it
	 * before. */
	vshmem_team_patience(joined, 3600000);
}

void team_leave(struct team *team) { vshmem_team_leave(team->model); }

void team_sum(struct team *team, double *values, int count)
{
	if (team->ranks > 1)
		succeed(team, "vshmem_team_allreduce",
			vshmem_team_allreduce(team->model, values, values, (size_t)count,
				VSHMEM_DOUBLE, VSHMEM_SUM));
}

void team_barrier(struct team *team)
{
	if (team->ranks > 1)
		succeed(team, "vshmem_team_barrier", vshmem_team_barrier(team->model));
}
