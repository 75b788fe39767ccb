/* A segment's attaches are the kernel's mappings: munmap, mprotect, mremap, madvise act on them. */
#include "case.h"

#include <sys/resource.h>
#include <sys/syscall.h>

enum { PAGE = 4096 };

CASE(shm_munmap_whole)
{
	int a = segment_of(3 * PAGE);
	char *at = attach(a);
	say("munmap: %s", got(munmap(at, 3 * PAGE)));
	say("attaches %ld", attaches(a));
	say("shmdt after it: %s", got(shmdt(at)));
	say("dtime %s", when(segment_state(a).shm_dtime));
}

CASE(shm_munmap_tail)
{
	int a = segment_of(3 * PAGE);
	char *at = attach(a);
	munmap(at + 2 * PAGE, PAGE);
	say("attaches %ld", attaches(a));
	say("shmdt: %s", got(shmdt(at)));
	say("attaches %ld", attaches(a));
}

CASE(shm_munmap_head)
{
	int a = segment_of(3 * PAGE);
	char *at = attach(a);
	munmap(at, PAGE);
	say("attaches %ld", attaches(a));
	say("shmdt of the old start: %s", got(shmdt(at)));
	say("attaches %ld", attaches(a));
}

CASE(shm_munmap_head_shmdt_rest)
{
	int a = segment_of(3 * PAGE);
	char *at = attach(a);
	munmap(at, PAGE);
	say("shmdt of the new start: %s", got(shmdt(at + PAGE)));
	say("attaches %ld", attaches(a));
}

CASE(shm_munmap_hole)
{
	int a = segment_of(3 * PAGE);
	char *at = attach(a);
	munmap(at + PAGE, PAGE);
	say("attaches %ld", attaches(a));
	say("shmdt takes both parts: %s", got(shmdt(at)));
	say("attaches %ld", attaches(a));
}

CASE(shm_munmap_part_by_part)
{
	int a = segment_of(3 * PAGE);
	char *at = attach(a);
	for (int i = 0; i < 3; i++) {
		munmap(at + i * PAGE, PAGE);
		say("after %d: attaches %ld", i + 1, attaches(a));
	}
}

CASE(shm_munmap_last_of_removed)
{
	int a = segment_of(PAGE);
	char *at = attach(a);
	shmctl(a, IPC_RMID, NULL);
	munmap(at, PAGE);
	struct shmid_ds ds;
	say("the segment: %s", got(shmctl(a, IPC_STAT, &ds)));
}

CASE(shm_mprotect_whole)
{
	int a = segment_of(3 * PAGE);
	char *at = attach(a);
	say("%s", got(mprotect(at, 3 * PAGE, PROT_READ)));
	say("attaches %ld", attaches(a));
	say("shmdt: %s", got(shmdt(at)));
	say("attaches %ld", attaches(a));
}

CASE(shm_mprotect_middle)
{
	int a = segment_of(3 * PAGE);
	char *at = attach(a);
	say("%s", got(mprotect(at + PAGE, PAGE, PROT_READ)));
	say("attaches %ld", attaches(a));
	say("and back: %s", got(mprotect(at + PAGE, PAGE, PROT_READ | PROT_WRITE)));
	say("attaches %ld", attaches(a));
	say("shmdt: %s", got(shmdt(at)));
	say("attaches %ld", attaches(a));
}

CASE(shm_mprotect_head)
{
	int a = segment_of(3 * PAGE);
	char *at = attach(a);
	mprotect(at, PAGE, PROT_NONE);
	say("attaches %ld", attaches(a));
	say("shmdt: %s", got(shmdt(at)));
	say("attaches %ld", attaches(a));
}

CASE(shm_mremap_move)
{
	int a = segment_of(2 * PAGE);
	char *at = attach(a);
	strcpy(at + PAGE, "moved");
	char *to = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	say("where asked: %s",
		yes(mremap(at, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to));
	say("%s, attaches %ld", to + PAGE, attaches(a));
	say("shmdt of the old address: %s", got(shmdt(at)));
	say("shmdt of the new one: %s", got(shmdt(to)));
	say("attaches %ld", attaches(a));
}

CASE(shm_mremap_shrink)
{
	int a = segment_of(3 * PAGE);
	char *at = attach(a);
	say("in place: %s", yes(mremap(at, 3 * PAGE, PAGE, 0) == at));
	say("attaches %ld", attaches(a));
	say("shmdt: %s", got(shmdt(at)));
	say("attaches %ld", attaches(a));
}

CASE(shm_mmap_over)
{
	int a = segment_of(3 * PAGE);
	char *at = attach(a);
	say("over the middle: %s",
		yes(mmap(at + PAGE, PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
	                == at + PAGE));
	say("attaches %ld", attaches(a));
	say("over all: %s",
		yes(mmap(at, 3 * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
	                == at));
	say("attaches %ld", attaches(a));
	say("shmdt: %s", got(shmdt(at)));
}

CASE(shm_madvise_dontneed)
{
	int a = segment_of(PAGE);
	char *at = attach(a);
	strcpy(at, "kept");
	say("%s: %s", got(madvise(at, PAGE, MADV_DONTNEED)), at);
}

struct two {
	int segment;
	char *at;
};

static void say_attaches(void *context)
{
	struct two *t = context;
	say("in the child: attaches %ld", attaches(t->segment));
}

CASE(shm_madvise_dontfork)
{
	struct two t = { segment_of(PAGE), NULL };
	t.at = attach(t.segment);
	say("%s", got(madvise(t.at, PAGE, MADV_DONTFORK)));
	finish(start(say_attaches, &t));
	say("after it: attaches %ld", attaches(t.segment));
}

CASE(shm_msync_and_mincore)
{
	char *at = attach(segment_of(PAGE));
	at[0] = 1;
	unsigned char in = 0;
	say("msync: %s", got(msync(at, PAGE, MS_SYNC)));
	say("mincore: %s", got(mincore(at, PAGE, &in)));
}

CASE(shm_munmap_by_system_call)
{
	/* Without libc's munmap: the count is the kernel's, whichever thread unmaps. */
	int a = segment_of(PAGE);
	char *at = attach(a);
	say("%s", got(syscall(SYS_munmap, at, PAGE)));
	say("attaches %ld", attaches(a));
}

CASE(shm_lock)
{
	int a = segment_of(PAGE);
	say("SHM_LOCK: %s", got(shmctl(a, SHM_LOCK, NULL)));
	say("mode %o", segment_state(a).shm_perm.mode);
	say("SHM_UNLOCK: %s", got(shmctl(a, SHM_UNLOCK, NULL)));
	say("mode %o", segment_state(a).shm_perm.mode);
}

CASE(shm_mremap_grow)
{
	int a = segment_of(2 * PAGE);
	char *at = attach(a);
	strcpy(at + PAGE, "kept");
	char *to = mremap(at, 2 * PAGE, 4 * PAGE, MREMAP_MAYMOVE);
	say("mremap: %s", made((long)to));
	if (to == MAP_FAILED)
		return;
	say("%s, attaches %ld", to + PAGE, attaches(a));
	say("shmdt: %s", got(shmdt(to)));
	say("attaches %ld", attaches(a));
}

static void write_there(void *at) { *(volatile char *)at = 1; }

CASE(shm_mremap_grow_beyond_the_end)
{
	/* What lies behind the end is nobody's to touch: SIGBUS, or SIGSEGV. */
	int a = segment_of(PAGE), b = segment_of(PAGE);
	attach(b);
	char *to = mremap(attach(a), PAGE, 3 * PAGE, MREMAP_MAYMOVE);
	say("mremap: %s", made((long)to));
	if (to == MAP_FAILED)
		return;
	int signal = faults(write_there, to + PAGE), farther = faults(write_there, to + 2 * PAGE);
	say("written behind the end: %s %s", signal == 0 ? "works" : "faults",
		farther == 0 ? "works" : "faults");
	say("what is within it: %s", faults(write_there, to + PAGE - 1) == 0 ? "works" : "faults");
}

/* Calls that fail after they have unmapped what was in their way: what has gone is no attach any
 * more. Which of them unmap it first differs from kernel to kernel. */

static void say_what_is_left(int segment, char *at, const char *call, const char *answer)
{
	say("%s: %s, attaches %ld", call, answer, attaches(segment));
	say("the page: %s", faults(write_there, at) == 0 ? "there" : "gone");
	say("shmdt: %s", got(shmdt(at)));
	say("attaches %ld", attaches(segment));
}

CASE(shm_mremap_over_fails_for_want_of_memory)
{
	/* More than any machine has; the kernel sees that only when it moves. */
	const size_t much = 1UL << 38;
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *room = mmap(
		NULL, much, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		skip("no address space");
	int a = segment_of(3 * PAGE);
	char *at = shmat(a, room + 16 * PAGE, SHM_REMAP);
	say("shmat: %s", yes(at == room + 16 * PAGE));
	say_what_is_left(a, at, "mremap",
		made((long)mremap(page, PAGE, much, MREMAP_MAYMOVE | MREMAP_FIXED, room)));
}

CASE(shm_mremap_over_from_nowhere)
{
	char *nothing = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int a = segment_of(3 * PAGE);
	char *at = attach(a);
	munmap(nothing, PAGE);
	say_what_is_left(a, at, "mremap",
		made((long)mremap(nothing, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at)));
}

CASE(shm_mremap_with_a_neighbour)
{
	/* Several mappings at once are moved by some kernels, but not a segment with others. */
	char *room = mmap(NULL, 8 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
	     *to = room + 4 * PAGE;
	int a = segment_of(2 * PAGE), b = segment_of(2 * PAGE);
	char *at = shmat(a, room, SHM_REMAP), *over = shmat(b, to, SHM_REMAP);
	say("shmat: %s %s", yes(at == room), yes(over == to));
	say("mremap: %s",
		made((long)mremap(room, 3 * PAGE, 3 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to)));
	say("attaches %ld and %ld", attaches(a), attaches(b));
	say("at the old place: %s", faults(write_there, at) == 0 ? "there" : "gone");
	say("shmdt there: %s", got(shmdt(at)));
	say("shmdt at the new place: %s", got(shmdt(to)));
	say("attaches %ld and %ld", attaches(a), attaches(b));
}

#ifndef SYS_mseal
#define SYS_mseal 462
#endif

CASE(shm_seal_of_a_part)
{
	/* What is sealed can neither be unmapped nor moved, and is a mapping of its own. */
	char *room = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const int move = MREMAP_MAYMOVE | MREMAP_FIXED;
	int a = segment_of(4 * PAGE);
	char *at = attach(a);
	if (syscall(SYS_mseal, at + 2 * PAGE, (size_t)PAGE, 0L) != 0)
		skip("no mseal");
	say("attaches %ld", attaches(a));
	say("mremap of all: %s", made((long)mremap(at, 4 * PAGE, 4 * PAGE, move, room)));
	say("attaches %ld", attaches(a));
	say("the first page: %s", faults(write_there, at) == 0 ? "there" : "gone");
	say("mremap of what is sealed: %s",
		made((long)mremap(at + 2 * PAGE, PAGE, PAGE, move, room)));
	say("mprotect of all: %s", got(mprotect(at, 4 * PAGE, PROT_READ)));
	say("munmap of all: %s", got(munmap(at, 4 * PAGE)));
	say("attaches %ld", attaches(a));
	say("shmdt: %s", got(shmdt(at)));
	say("attaches %ld", attaches(a));
	say("shmdt again: %s", got(shmdt(at)));
	say("attaches %ld", attaches(a));
	say("what is sealed: %s", faults(write_there, at + 2 * PAGE) == 0 ? "there" : "gone");
	say("what is not: %s", faults(write_there, at) == 0 ? "there" : "gone");
}

CASE(shm_mmap_over_fails)
{
	/* A file that nobody may map for writing any more. */
	int file = memfd_create("sealed", MFD_ALLOW_SEALING);
	if (file < 0 || ftruncate(file, PAGE) != 0 || fcntl(file, F_ADD_SEALS, F_SEAL_WRITE) != 0)
		broken("memfd_create");
	int a = segment_of(3 * PAGE);
	char *at = attach(a);
	say_what_is_left(a, at, "mmap",
		made((long)mmap(
			at, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0)));
	close(file);
}

CASE(shm_mremap_second)
{
	/* An old size of 0 makes a second mapping of the same memory. */
	int a = segment_of(3 * PAGE);
	char *at = attach(a);
	char *second = mremap(at, 0, 3 * PAGE, MREMAP_MAYMOVE);
	say("mremap: %s, elsewhere: %s", made((long)second), yes(second != at));
	if (second == MAP_FAILED)
		return;
	strcpy(at + PAGE, "both");
	say("the same memory: %s, attaches %ld", second + PAGE, attaches(a));
	say("shmdt: %s, attaches %ld", got(shmdt(at)), attaches(a));
	say("shmdt of the second: %s, attaches %ld", got(shmdt(second)), attaches(a));
}

CASE(shm_maps_by_number)
{
	int a = segment_of(3 * PAGE);
	char *at = attach(a);
	say("mprotect: %s", got(syscall(SYS_mprotect, at + PAGE, (size_t)PAGE, PROT_READ)));
	say("attaches %ld", attaches(a));
	say("mmap over it: %s",
		made(syscall(SYS_mmap, at + PAGE, (size_t)PAGE, PROT_READ,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0L)));
	say("attaches %ld", attaches(a));
	char *to = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	say("mremap: %s",
		yes(syscall(SYS_mremap, at, (size_t)PAGE, (size_t)PAGE,
			    MREMAP_MAYMOVE | MREMAP_FIXED, to)
	                == (long)to));
	say("attaches %ld", attaches(a));
	say("munmap: %s", got(syscall(SYS_munmap, to, (size_t)PAGE)));
	say("attaches %ld", attaches(a));
}

static void limit_memlock(rlim_t bytes)
{
	if (setrlimit(RLIMIT_MEMLOCK, &(struct rlimit) { bytes, bytes }) != 0)
		broken("RLIMIT_MEMLOCK");
}

static void lock_as_ordinary(void *context)
{
	int others = *(int *)context, a = segment_of(16 * PAGE), small = segment_of(PAGE);
	say("another's: %s, unlock: %s", got(shmctl(others, SHM_LOCK, NULL)),
		got(shmctl(others, SHM_UNLOCK, NULL)));
	limit_memlock(8 * PAGE);
	say("16 pages with a limit of 8: %s, mode %o", got(shmctl(a, SHM_LOCK, NULL)),
		segment_state(a).shm_perm.mode);
	say("1 page: %s, mode %o", got(shmctl(small, SHM_LOCK, NULL)),
		segment_state(small).shm_perm.mode);
	say("again: %s, unlock: %s", got(shmctl(small, SHM_LOCK, NULL)),
		got(shmctl(small, SHM_UNLOCK, NULL)));
	limit_memlock(0);
	say("with a limit of 0: %s, unlock: %s", got(shmctl(small, SHM_LOCK, NULL)),
		got(shmctl(small, SHM_UNLOCK, NULL)));
}

CASE(shm_lock_by_limit)
{
	int a = segment_of(PAGE);
	as_nobody(lock_as_ordinary, &a);
}

static void attach_within_limit(void *context)
{
	int a = *(int *)context;
	struct rlimit none;
	getrlimit(RLIMIT_AS, &none);
	none.rlim_cur = 1 << 20;
	if (setrlimit(RLIMIT_AS, &none) != 0)
		broken("RLIMIT_AS");
	say("shmat: %s", got((long)shmat(a, NULL, 0)));
	say("attaches %ld", attaches(a));
}

CASE(shm_attach_without_address_space)
{
	int a = segment_of(4 << 20);
	finish(start(attach_within_limit, &a));
}

static void attach_near_null(void *context)
{
	say("with SHM_RND below the first page: %s",
		got((long)shmat(*(int *)context, (void *)100, SHM_RND)));
	say("with SHM_RND and SHM_REMAP there: %s",
		got((long)shmat(*(int *)context, (void *)100, SHM_RND | SHM_REMAP)));
}

CASE(shm_attach_near_null)
{
	int a = track_segment(shmget(IPC_PRIVATE, PAGE, 0666));
	as_ordinary(attach_near_null, &a);
}

CASE(shm_attach_unknown_flags)
{
	int a = segment_of(PAGE);
	say("%s", made((long)shmat(a, NULL, 0x1 | 0x200000)));
	say("SHM_REMAP, unaligned: %s", got((long)shmat(a, (void *)0x700000000123, SHM_REMAP)));
}

CASE(shm_get_huge)
{
	/* Without huge pages in store: ENOMEM; a pool has them, or has not, for all. */
	say("SHM_HUGETLB: %s",
		made(track_segment(shmget(IPC_PRIVATE, 2 << 20, SHM_HUGETLB | 0600))));
	say("of 2 MiB: %s",
		made(track_segment(shmget(
			IPC_PRIVATE, 2 << 20, SHM_HUGETLB | (21 << MAP_HUGE_SHIFT) | 0600))));
	say("of a size that no machine has: %s",
		made(track_segment(shmget(
			IPC_PRIVATE, 2 << 20, SHM_HUGETLB | (13 << MAP_HUGE_SHIFT) | 0600))));
}
