/* Round trips over TCP or UDP: what two machines would use if they shared no memory. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "run.h"

/* Every datagram begins with its round; a round of this number ends the server. */
#define LAST_ROUND UINT64_MAX
enum { ANSWER_WITHIN_MS = 200, LAST_REPEATS = 5 };

struct wire {
	const struct run *run;
	int socket;
	struct sockaddr_in address;
	unsigned char *buffer;
	uint64_t lost;
};

static void wait_ms(int ms)
{ nanosleep(&(struct timespec) { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L }, NULL); }

static void write_all(struct wire *w)
{
	for (size_t done = 0; done < w->run->size;) {
		ssize_t n = send(w->socket, w->buffer + done, w->run->size - done, MSG_NOSIGNAL);
		if (n > 0)
			done += (size_t)n;
		else if (errno != EINTR || deadline_passed)
			give_up_call("sending over TCP");
	}
}

static int read_all(struct wire *w)
{
	for (size_t done = 0; done < w->run->size;) {
		ssize_t n = recv(w->socket, w->buffer + done, w->run->size - done, MSG_WAITALL);
		if (n > 0)
			done += (size_t)n;
		else if (n == 0)
			return 0;
		else if (errno != EINTR || deadline_passed)
			give_up_call("receiving over TCP");
	}
	return 1;
}

static void tcp_rounds(void *context, uint64_t first, uint64_t count)
{
	struct wire *w = context;
	(void)first;
	while (count--) {
		write_all(w);
		if (!read_all(w))
			give_up("the server closed the connection in the middle of the run");
	}
}

static void tcp_client(struct wire *w)
{
	/* The server may not be up yet: try until the deadline. */
	for (;;) {
		w->socket = socket(AF_INET, SOCK_STREAM, 0);
		if (w->socket == -1)
			give_up_call("socket");
		if (connect(w->socket, (void *)&w->address, sizeof w->address) == 0)
			break;
		if (deadline_passed
		        || (errno != ECONNREFUSED && errno != EHOSTUNREACH && errno != ENETUNREACH
		                && errno != ETIMEDOUT && errno != EINTR))
			give_up_call("connecting to the server");
		close(w->socket);
		wait_ms(50);
	}
	setsockopt(w->socket, IPPROTO_TCP, TCP_NODELAY, &(int) { 1 }, sizeof(int));
	measure(w->run, tcp_rounds, w, NULL);
}

static void tcp_server(struct wire *w)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	if (listener == -1)
		give_up_call("socket");
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int) { 1 }, sizeof(int));
	if (bind(listener, (void *)&w->address, sizeof w->address) != 0 || listen(listener, 1) != 0)
		give_up_call("listening");
	while ((w->socket = accept(listener, NULL, NULL)) == -1)
		if (errno != EINTR || deadline_passed)
			give_up_call("waiting for the client");
	setsockopt(w->socket, IPPROTO_TCP, TCP_NODELAY, &(int) { 1 }, sizeof(int));
	uint64_t rounds = 0;
	while (rounds < total_rounds(w->run) && read_all(w)) {
		write_all(w);
		rounds++;
		rounds_done++;
	}
	if (rounds != total_rounds(w->run))
		give_up("the client left after %llu of %llu rounds", (unsigned long long)rounds,
			(unsigned long long)total_rounds(w->run));
}

static void udp_rounds(void *context, uint64_t first, uint64_t count)
{
	struct wire *w = context;
	for (uint64_t round = first; round < first + count;) {
		memcpy(w->buffer, &round, sizeof round);
		if (send(w->socket, w->buffer, w->run->size, 0) == -1 && errno != ECONNREFUSED
		        && errno != EINTR)
			give_up_call("sending a datagram");
		uint64_t answered = LAST_ROUND;
		ssize_t n;
		/* A late answer to a round that was sent twice is not an answer to this one. */
		do {
			n = recv(w->socket, w->buffer, w->run->size, 0);
			if (n >= (ssize_t)sizeof answered)
				memcpy(&answered, w->buffer, sizeof answered);
		} while (n != -1 && answered != round);
		if (n != -1) {
			round++;
			continue;
		}
		if (deadline_passed)
			give_up("no answer over UDP before the deadline (%llu datagrams lost)",
				(unsigned long long)w->lost);
		if (errno == ECONNREFUSED)
			wait_ms(20); /* the server is not up yet: nothing was lost on the way */
		else if (errno == EAGAIN)
			w->lost++;
		else if (errno != EINTR)
			give_up_call("receiving a datagram");
	}
}

static void udp_client(struct wire *w)
{
	w->socket = socket(AF_INET, SOCK_DGRAM, 0);
	if (w->socket == -1 || connect(w->socket, (void *)&w->address, sizeof w->address) != 0)
		give_up_call("opening the UDP socket");
	struct timeval within = { .tv_usec = ANSWER_WITHIN_MS * 1000 };
	setsockopt(w->socket, SOL_SOCKET, SO_RCVTIMEO, &within, sizeof within);
	/* One round outside the count waits for the server to come up, so that its absence is not
	 * counted as loss. */
	udp_rounds(w, LAST_ROUND - 1, 1);
	w->lost = 0;
	measure(w->run, udp_rounds, w, &w->lost);
	/* Any of these may be lost; the server also leaves by itself when no client has spoken for
	 * a while. */
	memcpy(w->buffer, &(uint64_t) { LAST_ROUND }, sizeof(uint64_t));
	for (int i = 0; i < LAST_REPEATS; i++)
		send(w->socket, w->buffer, w->run->size, 0);
}

static void udp_server(struct wire *w)
{
	w->socket = socket(AF_INET, SOCK_DGRAM, 0);
	if (w->socket == -1 || bind(w->socket, (void *)&w->address, sizeof w->address) != 0)
		give_up_call("opening the UDP socket");
	struct timeval idle = { .tv_sec = 3 };
	uint64_t answered = 0;
	for (;;) {
		struct sockaddr_in client;
		socklen_t length = sizeof client;
		ssize_t n = recvfrom(
			w->socket, w->buffer, w->run->size, 0, (void *)&client, &length);
		if (n == -1 && errno == EAGAIN)
			return; /* idle after having answered: every farewell was lost */
		if (n == -1 && (errno != EINTR || deadline_passed))
			give_up_call("waiting for a datagram");
		if (n < (ssize_t)sizeof(uint64_t))
			continue;
		uint64_t round;
		memcpy(&round, w->buffer, sizeof round);
		if (round == LAST_ROUND)
			return;
		sendto(w->socket, w->buffer, (size_t)n, 0, (void *)&client, length);
		rounds_done++;
		if (answered++ == 0)
			setsockopt(w->socket, SOL_SOCKET, SO_RCVTIMEO, &idle, sizeof idle);
	}
}

int main(int argc, char **argv)
{
	static const char *const transports[] = { "tcp", "udp", NULL };
	static const struct program program = {
		"Round trips over TCP or UDP; the client prints one line of JSON.", "client",
		"server", transports, true
	};
	struct run run = { .transport = "tcp",
		.size = 8,
		.rounds = 20000,
		.warmup = 500,
		.batches = 50,
		.pairs = 1,
		.timeout = 30,
		.cpu = -1,
		.peer_cpu = -1,
		.host = "127.0.0.1",
		.port = 7117 };
	read_options(&run, &program, argc, argv);
	int udp = strcmp(run.transport, "udp") == 0;
	if (run.size < (udp ? 8u : 1u) || (udp && run.size > 65507)) {
		fprintf(stderr, "--size must be %s\n",
			udp ? "from 8 to 65507 for UDP" : "at least 1 for TCP");
		return 2;
	}
	int pair;
	take_role(&run, &pair);
	struct wire w = { .run = &run,
		.buffer = calloc(1, run.size),
		.address = {
			.sin_family = AF_INET, .sin_port = htons((uint16_t)(run.port + pair)) } };
	if (w.buffer == NULL)
		give_up("no memory for a payload of %zu bytes", run.size);
	if (inet_pton(AF_INET, run.host, &w.address.sin_addr) != 1)
		give_up("'%s' is not an IPv4 address", run.host);
	if (run.role == FIRST)
		(udp ? udp_client : tcp_client)(&w);
	else
		(udp ? udp_server : tcp_server)(&w);
	return 0;
}
