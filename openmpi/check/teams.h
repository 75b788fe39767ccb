/* Teams whose members do anything, for the checks here. Included once, after random_steps.h and a
 * definition of LEAST_PAYLOAD.
 */
#ifndef TEAMS_H
#define TEAMS_H

struct vshmem_team {
	bool failed;
	uint64_t started, done; /* nonblocking calls */
};
static int held, joined; /* memory and teams */

int vshmem_team_join(
	void *memory, uint32_t members, size_t payload, uint32_t rank, vshmem_team **team)
{
	must(memory && rank < members && payload >= LEAST_PAYLOAD);
	if (any(6) == 0)
		return -EIO;
	*team = calloc(1, sizeof(**team));
	joined++;
	return 0;
}

void vshmem_team_leave(vshmem_team *team)
{
	free(team);
	joined--;
}

void vshmem_team_patience(vshmem_team *team, uint32_t milliseconds)
{ must(team && milliseconds == UINT32_MAX); }

void vshmem_team_idle(vshmem_team *team, void (*idle)(void *argument), void *argument)
{
	must(team);
	idle(argument);
}

#endif
