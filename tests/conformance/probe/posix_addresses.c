/* A process that may use no more addresses (RLIMIT_AS) detaches a segment: other objects may have
 * the addresses then. An implementation may keep mappings for later; it must not show. */
#include "posix_shm.h"

#include <semaphore.h>
#include <sys/resource.h>

enum { SEGMENT = 1 << 20 };

/* Bytes of addresses that this process uses. */
static size_t addresses_in_use(void)
{
	char text[64] = "";
	int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	if (file < 0 || read(file, text, sizeof text - 1) <= 0)
		broken("/proc/self/statm");
	close(file);
	return strtoul(text, NULL, 10) * PAGE;
}

/* From here on only what a detached segment had is free. */
static void leave_a_segments_addresses(void)
{
	char *at = attach(segment_of(SEGMENT));
	memset(at, 1, SEGMENT);
	struct rlimit bound;
	getrlimit(RLIMIT_AS, &bound);
	bound.rlim_cur = addresses_in_use();
	say("detach: %s", got(shmdt(at)));
	say("setrlimit: %s", got(setrlimit(RLIMIT_AS, &bound)));
}

CASE(posix_sem_open_in_a_detached_segments_addresses)
{
	const char *old = fresh_name(), *new = fresh_name();
	sem_close(sem_open(old, O_CREAT, 0600, 1));
	leave_a_segments_addresses();
	say("existing: %s", yes(sem_open(old, 0) != SEM_FAILED));
	say("new: %s", yes(sem_open(new, O_CREAT | O_EXCL, 0600, 1) != SEM_FAILED));
}

CASE(posix_shm_map_in_a_detached_segments_addresses)
{
	int file = object_of(PAGE);
	leave_a_segments_addresses();
	say("mapped: %s", yes(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0) != MAP_FAILED));
}

CASE(posix_shm_transfer_in_a_detached_segments_addresses)
{
	char byte = 'x';
	int file = object_of(PAGE);
	leave_a_segments_addresses();
	say("pwrite: %s", got(pwrite(file, &byte, 1, 0)));
	say("pread: %s", got(pread(file, &byte, 1, 0)));
}

CASE(posix_shm_copy_in_a_detached_segments_addresses)
{
	int file = object_of(PAGE);
	leave_a_segments_addresses();
	void *copy = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	say("private mapping: %s", yes(copy != MAP_FAILED));
}

CASE(posix_shm_size_in_a_detached_segments_addresses)
{
	int file = object_of(PAGE);
	leave_a_segments_addresses();
	say("ftruncate: %s", got(ftruncate(file, 64 * PAGE)));
	struct stat state;
	say("fstat: %s", got(fstat(file, &state)));
	say("size %lld", (long long)state.st_size);
}

CASE(shm_get_in_a_detached_segments_addresses)
{
	leave_a_segments_addresses();
	int segment = track_segment(shmget(IPC_PRIVATE, SEGMENT / 2, IPC_CREAT | 0600));
	say("shmget: %s", made(segment));
	char *at = shmat(segment, NULL, 0);
	say("shmat: %s", yes(at != (char *)-1));
	say("zeros: %s", yes(at[0] == 0 && at[SEGMENT / 2 - 1] == 0));
}

CASE(shm_malloc_in_a_detached_segments_addresses)
{
	leave_a_segments_addresses();
	say("malloc: %s", yes(malloc(SEGMENT / 2) != NULL));
}
