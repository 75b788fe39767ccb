/* Steps on a segment: attach, detach, and what is done to a part of what is attached. */
#define _GNU_SOURCE
#include "mappings.h"

void attach(struct actor *a, struct segment *s)
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

void detach(struct actor *a, struct segment *s)
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

void on_a_segment(struct actor *a)
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
