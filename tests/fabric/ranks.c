#include "ranks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int rank, ranks;
static int *line; /* rank 0: to each other rank, -1 when it has ended; else line[0] to rank 0 */
static int cases, skipped;
static void (*meanwhile)(void *);
static void *meanwhile_argument;

void ranks_meanwhile(void (*something)(void *), void *argument)
{
	meanwhile = something;
	meanwhile_argument = argument;
}

/* Bytes from a rank; 0 when it has ended. */
static int take(int fd, void *memory, size_t bytes)
{
	for (size_t got = 0; got < bytes;) {
		struct pollfd ready = { .fd = fd, .events = POLLIN };
		if (poll(&ready, 1, meanwhile ? 0 : -1) == 0) {
			meanwhile(meanwhile_argument);
			sched_yield();
			continue;
		}
		ssize_t n = recv(fd, (char *)memory + got, bytes - got, 0);
		if (n <= 0)
			return 0;
		got += (size_t)n;
	}
	return 1;
}

static int give(int fd, const void *memory, size_t bytes)
{
	for (size_t given = 0; given < bytes;) {
		ssize_t n = send(fd, (const char *)memory + given, bytes - given, MSG_NOSIGNAL);
		if (n <= 0)
			return 0;
		given += (size_t)n;
	}
	return 1;
}

static void listen_for_all(struct sockaddr_in *address)
{
	int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	address->sin_addr.s_addr = INADDR_ANY;
	must(bind(listener, (struct sockaddr *)address, sizeof(*address)) == 0, "bind: %s",
		strerror(errno));
	must(listen(listener, 128) == 0, "listen: %s", strerror(errno));
	for (int more = 1; more < ranks; more++) {
		int32_t who = 0, fd = accept(listener, NULL, NULL);
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		must(fd >= 0 && take(fd, &who, sizeof(who)) && who > 0 && who < ranks, "who joins");
		line[who] = fd;
	}
	close(listener);
}

static void join_them(const struct sockaddr_in *address)
{
	int one = 1;
	int32_t me = rank;
	for (int try = 0; try < 3000; try ++) {
		line[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (connect(line[0], (const struct sockaddr *)address, sizeof(*address)) == 0) {
			setsockopt(line[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
			must(give(line[0], &me, sizeof(me)), "rank 0 has ended");
			return;
		}
		close(line[0]);
		usleep(10000);
	}
	must(0, "rank 0 is not there");
}

int ranks_begin(int argc, char **argv)
{
	must(argc >= 5, "usage: %s RANK RANKS ADDRESS PORT [WORDS...]", argv[0]);
	rank = atoi(argv[1]);
	ranks = atoi(argv[2]);
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)atoi(argv[4])) };
	must(inet_pton(AF_INET, argv[3], &address.sin_addr) == 1, "%s is no address", argv[3]);
	line = malloc((size_t)ranks * sizeof(*line));
	for (int other = 0; other < ranks; other++)
		line[other] = -1;
	if (rank == 0)
		listen_for_all(&address);
	else
		join_them(&address);
	return argc - 5;
}

void gather(const void *mine, void *all, size_t bytes)
{
	if (rank) {
		must(give(line[0], mine, bytes), "rank 0 has ended");
		must(take(line[0], all, bytes * (size_t)ranks), "rank 0 has ended");
		return;
	}
	memset(all, 0, bytes * (size_t)ranks);
	memcpy(all, mine, bytes);
	for (int other = 1; other < ranks; other++)
		if (line[other] >= 0
		        && !take(line[other], (char *)all + bytes * (size_t)other, bytes))
			line[other] = -1;
	for (int other = 1; other < ranks; other++)
		if (line[other] >= 0 && !give(line[other], all, bytes * (size_t)ranks))
			line[other] = -1;
}

void together(void)
{
	char mine = 1, *all = malloc((size_t)ranks);
	gather(&mine, all, 1);
	free(all);
}

int has_ended(int other)
{
	char byte;
	if (line[other] >= 0 && recv(line[other], &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
		line[other] = -1;
	return line[other] < 0;
}

void wait_for_end(int other)
{
	while (!has_ended(other)) {
		if (meanwhile)
			meanwhile(meanwhile_argument);
		usleep(1000);
	}
}

void passed(const char *name)
{
	together();
	cases++;
	if (rank == 0 && getenv("FABRIC_TEST_VERBOSE")) {
		printf("%s\n", name);
		fflush(stdout);
	}
}

void left_out(const char *name, const char *why)
{
	together();
	skipped++;
	if (rank == 0)
		printf("left out: %s: %s\n", name, why);
}

int ranks_end(void)
{
	together();
	if (rank == 0)
		printf("%d passed, 0 failed\n", cases);
	return 0;
}
