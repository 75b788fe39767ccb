/* What a program does to a mapping of a segment shows the segment and nothing else: mremap,
 * remap_file_pages. And what the kernel keeps of a mapping beside its rights (locks, advice) cuts
 * mappings, and so is counted. */
#include "case.h"

#include <sys/resource.h>
#include <sys/syscall.h>

/* The call first, then the count: the order in which arguments are evaluated is the compiler's. */
#define counted(what_, result_, segment_)                                      \
	do {                                                                   \
		const char *said_ = got(result_);                              \
		say("%s: %s, attaches %ld", what_, said_, attaches(segment_)); \
	} while (0)

enum { PAGE = 4096 };

/* Segments side by side, each page filled with its segment's letter: what lies behind a segment is
 * another's. */
struct row {
	int id[4];
	char *at[4];
};

static struct row filled_row(size_t bytes)
{
	struct row r;
	for (int i = 0; i < 4; i++) {
		r.id[i] = segment_of(bytes);
		r.at[i] = attach(r.id[i]);
		memset(r.at[i], 'A' + i, bytes);
	}
	return r;
}

static void touch(void *at) { *(volatile char *)at = 'x'; }

/* What each page of a range holds: the segment's letter, or nothing that can be used. */
static void say_pages(const char *what, char *at, int pages, char own)
{
	char line[64] = "";
	for (int i = 0; i < pages; i++) {
		char *page = at + (size_t)i * PAGE;
		bool works = faults(touch, page) == 0;
		strcat(line,
			!works ? " faults"
				: page[1] == own ? " own"
				: page[1] == 0   ? " zeros"
						 : " FOREIGN");
	}
	say("%s:%s", what, line);
}

CASE(shm_window_grown_from_the_middle)
{
	/* The part that is moved is not the whole: the kernel continues with the segment's next
	 * pages. */
	struct row r = filled_row(2 * PAGE);
	for (int i = 0; i < 3; i++) {
		char *to = mremap(r.at[i], PAGE, 3 * PAGE, MREMAP_MAYMOVE);
		say("mremap: %s", made((long)to));
		if (to == MAP_FAILED)
			continue;
		say_pages("moved and grown", to, 3, 'A' + i);
		say("attaches %ld", attaches(r.id[i]));
		counted("shmdt", shmdt(to), r.id[i]);
	}
}

CASE(shm_window_grown_to_a_given_place)
{
	struct row r = filled_row(2 * PAGE);
	char *place = mmap(NULL, 8 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *to = mremap(r.at[0], 2 * PAGE, 5 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
	say("where asked: %s", yes(to == place));
	if (to != place)
		return;
	say_pages("grown", to, 5, 'A');
	say("attaches %ld", attaches(r.id[0]));
	counted("munmap behind its end", munmap(to + 3 * PAGE, 2 * PAGE), r.id[0]);
	counted("shmdt", shmdt(to), r.id[0]);
}

CASE(shm_window_grown_twice)
{
	struct row r = filled_row(PAGE);
	char *to = mremap(r.at[1], PAGE, 2 * PAGE, MREMAP_MAYMOVE);
	say("mremap: %s", made((long)to));
	if (to == MAP_FAILED)
		return;
	to = mremap(to, 2 * PAGE, 6 * PAGE, MREMAP_MAYMOVE);
	say("and again: %s", made((long)to));
	if (to == MAP_FAILED)
		return;
	say_pages("grown", to, 6, 'B');
	say("attaches %ld", attaches(r.id[1]));
	counted("shmdt", shmdt(to), r.id[1]);
}

CASE(shm_window_second_of_a_part)
{
	struct row r = filled_row(2 * PAGE);
	char *to = mremap(r.at[2] + PAGE, 0, 4 * PAGE, MREMAP_MAYMOVE);
	say("mremap: %s", made((long)to));
	if (to == MAP_FAILED)
		return;
	say_pages("a second mapping", to, 4, 'C');
	say("attaches %ld", attaches(r.id[2]));
	counted("shmdt of where it would begin", shmdt(to - PAGE), r.id[2]);
}

CASE(shm_window_second_of_what_was_cut)
{
	/* The first page is left; a second mapping of it shows the pages behind it again. */
	struct row r = filled_row(3 * PAGE);
	munmap(r.at[0] + PAGE, 2 * PAGE);
	char *to = mremap(r.at[0], 0, 3 * PAGE, MREMAP_MAYMOVE);
	say("mremap: %s", made((long)to));
	if (to == MAP_FAILED)
		return;
	say_pages("a second mapping", to, 3, 'A');
	say("attaches %ld", attaches(r.id[0]));
}

CASE(shm_window_over_two_segments)
{
	/* Two segments side by side in addresses are two mappings, whatever lies behind them. */
	int a = segment_of(PAGE), b = segment_of(PAGE);
	char *place = mmap(NULL, 8 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(place, 8 * PAGE);
	say("attached: %s",
		yes(shmat(a, place, 0) == place && shmat(b, place + PAGE, 0) == place + PAGE));
	say("mremap of both, larger: %s",
		got((long)mremap(place, 2 * PAGE, 4 * PAGE, MREMAP_MAYMOVE)));
	say("attaches %ld %ld", attaches(a), attaches(b));
}

#ifdef SYS_remap_file_pages
static int show(void *at, size_t bytes, size_t page)
{ return remap_file_pages(at, bytes, 0, page, 0); }

CASE(shm_window_pages_in_another_order)
{
	int a = segment_of(3 * PAGE);
	char *at = attach(a);
	for (int i = 0; i < 3; i++)
		at[i * PAGE] = '0' + i;
	say("page 2 at page 0: %s", got(show(at, PAGE, 2)));
	say("it holds %c, then %c", at[0], at[PAGE]);
	say("attaches %ld", attaches(a));
	counted("shmdt", shmdt(at), a);
}

CASE(shm_window_pages_of_others)
{
	struct row r = filled_row(2 * PAGE);
	for (size_t page = 1; page < 4; page++) {
		int shown = show(r.at[1], PAGE, page);
		say("page %zu: %s", page, got(shown));
		if (shown == 0)
			say_pages("shown", r.at[1], 1, 'B');
	}
	say("attaches %ld", attaches(r.id[1]));
	say("two pages over the end: %s", got(show(r.at[2], 2 * PAGE, 1)));
	say_pages("shown", r.at[2], 2, 'C');
	say("by number: %s", got(syscall(SYS_remap_file_pages, r.at[3], (size_t)PAGE, 0L, 5L, 0L)));
	say_pages("shown", r.at[3], 2, 'D');
}

/* The kernel unmaps first: the last attach of a removed segment is the segment's end. */
CASE(shm_window_pages_of_a_removed_segment)
{
	unsigned char there;
	int a = segment_of(2 * PAGE);
	char *at = attach(a), *second = attach(a);
	at[PAGE] = '1';
	shmctl(a, IPC_RMID, NULL);
	say("attached twice: %s", got(show(at, 2 * PAGE, 0)));
	say("one of two pages: %s", got(show(at, PAGE, 1)));
	say("it holds %c", at[0]);
	say("attaches %ld", attaches(a));
	shmdt(second);
	say("the other page: %s", got(show(at + PAGE, PAGE, 0)));
	say("all that is left: %s", got(show(at, 2 * PAGE, 0)));
	shmdt(at);
	int b = segment_of(2 * PAGE);
	at = attach(b);
	shmctl(b, IPC_RMID, NULL);
	say("attached once: %s", got(show(at, 2 * PAGE, 0)));
	say("mapped: %s", got(mincore(at, PAGE, &there)));
	say("again: %s", got(show(at, 2 * PAGE, 0)));
	struct shmid_ds state;
	say("the segment: %s", got(shmctl(b, IPC_STAT, &state)));
}

CASE(shm_window_pages_refused)
{
	int a = segment_of(2 * PAGE);
	char *at = attach(a);
	say("with rights: %s", got(remap_file_pages(at, PAGE, PROT_READ, 1, 0)));
	say("of nothing: %s", got(show(at, 0, 1)));
	say("more than there is: %s", got(show(at, 1 << 30, 0)));
	say("attaches %ld", attaches(a));
	char *own = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	say("of private memory: %s", got(show(own, PAGE, 0)));
}
#endif

CASE(shm_lock_of_a_part)
{
	int a = segment_of(3 * PAGE);
	char *at = attach(a);
	counted("mlock", mlock(at + PAGE, PAGE), a);
	counted("again", mlock(at + PAGE + 100, 1), a);
	counted("munlock", munlock(at, 3 * PAGE), a);
	counted("shmdt", shmdt(at), a);
}

CASE(shm_lock_of_an_end)
{
	int a = segment_of(3 * PAGE);
	char *at = attach(a);
	counted("mlock", mlock(at, PAGE), a);
	counted("mlock2", mlock2(at + 2 * PAGE, PAGE, MLOCK_ONFAULT), a);
	counted("of all", mlock(at, 3 * PAGE), a);
	counted("by number", syscall(SYS_munlock, at, (size_t)PAGE), a);
}

CASE(shm_lock_of_all_and_unlock_of_a_part)
{
	/* mlockall counts the whole address space, and a pool is in it. */
	struct rlimit most;
	getrlimit(RLIMIT_MEMLOCK, &most);
	if (geteuid() != 0 && most.rlim_cur != RLIM_INFINITY)
		skip("needs root, or no limit on locked memory");
	int a = segment_of(3 * PAGE);
	char *at = attach(a);
	counted("mlockall", mlockall(MCL_CURRENT | MCL_FUTURE), a);
	counted("munlock of the middle", munlock(at + PAGE, PAGE), a);
	int b = segment_of(2 * PAGE);
	char *later = attach(b);
	counted("of a later one", munlock(later, PAGE), b);
	counted("munlockall", munlockall(), a);
	counted("mlock", mlock(later, PAGE), b);
}

static void lock_in_child(void *context)
{
	(void)context;
	int a = segment_of(8 * PAGE);
	char *at = attach(a);
	/* A child has none of its parent's locks, so nothing is cut. */
	counted("munlock of a part", munlock(at, 4 * PAGE), a);
}

CASE(shm_lock_of_all_is_not_a_childs)
{
	struct rlimit most;
	getrlimit(RLIMIT_MEMLOCK, &most);
	if (geteuid() != 0 && most.rlim_cur != RLIM_INFINITY)
		skip("needs root, or no limit on locked memory");
	say("mlockall: %s", got(mlockall(MCL_FUTURE)));
	finish(start(lock_in_child, NULL));
}

CASE(shm_advice_about_a_part)
{
	static const struct {
		const char *name;
		int first, back;
	} PAIRS[] = {
		{ "RANDOM", MADV_RANDOM, MADV_NORMAL },
		{ "SEQUENTIAL", MADV_SEQUENTIAL, MADV_RANDOM },
		{ "DONTDUMP", MADV_DONTDUMP, MADV_DODUMP },
		{ "DONTFORK", MADV_DONTFORK, MADV_DOFORK },
		{ "WILLNEED", MADV_WILLNEED, MADV_DONTNEED },
	};
	for (size_t i = 0; i < sizeof(PAIRS) / sizeof(*PAIRS); i++) {
		int a = segment_of(3 * PAGE);
		char *at = attach(a);
		counted(PAIRS[i].name, madvise(at + PAGE, PAGE, PAIRS[i].first), a);
		counted("back", madvise(at, 3 * PAGE, PAIRS[i].back), a);
		counted("shmdt", shmdt(at), a);
	}
}

CASE(shm_window_by_its_file)
{
	/* Root may open the file behind a mapping; it is the segment's, or cannot be had. */
	struct row r = filled_row(PAGE);
	char path[80];
	snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", (unsigned long)r.at[1],
		(unsigned long)r.at[1] + PAGE);
	int file = open(path, O_RDWR);
	int beside = file == -1 ? openat(AT_FDCWD, path, O_RDWR) : -1;
	if (file == -1)
		file = beside;
	char *at = file == -1 ? MAP_FAILED
			      : mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	bool kept = true;
	for (int i = 0; at != MAP_FAILED && i < 4; i++)
		kept &= faults(touch, at + (size_t)i * PAGE) != 0
		        || at[(size_t)i * PAGE + 1] == 'B';
	say("nothing but the segment: %s", yes(kept));
}
