/* Threads that attach, detach, cut, move, lock and unmap what they have attached, and memory of
 * their own, at random, while signals come whose handler calls in itself, children are forked, and
 * the process ends in the middle. A model of the mappings says what each segment's shm_nattch and
 * each page must be; a difference ends the run with what was done last.
 *
 *	mappings [SECONDS [SEED]]
 *
 * It passes on the kernel, which is how the model is known to be right: nothing in it knows a pool.
 * */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdatomic.h>
#include <stdbool.h>
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
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, THREADS = 6, SEGMENTS = 3, PAGES = 8, MOST = 96, BYSTANDERS = 4 };

#define FRESH     ((uintptr_t)1 << 44)
#define FRESH_END (FRESH + ((uintptr_t)THREADS << 36))

/* A mapping of a segment as the kernel counts it. Two neighbours are never one: the kernel does not
 * merge these. */
struct piece {
	char *at;
	int pages, first; /* first: the segment's page that is seen there */
	int attach; /* which shmat it comes from */
	int rights;
	bool locked, random, undumped, childless;
};

struct segment {
	int id, number;
	int count;
	struct piece pieces[MOST];
};

struct actor {
	int number;
	uint64_t dice;
	struct segment segments[SEGMENTS];
	int handlers_segment, set, queue, attaches;
	long steps, handled;
	char last[8][96]; /* what it did last */
	int turn;
	pthread_t thread;
};

static struct actor actors[THREADS];
static __thread struct actor *self;
static __thread volatile sig_atomic_t in_handler;
static atomic_int children;    /* while one lives, counts are not ours alone */
static atomic_long generation; /* of children */
static pthread_mutex_t one_child = PTHREAD_MUTEX_INITIALIZER;
static uint64_t seed;

static uint64_t throw_dice(uint64_t *dice)
{
	*dice ^= *dice << 13;
	*dice ^= *dice >> 7;
	*dice ^= *dice << 17;
	return *dice;
}

static int chance(struct actor *a, int sides)
{ return (int)(throw_dice(&a->dice) % (uint64_t)sides); }

static void note(struct actor *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(struct actor *a, const char *format, ...)
{
	va_list list;
	va_start(list, format);
	vsnprintf(a->last[a->turn++ % 8], sizeof a->last[0], format, list);
	va_end(list);
}

_Noreturn static void differs(struct actor *a, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
_Noreturn static void differs(struct actor *a, const char *format, ...)
{
	char text[256];
	va_list list;
	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	fprintf(stderr, "thread %d, step %ld, seed %llu: %s (errno %d)\n", a ? a->number : -1,
		a ? a->steps : 0, (unsigned long long)seed, text, errno);
	for (int i = 0; a && i < 8; i++)
		fprintf(stderr, "  %s\n", a->last[(a->turn + i) % 8]);
	_exit(3);
}

/* ---- what a page must hold ---- */

static uint32_t stamp(int number, int page)
{ return 0xa5000000u | (uint32_t)number << 8 | (uint32_t)page; }

/* Whether a byte can be read, without a fault: the kernel reads it for us. */
static bool readable(const void *at)
{
	static __thread int ends[2];
	static __thread pid_t owner;
	char byte;
	if (owner != getpid()) {
		owner = getpid();
		if (pipe(ends) != 0)
			abort();
	}
	if (write(ends[1], at, 1) != 1)
		return false;
	return read(ends[0], &byte, 1) == 1;
}

static void check_page(struct actor *a, struct segment *s, struct piece *p, int page)
{
	int shown = p->first + page;
	char *at = p->at + (size_t)page * PAGE;
	bool there = p->rights & PROT_READ && shown < PAGES;
	if (readable(at) != there)
		differs(a, "page %d of segment %d at %p is %sreadable", shown, s->number,
			(void *)at, there ? "not " : "");
	if (there && *(volatile uint32_t *)at != stamp(s->number, shown))
		differs(a, "page %d of segment %d at %p holds %x", shown, s->number, (void *)at,
			*(volatile uint32_t *)at);
	if (there && p->rights & PROT_WRITE)
		((volatile uint32_t *)at)[1 + a->number] = stamp(s->number, shown);
}

static void check_count(struct actor *a, struct segment *s)
{
	long before = generation;
	if (children != 0)
		return;
	struct shmid_ds ds;
	if (shmctl(s->id, IPC_STAT, &ds) != 0)
		differs(a, "IPC_STAT of segment %d", s->number);
	if (children == 0 && generation == before && (int)ds.shm_nattch != s->count)
		differs(a, "segment %d has %d attaches, the model %d", s->number,
			(int)ds.shm_nattch, s->count);
}

/* ---- the model ---- */

static void add(struct actor *a, struct segment *s, struct piece p)
{
	if (s->count == MOST)
		differs(a, "the model is too small");
	s->pieces[s->count++] = p;
}

static void drop(struct segment *s, int index) { s->pieces[index] = s->pieces[--s->count]; }

static bool based_at(const struct piece *p, const char *base)
{ return p->at - (ptrdiff_t)p->first * PAGE == base; }

static bool alike(const struct piece *p, const struct piece *q)
{
	return p->rights == q->rights && p->locked == q->locked && p->random == q->random
	        && p->undumped == q->undumped && p->childless == q->childless;
}

/* Cuts a piece so that a range of its pages is a piece of its own, and says which. */
static int cut(struct actor *a, struct segment *s, int index, int from, int pages)
{
	struct piece whole = s->pieces[index], middle = whole, rest = whole;
	middle.at += (size_t)from * PAGE, middle.first += from, middle.pages = pages;
	s->pieces[index] = middle;
	if (from > 0) {
		rest.pages = from;
		add(a, s, rest);
	}
	if (from + pages < whole.pages) {
		rest = whole;
		rest.at += (size_t)(from + pages) * PAGE, rest.first += from + pages,
			rest.pages = whole.pages - from - pages;
		add(a, s, rest);
	}
	return index;
}

/* ---- steps on a segment ---- */

struct range {
	int piece, from, pages;
	char *at;
	size_t bytes;
};

static struct range some_range(struct actor *a, struct segment *s)
{
	struct range r = { .piece = chance(a, s->count) };
	struct piece *p = &s->pieces[r.piece];
	r.from = chance(a, p->pages);
	r.pages = 1 + chance(a, p->pages - r.from);
	r.at = p->at + (size_t)r.from * PAGE;
	r.bytes = (size_t)r.pages * PAGE;
	return r;
}

static void attach(struct actor *a, struct segment *s)
{
	char *at = shmat(s->id, NULL, 0);
	note(a, "shmat of %d: %p", s->number, (void *)at);
	if (at == (void *)-1)
		differs(a, "shmat");
	add(a, s,
		(struct piece) { .at = at,
			.pages = PAGES,
			.attach = ++a->attaches,
			.rights = PROT_READ | PROT_WRITE });
}

static void unmap_part(struct actor *a, struct segment *s, struct range r)
{
	note(a, "munmap of %d: %p %d", s->number, (void *)r.at, r.pages);
	bool over = chance(a, 3) == 0;
	if (over) {
		if (mmap(r.at, r.bytes, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0)
		        != r.at)
			differs(a, "mmap over it");
	} else if (munmap(r.at, r.bytes) != 0) {
		differs(a, "munmap");
	}
	drop(s, cut(a, s, r.piece, r.from, r.pages));
	if (over) {
		check_count(a, s);
		munmap(r.at, r.bytes);
	}
}

/* Whether nothing but this segment can be meant by where one of its attaches began: its first page
 * is still there, or no other thread is given addresses there. Elsewhere a handler's segment of one
 * page may have come to lie at the beginning, and shmdt takes the lowest. */
static bool is_alone_at(struct segment *s, const char *base)
{
	if ((uintptr_t)base >= FRESH && (uintptr_t)base < FRESH_END)
		return true;
	for (int i = 0; i < s->count; i++)
		if (s->pieces[i].at == base && based_at(&s->pieces[i], base))
			return true;
	return false;
}

static void detach(struct actor *a, struct segment *s)
{
	int index = chance(a, s->count);
	struct piece *p = &s->pieces[index];
	char *base = p->at - (size_t)p->first * PAGE;
	if (!is_alone_at(s, base)) {
		unmap_part(a, s,
			(struct range) { index, 0, p->pages, p->at, (size_t)p->pages * PAGE });
		return;
	}
	note(a, "shmdt of %d: %p", s->number, (void *)base);
	/* The lowest of them goes; of the others of that attach those that do not reach over the
	 * segment's end. */
	struct piece lowest = { .at = NULL };
	for (int i = 0; i < s->count; i++)
		if (based_at(&s->pieces[i], base)
		        && (lowest.at == NULL || s->pieces[i].at < lowest.at))
			lowest = s->pieces[i];
	if (shmdt(base) != 0)
		differs(a, "shmdt of %p", (void *)base);
	for (int i = s->count - 1; i >= 0; i--) {
		p = &s->pieces[i];
		if (based_at(p, base) && p->attach == lowest.attach
		        && (p->at == lowest.at || p->first + p->pages <= PAGES))
			drop(s, i);
	}
}

/* Whether a range would be like a neighbour of the same attach: newer kernels then move the border
 * between the two. */
static bool like_a_neighbour(struct segment *s, struct range r, const struct piece *wanted)
{
	for (int i = 0; i < s->count; i++) {
		struct piece *p = &s->pieces[i];
		bool beside = p->at + (size_t)p->pages * PAGE == r.at || p->at == r.at + r.bytes;
		if (beside && i != r.piece && alike(p, wanted))
			return true;
	}
	return false;
}

static void change_part(struct actor *a, struct segment *s, struct range r)
{
	struct piece wanted = s->pieces[r.piece];
	int kind = chance(a, 5), on = chance(a, 2), failed = 0;
	wanted.rights = kind == 0
		? (int[]) { PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE }[chance(a, 3)]
		: wanted.rights;
	wanted.locked = kind == 1 ? on : wanted.locked;
	wanted.random = kind == 2 ? on : wanted.random;
	wanted.undumped = kind == 3 ? on : wanted.undumped;
	wanted.childless = kind == 4 ? on : wanted.childless;
	if (like_a_neighbour(s, r, &wanted))
		return;
	switch (kind) {
	case 0: failed = mprotect(r.at, r.bytes, wanted.rights); break;
	case 1:
		failed = on ? mlock(r.at, r.bytes) : munlock(r.at, r.bytes);
		if (failed && (errno == ENOMEM || errno == EAGAIN)) {
			/* Not all of it can be there: a part without rights, or behind the end. The
			 * mark is there all the same. */
			failed = 0;
		}
		break;
	case 2: failed = madvise(r.at, r.bytes, on ? MADV_RANDOM : MADV_NORMAL); break;
	case 3: failed = madvise(r.at, r.bytes, on ? MADV_DONTDUMP : MADV_DODUMP); break;
	default: failed = madvise(r.at, r.bytes, on ? MADV_DONTFORK : MADV_DOFORK);
	}
	note(a, "change %d of %d: %p %d", kind, s->number, (void *)r.at, r.pages);
	if (failed)
		differs(a, "change %d", kind);
	if (!alike(&wanted, &s->pieces[r.piece])) {
		int index = cut(a, s, r.piece, r.from, r.pages);
		struct piece *p = &s->pieces[index];
		p->rights = wanted.rights, p->locked = wanted.locked, p->random = wanted.random;
		p->undumped = wanted.undumped, p->childless = wanted.childless;
	}
}

/* Addresses that nobody has had yet, with room around them: newer kernels make one mapping of
 * neighbours whose pages follow each other; and shmdt may mean another attach that would begin at
 * the same address. */
static char *fresh_place(struct actor *a, size_t bytes)
{
	static char *next[THREADS];
	char **mine = &next[a->number];
	if (*mine == NULL)
		*mine = (char *)FRESH + ((uintptr_t)a->number << 36);
	char *place = mmap(*mine + PAGE, bytes, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (place != *mine + PAGE)
		differs(a, "a fresh place");
	*mine = place + bytes + 64 * PAGE;
	return place;
}

static void move_part(struct actor *a, struct segment *s, struct range r)
{
	struct piece *p = &s->pieces[r.piece];
	if (p->locked)
		return; /* RLIMIT_MEMLOCK has a word in it */
	int more = chance(a, 3) == 0 ? chance(a, 3) : 0;
	size_t bytes = r.bytes + (size_t)more * PAGE;
	note(a, "mremap of %d: %p %d to %d", s->number, (void *)r.at, r.pages, r.pages + more);
	char *place = fresh_place(a, bytes);
	char *to = mremap(r.at, r.bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place);
	if (to != place)
		differs(a, "mremap to a place");
	int index = cut(a, s, r.piece, r.from, r.pages);
	s->pieces[index].at = to;
	s->pieces[index].pages += more;
}

static void second_mapping(struct actor *a, struct segment *s, struct range r)
{
	if (s->pieces[r.piece].locked)
		return;
	note(a, "mremap of %d again: %p %d", s->number, (void *)r.at, r.pages);
	char *place = fresh_place(a, r.bytes);
	char *to = mremap(r.at, 0, r.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place);
	if (to != place)
		differs(a, "mremap of nothing");
	struct piece p = s->pieces[r.piece];
	p.at = to, p.first += r.from, p.pages = r.pages;
	add(a, s, p);
}

static void other_pages(struct actor *a, struct segment *s, struct range r)
{
#ifdef SYS_remap_file_pages
	struct piece *p = &s->pieces[r.piece];
	if (p->locked)
		return;
	int first = chance(a, PAGES);
	/* As for fresh_place: where the attach would begin then, nothing else may come to lie, and
	 * no neighbour follow. */
	if ((uintptr_t)r.at >= FRESH_END || (uintptr_t)r.at < FRESH)
		return;
	for (int i = 0; i < s->count; i++)
		if (based_at(&s->pieces[i], r.at - (ptrdiff_t)first * PAGE))
			return;
	note(a, "remap_file_pages of %d: %p %d from page %d", s->number, (void *)r.at, r.pages,
		first);
	if (remap_file_pages(r.at, r.bytes, 0, (size_t)first, 0) != 0)
		differs(a, "remap_file_pages");
	int index = cut(a, s, r.piece, r.from, r.pages);
	p = &s->pieces[index];
	p->first = first;
	p->random = p->undumped = p->childless = false;
#else
	(void)a, (void)s, (void)r;
#endif
}

static void on_a_segment(struct actor *a)
{
	struct segment *s = &a->segments[chance(a, SEGMENTS)];
	int kind = chance(a, 20);
	if (s->count == 0 || (kind < 4 && s->count < 40))
		attach(a, s);
	else if (kind < 8 || s->count > 60)
		detach(a, s);
	else if (kind < 10)
		unmap_part(a, s, some_range(a, s));
	else if (kind < 16)
		change_part(a, s, some_range(a, s));
	else if (kind < 18)
		move_part(a, s, some_range(a, s));
	else if (kind < 19)
		second_mapping(a, s, some_range(a, s));
	else
		other_pages(a, s, some_range(a, s));
	check_count(a, s);
	if (s->count > 0) {
		struct piece *p = &s->pieces[chance(a, s->count)];
		check_page(a, s, p, chance(a, p->pages));
	}
}

/* ---- steps beside segments ---- */

static void on_own_memory(struct actor *a)
{
	size_t bytes = (size_t)(1 + chance(a, 2 * PAGES)) * PAGE;
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		differs(a, "mmap");
	memset(at, a->number + 1, bytes);
	if (chance(a, 2) == 0) {
		char *to = mremap(at, bytes, bytes + PAGE, MREMAP_MAYMOVE);
		if (to == MAP_FAILED)
			differs(a, "mremap of own memory");
		at = to;
		at[bytes] = 1;
		sched_yield();
		munmap(at + bytes, PAGE);
	}
	note(a, "own memory %p %zu", (void *)at, bytes);
	for (size_t i = 0; i < bytes; i += 512)
		if (at[i] != a->number + 1)
			differs(a, "own memory at %p holds %d", (void *)(at + i), at[i]);
	if (munmap(at, bytes) != 0)
		differs(a, "munmap of own memory");
}

static void on_a_set(struct actor *a)
{
	struct sembuf up = { 0, 1, chance(a, 2) ? SEM_UNDO : 0 },
		      down = { 0, -1, (short)(IPC_NOWAIT | up.sem_flg) };
	note(a, "semop");
	int before = semctl(a->set, 0, GETVAL);
	if (semop(a->set, &up, 1) != 0 || semctl(a->set, 0, GETVAL) != before + 1
	        || semop(a->set, &down, 1) != 0 || semctl(a->set, 0, GETVAL) != before)
		differs(a, "a semaphore of its own, before %d", before);
}

static void on_a_queue(struct actor *a)
{
	struct {
		long type;
		long text;
	} m = { 1 + chance(a, 9), a->steps }, got = { 0, 0 };
	note(a, "msgsnd, msgrcv");
	if (msgsnd(a->queue, &m, sizeof m.text, IPC_NOWAIT) != 0)
		differs(a, "msgsnd");
	if (msgrcv(a->queue, &got, sizeof got.text, m.type, IPC_NOWAIT) != sizeof got.text
	        || got.text != m.text)
		differs(a, "msgrcv");
}

static void on_new_objects(struct actor *a)
{
	int id = shmget(IPC_PRIVATE, PAGES * PAGE, 0600);
	note(a, "shmget %d", id);
	uint32_t *at = id == -1 ? (void *)-1 : shmat(id, NULL, 0);
	if (at == (void *)-1)
		differs(a, "a new segment");
	/* Removed first, as many programs do: its pages are free with the last detach. */
	if (shmctl(id, IPC_RMID, NULL) != 0)
		differs(a, "IPC_RMID");
	for (size_t i = 0; i < PAGES * PAGE / sizeof *at; i += 128)
		if (at[i] != 0)
			differs(a, "a new segment holds %x", at[i]);
	memset(at, 0xee, PAGES * PAGE);
	if (shmdt(at) != 0)
		differs(a, "shmdt of a new segment");
}

/* Ends a child whose parent has ended, or does within a second. */
static void outlive(pid_t parent)
{
	struct timespec nap = { 0, 5000000 };
	for (int i = 0; i < 200; i++) {
		if (getppid() != parent)
			_exit(0);
		nanosleep(&nap, NULL);
	}
}

/* A child finds in its books what it has in its addresses. */
static void on_a_child(struct actor *a)
{
	pthread_mutex_lock(&one_child);
	children++;
	int how = chance(a, 3);
	note(a, "fork, then %s", (const char *[]) { "_exit", "exec", "SIGKILL" }[how]);
	pid_t parent = getpid(), child = fork();
	if (child == 0) {
		for (int i = 0; i < SEGMENTS; i++) {
			struct segment *s = &a->segments[i];
			struct shmid_ds ds;
			int mine = 0;
			for (int j = 0; j < s->count; j++)
				mine += !s->pieces[j].childless;
			if (shmctl(s->id, IPC_STAT, &ds) != 0
			        || (int)ds.shm_nattch != s->count + mine) {
				outlive(parent);
				differs(a,
					"in a child segment %d has %d attaches, the model %d and %d",
					s->number, (int)ds.shm_nattch, s->count, mine);
			}
			for (int j = 0; j < s->count; j++)
				if (!s->pieces[j].childless)
					check_page(a, s, &s->pieces[j], 0);
		}
		if (how == 1)
			execl("/bin/true", "true", (char *)NULL);
		if (how == 2)
			kill(getpid(), SIGKILL);
		_exit(0);
	}
	int status = 0;
	if (child == -1)
		differs(a, "fork");
	while (waitpid(child, &status, 0) != child)
		if (errno != EINTR)
			differs(a, "waitpid");
	if (how == 2 ? !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		     : !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
		differs(a, "a child ended with %x", status);
	generation++;
	children--;
	for (int i = 0; i < SEGMENTS; i++)
		check_count(a, &a->segments[i]);
	pthread_mutex_unlock(&one_child);
}

/* ---- the handler ---- */

static void handler(int signal)
{
	(void)signal;
	struct actor *a = self;
	if (a == NULL || in_handler)
		return;
	in_handler = 1;
	int error = errno;
	/* Its own segment: the call that was interrupted may be in the middle of one of the others.
	 */
	uint32_t *at = shmat(a->handlers_segment, NULL, 0);
	if (at == (void *)-1)
		differs(a, "shmat in the handler");
	at[a->number] = 7;
	struct shmid_ds ds;
	long before = generation;
	if (shmctl(a->handlers_segment, IPC_STAT, &ds) != 0)
		differs(a, "IPC_STAT in the handler");
	if (children == 0 && generation == before && ds.shm_nattch != 1)
		differs(a, "the handler's segment has %d attaches", (int)ds.shm_nattch);
	struct sembuf up = { 1, 1, 0 };
	if (semop(a->set, &up, 1) != 0)
		differs(a, "semop in the handler");
	if (a->handled++ % 2 ? shmdt(at) : munmap(at, PAGE))
		differs(a, "detach in the handler");
	errno = error;
	in_handler = 0;
}

/* ---- the process ---- */

static void *act(void *context)
{
	struct actor *a = self = context;
	for (;;) {
		a->steps++;
		int kind = chance(a, 1000);
		if (kind < 600)
			on_a_segment(a);
		else if (kind < 850)
			on_own_memory(a);
		else if (kind < 900)
			on_a_set(a);
		else if (kind < 940)
			on_a_queue(a);
		else if (kind < 995)
			on_new_objects(a);
		else
			on_a_child(a);
	}
	return NULL;
}

/* Runs the threads for a while, and then ends in the middle of what they do. */
_Noreturn static void live(uint64_t dice, long milliseconds)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < THREADS; i++) {
		actors[i].dice = dice * 2654435761u + (uint64_t)i * 977 + 1;
		if (pthread_create(&actors[i].thread, NULL, act, &actors[i]) != 0)
			differs(NULL, "pthread_create");
	}
	struct timespec nap = { 0, 1000000 };
	for (long i = 0; i < milliseconds; i++) {
		pthread_kill(actors[throw_dice(&dice) % THREADS].thread, SIGUSR1);
		nanosleep(&nap, NULL);
	}
	long steps = 0, handled = 0;
	for (int i = 0; i < THREADS; i++)
		steps += actors[i].steps, handled += actors[i].handled;
	printf("%ld steps, %ld signals\n", steps, handled);
	fflush(stdout);
	switch (throw_dice(&dice) % 4) {
	case 0: exit(0);
	case 1: _exit(0);
	case 2: syscall(SYS_exit_group, 0); abort();
	default: kill(getpid(), SIGKILL); abort();
	}
}

/* ---- beside it ---- */

static int made(int id, const char *what)
{
	if (id == -1)
		differs(NULL, "%s", what);
	return id;
}

static void make_objects(void)
{
	for (int i = 0; i < THREADS; i++) {
		struct actor *a = &actors[i];
		memset(a, 0, sizeof *a);
		a->number = i;
		a->handlers_segment = made(shmget(IPC_PRIVATE, PAGE, 0600), "shmget");
		a->set = made(semget(IPC_PRIVATE, 2, 0600), "semget");
		a->queue = made(msgget(IPC_PRIVATE, 0600), "msgget");
		for (int j = 0; j < SEGMENTS; j++) {
			struct segment *s = &a->segments[j];
			s->number = i * SEGMENTS + j;
			s->id = made(shmget(IPC_PRIVATE, PAGES * PAGE, 0600), "shmget");
			char *at = shmat(s->id, NULL, 0);
			for (int page = 0; page < PAGES; page++)
				*(uint32_t *)(at + (size_t)page * PAGE) = stamp(s->number, page);
			shmdt(at);
		}
	}
}

/* What a child held that was killed while the thread that had just waited for it ended, nobody is
 * left to give back but the agent, within about a second. */
static void await_detached(int id)
{
	struct timespec nap = { 0, 10000000 };
	struct shmid_ds ds;
	for (int i = 0; i < 2000 && shmctl(id, IPC_STAT, &ds) == 0 && ds.shm_nattch != 0; i++)
		nanosleep(&nap, NULL);
}

/* After the process has gone: nothing is attached, nothing was overwritten, and adjustments are
 * back. */
static void check_objects(void)
{
	struct shmid_ds ds;
	for (int i = 0; i < THREADS; i++) {
		struct actor *a = &actors[i];
		for (int j = 0; j < SEGMENTS; j++) {
			struct segment *s = &a->segments[j];
			await_detached(s->id);
			if (shmctl(s->id, IPC_STAT, &ds) != 0 || ds.shm_nattch != 0)
				differs(NULL, "after the end segment %d has %d attaches", s->number,
					(int)ds.shm_nattch);
			char *at = shmat(s->id, NULL, 0);
			for (int page = 0; page < PAGES; page++)
				if (*(uint32_t *)(at + (size_t)page * PAGE)
				        != stamp(s->number, page))
					differs(NULL,
						"after the end page %d of segment %d holds %x",
						page, s->number,
						*(uint32_t *)(at + (size_t)page * PAGE));
			shmdt(at);
			shmctl(s->id, IPC_RMID, NULL);
		}
		int value = semctl(a->set, 0, GETVAL);
		if (value != 0 && value != 1) /* 1: killed between a +1 and a -1 without SEM_UNDO */
			differs(NULL, "after the end a semaphore is %d", value);
		await_detached(a->handlers_segment);
		if (shmctl(a->handlers_segment, IPC_STAT, &ds) != 0 || ds.shm_nattch != 0)
			differs(NULL, "after the end a handler's segment has %d attaches",
				(int)ds.shm_nattch);
		shmctl(a->handlers_segment, IPC_RMID, NULL);
		semctl(a->set, 0, IPC_RMID);
		msgctl(a->queue, IPC_RMID, NULL);
	}
}

/* Segments that come and go beside the process: what it stores must not be found in them, least of
 * all while it ends. */
static void stand_by(void)
{
	for (int i = 0; i < BYSTANDERS; i++) {
		int id = made(shmget(IPC_PRIVATE, PAGES * PAGE, 0600), "shmget beside it");
		volatile uint32_t *at = shmat(id, NULL, 0);
		if (at == (void *)-1)
			differs(NULL, "shmat beside it");
		for (int look = 0; look < 20; look++)
			for (size_t word = 0; word < PAGES * PAGE / sizeof *at; word += 64)
				if (at[word] != 0)
					differs(NULL, "a new segment beside it holds %x", at[word]);
		shmdt((void *)at);
		shmctl(id, IPC_RMID, NULL);
	}
}

int main(int count, char **words)
{
	double seconds = count > 1 ? atof(words[1]) : 10;
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	seed = count > 2 ? strtoull(words[2], NULL, 10)
			 : (uint64_t)now.tv_nsec * 2862933555777941757u + 1;
	printf("seed %llu\n", (unsigned long long)seed);
	double end = (double)now.tv_sec + now.tv_nsec / 1e9 + seconds;
	uint64_t dice = seed;
	long lives = 0;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	do {
		make_objects();
		fflush(stdout);
		long milliseconds = 100 + (long)(throw_dice(&dice) % 900);
		pid_t child = fork();
		if (child == 0)
			live(dice, milliseconds);
		int status;
		while (waitpid(child, &status, WNOHANG) == 0)
			stand_by();
		if (WIFEXITED(status) ? WEXITSTATUS(status) != 0 : WTERMSIG(status) != SIGKILL) {
			fprintf(stderr, "life %ld of seed %llu ended with %x\n", lives,
				(unsigned long long)seed, status);
			return 1;
		}
		/* Children that have outlived it. */
		while (wait(NULL) > 0)
			;
		check_objects();
		lives++;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((double)now.tv_sec + now.tv_nsec / 1e9 < end);
	printf("%ld lives, 0 differences\n", lives);
	return 0;
}
