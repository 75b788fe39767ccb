/* Many clients in many PID namespaces, some of which are killed: how long until those go on who
 * wait for what the dead held.
 *
 *     deaths VSHMEM POOL NAMESPACES CLIENTS KILLS
 *
 * Starts itself once more in each namespace, under `VSHMEM run --pool POOL`:
 *
 *     deaths in BOARD NAMESPACE
 *
 * Every client attaches a segment and holds an adjustment (SEM_UNDO). KILLS of them hold a
 * semaphore each that another client waits for; they are killed all at once. Prints the time until
 * the waiters went on, and fails if one of them did not. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
	int namespaces, clients, kills;
	atomic_int ready, broken, woken;
	int segment, common, sets[MOST];
	uint64_t woke[MOST];
};

static struct board *board;
/* Where the clients wait for the end; the launcher alone has the other side. */
enum { GATE = 100 };

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
	if (number < board->kills)
		add(board->sets[number], -1, SEM_UNDO);
	atomic_fetch_add(&board->ready, 1);
	if (number >= board->kills && number < 2 * board->kills) {
		/* Not before it is held. */
		while (atomic_load(&board->ready) < board->kills)
			usleep(1000);
		while (semctl(board->sets[number - board->kills], 0, GETVAL) != 0)
			usleep(1000);
		add(board->sets[number - board->kills], -1, 0);
		board->woke[number - board->kills] = now();
		atomic_fetch_add(&board->woken, 1);
	}
	while (read(GATE, &byte, 1) < 0)
		must(errno == EINTR, "read");
	if (number < board->kills)
		kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

static void make(void)
{
	board->segment = shmget(IPC_PRIVATE, 4096, 0600);
	must(board->segment >= 0, "shmget");
	board->common = semget(IPC_PRIVATE, 1, 0600);
	must(board->common >= 0, "semget");
	for (int nth = 0; nth < board->kills; nth++) {
		board->sets[nth] = semget(IPC_PRIVATE, 1, 0600);
		must(board->sets[nth] >= 0, "semget");
		add(board->sets[nth], 1, 0);
	}
}

/* Under `vshmem run`: the objects, or the clients of a namespace. */
static int inside(const char *path, int which)
{
	int file = open(path, O_RDWR);
	must(file >= 0, path);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	must(board != MAP_FAILED, "mmap");
	if (which < 0) {
		make();
		return 0;
	}
	for (int number = which; number < board->clients; number += board->namespaces) {
		pid_t child = fork();
		must(child >= 0, "fork");
		if (child == 0)
			client(number);
	}
	while (wait(NULL) > 0 || errno == EINTR)
		;
	return 0;
}

static void start(char **words, const char *path, int which)
{
	char number[16];
	snprintf(number, sizeof(number), "%d", which);
	execl(words[1], words[1], "run", "--pool", words[2], "--", words[0], "in", path, number,
		(char *)NULL);
	must(0, words[1]);
}

/* The init of a namespace. */
static void settle(char **words, const char *path, int which)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "mount --make-rprivate /");
	must(mount("proc", "/proc", "proc", 0, NULL) == 0, "mount /proc");
	start(words, path, which);
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
			fprintf(stderr, "deaths: %d of %d %s after %d s\n", atomic_load(count),
				wanted, what, PATIENCE);
			exit(1);
		}
		usleep(500);
	}
	must(!atomic_load(&board->broken), what);
}

int main(int count, char **words)
{
	char path[] = "/dev/shm/deaths-board.XXXXXX";
	int gate[2], file, status;
	pid_t inits[MOST], maker;
	uint64_t began;

	if (count == 4 && strcmp(words[1], "in") == 0)
		return inside(words[2], atoi(words[3]));
	must(count == 6, "usage: deaths VSHMEM POOL NAMESPACES CLIENTS KILLS");
	file = mkstemp(path);
	must(file >= 0 && ftruncate(file, sizeof(*board)) == 0, path);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	must(board != MAP_FAILED, "mmap");
	board->namespaces = atoi(words[3]);
	board->clients = atoi(words[4]);
	board->kills = atoi(words[5]);
	must(board->namespaces > 0 && board->namespaces <= MOST && board->clients <= MOST
	                && 2 * board->kills <= board->clients,
		"arguments");
	must(pipe(gate) == 0 && dup2(gate[0], GATE) == GATE, "pipe");
	close(gate[0]);
	must(fcntl(gate[1], F_SETFD, FD_CLOEXEC) == 0, "fcntl");
	maker = fork();
	must(maker >= 0, "fork");
	if (maker == 0)
		start(words, path, -1);
	must(waitpid(maker, &status, 0) == maker && status == 0, "the objects");
	for (int which = 0; which < board->namespaces; which++) {
		/* A process that makes a new PID namespace for its children makes no second one:
		 * one each. */
		inits[which] = fork();
		must(inits[which] >= 0, "fork");
		if (inits[which] == 0) {
			close(gate[1]);
			must(unshare(CLONE_NEWPID | CLONE_NEWNS) == 0, "unshare");
			pid_t init = fork();
			must(init >= 0, "fork");
			if (init == 0)
				settle(words, path, which);
			waitpid(init, NULL, 0);
			_exit(0);
		}
	}
	wait_for(&board->ready, board->clients, "clients are ready");
	/* Until the waiters sleep, and agents have found all clients. */
	sleep(4);
	began = now();
	close(gate[1]);
	wait_for(&board->woken, board->kills, "waiters went on");
	for (int nth = 0; nth < board->kills; nth++)
		board->woke[nth] -= began;
	qsort(board->woke, (size_t)board->kills, sizeof(board->woke[0]), by_size);
	printf("%d clients in %d namespaces, %d killed: waiters went on after %.1f ms (median), %.1f ms (the last)\n",
		board->clients, board->namespaces, board->kills,
		(double)board->woke[board->kills / 2] / 1e6,
		(double)board->woke[board->kills - 1] / 1e6);
	for (int which = 0; which < board->namespaces; which++) {
		kill(inits[which], SIGKILL);
		waitpid(inits[which], NULL, 0);
	}
	unlink(path);
	return 0;
}
