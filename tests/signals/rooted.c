/* Who starts an agent, and as what: a process whose agent has been killed makes slow calls. AGENT
 * is a command that prints the agent's pid.
 *
 *   rooted same AGENT      where it began: there is an agent again
 *
 *   rooted closed AGENT    the same with all descriptors closed: none, and nothing breaks
 *
 *   rooted jail AGENT DIR  after a chroot that was not noticed, to a directory with a command of
 *                          another in the place of VSHMEM_COMMAND: it is not run
 *
 *   rooted user AGENT      as another user: none
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../conformance/share/direct.h"

static void fail(const char *what)
{
	printf("FAILED: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int agent(const char *command)
{
	int pid = 0;
	FILE *pipe = popen(command, "r");
	if (!pipe || fscanf(pipe, "%d", &pid) != 1)
		pid = 0;
	if (pipe)
		pclose(pipe);
	return pid;
}

/* Calls that may take their time, over the turn of two seconds: the library looks once in each. */
static void slow_calls(void)
{
	time_t begin = time(NULL);
	while (time(NULL) < begin + 3) {
		int id = shmget(IPC_PRIVATE, 4096, 0600);
		if (id == -1)
			fail("shmget");
		shmctl(id, IPC_RMID, NULL);
		usleep(20000);
	}
}

int main(int count, char **words)
{
	if (count < 3)
		return 2;
	const char *way = words[1], *command = words[2];
	slow_calls();
	int pid = agent(command);
	if (pid == 0)
		fail("no agent to begin with");
	if (strcmp(way, "closed") == 0)
		close_range(3, ~0U, 0);
	/* By instruction: past the library. */
	if (strcmp(way, "jail") == 0
	        && (direct(SYS_chroot, (long)words[3], 0, 0, 0) != 0 || chdir("/") != 0))
		fail("chroot");
	if (strcmp(way, "user") == 0 && direct(SYS_setresuid, 65534, 65534, 0, 0) != 0)
		fail("setresuid");
	if (strcmp(way, "user") == 0) {
		direct(SYS_setresuid, 0, 0, 0, 0);
		if (kill(pid, SIGKILL) != 0)
			fail("kill");
		direct(SYS_setresuid, 65534, 65534, 0, 0);
	} else if (kill(pid, SIGKILL) != 0) {
		fail("kill");
	}
	slow_calls();
	if (strcmp(way, "jail") == 0) {
		if (access("/run-by-root", F_OK) == 0) {
			puts("FAILED: a command of another user was run, as root");
			return 1;
		}
		return 0;
	}
	if (strcmp(way, "user") == 0)
		direct(SYS_setresuid, 0, 0, 0, 0);
	int next = agent(command);
	if (strcmp(way, "same") == 0) {
		while (next == 0 || next == pid) /* it may still come up */
			next = (usleep(10000), agent(command));
		return 0;
	}
	if (next != 0 && next != pid) {
		printf("FAILED: %s: an agent was started\n", way);
		return 1;
	}
	return 0;
}
