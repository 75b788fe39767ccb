/* Many clients in many PID namespaces, some of which are killed: how long until those go on who wait for what the dead held.
 *
 *     deaths NAMESPACES CLIENTS KILLS
 *
 * Every client attaches a segment and holds an adjustment (SEM_UNDO). KILLS of them hold a semaphore each that another client
 * waits for; they are killed all at once. Prints the time until the waiters went on, and fails if one of them did not. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 4096, PATIENCE = 120 };

struct board {
	atomic_int ready, broken, woken;
	int segment, common, sets[MOST];
	uint64_t woke[MOST];
};

static struct board *board;
static int namespaces, clients, kills;
static int gate[2];

static uint64_t now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void must(int fine, const char *what)
{
	if (fine)
		return;
	fprintf(stderr, "deaths: %s: errno %d\n", what, errno);
	if (board)
		atomic_store(&board->broken, 1);
	exit(1);
}

static void add(int set, short change, short flags)
{
	struct sembuf operation = { .sem_op = change, .sem_flg = flags };
	must(semop(set, &operation, 1) == 0, "semop");
}

/* Client NUMBER: the first ones hold what the next ones wait for. */
static void client(int number)
{
	char byte;
	must(shmat(board->segment, NULL, 0) != (void *)-1, "shmat");
	add(board->common, 1, SEM_UNDO);
	if (number < kills)
		add(board->sets[number], -1, SEM_UNDO);
	atomic_fetch_add(&board->ready, 1);
	if (number >= kills && number < 2 * kills) {
		/* Not before it is held. */
		while (atomic_load(&board->ready) < kills)
			usleep(1000);
		while (semctl(board->sets[number - kills], 0, GETVAL) != 0)
			usleep(1000);
		add(board->sets[number - kills], -1, 0);
		board->woke[number - kills] = now();
		atomic_fetch_add(&board->woken, 1);
	}
	while (read(gate[0], &byte, 1) < 0)
		must(errno == EINTR, "read");
	if (number < kills)
		kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

/* The init of a namespace and its clients. */
static void settle(int which)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "mount --make-rprivate /");
	must(mount("proc", "/proc", "proc", 0, NULL) == 0, "mount /proc");
	close(gate[1]);
	for (int number = which; number < clients; number += namespaces) {
		pid_t child = fork();
		must(child >= 0, "fork");
		if (child == 0)
			client(number);
	}
	while (wait(NULL) > 0 || errno == EINTR)
		;
	exit(0);
}

static void make(void)
{
	board->segment = shmget(IPC_PRIVATE, 4096, 0600);
	must(board->segment >= 0, "shmget");
	board->common = semget(IPC_PRIVATE, 1, 0600);
	must(board->common >= 0, "semget");
	for (int nth = 0; nth < kills; nth++) {
		board->sets[nth] = semget(IPC_PRIVATE, 1, 0600);
		must(board->sets[nth] >= 0, "semget");
		add(board->sets[nth], 1, 0);
	}
	exit(0);
}

static int by_size(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
	return a < b ? -1 : a > b;
}

static void wait_for(atomic_int *count, int wanted, const char *what)
{
	uint64_t end = now() + PATIENCE * UINT64_C(1000000000);
	while (atomic_load(count) < wanted && !atomic_load(&board->broken)) {
		if (now() > end) {
			fprintf(stderr, "deaths: %d of %d %s after %d s\n", atomic_load(count), wanted, what, PATIENCE);
			exit(1);
		}
		usleep(500);
	}
	must(!atomic_load(&board->broken), what);
}

int main(int count, char **words)
{
	pid_t inits[MOST];
	uint64_t began;
	int status;

	must(count == 4, "usage: deaths NAMESPACES CLIENTS KILLS");
	namespaces = atoi(words[1]);
	clients = atoi(words[2]);
	kills = atoi(words[3]);
	must(namespaces > 0 && clients <= MOST && 2 * kills <= clients && namespaces <= MOST, "arguments");
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(board != MAP_FAILED, "mmap");
	must(pipe(gate) == 0, "pipe");
	/* Not by this process: its children would be clients of this namespace, before they leave for another. */
	pid_t maker = fork();
	must(maker >= 0, "fork");
	if (maker == 0)
		make();
	must(waitpid(maker, &status, 0) == maker && status == 0, "the objects");
	for (int which = 0; which < namespaces; which++) {
		/* A process that has left for a new PID namespace cannot leave again: one each. */
		pid_t outer = fork();
		must(outer >= 0, "fork");
		if (outer == 0) {
			close(gate[1]);
			must(unshare(CLONE_NEWPID | CLONE_NEWNS) == 0, "unshare");
			pid_t init = fork();
			must(init >= 0, "fork");
			if (init == 0)
				settle(which);
			waitpid(init, NULL, 0);
			_exit(0);
		}
		inits[which] = outer;
	}
	wait_for(&board->ready, clients, "clients are ready");
	/* Until the waiters sleep. */
	for (int nth = 0; nth < kills; nth++)
		while (semctl(board->sets[nth], 0, GETNCNT) != 1 && !atomic_load(&board->broken))
			usleep(1000);
	sleep(2);
	began = now();
	close(gate[1]);
	wait_for(&board->woken, kills, "waiters went on");
	for (int nth = 0; nth < kills; nth++)
		board->woke[nth] -= began;
	qsort(board->woke, (size_t)kills, sizeof(board->woke[0]), by_size);
	printf("%d clients in %d namespaces, %d killed: waiters went on after %.1f ms (median), %.1f ms (the last)\n", clients,
	       namespaces, kills, (double)board->woke[kills / 2] / 1e6, (double)board->woke[kills - 1] / 1e6);
	fflush(stdout);
	for (int which = 0; which < namespaces; which++) {
		kill(inits[which], SIGKILL);
		waitpid(inits[which], NULL, 0);
	}
	semctl(board->common, 0, IPC_RMID);
	for (int nth = 0; nth < kills; nth++)
		semctl(board->sets[nth], 0, IPC_RMID);
	shmctl(board->segment, IPC_RMID, NULL);
	return 0;
}
