/* The model of the mappings: which pages of which segment are mapped where, and what they hold. */
#define _GNU_SOURCE
#include "mappings.h"

atomic_int children;
atomic_long generation;
uint64_t seed;

uint64_t next_random(uint64_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return *random;
}

int chance(struct actor *a, int sides)
{ return (int)(next_random(&a->random) % (uint64_t)sides); }

void note(struct actor *a, const char *format, ...)
{
	va_list list;
	va_start(list, format);
	vsnprintf(a->last[a->turn++ % 8], sizeof a->last[0], format, list);
	va_end(list);
}

_Noreturn void differs(struct actor *a, const char *format, ...)
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

uint32_t stamp(int number, int page)
{ return 0xa5000000u | (uint32_t)number << 8 | (uint32_t)page; }

/* Whether a byte can be read, without a fault: the kernel reads it for us. */
bool readable(const void *at)
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

void check_page(struct actor *a, struct segment *s, struct piece *p, int page)
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

/* A count that differs: whether it still does after three seconds, which an agent needs to find
 * what is left of a process. */
static _Noreturn void count_differs(struct actor *a, struct segment *s, int attached)
{
	struct timespec nap = { 3, 0 };
	struct shmid_ds ds = { .shm_nattch = 0 };
	while (nanosleep(&nap, &nap) != 0 && errno == EINTR)
		;
	shmctl(s->id, IPC_STAT, &ds);
	differs(a, "segment %d has %d attaches, the model %d; three seconds later %d", s->number,
		attached, s->count, (int)ds.shm_nattch);
}

void check_count(struct actor *a, struct segment *s)
{
	long before = generation;
	if (children != 0)
		return;
	struct shmid_ds ds;
	if (shmctl(s->id, IPC_STAT, &ds) != 0)
		differs(a, "IPC_STAT of segment %d", s->number);
	if (children == 0 && generation == before && (int)ds.shm_nattch != s->count)
		count_differs(a, s, (int)ds.shm_nattch);
}

/* ---- the model ---- */

void add(struct actor *a, struct segment *s, struct piece p)
{
	if (s->count == MOST)
		differs(a, "the model is too small");
	s->pieces[s->count++] = p;
}

void drop(struct segment *s, int index) { s->pieces[index] = s->pieces[--s->count]; }

bool based_at(const struct piece *p, const char *base)
{ return p->at - (ptrdiff_t)p->first * PAGE == base; }

bool alike(const struct piece *p, const struct piece *q)
{
	return p->rights == q->rights && p->locked == q->locked && p->random == q->random
	        && p->undumped == q->undumped && p->childless == q->childless;
}

/* Cuts a piece so that a range of its pages is a piece of its own, and says which. */
int cut(struct actor *a, struct segment *s, int index, int from, int pages)
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

struct range some_range(struct actor *a, struct segment *s)
{
	struct range r = { .piece = chance(a, s->count) };
	struct piece *p = &s->pieces[r.piece];
	r.from = chance(a, p->pages);
	r.pages = 1 + chance(a, p->pages - r.from);
	r.at = p->at + (size_t)r.from * PAGE;
	r.bytes = (size_t)r.pages * PAGE;
	return r;
}
