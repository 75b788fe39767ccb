/* How long a wake-up takes from one domain to another: wake sleep|ring KEY TURNS NAP-MS. Beside it,
 * TCP one way between the same two: wake receive|send ADDRESS TURNS NAP-MS.
 *
 * One side sleeps in semop or read, the other one wakes it after a nap, so that the waiter is at
 * rest. The waker notes the CPU's counter just before its call, the waiter reads its own just
 * after: both are the same clock where the CPUs of a machine keep it in step. The waiter writes
 * each time in microseconds, and the median last. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_TURNS = 1000, PORT = 7301 };

struct table {
	volatile uint64_t asleep, notified_at;
};

_Noreturn static void fail(const char *what)
{
	fprintf(stderr, "wake: %s: %s\n", what, strerrorname_np(errno));
	exit(1);
}

static uint64_t ticks(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	uint64_t now;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
	return now;
#endif
}

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void nap(long milliseconds)
{
	struct timespec span = { milliseconds / 1000, milliseconds % 1000 * 1000000 };
	while (nanosleep(&span, &span) != 0 && errno == EINTR)
		;
}

static int by_size(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;
	return (a > b) - (a < b);
}

static uint64_t took[MOST_TURNS];

/* Writes the times, of ticks so long. */
static void report(uint64_t turns, double per_tick)
{
	static double us[MOST_TURNS];
	for (uint64_t turn = 0; turn < turns; turn++) {
		us[turn] = (double)(int64_t)took[turn] * per_tick;
		printf("%.1f ", us[turn]);
	}
	qsort(us, turns, sizeof *us, by_size);
	printf("\nmedian %.1f us, from %.1f to %.1f, of %lu\n", us[turns / 2], us[0], us[turns - 1],
		(unsigned long)turns);
}

static void waiter(struct table *table, int set, uint64_t turns)
{
	struct sembuf down = { 0, -1, 0 };
	double since = seconds();
	uint64_t first = ticks();
	for (uint64_t turn = 0; turn < turns; turn++) {
		table->asleep = turn + 1;
		if (semop(set, &down, 1) != 0)
			fail("semop -1");
		took[turn] = ticks() - table->notified_at;
	}
	report(turns, (seconds() - since) * 1e6 / (double)(ticks() - first));
}

static void ringer(struct table *table, int set, uint64_t turns, long milliseconds)
{
	struct sembuf up = { 0, +1, 0 };
	for (uint64_t turn = 0; turn < turns; turn++) {
		while (table->asleep != turn + 1)
			nap(1);
		nap(milliseconds);
		table->notified_at = ticks();
		if (semop(set, &up, 1) != 0)
			fail("semop +1");
	}
}

static struct sockaddr_in place(const char *address)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	if (inet_pton(AF_INET, address, &at.sin_addr) != 1)
		fail(address);
	return at;
}

static void receiver(const char *address, uint64_t turns)
{
	struct sockaddr_in at = place(address);
	int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(listener, 1) != 0)
		fail("listen");
	int peer = accept(listener, NULL, NULL);
	double since = seconds();
	uint64_t first = ticks(), sent_at;
	for (uint64_t turn = 0; turn < turns; turn++) {
		if (recv(peer, &sent_at, sizeof sent_at, MSG_WAITALL) != (ssize_t)sizeof sent_at)
			fail("recv");
		took[turn] = ticks() - sent_at;
	}
	report(turns, (seconds() - since) * 1e6 / (double)(ticks() - first));
}

static void sender(const char *address, uint64_t turns, long milliseconds)
{
	struct sockaddr_in at = place(address);
	int one = 1, peer = -1;
	for (int left = 5000; left > 0; left--, nap(1)) {
		peer = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(peer, (struct sockaddr *)&at, sizeof at) == 0)
			break;
		close(peer);
	}
	setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	for (uint64_t turn = 0; turn < turns; turn++) {
		nap(milliseconds + 1);
		uint64_t now = ticks();
		if (send(peer, &now, sizeof now, 0) != (ssize_t)sizeof now)
			fail("send");
	}
}

int main(int argc, char **argv)
{
	uint64_t turns = argc == 5 ? strtoull(argv[3], NULL, 10) : 0;
	if (turns == 0 || turns > MOST_TURNS) {
		fprintf(stderr,
			"usage: wake sleep|ring KEY TURNS NAP-MS\n       wake receive|send ADDRESS TURNS NAP-MS\n");
		return 2;
	}
	if (strcmp(argv[1], "receive") == 0 || strcmp(argv[1], "send") == 0) {
		if (argv[1][0] == 'r')
			receiver(argv[2], turns);
		else
			sender(argv[2], turns, atol(argv[4]));
		return 0;
	}
	key_t key = (key_t)strtol(argv[2], NULL, 0);
	int set = semget(key, 1, IPC_CREAT | 0600), segment = shmget(key, 4096, IPC_CREAT | 0600);
	if (set == -1 || segment == -1)
		fail("semget or shmget");
	struct table *table = shmat(segment, NULL, 0);
	if (table == (void *)-1)
		fail("shmat");
	if (strcmp(argv[1], "sleep") == 0) {
		waiter(table, set, turns);
		shmctl(segment, IPC_RMID, NULL);
		semctl(set, 0, IPC_RMID);
	} else {
		ringer(table, set, turns, atol(argv[4]));
	}
	return 0;
}
