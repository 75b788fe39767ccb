/* One-sided operations between two processes of this kernel, on memory of the pool and on private
 * memory: each against a shadow, with both kinds of addresses and keys.
 *
 *   one_sided [SEED]
 *
 * The parent operates on the memory of its child, which makes progress when it is told to.
 */
#define _GNU_SOURCE
#include "sides.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { BYTES = 1 << 20, MANY = 100000 };

static uint64_t seed;
static uint64_t any(uint64_t below)
{
	seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
	return below ? (seed >> 11) % below : 0;
}

/* Two regions of the child: in the pool, and private. */
static unsigned char *shadow[2];
static const char *kinds[] = { "pool", "private" };
static struct published published;
static pid_t child;

static void random_bytes(unsigned char *bytes, size_t count)
{
	for (size_t at = 0; at < count; at++)
		bytes[at] = (unsigned char)any(256);
}

/* A range of the region, and a buffer of as many random bytes. */
struct range {
	size_t at, bytes;
	unsigned char *buffer;
};
static struct range random_range(void)
{
	size_t most = any(20) ? any(5) ? 200 : 20000 : BYTES;
	struct range range = { .bytes = any(most) + 1 };
	range.at = any(BYTES - range.bytes + 1);
	if (any(3) == 0 && range.bytes >= 8) {
		range.bytes = 8;
		range.at &= ~(size_t)7;
	}
	range.buffer = malloc(range.bytes);
	random_bytes(range.buffer, range.bytes);
	return range;
}

static void put_one(struct side *side, int kind)
{
	struct range range = random_range();
	uint64_t address = published.address[kind] + range.at, key = published.key[kind];
	size_t cut = any(range.bytes + 1);
	struct iovec parts[2] = { { range.buffer, cut },
		{ range.buffer + cut, range.bytes - cut } };
	struct fi_rma_iov there = { address, range.bytes, key };
	struct fi_msg_rma msg = { .msg_iov = parts,
		.iov_count = 2,
		.addr = side->peer,
		.rma_iov = &there,
		.rma_iov_count = 1,
		.context = side };
	switch (any(5)) {
	case 0:
		until(side,
			fi_write(side->ep, range.buffer, range.bytes, NULL, side->peer, address,
				key, side));
		break;
	case 1:
		until(side, fi_writev(side->ep, parts, NULL, 2, side->peer, address, key, side));
		break;
	case 2: until(side, fi_writemsg(side->ep, &msg, FI_FENCE | FI_DELIVERY_COMPLETE)); break;
	case 3:
		if (range.bytes <= side->info->tx_attr->inject_size) {
			until(side,
				fi_inject_write(side->ep, range.buffer, range.bytes, side->peer,
					address, key));
			side->wanted--; /* no completion is asked for */
			/* It is the caller's again. */
			memcpy(shadow[kind] + range.at, range.buffer, range.bytes);
			memset(range.buffer, 0, range.bytes);
			free(range.buffer);
			until(side,
				fi_read(side->ep, side->scratch, 1, NULL, side->peer, address, key,
					side));
			wait_all(side);
			return;
		}
		/* fall through */
	default:
		until(side,
			fi_writemsg(side->ep, &msg,
				range.bytes <= side->info->tx_attr->inject_size ? FI_INJECT : 0));
		wait_all(side);
	}
	wait_all(side);
	memcpy(shadow[kind] + range.at, range.buffer, range.bytes);
	free(range.buffer);
}

static void get_one(struct side *side, int kind)
{
	struct range range = random_range();
	size_t cut = any(range.bytes + 1);
	struct iovec parts[2] = { { range.buffer, cut },
		{ range.buffer + cut, range.bytes - cut } };
	if (any(2))
		until(side,
			fi_read(side->ep, range.buffer, range.bytes, NULL, side->peer,
				published.address[kind] + range.at, published.key[kind], side));
	else
		until(side,
			fi_readv(side->ep, parts, NULL, 2, side->peer,
				published.address[kind] + range.at, published.key[kind], side));
	wait_all(side);
	must(memcmp(range.buffer, shadow[kind] + range.at, range.bytes) == 0,
		"%s: %zu bytes from %zu differ", kinds[kind], range.bytes, range.at);
	free(range.buffer);
}

static void puts_and_gets(struct side *side)
{
	for (int turn = 0; turn < 600; turn++) {
		put_one(side, (int)any(2));
		get_one(side, (int)any(2));
	}
	passed("puts and gets");
}

/* Each number of a valid operation, as this test understands it. */
static void atomic_one(struct side *side, int kind, enum fi_datatype datatype, enum fi_op op,
	int call, size_t most)
{
	size_t unit = number_bytes(datatype), count = 1 + any(most < 20 ? most : 20);
	size_t at = any((BYTES - count * unit) / unit) * unit;
	unsigned char operand[256], compare[256], result[256], was[256];
	random_numbers(any, datatype, operand, count);
	random_numbers(any, datatype, compare, count);
	/* What is there is a number, too, and often the one that is compared. */
	random_numbers(any, datatype, was, count);
	if (any(2))
		memcpy(was, compare, count * unit);
	until(side,
		fi_write(side->ep, was, count * unit, NULL, side->peer,
			published.address[kind] + at, published.key[kind], side));
	wait_all(side);
	uint64_t address = published.address[kind] + at, key = published.key[kind];
	if (call == 0)
		until(side,
			fi_atomic(side->ep, operand, count, NULL, side->peer, address, key,
				datatype, op, side));
	else if (call == 1)
		until(side,
			fi_fetch_atomic(side->ep, op == FI_ATOMIC_READ ? NULL : operand, count,
				NULL, result, NULL, side->peer, address, key, datatype, op, side));
	else
		until(side,
			fi_compare_atomic(side->ep, operand, count, NULL, compare, NULL, result,
				NULL, side->peer, address, key, datatype, op, side));
	wait_all(side);
	must(call == 0 || memcmp(result, was, count * unit) == 0,
		"%s: datatype %d, operation %d: another result", kinds[kind], datatype, op);
	reference(datatype, op, was, operand, compare, count);
	memcpy(shadow[kind] + at, was, count * unit);
	until(side, fi_read(side->ep, result, count * unit, NULL, side->peer, address, key, side));
	wait_all(side);
	must(memcmp(result, was, count * unit) == 0,
		"%s: datatype %d, operation %d, call %d: another value", kinds[kind], datatype, op,
		call);
}

static void atomics(struct side *side)
{
	int valid = 0;
	for (int datatype = 0; datatype < FI_DATATYPE_LAST; datatype++) {
		for (int op = 0; op < FI_ATOMIC_OP_LAST; op++) {
			for (int call = 0; call < 3; call++) {
				size_t most = 0;
				int rc = call == 0 ? fi_atomicvalid(side->ep, datatype, op, &most)
					: call == 1
					? fi_fetch_atomicvalid(side->ep, datatype, op, &most)
					: fi_compare_atomicvalid(side->ep, datatype, op, &most);
				struct fi_atomic_attr attr;
				uint64_t flag = call == 0 ? 0
					: call == 1       ? FI_FETCH_ATOMIC
							  : FI_COMPARE_ATOMIC;
				int asked = fi_query_atomic(
					side->domain, datatype, op, &attr, flag);
				must(rc == asked && (rc != 0 || attr.count == most),
					"datatype %d, operation %d: query and valid differ",
					datatype, op);
				must((rc == 0) == is_valid(datatype, op, call),
					"datatype %d, operation %d, call %d: valid is %d", datatype,
					op, call, rc);
				if (rc != 0)
					continue;
				valid++;
				for (int turn = 0; turn < 4; turn++)
					atomic_one(side, turn % 2, datatype, op, call, most);
			}
		}
	}
	must(valid > 100, "only %d atomic operations are valid", valid);
	passed("atomic operations");
}

/* What must be refused, with an error completion of its own. */
static void refused(struct side *side)
{
	char text[64] = { 0 };
	for (int kind = 0; kind < 2; kind++) {
		uint64_t address = published.address[kind], key = published.key[kind];
		until(side,
			fi_write(side->ep, text, 8, NULL, side->peer, address + BYTES - 4, key,
				side));
		wait_error(side, FI_EINVAL);
		until(side, fi_read(side->ep, text, 8, NULL, side->peer, address - 1, key, side));
		wait_error(side, FI_EINVAL);
		until(side,
			fi_read(side->ep, text, 64, NULL, side->peer, address, key + 0x123456,
				side));
		wait_error(side, FI_EKEYREJECTED);
		until(side,
			fi_atomic(side->ep, text, 1, NULL, side->peer, address + 1, key, FI_UINT64,
				FI_SUM, side));
		wait_error(side, FI_EINVAL);
	}
	until(side,
		fi_write(side->ep, text, 8, NULL, side->peer, published.address[2],
			published.key[2], side));
	wait_error(side, FI_EACCES);
	until(side,
		fi_read(side->ep, text, 8, NULL, side->peer, published.address[2], published.key[2],
			side));
	wait_all(side);
	passed("what is refused");
}

/* While its owner sleeps, memory of the pool is reached all the same. */
static void without_its_owner(struct side *side)
{
	uint64_t value = 77, old = 0;
	kill(child, SIGSTOP);
	until(side,
		fi_write(side->ep, &value, 8, NULL, side->peer, published.address[0],
			published.key[0], side));
	wait_all(side);
	until(side,
		fi_fetch_atomic(side->ep, &value, 1, NULL, &old, NULL, side->peer,
			published.address[0], published.key[0], FI_UINT64, FI_SUM, side));
	wait_all(side);
	must(old == 77, "another value was fetched: %llu", (unsigned long long)old);
	until(side,
		fi_read(side->ep, &old, 8, NULL, side->peer, published.address[0], published.key[0],
			side));
	wait_all(side);
	must(old == 154, "another value was read: %llu", (unsigned long long)old);
	memcpy(shadow[0], &old, 8);
	kill(child, SIGCONT);
	passed("memory of the pool while its owner is stopped");
}

/* Very many, not waited for one by one, in order. */
static void many(struct side *side)
{
	static uint64_t values[MANY];
	for (int kind = 0; kind < 2; kind++) {
		for (uint64_t nth = 0; nth < MANY; nth++) {
			values[nth] = nth;
			until(side,
				fi_write(side->ep, &values[nth], 8, NULL, side->peer,
					published.address[kind] + nth % 16 * 8, published.key[kind],
					side));
		}
		wait_all(side);
		uint64_t last[16];
		until(side,
			fi_read(side->ep, last, sizeof(last), NULL, side->peer,
				published.address[kind], published.key[kind], side));
		wait_all(side);
		for (uint64_t nth = 0; nth < 16; nth++)
			must(last[nth] == MANY - 16 + (nth + 16 - MANY % 16) % 16,
				"%s: number %llu is %llu", kinds[kind], (unsigned long long)nth,
				(unsigned long long)last[nth]);
		memcpy(shadow[kind], last, sizeof(last));
	}
	passed("very many puts, in order");
}

/* What the child counts and is notified of. */
static void notified_and_counted(struct side *side)
{
	char text[16] = "remote data";
	struct seen before = ask(side, SAY_SEEN).seen;
	for (int kind = 0; kind < 2; kind++) {
		until(side,
			fi_writedata(side->ep, text, 8, NULL, 0x1234 + kind, side->peer,
				published.address[kind], published.key[kind], side));
		wait_all(side);
		until(side,
			fi_write(side->ep, text, 8, NULL, side->peer, published.address[kind],
				published.key[kind], side));
		wait_all(side);
		until(side,
			fi_read(side->ep, text + 8, 8, NULL, side->peer, published.address[kind],
				published.key[kind], side));
		wait_all(side);
		memcpy(shadow[kind], text, 8);
	}
	struct seen now;
	do
		now = ask(side, SAY_SEEN).seen;
	while (now.data != before.data + 2 || now.written != before.written + 4
	        || now.read != before.read + 2);
	must(now.region_written[0] == before.region_written[0] + 2
	                && now.region_written[1] == before.region_written[1] + 2,
		"counters of regions: %llu and %llu", (unsigned long long)now.region_written[0],
		(unsigned long long)now.region_written[1]);
	must(now.last_data == 0x1235, "other data: %llx", (unsigned long long)now.last_data);
	passed("remote data and counters");
}

/* The memory as its owner sees it. */
static void compare_all(struct side *side)
{
	for (int kind = 0; kind < 2; kind++)
		must(ask(side, SAY_SUM).sum[kind] == sum_of(shadow[kind], BYTES),
			"%s: its owner sees something else", kinds[kind]);
	passed("what the owner sees");
}

/* A region that is closed and opened again has another entry. */
static void opened_again(struct side *side)
{
	uint64_t value = 5;
	for (int turn = 0; turn < 50; turn++) {
		uint64_t key = published.key[0];
		published = ask(side, SAY_REOPEN).published;
		until(side,
			fi_write(side->ep, &value, 8, NULL, side->peer, published.address[0],
				published.key[0], side));
		wait_all(side);
		memcpy(shadow[0], &value, 8);
		if (key != published.key[0]) {
			until(side,
				fi_write(side->ep, &value, 8, NULL, side->peer,
					published.address[0], key, side));
			wait_error(side, FI_EKEYREJECTED);
		}
	}
	passed("regions that are closed and opened again");
}

static void pair(int mr_mode, const char *name)
{
	int ends[2];
	must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
	fflush(stdout);
	child = fork();
	if (child == 0) {
		close(ends[0]);
		own_memory(ends[1], mr_mode, BYTES);
		_exit(0);
	}
	close(ends[1]);
	struct side side;
	open_side(&side, ends[0], mr_mode);
	printf("%s:\n", name);
	published = ask(&side, SAY_REGIONS).published;
	for (int kind = 0; kind < 2; kind++) {
		shadow[kind] = calloc(1, BYTES);
		memset(shadow[kind], 0, BYTES);
	}
	puts_and_gets(&side);
	atomics(&side);
	refused(&side);
	without_its_owner(&side);
	many(&side);
	notified_and_counted(&side);
	opened_again(&side);
	compare_all(&side);
	hostile(&side, &published, BYTES, any);
	killed(&side, &published, child);
	waitpid(child, NULL, 0);
	close_side(&side);
	close(ends[0]);
	free(shadow[0]);
	free(shadow[1]);
}

int main(int argc, char **argv)
{
	seed = (argc > 1 ? strtoull(argv[1], NULL, 0) : 1) * 0x9e3779b97f4a7c15u | 1;
	signal(SIGPIPE, SIG_IGN);
	pair(MR_BASIC, "addresses and the provider's keys");
	pair(0, "offsets and own keys");
	printf("%d passed, 0 failed\n", passes);
	return 0;
}
