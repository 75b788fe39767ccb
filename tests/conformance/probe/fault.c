/* EFAULT: pointers into memory that ends, that may not be written, or that has gone. */
#include "case.h"

enum { PAGE = 4096 };

/* n bytes, of which only the first may be touched. */
static void *straddling(size_t n)
{
	char *at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED || mprotect(at + PAGE, PAGE, PROT_NONE) != 0)
		broken("two pages");
	memset(at, 0, PAGE);
	return at + PAGE - (n / 2);
}

static void *read_only(void)
{
	char *at = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		broken("a page");
	return at;
}

static void all_controls(const char *how, void *buffer, int a, int s, int q)
{
	say("%s, IPC_STAT: %s %s %s", how, got(shmctl(a, IPC_STAT, buffer)),
		got(semctl(s, 0, IPC_STAT, buffer)), got(msgctl(q, IPC_STAT, buffer)));
	say("%s, IPC_INFO: %s %s %s", how, got(shmctl(0, IPC_INFO, buffer)),
		got(semctl(0, 0, IPC_INFO, buffer)), got(msgctl(0, IPC_INFO, buffer)));
	say("%s, *_INFO: %s %s %s", how, got(shmctl(0, SHM_INFO, buffer)),
		got(semctl(0, 0, SEM_INFO, buffer)), got(msgctl(0, MSG_INFO, buffer)));
}

static void all_settings(const char *how, void *buffer, int a, int s, int q)
{
	say("%s, IPC_SET: %s %s %s", how, got(shmctl(a, IPC_SET, buffer)),
		got(semctl(s, 0, IPC_SET, buffer)), got(msgctl(q, IPC_SET, buffer)));
}

CASE(fault_control_buffers)
{
	int a = segment_of(PAGE), s = set_of(3), q = queue_of();
	/* The smallest of the structures has 36 bytes: none of them fits into 16. */
	all_controls("straddling", straddling(32), a, s, q);
	all_controls("read-only", read_only(), a, s, q);
	all_controls("NULL", NULL, a, s, q);
	all_controls("the kernel's", (void *)-PAGE, a, s, q);
	all_settings("straddling", straddling(32), a, s, q);
	all_settings("NULL", NULL, a, s, q);
	all_settings("the kernel's", (void *)-PAGE, a, s, q);
	say("attaches %ld, semaphores %lu, messages %lu", attaches(a),
		(unsigned long)set_state(s).sem_nsems, (unsigned long)queue_state(q).msg_qnum);
}

CASE(fault_control_order)
{
	/* The id is looked at before the buffer; IPC_SET reads the buffer before the id. */
	void *bad = (void *)16;
	say("IPC_STAT: %s %s %s", got(shmctl(INT_MAX, IPC_STAT, bad)),
		got(semctl(INT_MAX, 0, IPC_STAT, bad)), got(msgctl(INT_MAX, IPC_STAT, bad)));
	say("IPC_SET: %s %s %s", got(shmctl(INT_MAX, IPC_SET, bad)),
		got(semctl(INT_MAX, 0, IPC_SET, bad)), got(msgctl(INT_MAX, IPC_SET, bad)));
	say("GETALL, SETALL: %s %s", got(semctl(INT_MAX, 0, GETALL, bad)),
		got(semctl(INT_MAX, 0, SETALL, bad)));
	say("IPC_INFO of -1: %s %s %s", got(shmctl(-1, IPC_INFO, bad)),
		got(semctl(-1, 0, IPC_INFO, bad)), got(msgctl(-1, IPC_INFO, bad)));
}

CASE(fault_semaphore_arrays)
{
	enum { N = 40 };
	int s = set_of(N);
	unsigned short *values = straddling(2 * N), *fixed = read_only();
	say("GETALL straddling: %s", got(semctl(s, 0, GETALL, (union semun) { .array = values })));
	say("SETALL straddling: %s", got(semctl(s, 0, SETALL, (union semun) { .array = values })));
	say("GETALL into read-only memory: %s",
		got(semctl(s, 0, GETALL, (union semun) { .array = fixed })));
	say("SETALL from read-only memory: %s",
		got(semctl(s, 0, SETALL, (union semun) { .array = fixed })));
	say("pids after SETALL: %s %s", who(asked(s, 0, GETPID), 0),
		who(asked(s, N - 1, GETPID), 0));
}

CASE(fault_semop)
{
	int s = set_of(1);
	struct sembuf *two = straddling(2 * sizeof *two);
	struct timespec *t = straddling(sizeof *t);
	*two = (struct sembuf) { 0, 1, 0 };
	say("two operations, straddling: %s", got(semop(s, two, 2)));
	say("the first alone: %s", got(semop(s, two, 1)));
	say("a straddling timeout: %s", got(semtimedop(s, two, 1, t)));
	say("both: %s", got(semtimedop(s, two, 2, t)));
	say("value %d", value(s, 0));
}

CASE(fault_messages)
{
	int q = queue_of();
	say("a straddling type, to send: %s", got(msgsnd(q, straddling(sizeof(long)), 0, 0)));
	long *sent = straddling(2 * (sizeof(long) + 8));
	*sent = 1;
	say("text to the edge: %s", got(msgsnd(q, sent, 8, 0)));
	say("text past the edge: %s", got(msgsnd(q, sent, 9, 0)));
	say("messages %lu", (unsigned long)queue_state(q).msg_qnum);
	say("received past the edge: %s", got(msgrcv(q, (char *)sent + 1, 100, 0, 0)));
	say("messages %lu", (unsigned long)queue_state(q).msg_qnum);
	put(q, 1, "x", 0);
	say("received into read-only memory: %s", got(msgrcv(q, read_only(), 100, 0, 0)));
	put(q, 1, "", 0);
	say("an empty one past a straddling type: %s",
		got(msgrcv(q, straddling(sizeof(long)), 100, 0, 0)));
	say("messages %lu", (unsigned long)queue_state(q).msg_qnum);
}

/* Memory that was good at an earlier call. */
static void twice(const char *how, void (*spoil)(char *at))
{
	int s = set_of(1);
	char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sembuf *one = (void *)at;
	*one = (struct sembuf) { 0, 1, 0 };
	const char *before = got(semop(s, one, 1));
	spoil(at);
	say("%s: %s, then %s", how, before, got(semop(s, one, 1)));
}

static void unmap(char *at) { munmap(at, PAGE); }
static void protect(char *at) { mprotect(at, PAGE, PROT_NONE); }
static void protect_by_key(char *at) { pkey_mprotect(at, PAGE, PROT_NONE, -1); }
static void move(char *at)
{
	if (mremap(at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
		    mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
	        == MAP_FAILED)
		broken("mremap");
}
static void cover(char *at)
{ mmap(at, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0); }

CASE(fault_of_what_was_good)
{
	twice("munmap", unmap);
	twice("mprotect", protect);
	twice("pkey_mprotect", protect_by_key);
	twice("mremap", move);
	twice("mmap over it", cover);
}

CASE(fault_of_paths)
{
	/* The library looks at paths, too: not before the kernel. */
	char *paths[] = { NULL, (char *)16, straddling(2) };
	memset(paths[2], 'x', 1);
	for (int i = 0; i < 3; i++) {
		say("%d: open %s, openat %s, access %s", i, got(open(paths[i], O_RDONLY)),
			got(openat(AT_FDCWD, paths[i], O_RDONLY)), got(access(paths[i], R_OK)));
		say("%d: fopen %s", i, got(fopen(paths[i], "r") ? 0 : -1));
	}
}

CASE(fault_of_a_detached_segment)
{
	/* The memory of the call lies in a segment itself. */
	int s = set_of(1), a = segment_of(PAGE);
	struct sembuf *one = (void *)attach(a);
	*one = (struct sembuf) { 0, 1, 0 };
	say("attached: %s", got(semop(s, one, 1)));
	shmdt(one);
	say("detached: %s", got(semop(s, one, 1)));
	char *fixed = shmat(a, NULL, SHM_RDONLY);
	put(queue_of(), 1, "x", 0);
	say("IPC_STAT into a read-only attach: %s", got(shmctl(a, IPC_STAT, (void *)fixed)));
}
