/* Teams whose members do anything, and an operation, for the checks here. Included once, after
 * random_steps.h and a definition of LEAST_PAYLOAD.
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

int vshmem_team_failure(const vshmem_team *team, char *message, size_t bytes)
{
	memset(message, 'x', bytes);
	message[bytes - 1] = '\0';
	return team->failed ? (int)any(8) : -1;
}

/* An operation of the program's. */
static void exclusive_or(const void *source, void *target, int *count,
	struct ompi_datatype_t **type, struct ompi_op_base_module_1_0_0_t *module)
{
	(void)module;
	size_t size;
	ompi_datatype_type_size(*type, &size);
	for (size_t at = 0; at < size * (size_t)*count; at++)
		((uint8_t *)target)[at] ^= ((const uint8_t *)source)[at];
}

#endif
