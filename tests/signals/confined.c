/* A program that confines itself with seccomp(2): after that the library makes the calls that
 * docs/reference/sysv-differences.md lists and no others.
 *
 *   confined kill        any other call ends the process: all twelve calls, sleeps, signals, a
 *                        child, the end of the process
 *
 *   confined late        the same, and the first System V call comes after the filter
 *
 *   confined errno CALL  that one call is refused with EPERM: every call comes back
 *
 *   confined closed      no descriptor is left, and the file may not be opened again: an errno
 *
 *   confined remap       an mremap(2) fails that has unmapped a segment on its way: that is no
 *                        attach any more
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "filter.h"

static int shm, sem, msg, unconfined;

static void fail(const char *what)
{
	fprintf(stderr, "FAILED: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static void noted(int signal) { (void)signal; }

/* A process without a filter, which posts for the waiters and receives what is sent. */
static void helper(key_t key)
{
	struct sembuf post = { 0, 1, 0 };
	int set;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while ((set = semget(key, 1, 0)) == -1)
		usleep(1000);
	for (;;) {
		if (semctl(set, 0, GETNCNT) > 0 && semop(set, &post, 1) != 0)
			_exit(0);
		if (semctl(set, 0, GETVAL) == -1)
			_exit(0);
		usleep(1000);
	}
}

struct text {
	long kind;
	char text[64];
};

/* Ends what it began with only if nothing was refused; the answer to the others is any errno. */
static int refusals;
static int answered(const char *what, long result)
{
	if (result != -1)
		return 1;
	if (errno <= 0 || errno > 4095)
		fail(what);
	refusals++;
	return 0;
}

static void segments(size_t bytes)
{
	shm = shmget(IPC_PRIVATE, bytes, IPC_CREAT | 0600);
	if (!answered("shmget", shm))
		return;
	for (int time = 0; time < 3; time++) {
		char *at = shmat(shm, NULL, 0);
		if (answered("shmat", (long)at)) {
			at[0]++;
			at[bytes - 1]++;
			answered("shmdt", shmdt(at));
		}
	}
	struct shmid_ds status;
	answered("shmctl IPC_STAT", shmctl(shm, IPC_STAT, &status));
	answered("shmctl IPC_RMID", shmctl(shm, IPC_RMID, NULL));
}

static void semaphores(key_t key)
{
	struct sembuf post = { 0, 1, SEM_UNDO }, take = { 0, -1, SEM_UNDO }, wait = { 0, -1, 0 };
	struct timespec soon = { 0, 2000000 };
	sem = semget(key, 1, IPC_CREAT | 0600);
	if (!answered("semget", sem))
		return;
	answered("semop", semop(sem, &post, 1));
	answered("semop", semop(sem, &take, 1));
	for (int time = 0; time < 20; time++)
		answered("semop asleep", semop(sem, &wait, 1));
	answered("semtimedop", semtimedop(sem, &wait, 1, &soon));
	answered("semctl", semctl(sem, 0, GETVAL));
}

static void queues(void)
{
	struct text text = { 1, "text" };
	msg = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
	if (!answered("msgget", msg))
		return;
	if (answered("msgsnd", msgsnd(msg, &text, sizeof text.text, 0)))
		answered("msgrcv", msgrcv(msg, &text, sizeof text.text, 0, 0));
	struct msqid_ds status;
	answered("msgctl", msgctl(msg, IPC_STAT, &status));
	answered("msgctl", msgctl(msg, IPC_RMID, NULL));
}

/* A handler ends a sleep, also one on a signal stack. */
static void signals(void)
{
	static char room[64 << 10];
	stack_t stack = { .ss_sp = room, .ss_size = sizeof room };
	if (!unconfined)
		return;
	sigaltstack(&stack, NULL);
	struct sigaction action = { .sa_handler = noted, .sa_flags = SA_ONSTACK };
	if (sigaction(SIGUSR1, &action, NULL) != 0)
		fail("sigaction");
}

static void all(key_t key)
{
	segments(4096);
	segments(1 << 20);
	queues();
	semaphores(key);
}

static void child(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		struct sembuf post = { 0, 1, SEM_UNDO };
		semop(sem, &post, 1);
		_exit(0);
	}
	int status = 0;
	if (!answered("fork", pid))
		return;
	if (waitpid(pid, &status, 0) != pid || status != 0) {
		fprintf(stderr, "FAILED: the child has status 0x%x\n", status);
		_exit(1);
	}
}

/* More than any machine has is to be mapped where a segment lies. Whether the kernel has unmapped
 * that by the time it refuses differs from kernel to kernel: the addresses are free then. */
static void remap(void)
{
	const size_t page = 4096, much = 1UL << 38;
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	char *small = mmap(NULL, page, PROT_READ | PROT_WRITE, flags & ~MAP_NORESERVE, -1, 0),
	     *room = mmap(NULL, much, PROT_NONE, flags, -1, 0);
	shm = shmget(IPC_PRIVATE, 3 * page, IPC_CREAT | 0600);
	char *at = shmat(shm, room + 16 * page, SHM_REMAP), *other = shmat(shm, NULL, 0);
	if (room == MAP_FAILED || at != room + 16 * page || other == (char *)-1)
		fail("to attach");
	if (confine(NULL) != 0)
		fail("seccomp");
	if (mremap(small, page, much, MREMAP_MAYMOVE | MREMAP_FIXED, room) != MAP_FAILED)
		fail("mremap was to fail");
	struct shmid_ds status;
	if (shmctl(shm, IPC_STAT, &status) != 0)
		fail("shmctl");
	int there = mmap(at, page, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED;
	unsigned long attaches = status.shm_nattch;
	char line[100];
	int length = snprintf(line, sizeof line, "the segment is %s: %lu attaches\n",
		there ? "there" : "gone", attaches);
	if (write(1, line, length) != length || (there && shmdt(at) != 0) || shmdt(other) != 0
	        || shmctl(shm, IPC_RMID, NULL) != 0)
		fail("to detach");
	_exit(attaches == (there ? 2 : 1) ? 0 : 1);
}

int main(int count, char **words)
{
	const char *way = count > 1 ? words[1] : "kill",
		   *refused = strcmp(way, "errno") == 0 && count > 2 ? words[2] : NULL;
	key_t key = 0x51600000 | getpid();
	unconfined = 1;
	if (strcmp(way, "remap") == 0)
		remap();
	pid_t poster = fork();
	if (poster == 0)
		helper(key);
	signals();
	if (strcmp(way, "late") != 0)
		all(key);
	if (strcmp(way, "closed") == 0) {
		close_range(3, ~0U, 0);
	}
	if (confine(refused) != 0)
		fail("seccomp");
	refusals = 0;
	all(key);
	if (strcmp(way, "closed") == 0) {
		/* What was attached lately is still mapped; this is not. */
		segments(3 << 20);
		if (refusals == 0)
			fail("without its descriptor the library was to refuse segments");
	} else if (!refused) {
		child();
		if (refusals > 1) /* semtimedop's time */
			fail("a call was refused");
		raise(SIGUSR1);
	}
	semctl(sem, 0, IPC_RMID);
	int status;
	waitpid(poster, &status, 0);
	char line[100];
	int length = snprintf(line, sizeof line, "%s %s: %d calls refused\n", way,
		refused ? refused : "", refusals);
	if (write(1, line, length) != length)
		return 1;
	return 0;
}
