#include "case.h"
#include "runner.h"

#include <mqueue.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/random.h>

enum kind { SEGMENT, SET, QUEUE, NAME };
enum { MOST_TRACKED = 2048 };

struct tracked {
	_Atomic int count;
	struct {
		int kind, id;
		uint64_t name; /* of a NAME: what is random in it */
	} entry[MOST_TRACKED];
};

static struct tracked *tracking;

struct tracked *new_tracking(void)
{
	struct tracked *t = mmap(
		NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (t == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return t;
}

void use_tracking(struct tracked *t) { tracking = t; }

enum { NAME_BYTES = 32 };

static void spell_name(char text[NAME_BYTES], uint64_t random)
{
	snprintf(text, NAME_BYTES, "/probe-%016llx", (unsigned long long)random);
}

static void unlink_name(uint64_t random)
{
	char name[NAME_BYTES];
	spell_name(name, random);
	shm_unlink(name);
	sem_unlink(name);
	mq_unlink(name);
}

void remove_tracked(struct tracked *t)
{
	for (int i = 0; i < t->count && i < MOST_TRACKED; i++) {
		/* Most are gone already: the errors mean nothing. */
		switch (t->entry[i].kind) {
		case SEGMENT: shmctl(t->entry[i].id, IPC_RMID, NULL); break;
		case SET: semctl(t->entry[i].id, 0, IPC_RMID); break;
		case QUEUE: msgctl(t->entry[i].id, IPC_RMID, NULL); break;
		case NAME: unlink_name(t->entry[i].name); break;
		}
	}
	munmap(t, sizeof *t);
}

static int next_entry(void)
{
	int at = atomic_fetch_add(&tracking->count, 1);
	if (at >= MOST_TRACKED)
		broken("too many objects in one case");
	return at;
}

static int track(int id, enum kind kind)
{
	int saved = errno;
	if (id != -1) {
		int at = next_entry();
		tracking->entry[at].id = id;
		tracking->entry[at].kind = (int)kind;
	}
	errno = saved;
	return id;
}

int track_segment(int id) { return track(id, SEGMENT); }
int track_set(int id) { return track(id, SET); }
int track_queue(int id) { return track(id, QUEUE); }

key_t fresh_key(void)
{
	uint32_t r = 0;
	/* 31 random bits: a clash with another's key is next to impossible. Never IPC_PRIVATE. */
	if (getrandom(&r, sizeof r, 0) != sizeof r)
		broken("getrandom");
	return (key_t)(r >> 1 | 1);
}

const char *fresh_name(void)
{
	static char names[8][NAME_BYTES];
	static unsigned next;
	uint64_t random;
	if (getrandom(&random, sizeof random, 0) != sizeof random)
		broken("getrandom");
	int at = next_entry();
	tracking->entry[at].name = random;
	tracking->entry[at].kind = NAME;
	char *name = names[next++ % 8];
	spell_name(name, random);
	return name;
}

int segment_of(size_t bytes)
{
	int id = track_segment(shmget(IPC_PRIVATE, bytes, 0600));
	if (id == -1)
		broken("shmget of a private segment");
	return id;
}

int set_of(int semaphores)
{
	int id = track_set(semget(IPC_PRIVATE, semaphores, 0600));
	if (id == -1)
		broken("semget of a private set");
	return id;
}

int queue_of(void)
{
	int id = track_queue(msgget(IPC_PRIVATE, 0600));
	if (id == -1)
		broken("msgget of a private queue");
	return id;
}

char *attach(int segment)
{
	void *at = shmat(segment, NULL, 0);
	if (at == (void *)-1)
		broken("shmat");
	return at;
}

struct shmid_ds segment_state(int segment)
{
	struct shmid_ds ds;
	memset(&ds, 0xee, sizeof ds);
	if (shmctl(segment, IPC_STAT, &ds) != 0)
		broken("IPC_STAT of a segment");
	return ds;
}

long attaches(int segment) { return (long)segment_state(segment).shm_nattch; }

struct semid_ds set_state(int set)
{
	struct semid_ds ds;
	memset(&ds, 0xee, sizeof ds);
	if (semctl(set, 0, IPC_STAT, (union semun) { .buf = &ds }) != 0)
		broken("IPC_STAT of a set");
	return ds;
}

struct msqid_ds queue_state(int queue)
{
	struct msqid_ds ds;
	memset(&ds, 0xee, sizeof ds);
	if (msgctl(queue, IPC_STAT, &ds) != 0)
		broken("IPC_STAT of a queue");
	return ds;
}

int asked(int set, int n, int command)
{
	int v = semctl(set, n, command);
	if (v == -1)
		broken("semctl %d", command);
	return v;
}

int value(int set, int n) { return asked(set, n, GETVAL); }

void set_value(int set, int n, int v)
{
	if (semctl(set, n, SETVAL, (union semun) { .val = v }) != 0)
		broken("SETVAL");
}

int step(int set, int n, int by, int flags)
{
	struct sembuf o = {
		.sem_num = (unsigned short)n, .sem_op = (short)by, .sem_flg = (short)flags
	};
	return semop(set, &o, 1);
}

int put(int queue, long type, const char *text, int flags)
{
	struct message m = { .type = type };
	size_t n = strlen(text);
	memcpy(m.text, text, n);
	return msgsnd(queue, &m, n, flags);
}

ssize_t take(int queue, struct message *m, size_t space, long type, int flags)
{
	memset(m, 0, sizeof *m);
	return msgrcv(queue, m, space, type, flags);
}
