/* What is left of a segment after its detach and removal: nothing, and the next one begins with
 * zeros. An implementation may keep mappings and pages for later; it must not show. */
#include "case.h"

#include <setjmp.h>
#include <sys/resource.h>

enum { PAGE = 4096, LARGE = 48 * PAGE };

static sigjmp_buf back;

static void jump(int signal) { siglongjmp(back, signal); }

/* The signal that reading or writing a byte in this very process gives, or 0. */
static int touch(volatile char *at, bool write)
{
	struct sigaction handler = { .sa_handler = jump }, before_segv, before_bus;
	sigaction(SIGSEGV, &handler, &before_segv);
	sigaction(SIGBUS, &handler, &before_bus);
	int signal = sigsetjmp(back, 1);
	if (signal == 0) {
		char byte = *at;
		if (write)
			*at = byte;
	}
	sigaction(SIGSEGV, &before_segv, NULL);
	sigaction(SIGBUS, &before_bus, NULL);
	return signal;
}

static void fill(char *at, size_t bytes, char with) { memset(at, with, bytes); }

static bool is_filled(const char *at, size_t bytes, char with)
{
	for (size_t i = 0; i < bytes; i++)
		if (at[i] != with)
			return false;
	return true;
}

static void gone(size_t bytes)
{
	int a = segment_of(bytes);
	char *at = attach(a);
	fill(at, bytes, 1);
	shmdt(at);
	say("reading the first byte: SIGSEGV %s", yes(touch(at, false) == SIGSEGV));
	say("writing the last byte: SIGSEGV %s", yes(touch(at + bytes - 1, true) == SIGSEGV));
	say("again by shmdt: %s", got(shmdt(at)));
	say("mprotect: %s", got(mprotect(at, bytes, PROT_READ)));
	say("msync: %s", got(msync(at, bytes, MS_ASYNC)));
	say("madvise: %s", got(madvise(at, bytes, MADV_WILLNEED)));
	say("munmap: %s", got(munmap(at, bytes)));
	at = attach(a);
	say("attached again, it holds what it held: %s", yes(is_filled(at, bytes, 1)));
}

CASE(shm_again_page_is_gone_after_detach) { gone(PAGE); }
CASE(shm_again_large_is_gone_after_detach) { gone(LARGE); }

static void zeros(size_t bytes, size_t then)
{
	bool all = true;
	for (int i = 0; i < 12; i++) {
		size_t now = i % 2 ? then : bytes;
		int a = segment_of(now);
		char *at = attach(a);
		all &= is_filled(at, now, 0);
		fill(at, now, 7);
		shmdt(at);
		shmctl(a, IPC_RMID, NULL);
	}
	say("each begins with zeros: %s", yes(all));
}

CASE(shm_again_pages_are_zeros) { zeros(PAGE, PAGE); }
CASE(shm_again_large_ones_are_zeros) { zeros(LARGE, LARGE); }
CASE(shm_again_sizes_in_turn_are_zeros) { zeros(LARGE, 17 * PAGE); }

CASE(shm_again_two_at_once_are_apart)
{
	int a = segment_of(LARGE), b = segment_of(LARGE);
	for (int i = 0; i < 3; i++) {
		char *one = attach(a), *other = attach(b), *twice = attach(a);
		fill(one, LARGE, 1);
		fill(other, LARGE, 2);
		say("the first: %s, its twin: %s, the second: %s", yes(is_filled(one, LARGE, 1)),
			yes(is_filled(twice, LARGE, 1)), yes(is_filled(other, LARGE, 2)));
		shmdt(other);
		shmdt(one);
		say("attaches %ld and %ld", attaches(a), attaches(b));
		shmdt(twice);
	}
}

CASE(shm_again_at_the_old_address)
{
	int a = segment_of(LARGE);
	char *at = attach(a);
	at[5] = 5;
	shmdt(at);
	char *again = shmat(a, at, 0);
	say("at the old address: %s", yes(again == at && at[5] == 5));
	shmdt(at);
	void *mine = mmap(at, LARGE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	say("another mapping there: %s", yes(mine == (void *)at && at[5] == 0));
	again = shmat(a, NULL, 0);
	say("elsewhere then: %s", yes(again != at && again[5] == 5));
	again[5] = 6;
	say("the other mapping is untouched: %s", yes(at[5] == 0));
	say("over it: %s", yes(shmat(a, at, SHM_REMAP) == (void *)at && at[5] == 6));
}

CASE(shm_again_rights_do_not_linger)
{
	int a = segment_of(LARGE);
	char *at = attach(a);
	mprotect(at, LARGE, PROT_READ);
	shmdt(at);
	at = attach(a);
	say("writable: %s", yes(touch(at, true) == 0));
	shmdt(at);
	at = shmat(a, NULL, SHM_RDONLY);
	say("read only: %s", yes(touch(at, false) == 0 && touch(at, true) == SIGSEGV));
	shmdt(at);
	at = attach(a);
	madvise(at, LARGE, MADV_DONTFORK);
	shmdt(at);
	at = attach(a);
	pid_t child = fork();
	if (child == 0)
		_exit(touch(at, true));
	say("a child has it: %s", ended(finish(child)));
}

CASE(shm_again_after_mlock)
{
	int a = segment_of(LARGE);
	char *at = attach(a);
	say("mlock: %s", got(mlock(at, LARGE)));
	shmdt(at);
	say("munlock after the detach: %s", got(munlock(at, LARGE)));
	at = attach(a);
	say("mlock2: %s", got(mlock2(at, LARGE, 0)));
	shmdt(at);
	at = attach(a);
	say("attached: %s", yes(touch(at, true) == 0));
}

CASE(shm_again_in_a_child)
{
	int a = segment_of(LARGE), b = segment_of(LARGE);
	char *at = attach(a), *other = attach(b);
	fill(at, LARGE, 1);
	fill(other, LARGE, 2);
	shmdt(at);
	pid_t child = fork();
	if (child == 0) {
		char *mine = attach(a);
		bool same = is_filled(mine, LARGE, 1);
		fill(mine, LARGE, 3);
		shmdt(mine);
		shmdt(other);
		mine = attach(b);
		same &= is_filled(mine, LARGE, 2);
		_exit(same ? 0 : 1);
	}
	say("the child: %s", ended(finish(child)));
	at = attach(a);
	say("what it wrote: %s", yes(is_filled(at, LARGE, 3)));
	say("attaches %ld and %ld", attaches(a), attaches(b));
}

CASE(shm_again_many_sizes)
{
	bool all = true;
	for (int i = 1; i <= 20; i++) {
		int a = segment_of((size_t)i * 3 * PAGE);
		char *at = attach(a);
		all &= is_filled(at, (size_t)i * 3 * PAGE, 0);
		fill(at, (size_t)i * 3 * PAGE, 1);
		shmdt(at);
		at = attach(a);
		all &= is_filled(at, (size_t)i * 3 * PAGE, 1);
		shmdt(at);
		shmctl(a, IPC_RMID, NULL);
	}
	say("all as they should be: %s", yes(all));
}

CASE(shm_again_with_a_bound_on_addresses)
{
	int a = segment_of(LARGE);
	char *at = attach(a);
	shmdt(at);
	struct rlimit bound;
	getrlimit(RLIMIT_AS, &bound);
	bound.rlim_cur = (rlim_t)1 << 34;
	say("setrlimit: %s", got(setrlimit(RLIMIT_AS, &bound)));
	at = attach(a);
	say("attached: %s", yes(touch(at, true) == 0));
}
