/* Sends datagrams of one byte: datagrams ADDRESS PORT OWN-PORT COUNT. With own port 0, from any. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

_Noreturn static void fail(const char *what)
{
	fprintf(stderr, "datagrams: %s: %s\n", what, strerrorname_np(errno));
	exit(1);
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		fprintf(stderr, "usage: datagrams ADDRESS PORT OWN-PORT COUNT\n");
		return 2;
	}
	struct sockaddr_in to = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)atoi(argv[2])) };
	struct sockaddr_in own = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)atoi(argv[3])) };
	if (inet_pton(AF_INET, argv[1], &to.sin_addr) != 1) {
		fprintf(stderr, "datagrams: %s is no address\n", argv[1]);
		return 2;
	}
	int sender = socket(AF_INET, SOCK_DGRAM, 0);
	if (sender == -1 || bind(sender, (struct sockaddr *)&own, sizeof own) != 0)
		fail("bind");
	long sent = 0;
	for (long left = atol(argv[4]); left > 0; left--)
		sent += sendto(sender, "!", 1, 0, (struct sockaddr *)&to, sizeof to) == 1;
	printf("%ld\n", sent);
	return 0;
}
