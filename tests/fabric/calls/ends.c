/* What must not harm who operates on memory of others: a record that says anything, and an owner
 * that is killed. */
#define _GNU_SOURCE
#include "sides.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vshmem.h"

/* A member that writes anything into a record. */
static void scribble(struct side *side, const struct published *published, size_t bytes,
	uint64_t (*any)(uint64_t), const int *enough)
{
	struct {
		uint64_t sequence, key, base, bytes, offset;
		int32_t memory;
		uint32_t access;
		uint64_t unused[2];
	} entry;
	vshmem_pool *pool;
	void *record, *dummy;
	must(vshmem_open(NULL, &pool, NULL, 0) == 0, "the pool");
	must(vshmem_hold(pool, 8192, &dummy) == 0, "memory of the pool");
	must(vshmem_attach(pool, (int)side->peer_record, 64 + 256 * 64, &record) == 0,
		"a record of number %u", side->peer_record);
	int ids[] = { vshmem_id(pool, dummy), vshmem_id(pool, dummy), 0, -1, (int)any(INT32_MAX) };
	char *entries = (char *)record + 64;
	while (!__atomic_load_n(enough, __ATOMIC_RELAXED)) {
		char *at = entries + any(256) * 64;
		memset(&entry, 0, sizeof(entry));
		entry.sequence = any(4) ? 2 * any(1000) : any(1000);
		entry.key = published->key[any(2)];
		entry.base = any(3) ? published->address[any(2)] : any(UINT64_MAX);
		entry.bytes = any(3) ? any(3) ? bytes : 8192 : UINT64_MAX - any(9000);
		entry.offset = any(2) ? any(8192) : UINT64_MAX - any(9000);
		entry.memory = ids[any(5)];
		entry.access = (uint32_t)any(16);
		memcpy(at, &entry, sizeof(entry));
		if (any(8) == 0)
			memset(at, (int)any(256), 64);
		__atomic_add_fetch((uint64_t *)record + 1 + any(2), 1, __ATOMIC_RELEASE);
	}
	/* Nothing is published any more. */
	memset(entries, 0, 256 * 64);
	__atomic_add_fetch((uint64_t *)record + 1, 1, __ATOMIC_RELEASE);
	vshmem_release(pool, dummy);
	vshmem_release(pool, record);
	vshmem_close(pool);
}

void hostile(struct side *side, const struct published *published, size_t bytes,
	uint64_t (*any)(uint64_t))
{
	fflush(stdout);
	int *enough = mmap(
		NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(enough != MAP_FAILED, "memory");
	pid_t other = fork();
	if (other == 0) {
		scribble(side, published, bytes, any, enough);
		_exit(0);
	}
	uint64_t text[8] = { 0 };
	int status;
	for (int turn = 0; turn < 10000; turn++) {
		int kind = (int)any(2);
		uint64_t address = published->address[kind] + any(any(2) ? 100 : bytes);
		uint64_t count = any(64), key = published->key[kind];
		switch (any(3)) {
		case 0:
			until(side,
				fi_write(side->ep, text, count, NULL, side->peer, address, key,
					side));
			break;
		case 1:
			until(side,
				fi_read(side->ep, text, count, NULL, side->peer, address, key,
					side));
			break;
		default:
			until(side,
				fi_atomic(side->ep, text, 1, NULL, side->peer, address & ~7ul, key,
					FI_UINT64, FI_SUM, side));
		}
		if (turn % 64 == 63)
			wait_any(side);
	}
	wait_any(side);
	__atomic_store_n(enough, 1, __ATOMIC_RELAXED);
	must(waitpid(other, &status, 0) == other && WIFEXITED(status) && WEXITSTATUS(status) == 0,
		"who writes into the record failed");
	munmap(enough, sizeof(int));
	side->errors = 0;
	passed("a record that says anything");
}

void killed(struct side *side, const struct published *published, pid_t owner)
{
	static char text[4096];
	for (int nth = 0; nth < 3000; nth++) {
		ssize_t rc;
		do {
			rc = nth % 2 ? fi_write(side->ep, text, sizeof(text), NULL, side->peer,
					       published->address[1], published->key[1], side)
				     : fi_read(side->ep, text, sizeof(text), NULL, side->peer,
					       published->address[1], published->key[1], side);
			if (nth == 1500)
				kill(owner, SIGKILL);
		} while (rc == -FI_EAGAIN && (look(side), 1));
		must(rc == 0, "an operation is not begun: %s", fi_strerror((int)-rc));
		side->wanted++;
	}
	wait_any(side);
	must(side->errors > 0, "no operation has failed");
	until(side,
		fi_write(side->ep, text, 8, NULL, side->peer, published->address[1],
			published->key[1], side));
	wait_error(side, FI_EHOSTUNREACH);
	passed("an owner that is killed");
}
