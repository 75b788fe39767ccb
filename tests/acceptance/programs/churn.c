/* Works on one semaphore set, one queue and one segment until it is killed: churn SET QUEUE SEGMENT
 * SEED.
 *
 * What must hold at any instant, for each process killed at any time:
 *   semaphores 0 and 1 together hold what they held at first, once all adjustments are applied (0:
 * tokens taken with SEM_UNDO; between 0 and 1: atomic moves without it); every message is whole;
 * the segment's attaches are counted. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <unistd.h>

enum { MOST_FILLING = 400 };

struct message {
	long type;
	uint64_t sender, number, bytes;
	unsigned char filling[MOST_FILLING];
};

static int set, queue, segment;

_Noreturn static void fail(const char *what)
{
	fprintf(stderr, "churn %d: %s: %s\n", getpid(), what, strerrorname_np(errno));
	exit(1);
}

static void borrow(void)
{
	struct sembuf take = { 0, -1, SEM_UNDO }, give = { 0, +1, SEM_UNDO };
	if (semop(set, &take, 1) != 0 || semop(set, &give, 1) != 0)
		fail("borrow");
}

static void move(int from)
{
	struct sembuf both[2] = { { (unsigned short)from, -1, IPC_NOWAIT },
		{ (unsigned short)!from, +1, 0 } };
	if (semop(set, both, 2) != 0 && errno != EAGAIN)
		fail("move");
}

static void send(uint64_t n)
{
	struct message m = { .type = 1 + (long)(n % 3),
		.sender = (uint64_t)getpid(),
		.number = n,
		.bytes = n * 7 % MOST_FILLING };
	memset(m.filling, (int)(n & 0xff), m.bytes);
	if (msgsnd(queue, &m, 3 * sizeof m.bytes + m.bytes, IPC_NOWAIT) != 0 && errno != EAGAIN)
		fail("msgsnd");
}

static void receive(uint64_t n)
{
	static const long types[] = { 0, 2, -2 };
	struct message m;
	ssize_t got = msgrcv(queue, &m, sizeof m - sizeof m.type, types[n % 3], IPC_NOWAIT);
	if (got == -1 && errno == ENOMSG)
		return;
	if (got == -1)
		fail("msgrcv");
	int whole = (size_t)got == 3 * sizeof m.bytes + m.bytes
	        && m.type == 1 + (long)(m.number % 3);
	for (uint64_t i = 0; whole && i < m.bytes; i++)
		whole = m.filling[i] == (m.number & 0xff);
	if (!whole) {
		fprintf(stderr, "churn %d: a torn message: %zd bytes, number %llu of %llu\n",
			getpid(), got, (unsigned long long)m.number, (unsigned long long)m.sender);
		exit(1);
	}
}

static void touch(uint64_t n)
{
	volatile uint64_t *at = shmat(segment, NULL, 0);
	if (at == (void *)-1)
		fail("shmat");
	at[n % 512] = n;
	if (shmdt((const void *)at) != 0)
		fail("shmdt");
	/* One of its own, gone with its last user. */
	int own = shmget(IPC_PRIVATE, 8192, 0600);
	if (own == -1)
		fail("shmget");
	uint64_t *mine = shmat(own, NULL, 0);
	if (mine == (void *)-1)
		fail("shmat of its own");
	if (shmctl(own, IPC_RMID, NULL) != 0)
		fail("IPC_RMID");
	for (int i = 0; i < 1024; i++)
		if (mine[i] != 0) {
			fprintf(stderr, "churn %d: a new segment does not read as zeros\n",
				getpid());
			exit(1);
		}
	memset(mine, 0xa5, 8192);
	if (shmdt(mine) != 0)
		fail("shmdt of its own");
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		fprintf(stderr, "usage: %s SET QUEUE SEGMENT SEED\n", argv[0]);
		return 2;
	}
	set = atoi(argv[1]), queue = atoi(argv[2]), segment = atoi(argv[3]);
	uint64_t random = strtoull(argv[4], NULL, 0) * 2654435761u + 1;
	for (uint64_t n = 0;; n++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		switch (random >> 60 & 7) {
		case 0:
		case 1: borrow(); break;
		case 2: move(0); break;
		case 3: move(1); break;
		case 4:
		case 5: send(n); break;
		case 6: receive(random >> 40); break;
		default: touch(n);
		}
	}
}
