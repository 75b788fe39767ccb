/* Forks workers that do every kind of System V work on a pool, and kills, stops and replaces them
 * at random: storm JOURNALS SEED WORKERS FIRST SET... (see `struct objects` for the order of ids).
 *
 * Ends when its standard input does: kills all workers, waits for them, and prints "kills N stops N
 * operations N". JOURNALS is a directory outside the pool. What a worker is about to do and what
 * has returned stands there, in memory that outlives it; who reads it afterwards can tell what must
 * have happened (tests/soak/README.md). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "storm.h"

enum { HEAD = 16 };

static struct objects on;
static struct page *pages, *mine;
static struct shared *shared;
static int first, log_file, doubt_file;
static uint64_t random_state;

static uint64_t next(void)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return random_state >> 33;
}

_Noreturn static void fail(const char *what)
{
	fprintf(stderr, "storm %d: %s: %s\n", getpid(), what, strerrorname_np(errno));
	_exit(99);
}

_Noreturn static void wrong(const char *what)
{
	fprintf(stderr, "storm %d: %s\n", getpid(), what);
	_exit(98);
}

static int gone(void)
{ return errno == EIDRM || errno == EINVAL || errno == ENOENT || errno == EEXIST; }

static uint32_t sum_of(const unsigned char *text, size_t bytes, uint32_t sum)
{
	for (size_t i = 0; i < bytes; i++)
		sum = sum * 31 + text[i];
	return sum;
}

/* Tokens held with SEM_UNDO: they come back when a process dies. */
static void hold(void)
{
	unsigned short a = (unsigned short)(next() % TOKENS),
		       b = (unsigned short)((a + 1 + next() % (TOKENS - 1)) % TOKENS);
	struct sembuf take[2] = { { a, -1, SEM_UNDO }, { b, -1, SEM_UNDO } };
	struct sembuf give[2] = { { b, 1, SEM_UNDO }, { a, 1, SEM_UNDO } };
	struct timespec timeout = { 0, 2000000 };
	size_t n = 1 + next() % 2;
	int in_time = next() % 2;
	if (semtimedop(on.tokens, take, n, in_time ? &timeout : NULL) != 0) {
		if (errno == EAGAIN || errno == EINTR)
			return;
		fail("tokens taken");
	}
	if (semop(on.tokens, n == 2 ? give : give + 1, n) != 0)
		fail("tokens given");
}

/* Tokens moved by atomic arrays without SEM_UNDO: their sum never changes. */
static void move(void)
{
	struct sembuf ops[MOVED];
	unsigned short from = (unsigned short)(next() % MOVED);
	size_t n = 2 + next() % (MOVED - 1), to = n - 1;
	ops[0] = (struct sembuf) { from, (short)-to, (short)(next() % 2 ? IPC_NOWAIT : 0) };
	for (size_t i = 1; i < n; i++)
		ops[i] = (struct sembuf) { (unsigned short)((from + i) % MOVED), 1, 0 };
	struct timespec timeout = { 0, 1000000 };
	if (semtimedop(on.moved, ops, n, &timeout) != 0 && errno != EAGAIN && errno != EINTR)
		fail("an array");
}

static void single(void)
{
	struct sembuf down = { 0, -1, IPC_NOWAIT }, up = { 0, 1, 0 };
	mine->lowering++;
	if (semop(on.fast, &down, 1) != 0) {
		mine->lowering--;
		if (errno != EAGAIN)
			fail("a step down");
	} else {
		mine->lowered++;
		mine->raising++;
		if (semop(on.fast, &up, 1) != 0)
			fail("a step up");
		mine->raised++;
	}
}

static void exclude(void)
{
	struct sembuf enter = { 0, -1, SEM_UNDO }, leave = { 0, 1, SEM_UNDO };
	struct timespec timeout = { 0, 5000000 };
	/* `first` says of which domain the pid is. */
	uint64_t me = (uint64_t)first << 32 | (uint64_t)getpid(), other;
	if (semtimedop(on.mutex, &enter, 1, &timeout) != 0) {
		if (errno == EAGAIN || errno == EINTR)
			return;
		fail("the mutex");
	}
	other = shared->inside;
	if (other >> 32 == (uint64_t)first && other != me && kill((pid_t)(uint32_t)other, 0) == 0) {
		/* The one before died in there; its zombie may not have been waited for. */
		char path[64], state = 'Z';
		snprintf(path, sizeof path, "/proc/%u/stat", (unsigned)(uint32_t)other);
		FILE *file = fopen(path, "r");
		if (file) {
			if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
				state = 'Z';
			fclose(file);
		}
		if (state != 'Z' && state != 'X')
			wrong("two are in the critical section");
	}
	shared->inside = me;
	mine->entering++;
	uint64_t before = shared->count;
	if (next() % 16 == 0)
		sched_yield();
	shared->count = before + 1;
	mine->left++;
	if (shared->inside != me)
		wrong("another process came into the critical section");
	shared->inside = 0;
	if (semop(on.mutex, &leave, 1) != 0)
		fail("the mutex left");
}

static void make_message(struct message *m, uint32_t sender, uint32_t number, size_t bytes)
{
	if (bytes < HEAD) {
		/* Too short to say what it is: the type does. */
		m->type = (1l << 40) + ((long)sender << 24) + number;
		memset(&m->sender, (int)(number & 0xff), bytes);
		return;
	}
	m->type = 1 + number % 4;
	m->sender = sender, m->number = number, m->bytes = (uint32_t)bytes;
	for (size_t i = 0; i < bytes - HEAD; i++)
		m->text[i] = (unsigned char)(number + i);
	m->sum = sum_of(m->text, bytes - HEAD, number);
}

static void send_to(int which)
{
	static struct message m;
	static const size_t most[] = { 8, 64, 1024, MOST_TEXT };
	size_t bytes = next() % (most[next() % 4] + 1);
	uint64_t number = mine->sending[which] + 1;
	make_message(&m, (uint32_t)(first + (mine - pages)), (uint32_t)number, bytes);
	mine->sending[which] = number;
	if (msgsnd(which ? on.mixed : on.strict, &m, bytes, next() % 4 ? IPC_NOWAIT : 0) == 0) {
		mine->sent[which] = number;
	} else {
		if (errno != EAGAIN && errno != EINTR)
			fail("msgsnd");
		mine->sending[which] = number - 1;
	}
}

static void receive(void)
{
	static struct message m;
	static const long types[] = { 0, 0, 2, -3 };
	mine->receiving++;
	ssize_t got = msgrcv(
		on.mixed, &m, MOST_TEXT, types[next() % 4], next() % 64 ? IPC_NOWAIT : 0);
	if (got == -1) {
		if (errno != ENOMSG && errno != EINTR)
			fail("msgrcv");
		mine->receiving--;
		return;
	}
	uint32_t row[3] = { m.sender, m.number, (uint32_t)(first + (mine - pages)) };
	if (m.type >> 40) {
		row[0] = (uint32_t)(m.type >> 24 & 0xffff), row[1] = (uint32_t)(m.type & 0xffffff);
		unsigned char *bytes = (unsigned char *)&m.sender;
		for (ssize_t i = 0; i < got; i++)
			if (bytes[i] != (row[1] & 0xff))
				wrong("a torn short message");
	} else if (got < HEAD || m.bytes != got || m.type != 1 + m.number % 4
	        || m.sum != sum_of(m.text, (size_t)got - HEAD, m.number)) {
		wrong("a torn message");
	}
	if (write(log_file, row, sizeof row) != sizeof row)
		fail("the log");
	mine->received++;
}

static void own_segment(void)
{
	size_t bytes = 4096 * (1 + next() % 8);
	int own = shmget(IPC_PRIVATE, bytes, 0600);
	if (own == -1) {
		if (errno == ENOSPC)
			return;
		fail("shmget");
	}
	uint64_t *at = shmat(own, NULL, 0);
	if (at == (void *)-1)
		fail("shmat of its own");
	if (shmctl(own, IPC_RMID, NULL) != 0)
		fail("IPC_RMID");
	for (size_t i = 0; i < bytes / 8; i++)
		if (at[i] != 0)
			wrong("a new segment does not read as zeros");
	memset(at, 0xa5, bytes);
	/* Nobody else may write here as long as it is attached. */
	if (next() % 8 == 0)
		sched_yield();
	for (size_t i = 0; i < bytes / 8; i++)
		if (at[i] != 0xa5a5a5a5a5a5a5a5u)
			wrong("another process wrote into a segment of its own");
	if (shmdt(at) != 0)
		fail("shmdt of its own");
}

static void keyed_segment(void)
{
	key_t key = on.first_key + (key_t)(next() % KEYS);
	int id = shmget(key, 8192, IPC_CREAT | 0600);
	if (id == -1) {
		if (gone() || errno == ENOSPC)
			return;
		fail("shmget with a key");
	}
	uint64_t *at = shmat(id, NULL, 0);
	if (at == (void *)-1) {
		if (gone())
			return;
		fail("shmat");
	}
	if (at[0] != 0 && at[0] != (uint64_t)key)
		wrong("a segment with a key holds something else");
	at[0] = (uint64_t)key;
	if (next() % 4 == 0 && shmctl(id, IPC_RMID, NULL) != 0 && !gone())
		fail("IPC_RMID with a key");
	if (shmdt(at) != 0)
		fail("shmdt");
}

static void own_set(void)
{
	key_t key = next() % 2 ? on.first_key + (key_t)(next() % KEYS) : IPC_PRIVATE;
	int id = semget(key, 3, IPC_CREAT | 0600);
	if (id == -1) {
		if (gone() || errno == ENOSPC)
			return;
		fail("semget");
	}
	struct sembuf up[2] = { { 0, 1, SEM_UNDO }, { 2, 3, 0 } };
	if (semop(id, up, 1 + next() % 2) != 0 && !gone())
		fail("an operation on its own set");
	if (semctl(id, 0, IPC_RMID) != 0 && !gone())
		fail("IPC_RMID of a set");
}

static void own_queue(void)
{
	key_t key = next() % 2 ? on.first_key + (key_t)(next() % KEYS) : IPC_PRIVATE;
	int id = msgget(key, IPC_CREAT | 0600);
	if (id == -1) {
		if (gone() || errno == ENOSPC)
			return;
		fail("msgget");
	}
	struct {
		long type;
		char text[600];
	} m = { 1, "" };
	if (msgsnd(id, &m, next() % sizeof m.text, IPC_NOWAIT) != 0 && !gone() && errno != EAGAIN)
		fail("msgsnd to its own queue");
	if (msgctl(id, IPC_RMID, NULL) != 0 && !gone())
		fail("IPC_RMID of a queue");
}

static void begin_life(void)
{
	/* The parent's end ends the child. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	random_state ^= (uint64_t)getpid() * 2654435761u;
}

static void fork_one(void)
{
	struct page *of = mine;
	pid_t child = fork();
	if (child == -1) {
		if (errno == EAGAIN)
			return;
		fail("fork");
	}
	if (child == 0) {
		begin_life();
		/* The journal is the father's. */
		mine = NULL;
		if (shared->magic != 0x50a4)
			wrong("an inherited attach shows something else");
		hold();
		move();
		own_segment();
		_exit(0);
	}
	int status;
	if (waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) != 0)
		_exit(WEXITSTATUS(status));
	mine = of;
}

_Noreturn static void work(int at)
{
	begin_life();
	mine = &pages[at];
	for (;;) {
		mine->operations++;
		switch (next() % 24) {
		case 0:
		case 1:
		case 2: hold(); break;
		case 3:
		case 4:
		case 5: move(); break;
		case 6:
		case 7: single(); break;
		case 8:
		case 9: exclude(); break;
		case 10:
		case 11:
		case 12: send_to(0); break;
		case 13:
		case 14:
		case 15: send_to(1); break;
		case 16:
		case 17:
		case 18: receive(); break;
		case 19: own_segment(); break;
		case 20: keyed_segment(); break;
		case 21: own_set(); break;
		case 22: own_queue(); break;
		default:
			if (next() % 16 == 0)
				fork_one();
		}
	}
}

/* Writes down what a worker that has died was about to do: it may have happened or not. */
static void write_doubts(int at)
{
	struct page *page = &pages[at];
	for (uint32_t which = 0; which < 2; which++) {
		if (page->sending[which] == page->sent[which])
			continue;
		uint32_t row[3] = { which, (uint32_t)(first + at), (uint32_t)page->sending[which] };
		if (write(doubt_file, row, sizeof row) != sizeof row)
			fail("the doubts");
		page->sent[which] = page->sending[which];
	}
	struct {
		_Atomic uint64_t *begun, *done;
	} pairs[] = {
		{ &page->receiving, &page->received },
		{ &page->lowering, &page->lowered },
		{ &page->raising, &page->raised },
		{ &page->entering, &page->left },
	};
	for (uint32_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		if (*pairs[i].begun == *pairs[i].done)
			continue;
		uint32_t row[3] = { 2 + i, (uint32_t)(first + at), 0 };
		if (write(doubt_file, row, sizeof row) != sizeof row)
			fail("the doubts");
		*pairs[i].done = (uint64_t)*pairs[i].begun;
	}
}

static int opened(const char *directory, const char *name)
{
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/%s.%d", directory, name, first);
	int file = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (file == -1)
		fail(path);
	return file;
}

static pid_t start(int at)
{
	random_state ^= next() << 7;
	pid_t child = fork();
	if (child == 0)
		work(at);
	if (child == -1 && errno != EAGAIN)
		fail("fork of a worker");
	return child;
}

int main(int argc, char **argv)
{
	if (argc != 13)
		wrong("usage: storm JOURNALS SEED WORKERS FIRST TOKENS MOVED FAST MUTEX STRICT MIXED SEGMENT KEY");
	int workers = atoi(argv[3]), *id = &on.tokens;
	random_state = strtoull(argv[2], NULL, 0) * 2654435761u + 1;
	first = atoi(argv[4]);
	for (int i = 0; i < 8; i++)
		id[i] = atoi(argv[5 + i]);
	if (workers < 1 || workers > MOST_WORKERS)
		wrong("between 1 and 32 workers");
	int journal = opened(argv[1], "journal");
	log_file = opened(argv[1], "log"), doubt_file = opened(argv[1], "doubts");
	if (ftruncate(journal, workers * (off_t)sizeof *pages) != 0)
		fail("the journal's size");
	pages = mmap(NULL, (size_t)workers * sizeof *pages, PROT_READ | PROT_WRITE, MAP_SHARED,
		journal, 0);
	if (pages == MAP_FAILED)
		fail("the journal");
	shared = shmat(on.segment, NULL, 0);
	if (shared == (void *)-1)
		fail("the shared segment");
	pid_t pid[MOST_WORKERS] = { 0 };
	int stopped[MOST_WORKERS] = { 0 };
	uint64_t kills = 0, stops = 0;
	struct pollfd orders = { .fd = 0, .events = POLLIN };
	int over = 0;
	for (;;) {
		over = over || poll(&orders, 1, (int)(next() % 6)) != 0;
		int busy = 0;
		for (int at = 0; at < workers; at++) {
			if (pid[at] <= 0 && !over)
				pid[at] = start(at);
			busy += pid[at] > 0;
		}
		int at = (int)(next() % (unsigned)workers);
		for (int n = 0; over && n < workers && pid[at] <= 0; n++)
			at = (at + 1) % workers;
		if (pid[at] > 0) {
			unsigned random = (unsigned)(next() % 8);
			if (stopped[at] && random < 3 && !over) {
				kill(pid[at], SIGCONT);
				stopped[at] = 0;
			} else if (!stopped[at] && random < 3 && !over) {
				kill(pid[at], SIGSTOP);
				stopped[at] = 1;
				stops++;
			} else {
				kill(pid[at], SIGKILL);
				kills++;
			}
		}
		if (over && !busy)
			break;
		int status;
		pid_t dead;
		while ((dead = waitpid(-1, &status, over ? 0 : WNOHANG)) > 0) {
			if (WIFEXITED(status))
				_exit(97);
			for (int i = 0; i < workers; i++)
				if (pid[i] == dead) {
					write_doubts(i);
					pid[i] = 0, stopped[i] = 0;
				}
			if (over)
				break;
		}
	}
	uint64_t operations = 0;
	for (int at = 0; at < workers; at++)
		operations += pages[at].operations;
	printf("kills %llu stops %llu operations %llu\n", (unsigned long long)kills,
		(unsigned long long)stops, (unsigned long long)operations);
	return 0;
}
