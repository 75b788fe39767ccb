/* mmap(2) of objects, and what becomes of the mappings. */
#include "posix_shm.h"

static const char *mapped(void *at) { return made(at == MAP_FAILED ? -1 : 0); }

CASE(posix_shm_map_shared)
{
	const char *name = fresh_name();
	int one = object_named(name, 2 * PAGE), two = shm_open(name, O_RDWR, 0);
	char *a = map_object(one, 2 * PAGE), *b = map_object(two, 2 * PAGE);
	say("zero: %s", yes(a[0] == 0 && b[2 * PAGE - 1] == 0));
	strcpy(a + PAGE, "seen");
	say("%s, apart: %s", b + PAGE, yes(a != b));
}

CASE(posix_shm_map_at_offset)
{
	int file = object_of(3 * PAGE);
	char *all = map_object(file, 3 * PAGE);
	strcpy(all + 2 * PAGE, "third page");
	char *third = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 2 * PAGE);
	say("%s %s", mapped(third), third);
	say("odd offset: %s", mapped(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 100)));
	say("negative: %s", mapped(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, -PAGE)));
}

CASE(posix_shm_map_bad_arguments)
{
	int file = object_of(PAGE);
	int both = PROT_READ | PROT_WRITE;
	say("no length: %s", mapped(mmap(NULL, 0, both, MAP_SHARED, file, 0)));
	say("no type: %s", mapped(mmap(NULL, PAGE, both, 0, file, 0)));
	say("absurd length: %s", mapped(mmap(NULL, (size_t)-PAGE, both, MAP_SHARED, file, 0)));
	int fixed = MAP_SHARED | MAP_FIXED;
	say("odd place: %s", mapped(mmap((void *)0x10001, PAGE, both, fixed, file, 0)));
	say("validated: %s", mapped(mmap(NULL, PAGE, both, MAP_SHARED_VALIDATE, file, 0)));
	say("unknown: %s", mapped(mmap(NULL, PAGE, both, MAP_SHARED_VALIDATE | MAP_SYNC, file, 0)));
	close(file);
	say("closed: %s", mapped(mmap(NULL, PAGE, both, MAP_SHARED, file, 0)));
}

CASE(posix_shm_map_without_the_right)
{
	const char *name = fresh_name();
	close(object_named(name, PAGE));
	int file = shm_open(name, O_RDONLY, 0);
	int both = PROT_READ | PROT_WRITE;
	say("for both: %s", mapped(mmap(NULL, PAGE, both, MAP_SHARED, file, 0)));
	char *at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
	say("for reading: %s", mapped(at));
	say("made writable: %s", got(mprotect(at, PAGE, both)));
	char *own = mmap(NULL, PAGE, both, MAP_PRIVATE, file, 0);
	say("a private one: %s", mapped(own));
	strcpy(own, "mine");
	say("shared says: %d", at[0]);
}

static void store(void *at) { *(volatile char *)at = 1; }
static void load(void *at) { (void)*(volatile char *)at; }

CASE(posix_shm_map_read_only_faults)
{
	int file = object_of(PAGE);
	char *at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
	say("load %d, store %s", faults(load, at), strsignal(faults(store, at)));
}

CASE(posix_shm_map_none)
{
	int file = object_of(PAGE);
	char *at = mmap(NULL, PAGE, PROT_NONE, MAP_SHARED, file, 0);
	say("%s, load %s", mapped(at), strsignal(faults(load, at)));
	say("%s", got(mprotect(at, PAGE, PROT_READ | PROT_WRITE)));
	strcpy(at, "now");
	say("%s", map_object(file, PAGE));
}

CASE(posix_shm_map_private)
{
	int file = object_of(PAGE);
	char *shared = map_object(file, PAGE);
	strcpy(shared, "common");
	char *own = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	say("%s %s", mapped(own), own);
	strcpy(own, "mine");
	say("%s %s", own, shared);
	say("%s", got(munmap(own, PAGE)));
}

CASE(posix_shm_map_private_for_reading)
{
	int file = object_of(PAGE);
	char *shared = map_object(file, PAGE);
	strcpy(shared, "common");
	char *own = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, 0);
	say("%s %s", mapped(own), own);
	say("store: %s", strsignal(faults(store, own)));
}

CASE(posix_shm_map_fixed)
{
	int file = object_of(2 * PAGE);
	int both = PROT_READ | PROT_WRITE;
	char *place = mmap(NULL, 4 * PAGE, both, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(place, 'x', 4 * PAGE);
	int flags = MAP_SHARED | MAP_FIXED;
	char *at = mmap(place + PAGE, 2 * PAGE, PROT_READ | PROT_WRITE, flags, file, 0);
	say("there: %s", yes(at == place + PAGE));
	strcpy(at, "object");
	say("%c %s %c %c", place[0], map_object(file, PAGE), place[3 * PAGE], place[4 * PAGE - 1]);
}

CASE(posix_shm_map_fixed_over_an_object)
{
	int one = object_of(2 * PAGE), two = object_of(2 * PAGE);
	char *a = map_object(one, 2 * PAGE);
	strcpy(a, "one");
	strcpy(a + PAGE, "one");
	char *b = mmap(a + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, two, 0);
	say("%s, zero: %s", a, yes(*b == 0));
	strcpy(b, "two");
	say("%s %s", map_object(one, 2 * PAGE) + PAGE, map_object(two, PAGE));
}

CASE(posix_shm_map_no_replacing)
{
	int file = object_of(PAGE);
	char *at = map_object(file, PAGE);
	int flags = MAP_SHARED | MAP_FIXED_NOREPLACE;
	say("taken: %s", mapped(mmap(at, PAGE, PROT_READ, flags, file, 0)));
	munmap(at, PAGE);
	say("free: %s", yes(mmap(at, PAGE, PROT_READ, flags, file, 0) == at));
}

CASE(posix_shm_map_hint)
{
	int file = object_of(PAGE);
	char *at = map_object(file, PAGE);
	char *other = mmap(at, PAGE, PROT_READ, MAP_SHARED, file, 0);
	say("taken: %s, elsewhere %s", mapped(other), yes(other != at));
	munmap(at, PAGE);
	say("free: %s", yes(mmap(at, PAGE, PROT_READ, MAP_SHARED, file, 0) == at));
}

CASE(posix_shm_map_flags)
{
	static const struct {
		const char *text;
		int flags;
	} all[] = { { "populate", MAP_POPULATE }, { "noreserve", MAP_NORESERVE },
		{ "locked", MAP_LOCKED }, { "nonblock", MAP_NONBLOCK }, { "stack", MAP_STACK },
		{ "hugetlb", MAP_HUGETLB } };
	int file = object_of(PAGE);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		int flags = MAP_SHARED | all[i].flags;
		char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, flags, file, 0);
		say("%s: %s", all[i].text, mapped(at));
		if (at != MAP_FAILED)
			at[i] = 'x';
	}
	say("%s", map_object(file, PAGE));
}

CASE(posix_shm_map_longer_than_it_is)
{
	int file = object_of(PAGE);
	char *at = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	say("%s", mapped(at));
	strcpy(at + PAGE - 5, "last");
	say("%s, behind it a signal: %s", at + PAGE - 5, yes(faults(load, at + PAGE) != 0));
	say("%s", got(munmap(at, 3 * PAGE)));
}

CASE(posix_shm_map_beyond_its_end)
{
	int file = object_of(PAGE);
	char *at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 4 * PAGE);
	say("%s, a signal: %s", mapped(at), yes(faults(load, at) != 0));
}

CASE(posix_shm_map_outlives_descriptor_and_name)
{
	const char *name = fresh_name();
	int file = object_named(name, PAGE);
	char *at = map_object(file, PAGE);
	close(file);
	shm_unlink(name);
	strcpy(at, "alive");
	say("%s", at);
	say("%s", got(munmap(at, PAGE)));
}

CASE(posix_shm_unmap_parts)
{
	int file = object_of(5 * PAGE);
	char *at = map_object(file, 5 * PAGE);
	for (int i = 0; i < 5; i++)
		at[i * PAGE] = (char)('a' + i);
	say("%s", got(munmap(at + PAGE, PAGE)));
	say("%s", got(munmap(at + 3 * PAGE, 2 * PAGE)));
	say("%c %c", at[0], at[2 * PAGE]);
	say("a signal: %s", yes(faults(load, at + PAGE) != 0));
	say("a signal: %s", yes(faults(load, at + 4 * PAGE) != 0));
	char *all = map_object(file, 5 * PAGE);
	say("%c%c%c", all[PAGE], all[3 * PAGE], all[4 * PAGE]);
	say("%s", got(munmap(at, 5 * PAGE)));
}

CASE(posix_shm_protect_parts)
{
	int file = object_of(3 * PAGE);
	char *at = map_object(file, 3 * PAGE);
	say("%s", got(mprotect(at + PAGE, PAGE, PROT_READ)));
	say("%s %s %s", yes(faults(store, at) != 0), yes(faults(store, at + PAGE) != 0),
		yes(faults(store, at + 2 * PAGE) != 0));
	say("%s", got(mprotect(at, 3 * PAGE, PROT_READ | PROT_WRITE)));
	strcpy(at + PAGE, "again");
	say("%s", map_object(file, 3 * PAGE) + PAGE);
}

CASE(posix_shm_remap_moved)
{
	int file = object_of(2 * PAGE);
	char *at = map_object(file, 2 * PAGE);
	strcpy(at + PAGE, "moved");
	char *to = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	say("%s", yes(mremap(at, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to));
	say("%s, old place: %s", to + PAGE, yes(faults(load, at) != 0));
	strcpy(to, "still the object's");
	say("%s", map_object(file, PAGE));
}

CASE(posix_shm_remap_shorter)
{
	int file = object_of(3 * PAGE);
	char *at = map_object(file, 3 * PAGE);
	say("%s", yes(mremap(at, 3 * PAGE, PAGE, 0) == at));
	say("%s %s", yes(faults(load, at) != 0), yes(faults(load, at + PAGE) != 0));
}

CASE(posix_shm_remap_to_all_of_it)
{
	int file = object_of(3 * PAGE);
	strcpy(map_object(file, 3 * PAGE) + 2 * PAGE, "third");
	char *at = map_object(file, PAGE);
	char *to = mremap(at, PAGE, 3 * PAGE, MREMAP_MAYMOVE);
	say("%s %s", mapped(to), to == MAP_FAILED ? "" : to + 2 * PAGE);
}

CASE(posix_shm_advice)
{
	int file = object_of(2 * PAGE);
	char *at = map_object(file, 2 * PAGE);
	strcpy(at, "kept");
	static const int advice[] = { MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED,
		MADV_DONTNEED, MADV_DONTDUMP, MADV_DODUMP };
	for (size_t i = 0; i < sizeof advice / sizeof *advice; i++)
		say("%zu: %s", i, got(madvise(at, 2 * PAGE, advice[i])));
	say("%s, msync %s", at, got(msync(at, 2 * PAGE, MS_SYNC)));
}

CASE(posix_shm_locked)
{
	int file = object_of(2 * PAGE);
	char *at = map_object(file, 2 * PAGE);
	say("%s %s", got(mlock(at, PAGE)), got(munlock(at, PAGE)));
	strcpy(at, "here");
	say("%s", at);
}

CASE(posix_shm_detach_of_a_mapping)
{
	char *at = map_object(object_of(PAGE), PAGE);
	say("%s", got(shmdt(at)));
	strcpy(at, "still there");
	say("%s", at);
}

CASE(posix_shm_beside_a_segment)
{
	int id = segment_of(PAGE);
	char *segment = attach(id), *object = map_object(object_of(PAGE), PAGE);
	strcpy(segment, "segment");
	strcpy(object, "object");
	say("%s %s, attaches %ld", segment, object, attaches(id));
	say("%s %s", got(munmap(object, PAGE)), got(shmdt(segment)));
}

CASE(posix_shm_map_many_times)
{
	int file = object_of(PAGE);
	char *at[100];
	for (int i = 0; i < 100; i++)
		at[i] = map_object(file, PAGE);
	strcpy(at[7], "by all");
	say("%s %s", at[0], at[99]);
	for (int i = 0; i < 100; i++)
		munmap(at[i], PAGE);
	say("%s", map_object(file, PAGE));
}

CASE(posix_shm_large)
{
	size_t bytes = 8 << 20;
	int file = object_of((off_t)bytes);
	char *at = map_object(file, bytes);
	say("zero: %s", yes(at[0] == 0 && at[bytes / 2] == 0 && at[bytes - 1] == 0));
	memset(at, 'x', bytes);
	say("%c", map_object(file, bytes)[bytes - 1]);
}
