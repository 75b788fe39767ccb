/* Under `vshmem run --share ...`: makes objects, says whether they lie where they should, and uses
 * them.
 *
 *   share kinds SHM SEM MSG            1: objects of the kind lie in the pool, 0: in the kernel
 *   share keys IN|OUT=KEY...           the kind's objects with this key, in or out of the pool
 *   share walk KEY-IN KEY-OUT          *_INFO and *_STAT tell of both
 *   share detach KEY-IN KEY-OUT        shmdt, SHM_REMAP and nattch of both in one process
 *   share family KEY-IN KEY-OUT        fork and exec
 *   share give KEY-IN KEY-OUT          makes six, writes their ids, and waits until a peer has used
 * them share use|tell SHM SEM MSG SHM SEM MSG  uses ids that it was given; tell: is the peer share
 * clash KEY-OUT                an object of the kernel's with an id like the pool's is refused, not
 * confused
 *
 * Exits 0, or says what is wrong and exits 1. */
#include "direct.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum kind { SEGMENT, SET, QUEUE, KINDS };
enum { PAGE = 4096 };
static const char *const names[KINDS] = { "segment", "set", "queue" };
static int made[KINDS][64], made_count[KINDS];

static void remove_all(void)
{
	for (int i = 0; i < made_count[SEGMENT]; i++)
		shmctl(made[SEGMENT][i], IPC_RMID, NULL);
	for (int i = 0; i < made_count[SET]; i++)
		semctl(made[SET][i], 0, IPC_RMID);
	for (int i = 0; i < made_count[QUEUE]; i++)
		msgctl(made[QUEUE][i], IPC_RMID, NULL);
}

static void check(bool holds, const char *what, enum kind kind, long detail)
{
	if (holds)
		return;
	fprintf(stderr, "share: %s: %s (%ld; errno %s)\n", names[kind], what, detail,
		strerrorname_np(errno));
	remove_all();
	_exit(1);
}

static int make(enum kind kind, key_t key)
{
	int flags = IPC_CREAT | (key == IPC_PRIVATE ? 0 : IPC_EXCL) | 0600;
	int id = kind == SEGMENT ? shmget(key, 2 * PAGE, flags)
		: kind == SET    ? semget(key, 2, flags)
				 : msgget(key, flags);
	check(id != -1, "cannot be made", kind, key);
	made[kind][made_count[kind]++] = id;
	return id;
}

static int state(enum kind kind, int id)
{
	union {
		struct shmid_ds shm;
		struct semid_ds sem;
		struct msqid_ds msg;
	} room;
	return kind == SEGMENT ? shmctl(id, IPC_STAT, &room.shm)
		: kind == SET  ? semctl(id, 0, IPC_STAT, &room.sem)
			       : msgctl(id, IPC_STAT, &room.msg);
}

/* Whether the kernel has it; the pool's ids have an index of 16384 and more. */
static bool kernel_has(enum kind kind, int id)
{
	union {
		struct shmid_ds shm;
		struct semid_ds sem;
		struct msqid_ds msg;
	} room;
	long number = kind == SEGMENT ? SYS_shmctl : kind == SET ? SYS_semctl : SYS_msgctl;
	return kind == SET ? direct(number, id, 0, IPC_STAT, (long)&room) == 0
			   : direct(number, id, IPC_STAT, (long)&room, 0) == 0;
}

static void lies(enum kind kind, int id, bool in_pool)
{
	check((id % 32768 >= 16384) == in_pool, "has an id of the wrong place", kind, id);
	check(kernel_has(kind, id) != in_pool, "lies in the wrong place", kind, id);
	check(state(kind, id) == 0, "IPC_STAT", kind, id);
}

static void use(enum kind kind, int id)
{
	struct {
		long type;
		char text[8];
	} m = { 3, "message" };
	if (kind == SEGMENT) {
		char *at = shmat(id, NULL, 0);
		check(at != (void *)-1, "shmat", kind, id);
		at[PAGE] = 'x';
		check(shmdt(at) == 0, "shmdt", kind, id);
	} else if (kind == SET) {
		check(semop(id, (struct sembuf[]) { { 0, 1, 0 }, { 1, 1, SEM_UNDO } }, 2) == 0,
			"semop", kind, id);
		check(semtimedop(id, (struct sembuf[]) { { 0, -1, 0 } }, 1,
			      &(struct timespec) { 5, 0 })
		                == 0,
			"semtimedop", kind, id);
	} else {
		check(msgsnd(id, &m, sizeof m.text, 0) == 0, "msgsnd", kind, id);
		check(msgrcv(id, &m, sizeof m.text, 3, IPC_NOWAIT) == sizeof m.text, "msgrcv", kind,
			id);
	}
}

static int try_get(enum kind kind, key_t key)
{ return kind == SEGMENT ? shmget(key, 0, 0) : kind == SET ? semget(key, 0, 0) : msgget(key, 0); }

static void removes(enum kind kind, int id, key_t key)
{
	int r = kind == SEGMENT ? shmctl(id, IPC_RMID, NULL)
		: kind == SET   ? semctl(id, 0, IPC_RMID)
				: msgctl(id, IPC_RMID, NULL);
	check(r == 0, "IPC_RMID", kind, id);
	check(state(kind, id) == -1 && errno == EINVAL, "still there after IPC_RMID", kind, id);
	check(key == IPC_PRIVATE || (try_get(kind, key) == -1 && errno == ENOENT),
		"key still there", kind, key);
}

struct totals {
	int highest;
	long objects;
};

static struct totals totals(enum kind kind)
{
	union {
		struct shm_info shm;
		struct shminfo limits;
		struct seminfo sem;
		struct msginfo msg;
	} room;
	struct totals t;
	if (kind == SEGMENT) {
		t.highest = shmctl(0, SHM_INFO, (void *)&room);
		t.objects = room.shm.used_ids;
	} else if (kind == SET) {
		t.highest = semctl(0, 0, SEM_INFO, &room);
		t.objects = room.sem.semusz;
	} else {
		t.highest = msgctl(0, MSG_INFO, (void *)&room);
		t.objects = room.msg.msgpool;
	}
	check(t.highest != -1, "*_INFO", kind, 0);
	int limits = kind == SEGMENT ? shmctl(0, IPC_INFO, (void *)&room)
		: kind == SET        ? semctl(0, 0, IPC_INFO, &room)
				     : msgctl(0, IPC_INFO, (void *)&room);
	check(limits == t.highest, "IPC_INFO and *_INFO return different indexes", kind, limits);
	return t;
}

static int by_index(enum kind kind, int index, bool any)
{
	union {
		struct shmid_ds shm;
		struct semid_ds sem;
		struct msqid_ds msg;
	} room;
	return kind == SEGMENT ? shmctl(index, any ? SHM_STAT_ANY : SHM_STAT, &room.shm)
		: kind == SET  ? semctl(index, 0, any ? SEM_STAT_ANY : SEM_STAT, &room.sem)
			       : msgctl(index, any ? MSG_STAT_ANY : MSG_STAT, &room.msg);
}

/* How often a walk over all indexes comes upon an id: as ipcs walks. */
static int walked(enum kind kind, int id, bool any)
{
	int seen = 0, highest = totals(kind).highest;
	for (int i = 0; i <= highest; i++)
		seen += by_index(kind, i, any) == id;
	return seen;
}

static key_t key_of(const char *text) { return (key_t)strtoll(text, NULL, 0); }

/* A key that no other program has, in the range that the tests give to none. */
static key_t other_key(int n) { return (key_t)(0x5a000000 + (getpid() & 0xffff) * 16 + n); }

static int kinds(char **words)
{
	for (int kind = 0; kind < KINDS; kind++) {
		bool in_pool = words[kind][0] == '1';
		for (int private = 0; private < 2; private ++) {
			key_t key = private ? IPC_PRIVATE : other_key(kind);
			long before = totals(kind).objects;
			int id = make(kind, key);
			lies(kind, id, in_pool);
			check(key == IPC_PRIVATE || try_get(kind, key) == id, "found by key", kind,
				key);
			use(kind, id);
			check(walked(kind, id, false) == 1 && walked(kind, id, true) == 1,
				"seen once by a walk", kind, id);
			/* Others may make objects in the kernel meanwhile, not in this pool. */
			check(!in_pool || totals(kind).objects == before + 1, "counted", kind,
				before);
			removes(kind, id, key);
		}
	}
	return 0;
}

static int keys(char **words)
{
	for (; *words; words++) {
		bool in_pool = strncmp(*words, "IN=", 3) == 0;
		key_t key = key_of(strchr(*words, '=') + 1);
		for (int kind = 0; kind < KINDS; kind++) {
			int id = make(kind, key);
			lies(kind, id, in_pool);
			use(kind, id);
			removes(kind, id, key);
		}
	}
	return 0;
}

static int walk(key_t in, key_t out)
{
	for (int kind = 0; kind < KINDS; kind++) {
		int theirs = make(kind, out);
		int kernels = totals(kind).highest;
		check(kernels < 16384, "the highest index is the kernel's while the pool is empty",
			kind, kernels);
		long before = totals(kind).objects;
		int ours = make(kind, in), more = make(kind, in + 1);
		struct totals t = totals(kind);
		check(t.highest >= 16384, "the highest index is the pool's", kind, t.highest);
		check(t.objects >= before + 2 - 1, "totals are sums", kind, t.objects);
		for (int any = 0; any < 2; any++)
			check(walked(kind, ours, any) == 1 && walked(kind, more, any) == 1
			                && walked(kind, theirs, any) == 1,
				"each is seen once by a walk", kind, any);
		check(by_index(kind, ours, false) == ours,
			"STAT by an id instead of an index, pool", kind, ours);
		check(by_index(kind, theirs, false) == theirs,
			"STAT by an id instead of an index, kernel", kind, theirs);
		check(by_index(kind, 32767, false) == -1 && errno == EINVAL,
			"STAT of an index without object", kind, 0);
		check(by_index(kind, -1, false) == -1 && errno == EINVAL, "STAT of -1", kind, 0);
		removes(kind, ours, in);
		removes(kind, more, in + 1);
		check(totals(kind).highest < 16384, "the highest index is the kernel's again", kind,
			totals(kind).highest);
		removes(kind, theirs, out);
	}
	return 0;
}

static long attaches(int id)
{
	struct shmid_ds ds;
	check(shmctl(id, IPC_STAT, &ds) == 0, "IPC_STAT", SEGMENT, id);
	return (long)ds.shm_nattch;
}

static char *attach(int id, void *where, int flags)
{
	char *at = shmat(id, where, flags);
	check(at != (void *)-1, "shmat", SEGMENT, id);
	return at;
}

static int detach(key_t in, key_t out)
{
	int ours = make(SEGMENT, in), theirs = make(SEGMENT, out);
	char *x = attach(ours, NULL, 0), *y = attach(theirs, NULL, 0),
	     *z = attach(ours, NULL, SHM_RDONLY);
	strcpy(x, "pool");
	strcpy(y, "kernel");
	check(strcmp(z, "pool") == 0, "one memory behind two attaches", SEGMENT, 0);
	check(attaches(ours) == 2 && attaches(theirs) == 1, "attaches of both", SEGMENT,
		attaches(theirs));
	check(shmdt(y + PAGE) == -1 && errno == EINVAL, "shmdt in the middle of the kernel's",
		SEGMENT, 0);
	check(shmdt(y) == 0 && shmdt(y) == -1 && errno == EINVAL, "shmdt of the kernel's, once",
		SEGMENT, 0);
	check(attaches(ours) == 2 && attaches(theirs) == 0, "attaches after the kernel's", SEGMENT,
		attaches(ours));
	/* Each in place of the other. */
	check(attach(theirs, x, SHM_REMAP) == x && strcmp(x, "kernel") == 0,
		"the kernel's over the pool's", SEGMENT, 0);
	check(attaches(ours) == 1 && attaches(theirs) == 1, "attaches after a replacement", SEGMENT,
		attaches(ours));
	check(attach(ours, x, SHM_REMAP) == x && strcmp(x, "pool") == 0,
		"the pool's over the kernel's", SEGMENT, 0);
	check(attaches(ours) == 2 && attaches(theirs) == 0, "attaches after it is replaced back",
		SEGMENT, attaches(theirs));
	check(shmdt(z) == 0 && shmdt(x) == 0 && attaches(ours) == 0, "shmdt of the pool's", SEGMENT,
		attaches(ours));
	removes(SEGMENT, ours, in);
	removes(SEGMENT, theirs, out);
	return 0;
}

static int family(key_t in, key_t out, const char *self)
{
	char text[6][16];
	int ids[6];
	for (int i = 0; i < 6; i++)
		ids[i] = make((enum kind)(i % 3), i < 3 ? in : out);
	for (int i = 0; i < 6; i++)
		snprintf(text[i], sizeof text[i], "%d", ids[i]);
	char *x = attach(ids[0], NULL, 0), *y = attach(ids[3], NULL, 0);
	pid_t child = fork();
	if (child == 0) {
		check(attaches(ids[0]) == 2 && attaches(ids[3]) == 2, "a child's attaches", SEGMENT,
			attaches(ids[0]));
		x[0] = 'p';
		y[0] = 'k';
		check(shmdt(x) == 0 && shmdt(y) == 0, "a child's shmdt", SEGMENT, 0);
		for (int i = 0; i < 6; i++)
			use((enum kind)(i % 3), ids[i]);
		execl(self, self, "use", text[0], text[1], text[2], text[3], text[4], text[5],
			(char *)NULL);
		_exit(127);
	}
	int status;
	check(waitpid(child, &status, 0) == child && status == 0, "the child, and what it exec'd",
		SEGMENT, status);
	check(x[0] == 'p' && y[0] == 'k', "what the child wrote", SEGMENT, 0);
	check(attaches(ids[0]) == 1 && attaches(ids[3]) == 1, "attaches after the child", SEGMENT,
		attaches(ids[3]));
	check(shmdt(x) == 0 && shmdt(y) == 0, "shmdt", SEGMENT, 0);
	for (int i = 0; i < 6; i++)
		removes((enum kind)(i % 3), ids[i], IPC_PRIVATE);
	return 0;
}

static int give(key_t in, key_t out)
{
	int ids[6];
	for (int i = 0; i < 6; i++) {
		ids[i] = make((enum kind)(i % 3), i < 3 ? in : out);
		lies((enum kind)(i % 3), ids[i], i < 3);
	}
	for (int i = 0; i < 6; i++)
		printf("%d ", ids[i]);
	printf("\n");
	fflush(stdout);
	/* The peer's last use. */
	for (int i = 1; i < 6; i += 3)
		check(semop(ids[i], (struct sembuf[]) { { 0, -7, 0 } }, 1) == 0, "the peer's semop",
			SET, ids[i]);
	remove_all();
	return 0;
}

static int use_all(char **words, bool tell)
{
	for (int i = 0; i < 6; i++)
		use((enum kind)(i % 3), atoi(words[i]));
	for (int i = 1; tell && i < 6; i += 3)
		check(semop(atoi(words[i]), (struct sembuf[]) { { 0, 7, 0 } }, 1) == 0,
			"semop for the peer", SET, i);
	return 0;
}

/* Makes the kernel come to indexes of 16384 and more: it does when two thirds of that many objects
 * live. */
static int clash(key_t out)
{
	static int ids[20000];
	int n = 0, refused = 0, status = 1;
	while (n < 20000) {
		int id = msgget(IPC_PRIVATE, 0600);
		if (id == -1) {
			refused = errno;
			break;
		}
		ids[n++] = id;
		if (id % 32768 >= 16384)
			break;
	}
	bool confused = n > 0 && ids[n - 1] % 32768 >= 16384;
	int keyed = refused == ENOSPC ? msgget(out, IPC_CREAT | IPC_EXCL | 0600) : -2, why = errno;
	bool left = refused == ENOSPC && msgget(out, 0) != -1;
	if (confused || refused != ENOSPC)
		fprintf(stderr, "share: after %d queues of the kernel: %s\n", n,
			confused ? "an id like the pool's" : strerrorname_np(refused));
	else if (keyed != -1 || why != ENOSPC || left)
		fprintf(stderr, "share: with a key: %d, %s, left behind: %d\n", keyed,
			strerrorname_np(why), left);
	else
		status = 0;
	for (int i = 0; i < n; i++)
		msgctl(ids[i], IPC_RMID, NULL);
	return status;
}

int main(int argc, char **argv)
{
	if (argc == 5 && strcmp(argv[1], "kinds") == 0)
		return kinds(argv + 2);
	if (argc > 2 && strcmp(argv[1], "keys") == 0)
		return keys(argv + 2);
	if (argc == 4 && strcmp(argv[1], "walk") == 0)
		return walk(key_of(argv[2]), key_of(argv[3]));
	if (argc == 4 && strcmp(argv[1], "detach") == 0)
		return detach(key_of(argv[2]), key_of(argv[3]));
	if (argc == 4 && strcmp(argv[1], "family") == 0)
		return family(key_of(argv[2]), key_of(argv[3]), "/proc/self/exe");
	if (argc == 4 && strcmp(argv[1], "give") == 0)
		return give(key_of(argv[2]), key_of(argv[3]));
	if (argc == 8 && strcmp(argv[1], "use") == 0)
		return use_all(argv + 2, false);
	if (argc == 8 && strcmp(argv[1], "tell") == 0)
		return use_all(argv + 2, true);
	if (argc == 3 && strcmp(argv[1], "clash") == 0)
		return clash(key_of(argv[2]));
	fprintf(stderr, "usage: see the head of share.c\n");
	return 2;
}
