/* The dwarfs by processes over a System V segment: in one kernel, or over a pool wherever each of
 * them is. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dwarfs/dwarf.h"
#include "dwarfs/team_shared.h"
#include "run.h"

static void child_ended(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	if (info->si_code != CLD_EXITED || info->si_status != 0)
		deadline_passed = 1;
}

/* Rank 0 waits for those that it forked, and fails with them; they end with it. */
static void fork_ranks(struct team *team)
{
	struct sigaction action = { .sa_sigaction = child_ended,
		.sa_flags = SA_SIGINFO | SA_RESTART };
	sigaction(SIGCHLD, &action, NULL);
	for (int rank = 1; rank < team->ranks; rank++) {
		pid_t child = fork();
		if (child == -1)
			give_up("fork failed: %s", strerror(errno));
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGTERM);
			team->rank = rank;
			return;
		}
	}
}

int main(int argc, char **argv)
{
	struct job job;
	read_job(&job, argc, argv, team_model, TAKES_RANK | TAKES_FORK);
	struct team team = { .rank = job.rank, .ranks = job.ranks, .bytes = job_bytes(&job) };
	if (job.fork) {
		team.rank = 0;
		start_deadline(job.timeout);
		team_prepare_fork(&team);
		fork_ranks(&team);
		start_deadline(job.timeout);
		pin(job.cpu < 0 ? -1 : job.cpu + team.rank);
	} else {
		pin(job.cpu);
		start_deadline(job.timeout);
		team_meet(&team, job.path, job_terms(&job));
	}
	team_start(&team);
	do_job(&job, &team);
	team_leave(&team);
	int failed = 0, status = 0;
	while (job.fork && team.rank == 0 && (wait(&status) != -1 || errno == EINTR))
		failed |= status != 0;
	return failed;
}
