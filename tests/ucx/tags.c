/* tags: two processes send each other tagged messages by UCX, and check what arrives.
 *
 *   tags KEY serve   and   tags KEY MODE
 *
 * They exchange their UCX addresses by a System V queue with that key. MODE:
 *   latency BYTES COUNT   half of a round trip, in microseconds, the median of 20 parts
 *   stream BYTES          so many bytes, as messages of 1 MiB, and a hash of them at both ends
 *   forever               round trips until one of the two is killed
 * Exit codes: 0 done, 1 the data are wrong, 2 usage or set-up, 3 an error of UCX's. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <time.h>
#include <ucp/api/ucp.h>

enum { CHUNK = 1 << 20, PARTS = 20, TAG = 7 };

struct address {
	long type;
	uint32_t bytes;
	char text[1020];
};
struct plan {
	uint64_t stream, bytes, count, forever;
};

static ucp_worker_h worker;
static ucp_ep_h peer;

static void fail(const char *what, const char *why) {
	fprintf(stderr, "tags: %s: %s\n", what, why);
	exit(2);
}

static void check(ucs_status_t status, const char *what) {
	if (status == UCS_OK)
		return;
	printf("error: %s: %s\n", what, ucs_status_string(status));
	exit(3);
}

static void finish(ucs_status_ptr_t request, const char *what) {
	if (request == NULL)
		return;
	if (UCS_PTR_IS_ERR(request))
		check(UCS_PTR_STATUS(request), what);
	ucs_status_t status;
	while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
		ucp_worker_progress(worker);
	ucp_request_free(request);
	check(status, what);
}

static void put(const void *from, size_t bytes) {
	ucp_request_param_t none = {0};
	finish(ucp_tag_send_nbx(peer, from, bytes, TAG, &none), "send");
}

static void get(void *into, size_t bytes) {
	ucp_request_param_t none = {0};
	finish(ucp_tag_recv_nbx(worker, into, bytes, TAG, UINT64_MAX, &none), "receive");
}

/* FNV-1a, by words of 64 bits. */
static uint64_t hash(uint64_t state, const uint64_t *words, size_t count) {
	for (size_t i = 0; i < count; i++)
		state = (state ^ words[i]) * 0x100000001b3;
	return state;
}

static void fill(uint64_t *words, size_t count, uint64_t *seed) {
	for (size_t i = 0; i < count; i++) {
		*seed ^= *seed << 13, *seed ^= *seed >> 7, *seed ^= *seed << 17;
		words[i] = *seed;
	}
}

static double now(void) {
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void connect_by(key_t key, int serves) {
	ucp_config_t *config;
	ucp_context_h context;
	ucp_address_t *own;
	size_t bytes;
	check(ucp_config_read(NULL, NULL, &config), "ucp_config_read");
	ucp_params_t params = {
		.field_mask = UCP_PARAM_FIELD_FEATURES,
		.features = UCP_FEATURE_TAG,
	};
	check(ucp_init(&params, config, &context), "ucp_init");
	ucp_config_release(config);
	ucp_worker_params_t one = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SINGLE,
	};
	check(ucp_worker_create(context, &one, &worker), "ucp_worker_create");
	check(ucp_worker_get_address(worker, &own, &bytes), "ucp_worker_get_address");

	int queue = msgget(key, 0600 | IPC_CREAT);
	struct address mine = {.type = serves ? 1 : 2, .bytes = bytes}, other;
	if (queue < 0 || bytes > sizeof mine.text)
		fail("msgget", "no queue, or a long address");
	memcpy(mine.text, own, bytes);
	size_t text = sizeof mine - sizeof mine.type;
	if (msgsnd(queue, &mine, text, 0) || msgrcv(queue, &other, text, serves ? 2 : 1, 0) < 0)
		fail("exchange of addresses", "msgsnd or msgrcv");
	ucp_worker_release_address(worker, own);
	ucp_ep_params_t to = {
		.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
		.address = (const ucp_address_t *)other.text,
	};
	check(ucp_ep_create(worker, &to, &peer), "ucp_ep_create");
}

static void answer(const struct plan *plan, char *room) {
	uint64_t state = 0;
	for (uint64_t done = 0; plan->stream && done < plan->bytes; done += CHUNK) {
		get(room, CHUNK);
		state = hash(state, (uint64_t *)room, CHUNK / 8);
	}
	if (plan->stream)
		put(&state, sizeof state);
	for (uint64_t i = 0; plan->forever || i < plan->count; i++) {
		get(room, plan->bytes);
		put(room, plan->bytes);
	}
}

/* A round trip of bytes that come back as they went. */
static void round_trip(char *room, char *back, const struct plan *plan, uint64_t number) {
	memcpy(room, &number, sizeof number);
	put(room, plan->bytes);
	get(back, plan->bytes);
	if (memcmp(room, back, plan->bytes)) {
		printf("wrong: round trip %llu\n", (unsigned long long)number);
		exit(1);
	}
}

static void ask(const struct plan *plan, char *room, char *back) {
	uint64_t seed = 88172645463325252u, state = 0, theirs = 0;
	for (uint64_t done = 0; plan->stream && done < plan->bytes; done += CHUNK) {
		fill((uint64_t *)room, CHUNK / 8, &seed);
		state = hash(state, (uint64_t *)room, CHUNK / 8);
		put(room, CHUNK);
	}
	if (plan->stream) {
		get(&theirs, sizeof theirs);
		printf("%s: %llu bytes, hash %016llx\n", state == theirs ? "equal" : "wrong",
		       (unsigned long long)plan->bytes, (unsigned long long)state);
		exit(state != theirs);
	}
	fill((uint64_t *)room, CHUNK / 8, &seed);
	for (uint64_t i = 0; plan->forever; i++)
		round_trip(room, back, plan, i);
	double parts[PARTS];
	for (int part = 0; part < PARTS; part++) {
		double begun = now();
		for (uint64_t i = 0; i < plan->count / PARTS; i++)
			round_trip(room, back, plan, i);
		parts[part] = (now() - begun) / (plan->count / PARTS) / 2;
	}
	qsort(parts, PARTS, sizeof *parts, by_value);
	printf("%.3f us\n", parts[PARTS / 2]);
}

int main(int argc, char **argv) {
	struct plan plan = {0};
	const char *mode = argc > 2 ? argv[2] : "";
	if (!strcmp(mode, "latency") && argc == 5)
		plan = (struct plan){.bytes = strtoull(argv[3], 0, 0),
				     .count = strtoull(argv[4], 0, 0) / PARTS * PARTS};
	else if (!strcmp(mode, "stream") && argc == 4)
		plan = (struct plan){.stream = 1, .bytes = strtoull(argv[3], 0, 0) / CHUNK * CHUNK};
	else if (!strcmp(mode, "forever"))
		plan = (struct plan){.bytes = 8, .forever = 1};
	else if (strcmp(mode, "serve"))
		fail("usage", "tags KEY serve|latency BYTES COUNT|stream BYTES|forever");
	if (!plan.stream && (plan.bytes > CHUNK || (*mode != 's' && plan.bytes < 8)))
		fail("usage", "8 bytes to 1 MiB");
	int serves = !strcmp(mode, "serve");
	char *room = malloc(CHUNK), *back = malloc(CHUNK);
	if (!room || !back)
		fail("malloc", "no memory");
	connect_by(strtol(argv[1], 0, 0), serves);
	if (serves) {
		get(&plan, sizeof plan);
		answer(&plan, room);
	} else {
		put(&plan, sizeof plan);
		ask(&plan, room, back);
	}
	return 0;
}
