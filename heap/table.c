/* The table of pages: runs of pages that are taken or free, in private memory.
 *
 * A run is described at its first page; a free one also says at its last page how long it is, so
 * that a neighbour finds its beginning. Runs never reach from one chunk into the next, because
 * chunks go back to the pool one by one. Free runs are in a list for each power of two.
 */
#include "heap.h"
#include "system.h"

#include <sys/mman.h>

enum state { UNKNOWN, TAKEN, FREE };

struct run {
	uint32_t pages; /* at the first page */
	uint32_t back; /* at the last page of a free run: its pages; else 0 */
	uint32_t next, previous;
	uint8_t state; /* at the first page */
	bool begins;   /* a chunk */
	bool dirty;
};

enum { BINS = 32, LOOKS = 64 };

static struct run *runs;
static uint32_t count;
static uint64_t first_address; /* in pages */
static uint32_t bins[BINS];
static struct heap_chunk *chunks;
static uint32_t chunk_count;
/* Pages of chunks that are free from end to end. They are kept: a program that frees much often
 * allocates again at once. */
static uint32_t idle;

static uint32_t most_chunks(void) { return count / 16 + 1; }

bool heap_table_open(uint64_t address, uint64_t pages)
{
	if (pages == 0 || pages >= HEAP_NONE)
		return false;
	count = (uint32_t)pages;
	first_address = address;
	/* What is not touched takes no memory. */
	runs = heap_private(count * sizeof(*runs), MAP_NORESERVE);
	chunks = heap_private(most_chunks() * sizeof(*chunks), MAP_NORESERVE);
	for (int bin = 0; bin < BINS; bin++)
		bins[bin] = HEAP_NONE;
	return runs && chunks;
}

static int bin_of(uint32_t pages) { return 31 - __builtin_clz(pages); }

static void insert(uint32_t first, uint32_t pages, bool dirty)
{
	struct run *run = &runs[first];
	uint32_t *bin = &bins[bin_of(pages)];
	run->pages = pages;
	run->state = FREE;
	run->dirty = dirty;
	run->previous = HEAP_NONE;
	run->next = *bin;
	if (*bin != HEAP_NONE)
		runs[*bin].previous = first;
	*bin = first;
	runs[first + pages - 1].back = pages;
}

static void take_out(uint32_t first)
{
	struct run *run = &runs[first];
	if (run->previous != HEAP_NONE)
		runs[run->previous].next = run->next;
	else
		bins[bin_of(run->pages)] = run->next;
	if (run->next != HEAP_NONE)
		runs[run->next].previous = run->previous;
	runs[first + run->pages - 1].back = 0;
	run->state = UNKNOWN;
}

bool heap_table_add(uint32_t first, uint32_t pages)
{
	uint32_t nth = 0;
	while (nth < chunk_count && chunks[nth].pages)
		nth++;
	if (nth == most_chunks())
		return false;
	chunks[nth].first = first;
	__atomic_store_n(&chunks[nth].pages, pages, __ATOMIC_RELEASE);
	if (nth == chunk_count)
		__atomic_store_n(&chunk_count, nth + 1, __ATOMIC_RELEASE);
	runs[first].begins = true;
	insert(first, pages, false);
	idle += pages;
	return true;
}

/* A free run that has so many pages: of its own power of two if one is found soon. */
static uint32_t find(uint32_t pages)
{
	int bin = bin_of(pages);
	uint32_t first = bins[bin];
	for (int looks = 0; looks < LOOKS && first != HEAP_NONE; looks++, first = runs[first].next)
		if (runs[first].pages >= pages)
			return first;
	while (++bin < BINS)
		if (bins[bin] != HEAP_NONE)
			return bins[bin];
	return HEAP_NONE;
}

/* Whether the page begins a run of the chunk that lies before it. */
static bool goes_on(uint32_t page)
{ return page < count && runs[page].state != UNKNOWN && !runs[page].begins; }

/* Whether a free run is a whole chunk. */
static bool is_whole(uint32_t first)
{ return runs[first].state == FREE && runs[first].begins && !goes_on(first + runs[first].pages); }

static void mark_taken(uint32_t first, uint32_t pages, bool dirty)
{
	runs[first].pages = pages;
	runs[first].state = TAKEN;
	runs[first].dirty = dirty;
}

uint32_t heap_table_take(uint32_t pages, uint32_t align, bool *dirty)
{
	if (pages == 0 || pages >= count || align > count - pages)
		return HEAP_NONE;
	uint32_t found = find(pages + (align > 1 ? align - 1 : 0));
	if (found == HEAP_NONE)
		return HEAP_NONE;
	uint32_t all = runs[found].pages, skip;
	skip = (uint32_t)((align - (first_address + found) % align) % align);
	*dirty = runs[found].dirty;
	if (is_whole(found))
		idle -= all;
	take_out(found);
	if (skip)
		insert(found, skip, *dirty);
	if (all > skip + pages)
		insert(found + skip + pages, all - skip - pages, *dirty);
	mark_taken(found + skip, pages, *dirty);
	return found + skip;
}

uint32_t heap_table_pages(uint32_t first)
{ return first < count && runs[first].state == TAKEN ? runs[first].pages : 0; }

/* Makes pages free, and one run with free neighbours; its first page. */
static uint32_t release(uint32_t first, uint32_t pages)
{
	uint32_t after = first + pages;
	if (goes_on(after) && runs[after].state == FREE) {
		pages += runs[after].pages;
		take_out(after);
	}
	runs[first].state = UNKNOWN;
	if (!runs[first].begins && runs[first - 1].back) {
		uint32_t before = runs[first - 1].back;
		first -= before;
		pages += before;
		take_out(first);
	}
	insert(first, pages, true);
	return first;
}

bool heap_table_resize(uint32_t first, uint32_t pages)
{
	uint32_t has = runs[first].pages, after = first + has;
	if (pages < has) {
		runs[first].pages = pages;
		release(first + pages, has - pages);
		return true;
	}
	if (pages == has)
		return true;
	uint32_t more = pages - has;
	if (!goes_on(after) || runs[after].state != FREE || runs[after].pages < more)
		return false;
	uint32_t all = runs[after].pages;
	bool dirty = runs[after].dirty;
	take_out(after);
	if (all > more)
		insert(after + more, all - more, dirty);
	runs[first].pages = pages;
	return true;
}

static void remove_chunk(uint32_t first)
{
	uint32_t nth = 0;
	while (nth < chunk_count && !(chunks[nth].pages && chunks[nth].first == first))
		nth++;
	if (nth < chunk_count)
		__atomic_store_n(&chunks[nth].pages, 0, __ATOMIC_RELEASE);
}

bool heap_table_give(uint32_t first, uint32_t most_idle, struct heap_chunk *freed)
{
	if (heap_table_pages(first) == 0)
		return false;
	uint32_t start = release(first, runs[first].pages);
	if (!is_whole(start))
		return false;
	*freed = (struct heap_chunk) { start, runs[start].pages, runs[start].dirty };
	if (idle + freed->pages <= most_idle) {
		idle += freed->pages;
		return false;
	}
	take_out(start);
	runs[start].begins = false;
	remove_chunk(start);
	return true;
}

bool heap_table_chunk(uint32_t nth, struct heap_chunk *chunk)
{
	if (nth >= __atomic_load_n(&chunk_count, __ATOMIC_ACQUIRE))
		return false;
	chunk->pages = __atomic_load_n(&chunks[nth].pages, __ATOMIC_ACQUIRE);
	chunk->first = chunks[nth].first;
	return true;
}

uint32_t heap_table_taken(const struct heap_chunk *chunk, uint32_t from, uint32_t *pages)
{
	uint32_t end = chunk->first + chunk->pages;
	while (from < end && runs[from].state == FREE)
		from += runs[from].pages;
	*pages = from < end ? runs[from].pages : 0;
	return from;
}
