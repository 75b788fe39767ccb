/*
 * Record locks with many processes, random ranges and random kills, against a model: what each
 * process holds is written down in the object itself, and looked at by the process that is
 * granted a lock.
 *
 *   model NAME FIRST COUNT GRANTS SEED
 *
 * Runs COUNT workers with the slots FIRST and up, of 64, until all runs on this object together
 * have been granted GRANTS locks. A run in another domain has other slots of the same object.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 64, BYTES = 64 };

/* A worker. What its last life held counts no more once `dead` says its number. */
struct slot {
	_Atomic uint64_t life, dead;
	/* The bytes that it holds, a bit for each. */
	_Atomic uint64_t shared, exclusive;
	_Atomic uint64_t grants;
	char room[24];
};

struct table {
	_Atomic uint64_t grants, refused, waited, kills, doubles, interrupted;
	char room[16];
	struct slot slots[SLOTS];
};

static struct table *all;
static uint64_t random_state;

static uint64_t any(uint64_t below)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (random_state >> 33) % below;
}

static uint64_t bits(unsigned start, unsigned last)
{
	uint64_t to_last = last == 63 ? ~0ull : (1ull << (last + 1)) - 1;
	return to_last & ~((1ull << start) - 1);
}

static int set(int fd, int command, int type, unsigned start, unsigned last)
{
	struct flock about = {
		.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = last - start + 1
	};
	return fcntl(fd, command, &about);
}

static void double_grant(unsigned mine, unsigned other, uint64_t what, const char *how)
{
	atomic_fetch_add(&all->doubles, 1);
	fprintf(stderr, "worker %u was granted %s %#llx, which worker %u holds\n", mine, how,
		(unsigned long long)what, other);
}

/* Nobody else who lives holds what was just granted. */
static void check(unsigned mine, uint64_t what, int exclusive)
{
	for (unsigned n = 0; n < SLOTS; n++) {
		struct slot *other = &all->slots[n];
		if (n == mine)
			continue;
		uint64_t life = atomic_load(&other->life);
		uint64_t held = atomic_load(&other->exclusive);
		if (exclusive)
			held |= atomic_load(&other->shared);
		if (!(held & what))
			continue;
		/* It was killed with it, and its parent is about to say so; or it lives. */
		for (;;) {
			if (atomic_load(&other->dead) >= life || atomic_load(&other->life) != life)
				break;
			uint64_t now = atomic_load(&other->exclusive);
			if (exclusive)
				now |= atomic_load(&other->shared);
			if (now != held) {
				double_grant(mine, n, what & held, exclusive ? "for writing" : "for reading");
				break;
			}
			if (atomic_load(&all->doubles))
				break;
			usleep(100);
		}
	}
}

static _Noreturn void work(int fd, unsigned mine, uint64_t grants)
{
	struct slot *own = &all->slots[mine];
	uint64_t shared = 0, exclusive = 0;
	alarm(120);
	while (atomic_load(&all->grants) < grants && !atomic_load(&all->doubles)) {
		unsigned a = any(BYTES), b = a + any(8);
		if (b >= BYTES)
			b = BYTES - 1;
		unsigned what = any(10);
		/* All of it now and then, so that it may wait. */
		if (what == 0)
			a = 0, b = BYTES - 1;
		uint64_t range = bits(a, b);
		if (what < 4) {
			atomic_store(&own->shared, shared &= ~range);
			atomic_store(&own->exclusive, exclusive &= ~range);
			if (set(fd, F_SETLK, F_UNLCK, a, b))
				perror("F_UNLCK"), exit(1);
			continue;
		}
		int write = what < 7;
		/* A worker that holds nothing may wait: no circle comes of it. */
		int waits = !(shared | exclusive) && any(2);
		if (!write) {
			atomic_store(&own->shared, shared | (exclusive & range));
			atomic_store(&own->exclusive, exclusive & ~range);
		}
		if (set(fd, waits ? F_SETLKW : F_SETLK, write ? F_WRLCK : F_RDLCK, a, b)) {
			if (errno == EINTR)
				atomic_fetch_add(&all->interrupted, 1);
			else if (errno != EAGAIN && errno != EACCES)
				perror("F_SETLK"), exit(1);
			atomic_fetch_add(&all->refused, 1);
			if (!write) {
				/* Still held for writing. */
				atomic_store(&own->exclusive, exclusive);
				atomic_store(&own->shared, shared);
			}
			continue;
		}
		if (waits)
			atomic_fetch_add(&all->waited, 1);
		shared = write ? shared & ~range : shared | range;
		exclusive = write ? exclusive | range : exclusive & ~range;
		atomic_store(&own->shared, shared);
		atomic_store(&own->exclusive, exclusive);
		check(mine, range, write);
		atomic_fetch_add(&all->grants, 1);
		atomic_fetch_add(&own->grants, 1);
	}
	atomic_store(&own->shared, 0);
	atomic_store(&own->exclusive, 0);
	_exit(0);
}

static pid_t start(int fd, unsigned mine, uint64_t grants, uint64_t seed)
{
	struct slot *own = &all->slots[mine];
	atomic_store(&own->shared, 0);
	atomic_store(&own->exclusive, 0);
	atomic_fetch_add(&own->life, 1);
	pid_t pid = fork();
	if (pid == 0) {
		random_state = seed;
		work(fd, mine, grants);
	}
	if (pid < 0)
		perror("fork"), exit(1);
	return pid;
}

int main(int argc, char **argv)
{
	if (argc != 6)
		return 2;
	unsigned first = atoi(argv[2]), count = atoi(argv[3]);
	uint64_t grants = strtoull(argv[4], 0, 10);
	random_state = strtoull(argv[5], 0, 10) + first;
	int fd = shm_open(argv[1], O_CREAT | O_RDWR, 0600);
	if (fd < 0 || ftruncate(fd, sizeof *all))
		perror(argv[1]), exit(1);
	all = mmap(0, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (all == MAP_FAILED)
		perror("mmap"), exit(1);
	pid_t pids[SLOTS];
	uint64_t seed = random_state;
	for (unsigned n = 0; n < count; n++)
		pids[n] = start(fd, first + n, grants, seed += 977);
	struct timespec pause = { 0, 20000000 };
	while (atomic_load(&all->grants) < grants && !atomic_load(&all->doubles)) {
		nanosleep(&pause, 0);
		unsigned n = any(count);
		kill(pids[n], SIGKILL);
		int status;
		waitpid(pids[n], &status, 0);
		/* The kernel has released its locks before it said that it ended. */
		struct slot *own = &all->slots[first + n];
		atomic_store(&own->dead, atomic_load(&own->life));
		if (WIFEXITED(status) && WEXITSTATUS(status))
			exit(1);
		atomic_fetch_add(&all->kills, 1);
		pids[n] = start(fd, first + n, grants, seed += 977);
	}
	for (unsigned n = 0; n < count; n++) {
		waitpid(pids[n], 0, 0);
		struct slot *own = &all->slots[first + n];
		atomic_store(&own->dead, atomic_load(&own->life));
	}
	uint64_t here = 0;
	for (unsigned n = 0; n < count; n++)
		here += atomic_load(&all->slots[first + n].grants);
	printf("%llu here, %llu grants, %llu of them waited for, %llu refused, %llu kills, %llu double grants\n",
		(unsigned long long)here, (unsigned long long)atomic_load(&all->grants),
		(unsigned long long)atomic_load(&all->waited),
		(unsigned long long)atomic_load(&all->refused),
		(unsigned long long)atomic_load(&all->kills),
		(unsigned long long)atomic_load(&all->doubles));
	return atomic_load(&all->doubles) != 0;
}
