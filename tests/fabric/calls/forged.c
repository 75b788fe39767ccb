/* Announcements of long messages that another member of the pool forges: what the receiver may do
 * by one, and what it may not (decision 41).
 *
 * Three processes of one kernel and a pool. The receiver (rank 0) and the sender (rank 1) are
 * honest; the forger (forger.c) sends to each in the other's name, and knows what members know: the
 * address of the sender's table, and the tokens of its messages. Between the receiver's two looks
 * at an entry lies one system call: a page of the payload that is not there yet (userfaultfd(2))
 * stops it in the middle. As root.
 */
#define _GNU_SOURCE
#include "endpoints.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../libfabric/offers.h"
#include "forger.h"
#include "trap.h"

enum { PAGE = 4096, BYTES = 12 * PAGE + 700, ROOM = 14 * PAGE };
enum { FORGED = 1000, AFTER = 2000 }; /* tags; those of true messages are below */
enum { GUESSED = 77, SECRET = 99 }; /* a token of nothing; the pattern of what is private */
enum { VICTIMS = 32, UNTOUCHED = 0xee };
enum { MISSING = 5 * PAGE }; /* of the payload, where a reader stops */

static int orders, other; /* sockets: to the forger, and between the two */
static uint8_t *memory;
static uint64_t offers; /* where the sender's table is */
static struct vfi_offer *entries; /* in the sender: the same */

struct note {
	uint64_t offers, token;
};

static void tell(uint64_t token)
{
	struct note note = { offers, token };
	if (send(other, &note, sizeof(note), 0) != (ssize_t)sizeof(note))
		exit(1);
}

static uint64_t hear(void)
{
	struct note note;
	if (recv(other, &note, sizeof(note), 0) != (ssize_t)sizeof(note))
		exit(1);
	offers = note.offers;
	return note.token;
}

/* A receive that a forged announcement is for. It stays under way, perhaps, until all is closed. */
struct victim {
	struct operation receive;
	uint8_t *buffer;
	uint64_t tag;
};

static struct victim *expose(uint8_t *buffer)
{
	static struct victim victims[VICTIMS];
	static int count;
	struct victim *victim = &victims[count];
	victim->buffer = buffer ? buffer : malloc(ROOM);
	victim->tag = FORGED + (uint64_t)count++;
	memset(victim->buffer, UNTOUCHED, ROOM);
	AGAIN(fi_trecv(ep[0], victim->buffer, ROOM, NULL, FI_ADDR_UNSPEC, victim->tag, 0,
		&victim->receive));
	return victim;
}

static bool is_all(const uint8_t *bytes, size_t count, uint8_t value)
{
	for (size_t at = 0; at < count; at++)
		if (bytes[at] != value)
			return false;
	return true;
}

static void expect_nothing(const struct victim *victim, bool wiped, const char *what)
{
	CHECK(!victim->receive.done, "%s: delivered", what);
	CHECK(is_all(victim->buffer, BYTES, wiped ? 0 : UNTOUCHED),
		"%s: the buffer is not %s%s", what, wiped ? "wiped" : "as it was",
		is_filled(victim->buffer, BYTES, SECRET) ? ", it has what is private" : "");
	CHECK(is_all(victim->buffer + BYTES, ROOM - BYTES, UNTOUCHED), "%s: behind it", what);
}

/* Forges an announcement. A message that comes after it on the same lane tells that it was read. */
static void announce(const struct victim *victim, uint64_t token, uint64_t size,
	const uint64_t *place, uint32_t bytes)
{
	struct operation done = { 0 };
	uint64_t word;
	struct order order = { .operation = VFI_READY_TO_SEND,
		.header = { .flags = VSHMEM_WIRE_TAGGED,
			.message = { .size = size, .tag = victim->tag },
			.token = token },
		.bytes = bytes };
	memcpy(order.payload, place, bytes);
	order_message(orders, &order);
	AGAIN(fi_trecv(ep[0], &word, sizeof(word), NULL, FI_ADDR_UNSPEC, AFTER, 0, &done));
	order = (struct order) {
		.operation = VFI_EAGER_TAGGED,
		.header = { .message.tag = AFTER },
		.bytes = sizeof(word)
	};
	order_message(orders, &order);
	CHECK(wait_for(&done) == 1, "%s", fi_strerror(done.error.err));
}

enum outcome { IS_UNTOUCHED, IS_WIPED };
static void attack(
	uint8_t *buffer, uint64_t token, uint64_t index, enum outcome outcome, const char *what)
{
	struct victim *victim = expose(buffer);
	announce(victim, token, BYTES, (uint64_t[]) { offers, index }, 16);
	expect_nothing(victim, outcome == IS_WIPED, what);
}

/* Of the honest sender; both call this. */
static void true_message(uint8_t *buffer, uint64_t number)
{
	struct operation done = { 0 };
	if (rank) {
		fill(buffer, BYTES, number);
		AGAIN(fi_tsend(ep[0], buffer, BYTES, NULL, peer[0], number, &done));
		CHECK(wait_for(&done) == 1, "%s", fi_strerror(done.error.err));
		return;
	}
	memset(buffer, UNTOUCHED, BYTES);
	AGAIN(fi_trecv(ep[0], buffer, BYTES, NULL, FI_ADDR_UNSPEC, number, 0, &done));
	CHECK(wait_for(&done) == 1 && done.entry.len == BYTES && is_filled(buffer, BYTES, number),
		"true message %d: %zu B, %s", (int)number, done.entry.len,
		fi_strerror(done.error.err));
}

/* While the sender's memory has something else, which nobody was sent; both call this. */
static void attack_private(
	uint8_t *buffer, uint64_t token, uint64_t index, enum outcome outcome, const char *what)
{
	if (rank) {
		fill(memory, BYTES, SECRET);
		tell(0);
		hear();
		return;
	}
	hear();
	attack(buffer, token, index, outcome, what);
	tell(0);
}

/* The receiver guesses that a message lies where two have lain: by a forged announcement it reads
 * what is there by now. That is wiped, and two messages have to come before it guesses again. It
 * never guesses where others could see it meanwhile. */
static void offered_before(void)
{
	void *pooled = NULL;
	vshmem_pool *pool = NULL;
	if (!rank
	        && (vshmem_open(NULL, &pool, NULL, 0) != 0
	                || vshmem_hold(pool, ROOM, &pooled) != 0))
		exit(1);
	true_message(memory, 1);
	true_message(memory, 2);
	attack_private(pooled, GUESSED, 0, IS_UNTOUCHED, "a guess into the pool");
	attack_private(NULL, GUESSED, 0, IS_WIPED, "a guess");
	attack_private(NULL, GUESSED, 0, IS_UNTOUCHED, "no guess any more");
	attack_private(NULL, 0, 0, IS_UNTOUCHED, "the token of an entry that is free");
	true_message(memory, 3);
	attack_private(NULL, GUESSED, 0, IS_UNTOUCHED, "a guess after one message");
	true_message(memory, 4);
	attack_private(NULL, 0, 0, IS_WIPED, "a guess after two messages");
	true_message(rank ? memory : pooled, 5);
	if (!rank) {
		vshmem_release(pool, pooled);
		vshmem_close(pool);
	}
}

/* What the sender has for another endpoint. */
static void for_another(void)
{
	struct operation done = { 0 };
	true_message(memory, 1);
	if (rank) {
		fill(memory, BYTES, SECRET);
		AGAIN(fi_tsend(ep[0], memory, BYTES, NULL, peer[1], 2, &done));
		tell(entries[0].token);
		CHECK(wait_for(&done) == 1, "%s", fi_strerror(done.error.err));
	} else {
		attack(NULL, hear(), 0, IS_UNTOUCHED, "a message for another endpoint");
		AGAIN(fi_trecv(ep[1], memory, BYTES, NULL, FI_ADDR_UNSPEC, 2, 0, &done));
		CHECK(wait_for(&done) == 1 && is_filled(memory, BYTES, SECRET), "it, there");
	}
	true_message(memory, 3);
}

/* Part of a message would be taken for a whole one. The sender then sends that part, as it is
 * asked to: it is for this endpoint. */
static void shorter(void)
{
	struct operation done = { 0 };
	size_t less = BYTES - PAGE;
	true_message(memory, 1);
	if (rank) {
		fill(memory, BYTES, 2);
		AGAIN(fi_tsend(ep[0], memory, BYTES, NULL, peer[0], 2, &done));
		tell(entries[0].token);
		hear();
		CHECK(wait_for(&done) == 1, "%s", fi_strerror(done.error.err));
	} else {
		uint64_t token = hear();
		struct victim *victim = expose(NULL);
		announce(victim, token, less, (uint64_t[]) { offers, 0 }, 16);
		expect_nothing(victim, false, "shorter than it is");
		tell(0);
		CHECK(wait_for(&victim->receive) == 1 && victim->receive.entry.len == less
		                && is_filled(victim->buffer, less, 2),
			"%zu", victim->receive.entry.len);
	}
	true_message(memory, 3);
}

/* Each of a few makes a receiver that does not know the sender's memory give up looking for it:
 * true messages come in pieces then. */
static void announce_nowhere(void)
{
	const struct {
		uint64_t place[3];
		uint32_t bytes;
	} rows[] = { { { 0 }, 0 }, { { offers }, 8 }, { { offers, 0, 0 }, 24 }, { { 0, 0 }, 16 },
		{ { UINT64_MAX, UINT64_MAX }, 16 },
		{ { offers + sizeof(struct vfi_offer), 0 }, 16 }, { { offers, VFI_OFFERS }, 16 },
		{ { offers, UINT64_MAX }, 16 },
		{ { offers, UINT64_MAX / sizeof(struct vfi_offer) }, 16 } };
	static const uint64_t sizes[] = { BYTES, UINT64_MAX };
	for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
		for (int nth = 0; nth < 2; nth++) {
			struct victim *victim = expose(NULL);
			announce(victim, GUESSED, sizes[nth], rows[row].place, rows[row].bytes);
			expect_nothing(victim, false, "no place");
		}
	}
}

static void nowhere(void)
{
	if (!rank)
		announce_nowhere();
	true_message(memory, 1);
}

static void nowhere_in_known_memory(void)
{
	true_message(memory, 1);
	nowhere();
}

/* The table's memory is used for something else, and holds what the forger has sent to the sender:
 * the entry of a message that is not one. All but the secret is known to members. */
static void not_a_table_any_more(void)
{
	struct vfi_offer was = { 0 };
	true_message(memory, 1);
	if (rank) {
		was = entries[5];
		entries[5] = entries[0];
		entries[5].secret ^= 2;
		entries[5].token = GUESSED;
	}
	attack_private(NULL, GUESSED, 5, IS_UNTOUCHED, "an entry without the secret");
	if (rank)
		entries[5] = was;
	true_message(memory, 2);
}

/* The forger says in the receiver's name that it has the message: the sender gives it up. */
static void give_up(struct operation *send)
{
	struct order order = { .to = 1,
		.operation = VFI_CLEAR_TO_SEND,
		.header = { .token = entries[0].token } };
	order_message(orders, &order);
	CHECK(wait_for(send) == 1, "%s", fi_strerror(send->error.err));
}

/* The whole buffer has what is private, and the reader goes on. */
static void replace(uint8_t *buffer, int trap)
{
	static uint8_t instead[ROOM] __attribute__((aligned(PAGE)));
	const size_t behind = MISSING + PAGE;
	fill(instead, BYTES, SECRET);
	memcpy(buffer, instead, MISSING);
	memcpy(buffer + behind, instead + behind, BYTES - behind);
	release_trap(trap, buffer + MISSING, instead + MISSING);
}

/* What the sender does while the receiver stands in the middle of the payload. */
enum meanwhile { GIVES_UP, IS_NO_TABLE };

static void interrupted_send(uint8_t *buffer, enum meanwhile meanwhile)
{
	struct operation done = { 0 }, after = { 0 };
	uint64_t word = 0;
	fill(buffer, BYTES, 3);
	int trap = set_trap(buffer + MISSING);
	AGAIN(fi_tsend(ep[0], buffer, BYTES, NULL, peer[0], FORGED, &done));
	AGAIN(fi_tsend(ep[0], &word, sizeof(word), NULL, peer[0], AFTER, &after));
	await_reader(trap, other);
	if (meanwhile == GIVES_UP)
		give_up(&done);
	else
		entries[0].secret ^= 2;
	replace(buffer, trap);
	hear();
	if (meanwhile == IS_NO_TABLE) {
		/* It was one: the message is there, and comes in pieces. */
		entries[0].secret ^= 2;
		fill(buffer, BYTES, 3);
		CHECK(wait_for(&done) == 1, "%s", fi_strerror(done.error.err));
	}
	wait_for(&after);
}

static void interrupted_receive(enum meanwhile meanwhile)
{
	struct operation after = { 0 };
	uint64_t word;
	struct victim *victim = expose(NULL);
	AGAIN(fi_trecv(ep[0], &word, sizeof(word), NULL, FI_ADDR_UNSPEC, AFTER, 0, &after));
	wait_for(&after);
	expect_nothing(victim, true, "no message any more");
	tell(0);
	if (meanwhile == IS_NO_TABLE)
		CHECK(wait_for(&victim->receive) == 1 && is_filled(victim->buffer, BYTES, 3), "%s",
			fi_strerror(victim->receive.error.err));
}

/* GUESSES: where it lies is guessed, since two messages lay there, and its entry read at once. */
static void interrupted(enum meanwhile meanwhile, bool guesses)
{
	uint8_t *buffer = memory;
	if (rank)
		buffer = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);
	true_message(guesses ? buffer : memory, 1);
	if (guesses)
		true_message(buffer, 2);
	if (rank)
		interrupted_send(buffer, meanwhile);
	else
		interrupted_receive(meanwhile);
	true_message(memory, 4);
	true_message(buffer, 5);
}

static void given_up(void) { interrupted(GIVES_UP, false); }
static void given_up_guessed(void) { interrupted(GIVES_UP, true); }
static void table_gone(void) { interrupted(IS_NO_TABLE, false); }
static void table_gone_guessed(void) { interrupted(IS_NO_TABLE, true); }

/* The name of the sender's socket tells where that is, to the whole network namespace. */
static void find_own_table(void)
{
	char address[64], name[64], line[512];
	size_t bytes = sizeof(address);
	uint64_t nonce;
	MUST(fi_getname(&ep[0]->fid, address, &bytes));
	memcpy(&nonce, address + 16, sizeof(nonce)); /* after the pool's 16 bytes */
	snprintf(name, sizeof(name), "@vshmem-fi-1-%016" PRIx64 "-", nonce);
	FILE *sockets = fopen("/proc/net/unix", "r");
	while (sockets && fgets(line, sizeof(line), sockets)) {
		const char *found = strstr(line, name);
		if (found)
			offers = strtoull(found + strlen(name), NULL, 16);
	}
	if (!offers) {
		printf("the sender has no table\n");
		exit(1);
	}
	fclose(sockets);
	entries = ((struct vfi_offers *)(uintptr_t)offers)->entries;
}

static void honest(const char *directory, void (*test)(void))
{
	memory = malloc(ROOM);
	/* All that do not go in one piece. */
	setenv("FI_VSHMEM_CMA", "1", 1);
	open_all(directory);
	if (rank) {
		hear();
		find_own_table();
		tell(0);
	} else {
		await_forger(orders);
		tell(0);
		hear();
	}
	test();
	close_all();
}

/* When one has failed, the others would wait for it. */
static bool all_end_well(const pid_t children[3])
{
	bool well = true;
	int status;
	for (int left = 3; left > 0; left--) {
		pid_t ended = wait(&status);
		if (status == 0)
			continue;
		for (int nth = 0; well && nth < 3; nth++)
			if (children[nth] != ended)
				kill(children[nth], SIGKILL);
		well = false;
	}
	return well;
}

/* Each in processes of its own, with its own sockets between them. */
static int one(const char *name, void (*test)(void))
{
	char directory[] = "/tmp/vshmem-fabric-XXXXXX";
	int forging[2], pair[2];
	pid_t children[3];
	if (!mkdtemp(directory) || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, forging) != 0
	        || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0)
		return 1;
	for (rank = 0; rank < 3; rank++) {
		children[rank] = fork();
		if (children[rank])
			continue;
		orders = forging[rank == 2];
		other = pair[rank == 1];
		close(forging[rank != 2]);
		close(pair[rank != 1]);
		if (rank == 2)
			forge(directory, orders);
		else
			honest(directory, test);
		exit(failures != 0);
	}
	for (int nth = 0; nth < 2; nth++) {
		close(forging[nth]);
		close(pair[nth]);
	}
	bool passed = all_end_well(children);
	remove_addresses(directory);
	printf("%s: %s\n", passed ? "ok" : "FAILED", name);
	return !passed;
}

int main(void)
{
	static const struct {
		const char *name;
		void (*test)(void);
		bool traps;
	} rows[] = { { "from where a message was before", offered_before, false },
		{ "a message for another endpoint", for_another, false },
		{ "shorter than it is", shorter, false },
		{ "from places that are none", nowhere, false },
		{ "  of memory that is known", nowhere_in_known_memory, false },
		{ "an entry where the table was", not_a_table_any_more, false },
		{ "given up while it is read", given_up, true },
		{ "  where it was guessed to be", given_up_guessed, true },
		{ "the table's memory is used while it is read", table_gone, true },
		{ "  where it was guessed to be", table_gone_guessed, true } };
	int passed = 0, failed = 0;
	bool may_trap = can_trap();
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!may_copy()) {
		printf("SKIPPED: forged announcements: no cross-memory attach here\n"
		       "1 passed, 0 failed\n");
		return 0;
	}
	for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
		if (rows[row].traps && !may_trap)
			printf("SKIPPED: no userfaultfd here: %s\n", rows[row].name);
		else if (one(rows[row].name, rows[row].test) != 0)
			failed++;
		else
			passed++;
	}
	printf("%d passed, %d failed\n", passed, failed);
	return failed != 0;
}
