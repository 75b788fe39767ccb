/* shmat(2) and shmdt(2): where, how, and what the addresses do afterwards. */
#include "case.h"

#include <pthread.h>

enum { PAGE = 4096 };

/* An address where n bytes are free. */
static char *free_range(size_t n)
{
	char *at = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		broken("mmap");
	munmap(at, n);
	return at;
}

static void write_there(void *at) { *(volatile char *)at = 1; }
static void read_there(void *at) { (void)*(volatile char *)at; }

static const char *fault(role_fn *role, void *at)
{
	int signal = faults(role, at);
	return signal == 0 ? "works" : sigabbrev_np(signal);
}

CASE(shm_attach_state)
{
	int a = segment_of(PAGE);
	char *at = attach(a);
	struct shmid_ds ds = segment_state(a);
	say("page aligned: %s", yes((uintptr_t)at % PAGE == 0));
	say("attaches %lu, atime %s, dtime %s, lpid %s", (unsigned long)ds.shm_nattch,
		when(ds.shm_atime), when(ds.shm_dtime), who(ds.shm_lpid, 0));
	say("detach: %s", got(shmdt(at)));
	ds = segment_state(a);
	say("attaches %lu, atime %s, dtime %s, lpid %s", (unsigned long)ds.shm_nattch,
		when(ds.shm_atime), when(ds.shm_dtime), who(ds.shm_lpid, 0));
}

CASE(shm_attach_twice)
{
	int a = segment_of(PAGE);
	char *x = attach(a), *y = attach(a);
	say("different addresses: %s", yes(x != y));
	say("attaches %ld", attaches(a));
	strcpy(x, "same bytes");
	say("seen through the other: %s", y);
	shmdt(x);
	say("still there: %s, attaches %ld", y, attaches(a));
}

CASE(shm_attach_100_times)
{
	int a = segment_of(PAGE);
	char *at[100];
	for (int i = 0; i < 100; i++)
		at[i] = attach(a);
	say("attaches %ld", attaches(a));
	for (int i = 0; i < 100; i++)
		shmdt(at[i]);
	say("attaches %ld", attaches(a));
}

CASE(shm_attach_rdonly)
{
	int a = segment_of(PAGE);
	char *rw = attach(a), *ro = shmat(a, NULL, SHM_RDONLY);
	say("%s, attaches %ld", made((long)ro), attaches(a));
	strcpy(rw, "written elsewhere");
	say("read: %s", ro);
	say("write: %s", fault(write_there, ro));
	say("write through the other: %s", fault(write_there, rw));
	say("mprotect to writable: %s", got(mprotect(ro, PAGE, PROT_READ | PROT_WRITE)));
}

CASE(shm_attach_at_address)
{
	int a = segment_of(PAGE);
	char *want = free_range(4 * PAGE);
	say("where asked: %s", yes(shmat(a, want, 0) == want));
	say("again at the same place: %s", got((long)shmat(a, want, 0)));
	say("attaches %ld", attaches(a));
	shmdt(want);
	say("after detaching, again: %s", yes(shmat(a, want, 0) == want));
}

CASE(shm_attach_unaligned)
{
	int a = segment_of(PAGE);
	char *want = free_range(4 * PAGE);
	say("without SHM_RND: %s", got((long)shmat(a, want + 100, 0)));
	say("with SHM_RND, rounded down: %s", yes(shmat(a, want + 100, SHM_RND) == want));
	say("SHM_RND with an aligned address: %s",
		yes(shmat(a, want + PAGE, SHM_RND) == want + PAGE));
	say("attaches %ld", attaches(a));
}

CASE(shm_attach_occupied)
{
	int a = segment_of(2 * PAGE);
	char *taken = mmap(
		NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(taken, PAGE);
	taken[PAGE] = 'x';
	say("start taken: %s", got((long)shmat(a, taken + PAGE, 0)));
	say("end taken: %s", got((long)shmat(a, taken, 0)));
	say("what was there stays: %c, attaches %ld", taken[PAGE], attaches(a));
}

CASE(shm_attach_remap)
{
	int a = segment_of(2 * PAGE);
	char *taken = mmap(
		NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(taken, 'x', 4 * PAGE);
	say("replaces: %s", yes(shmat(a, taken + PAGE, SHM_REMAP) == taken + PAGE));
	say("around it %c%c, inside %d %d", taken[PAGE - 1], taken[3 * PAGE], taken[PAGE],
		taken[3 * PAGE - 1]);
	say("attaches %ld", attaches(a));
	say("at NULL: %s", got((long)shmat(a, NULL, SHM_REMAP)));
}

CASE(shm_attach_remap_over_segment)
{
	int a = segment_of(PAGE), b = segment_of(PAGE);
	char *x = attach(a);
	strcpy(x, "first");
	say("%s", yes(shmat(b, x, SHM_REMAP) == x));
	say("now empty: %s; attaches of the first %ld, of the second %ld", yes(x[0] == 0),
		attaches(a), attaches(b));
	say("detach: %s, attaches %ld", got(shmdt(x)), attaches(b));
}

CASE(shm_attach_remap_over_middle_of_segment)
{
	int a = segment_of(3 * PAGE), b = segment_of(PAGE);
	char *x = attach(a);
	strcpy(x + 2 * PAGE, "tail");
	say("%s", yes(shmat(b, x + PAGE, SHM_REMAP) == x + PAGE));
	say("attaches %ld and %ld, tail: %s", attaches(a), attaches(b), x + 2 * PAGE);
}

static void run_there(void *at) { ((void (*)(void))(uintptr_t)at)(); }

CASE(shm_attach_exec)
{
#if defined(__x86_64__)
	static const unsigned char ret[] = { 0xc3 };
#elif defined(__aarch64__)
	static const unsigned char ret[] = { 0xc0, 0x03, 0x5f, 0xd6 };
#else
	static const unsigned char ret[] = { 0 };
	skip("no code for this machine");
#endif
	int a = track_segment(shmget(IPC_PRIVATE, PAGE, 0700));
	char *plain = attach(a), *exec = shmat(a, NULL, SHM_EXEC);
	memcpy(plain, ret, sizeof ret);
	__builtin___clear_cache(plain, plain + sizeof ret);
	say("with SHM_EXEC: %s", fault(run_there, exec));
	say("without: %s", fault(run_there, plain));
	char *exec_only_read = shmat(a, NULL, SHM_EXEC | SHM_RDONLY);
	say("with SHM_EXEC|SHM_RDONLY: %s", fault(run_there, exec_only_read));
	say("write: %s", fault(write_there, exec_only_read));
}

CASE(shm_attach_bad_id)
{
	say("-1: %s", got((long)shmat(-1, NULL, 0)));
	say("INT_MIN: %s", got((long)shmat(INT_MIN, NULL, 0)));
	int a = segment_of(PAGE);
	shmctl(a, IPC_RMID, NULL);
	say("removed: %s", got((long)shmat(a, NULL, 0)));
}

CASE(shm_attach_beyond_addresses)
{
	int a = segment_of(PAGE);
	say("at the very top: %s", got((long)shmat(a, (void *)-(uintptr_t)PAGE, 0)));
	say("in the middle of nowhere: %s", got((long)shmat(a, (void *)((uintptr_t)1 << 62), 0)));
	say("attaches %ld", attaches(a));
}

CASE(shm_detach_wrong_addresses)
{
	int a = segment_of(3 * PAGE);
	char *at = attach(a),
	     *anonymous = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	say("NULL: %s", got(shmdt(NULL)));
	say("unaligned: %s", got(shmdt(at + 1)));
	say("second page: %s", got(shmdt(at + PAGE)));
	say("an anonymous mapping: %s", got(shmdt(anonymous)));
	say("nothing mapped: %s", got(shmdt(free_range(PAGE))));
	say("attaches %ld", attaches(a));
	say("start: %s", got(shmdt(at)));
	say("again: %s", got(shmdt(at)));
}

CASE(shm_detach_faults)
{
	int a = segment_of(PAGE);
	char *at = attach(a);
	say("attached, read: %s", fault(read_there, at));
	shmdt(at);
	say("detached, read: %s", fault(read_there, at));
	say("detached, write: %s", fault(write_there, at));
}

CASE(shm_detach_keeps_contents)
{
	int a = segment_of(10 * PAGE);
	char *at = attach(a);
	for (int i = 0; i < 10 * PAGE; i++)
		at[i] = (char)(i * 7 + i / PAGE);
	shmdt(at);
	at = attach(a);
	bool same = true;
	for (int i = 0; i < 10 * PAGE; i++)
		same = same && at[i] == (char)(i * 7 + i / PAGE);
	say("all as before: %s", yes(same));
}

CASE(shm_page_tail)
{
	int a = segment_of(100);
	char *at = attach(a);
	bool zero = true;
	for (int i = 0; i < PAGE; i++)
		zero = zero && at[i] == 0;
	say("zero to the end of the page: %s", yes(zero));
	at[PAGE - 1] = 'z';
	say("writable to the end of the page: %c", at[PAGE - 1]);
	char *other = attach(a);
	say("shared to the end of the page: %c", other[PAGE - 1]);
}

CASE(shm_large)
{
	size_t bytes = 16u << 20;
	int a = segment_of(bytes);
	uint32_t *x = (void *)attach(a), *y = (void *)attach(a);
	for (size_t i = 0; i < bytes / 4; i++)
		x[i] = (uint32_t)(i * 2654435761u);
	size_t wrong = 0;
	for (size_t i = 0; i < bytes / 4; i++)
		wrong += y[i] != (uint32_t)(i * 2654435761u);
	say("16 MiB through two attaches: %zu wrong", wrong);
}

struct adder {
	int segment;
};

static void add_many(void *context)
{
	volatile int *at = (void *)attach(((struct adder *)context)->segment);
	for (int i = 0; i < 10000; i++)
		__sync_fetch_and_add(at, 1);
}

CASE(shm_atomics_between_processes)
{
	struct adder a = { segment_of(PAGE) };
	pid_t one = start(add_many, &a), two = start(add_many, &a);
	finish(one);
	finish(two);
	say("2 x 10000 additions: %d", *(int *)(void *)attach(a.segment));
}

struct locked {
	pthread_mutex_t mutex;
	int n;
};

static void lock_many(void *at)
{
	struct locked *l = at;
	for (int i = 0; i < 2000; i++) {
		pthread_mutex_lock(&l->mutex);
		l->n++;
		pthread_mutex_unlock(&l->mutex);
	}
}

CASE(shm_pthread_mutex)
{
	struct locked *l = (void *)attach(segment_of(PAGE));
	pthread_mutexattr_t shared;
	pthread_mutexattr_init(&shared);
	pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&l->mutex, &shared);
	pid_t one = start(lock_many, l), two = start(lock_many, l);
	int a = finish(one), b = finish(two);
	say("a process-shared mutex in a segment: %d, %s, %s", l->n, ended(a), ended(b));
}

CASE(shm_system_calls_on_segment)
{
	char *at = attach(segment_of(2 * PAGE));
	int pipe_ends[2];
	if (pipe(pipe_ends) != 0)
		broken("pipe");
	strcpy(at, "through a pipe");
	say("write from it: %s", got(write(pipe_ends[1], at, 15)));
	say("read into it: %s", got(read(pipe_ends[0], at + PAGE, 15)));
	say("%s", at + PAGE);
}
