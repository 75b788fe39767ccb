/* Calls that have to find one object among many, while other processes are there and asleep. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <unistd.h>

#include "calls.h"

enum kind { SEMAPHORE_SET, QUEUE, SEGMENT };

struct objects {
	enum kind kind;
	long count, made;
	key_t first_key;
	int *ids;
	bool random;
	uint64_t state; /* of the generator */
};

static struct objects all;

static const char *const get_call[] = { "semget", "msgget", "shmget" };

static int get(enum kind kind, key_t key, int flags)
{
	switch (kind) {
	case SEMAPHORE_SET: return semget(key, 1, flags);
	case QUEUE: return msgget(key, flags);
	default: return shmget(key, 4096, flags);
	}
}

static void remove_objects(void)
{
	for (; all.made > 0; all.made--) {
		int id = all.ids[all.made - 1];
		switch (all.kind) {
		case SEMAPHORE_SET: semctl(id, 0, IPC_RMID); break;
		case QUEUE: msgctl(id, IPC_RMID, NULL); break;
		default: shmctl(id, IPC_RMID, NULL);
		}
	}
}

static void make_objects(enum kind kind, const struct request *request)
{
	all = (struct objects) { .kind = kind,
		.count = request->objects,
		.random = request->random,
		.state = 0x9e3779b97f4a7c15u };
	/* A range of keys of this process's own. */
	all.first_key = (key_t)(0x40000000u | ((uint32_t)getpid() & 0x7fffu) << 15);
	all.ids = calloc((size_t)all.count, sizeof *all.ids);
	if (all.ids == NULL)
		give_up("no memory for %ld ids", all.count);
	on_failure = remove_objects;
	for (; all.made < all.count; all.made++) {
		int id = get(kind, all.first_key + (key_t)all.made, IPC_CREAT | IPC_EXCL | 0600);
		if (id == -1)
			give_up_creating(get_call[kind]);
		all.ids[all.made] = id;
	}
}

/* Attaches in that many processes less this one, and leaves them asleep. */
static void make_clients(struct crowd *crowd, const struct request *request)
{
	int segment = shmget(IPC_PRIVATE, 4096, 0600);
	if (segment == -1)
		give_up_creating("shmget");
	void *own = shmat(segment, NULL, 0);
	if (own == (void *)-1)
		give_up_call("shmat");
	if (shmctl(segment, IPC_RMID, NULL) != 0)
		give_up_call("IPC_RMID");
	crowd_prepare(crowd);
	for (long i = 1; i < request->clients; i++) {
		if (!crowd_enlarge(crowd))
			continue;
		/* Inherited; a fork is an attach of its own. */
		volatile unsigned char *seen = own;
		*seen = 1;
		arrive(crowd);
		_exit(shmdt(own) != 0);
	}
	crowd_await(crowd);
	struct shmid_ds state;
	if (shmctl(segment, IPC_STAT, &state) != 0)
		give_up_call("IPC_STAT");
	if ((long)state.shm_nattch != request->clients)
		give_up("%lu processes are attached, not %ld", (unsigned long)state.shm_nattch,
			request->clients);
}

static long next_object(void)
{
	if (!all.random)
		return all.count / 2;
	all.state ^= all.state << 13;
	all.state ^= all.state >> 7;
	all.state ^= all.state << 17;
	return (long)((all.state >> 32) * (uint64_t)all.count >> 32);
}

static void gets(void *context, uint64_t first, uint64_t count)
{
	(void)context, (void)first;
	while (count--) {
		long nth = next_object();
		int id = get(all.kind, all.first_key + (key_t)nth, 0);
		if (id != all.ids[nth])
			give_up("%s of key 0x%x returned %d (%s), not %d", get_call[all.kind],
				(unsigned)(all.first_key + nth), id,
				id == -1 ? strerror(errno) : "another object", all.ids[nth]);
	}
}

static void semops(void *context, uint64_t first, uint64_t count)
{
	(void)context, (void)first;
	struct sembuf up = { 0, +1, 0 }, down = { 0, -1, 0 };
	while (count--) {
		int id = all.ids[next_object()];
		if (semop(id, &up, 1) != 0 || semop(id, &down, 1) != 0)
			give_up_call("semop");
	}
}

static void measure_among(enum kind kind, rounds_fn *rounds, const struct request *request)
{
	struct crowd crowd;
	make_objects(kind, request);
	make_clients(&crowd, request);
	measure(&request->run, rounds, NULL, NULL);
	crowd_release(&crowd);
	crowd_end(&crowd);
	for (long i = 0; kind == SEMAPHORE_SET && i < all.count; i++)
		if (semctl(all.ids[i], 0, GETVAL) != 0)
			give_up("semaphore set %ld is not 0 after as many ups as downs", i);
	remove_objects();
	free(all.ids);
}

void lookup_semop(const struct request *request) { measure_among(SEMAPHORE_SET, semops, request); }

void lookup_semget(const struct request *request) { measure_among(SEMAPHORE_SET, gets, request); }

void lookup_msgget(const struct request *request) { measure_among(QUEUE, gets, request); }

void lookup_shmget(const struct request *request) { measure_among(SEGMENT, gets, request); }
