/* Many endpoints of one pool: each sends to all others, or with the word "near" to the next four.
 * With "or-not" it is right that some cannot be reached: the call says FI_ENOMEM, and the rest goes
 * on.
 */
#include <string.h>

#include "endpoint.h"

static struct endpoint port;

int main(int argc, char **argv)
{
	int words = ranks_begin(argc, argv), far = ranks - 1, may_fail = 0;
	for (int nth = 0; nth < words; nth++) {
		if (strcmp(argv[5 + nth], "near") == 0)
			far = ranks - 1 < 4 ? ranks - 1 : 4;
		may_fail |= strcmp(argv[5 + nth], "or-not") == 0;
	}
	struct wants wants = { .caps = FI_TAGGED | FI_SOURCE };
	must(have_endpoint(&port, &wants, "an endpoint"), "no endpoint");
	uint32_t out[2] = { (uint32_t)rank, 0 }, (*in)[2] = calloc((size_t)ranks, sizeof(*in));
	struct operation *received = calloc((size_t)ranks, sizeof(*received));
	uint8_t *reached = calloc((size_t)ranks, 1), *all = calloc((size_t)ranks, (size_t)ranks);
	for (int other = 0; other < ranks; other++)
		taken(&port,
			fi_trecv(port.ep, in[other], 8, NULL, FI_ADDR_UNSPEC, (uint64_t)other, 0,
				&received[other]));
	int missed = 0;
	for (int distance = 1; distance <= far; distance++) {
		int to = (rank + distance) % ranks;
		struct operation sent = { 0 };
		ssize_t gave;
		out[1] = (uint32_t)to;
		while ((gave = fi_tsend(port.ep, out, 8, NULL, port.at[to], (uint64_t)rank, &sent))
		        == -FI_EAGAIN)
			look(&port);
		if (gave == 0)
			wait_for(&port, &sent, 1);
		int error = gave ? (int)-gave : sent.failed;
		must(error == 0 || (may_fail && error == FI_ENOMEM), "to %d: %s", to,
			fi_strerror(error));
		missed += error != 0;
		reached[to] = error == 0;
	}
	gather(reached, all, (size_t)ranks);
	for (int other = 0; other < ranks; other++) {
		if (!all[other * ranks + rank])
			continue;
		finish(&port, &received[other]);
		must(in[other][0] == (uint32_t)other && in[other][1] == (uint32_t)rank,
			"what %d sent", other);
	}
	passed("a crowd");
	int *misses = calloc((size_t)ranks, sizeof(missed)), sum = 0;
	gather(&missed, misses, sizeof(missed));
	for (int other = 0; other < ranks; other++)
		sum += misses[other];
	if (rank == 0)
		printf("%d of %d could not be reached\n", sum, ranks * far);
	close_endpoint(&port);
	return ranks_end();
}
