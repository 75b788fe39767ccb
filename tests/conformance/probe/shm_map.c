/* A segment's attaches are the kernel's mappings: munmap, mprotect, mremap, madvise act on them. */
#include "case.h"

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
	say("where asked: %s", yes(mremap(at, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to));
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
	say("over the middle: %s", yes(mmap(at + PAGE, PAGE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at + PAGE));
	say("attaches %ld", attaches(a));
	say("over all: %s", yes(mmap(at, 3 * PAGE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at));
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

struct two { int segment; char *at; };

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
	/* Without libc's munmap: the count is the kernel's, whoever unmaps. */
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
