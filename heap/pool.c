/* The heap's pool: opened at the first large allocation, and chunks of it. */
#define _GNU_SOURCE
#include "heap.h"
#include "system.h"

#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "vshmem.h"

/* What is taken of the pool at once: a 64th of it, within these bounds. */
#define LARGE       (UINT64_C(2) << 20)
#define LEAST_CHUNK LARGE
#define MOST_CHUNK  (UINT64_C(32) << 20)
/* As many chunks are kept that nobody uses. */
#define IDLE 4
/* This part of the pool stays free for messages, windows and teams. */
#define SPARE 4
/* The smallest allocation that may be asked for. */
#define LEAST_FROM HEAP_PAGE

size_t heap_from = SIZE_MAX;
uintptr_t heap_base;
size_t heap_bytes;

static char pool_name[4096];
static vshmem_pool *pool;
static uint32_t chunk_pages;
/* Pages of the units that the kernel maps: chunks are made of them, so that a child can replace
 * them one by one. */
static uint32_t unit_pages;
/* A page that the kernel clears in every child. */
static const uint32_t *own;
/* Code of this project that calls malloc itself, perhaps with its locks held. */
static struct {
	uintptr_t begin, end;
} code[4];
static int codes;

/* Said where a program's output cannot be spoiled by it, or VSHMEM_LOG asks. */
static void say(const char *text, const char *more)
{
	char line[768];
	if (!getenv("VSHMEM_LOG") && !isatty(2))
		return;
	int length = snprintf(
		line, sizeof(line), "vshmem: the heap stays private: %s%s\n", text, more);
	if (length >= (int)sizeof(line))
		length = sizeof(line) - 1;
	heap_system(SYS_write, 2, (long)line, length, 0, 0, 0);
}

/* Whether the kernel lets so many bytes of the pool be treated apart. */
static bool can_split(uintptr_t base, size_t bytes)
{ return heap_system(SYS_madvise, (long)base, (long)bytes, MADV_DONTDUMP, 0, 0, 0) == 0; }

static uint32_t find_unit(uintptr_t base, size_t all)
{
	uint32_t pages = can_split(base, HEAP_PAGE) ? 1
		: can_split(base, LARGE)            ? LARGE / HEAP_PAGE
						    : 0;
	/* Memory that core dumps leave out anyway stays so. */
	heap_system(SYS_madvise, (long)base, (long)all, MADV_DODUMP, 0, 0, 0);
	return pages;
}

static const char *use_pool(void)
{
	if (vshmem_private(pool) != 1)
		return ": others than this user may open the pool, and could change the program's memory. "
		       "`vshmem pool create NAME --size 1G --mode 0600` makes one that is only yours";
	uintptr_t base = (uintptr_t)vshmem_base(pool);
	uint64_t bytes = vshmem_bytes(pool), chunk = bytes / 64;
	unit_pages = find_unit(base, bytes);
	if (!unit_pages)
		return ": the pool's pages are larger than 2 MiB";
	chunk = chunk < LEAST_CHUNK ? LEAST_CHUNK : chunk > MOST_CHUNK ? MOST_CHUNK : chunk;
	chunk_pages = (uint32_t)(chunk / LARGE * LARGE / HEAP_PAGE);
	uint32_t *mark = heap_private(HEAP_PAGE, 0);
	if (!mark || !heap_table_open(base / HEAP_PAGE, bytes / HEAP_PAGE))
		return ": there is no memory for its table";
	/* Linux 4.14. */
	if (heap_system(SYS_madvise, (long)mark, HEAP_PAGE, MADV_WIPEONFORK, 0, 0, 0) != 0)
		return ": this kernel cannot say what a child is";
	*mark = 1;
	__atomic_store_n(&heap_base, base, __ATOMIC_RELAXED);
	__atomic_store_n(&heap_bytes, bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&own, mark, __ATOMIC_RELEASE);
	return NULL;
}

/* Opens it, if all conditions are met; it stays open. */
static bool open_pool(void)
{
	char text[512];
	if (vshmem_open(pool_name, &pool, text, sizeof(text)) != 0) {
		say(text, "");
		return false;
	}
	const char *why = use_pool();
	if (!why)
		return true;
	say(pool_name, why);
	vshmem_close(pool);
	return false;
}

/* Opening takes some 32 KiB of stack, and the thread that allocates first may have less. */
#define STACK (256 * 1024)
static ucontext_t allocating;
static bool opened;
static void open_there(void) { opened = open_pool(); }
static bool open_on_own_stack(void)
{
	ucontext_t there;
	void *stack = heap_private(STACK, 0);
	if (!stack || getcontext(&there) != 0)
		return false;
	there.uc_stack = (stack_t) { .ss_sp = stack, .ss_size = STACK };
	there.uc_link = &allocating;
	makecontext(&there, open_there, 0);
	swapcontext(&allocating, &there);
	heap_system(SYS_munmap, (long)stack, STACK, 0, 0, 0, 0);
	return opened;
}

bool heap_is_own(void)
{
	const uint32_t *mark = __atomic_load_n(&own, __ATOMIC_ACQUIRE);
	return mark && *mark;
}

/* Opened once, by the thread that comes first. Meanwhile the others have private memory. */
static bool is_open(void)
{
	static uint32_t tried;
	if (__atomic_load_n(&own, __ATOMIC_ACQUIRE))
		return heap_is_own();
	if (__atomic_exchange_n(&tried, 1, __ATOMIC_RELAXED))
		return false;
	return open_on_own_stack();
}

static bool is_own_code(const void *caller)
{
	uintptr_t at = (uintptr_t)caller;
	for (int nth = 0; nth < codes; nth++)
		if (at >= code[nth].begin && at < code[nth].end)
			return true;
	return false;
}

static uint32_t page_of(const void *memory)
{ return (uint32_t)(((uintptr_t)memory - heap_base) / HEAP_PAGE); }

/* A chunk of so many pages. */
static bool add_chunk(uint32_t pages)
{
	void *memory;
	if (vshmem_hold_sparing(pool, pages * HEAP_PAGE, heap_bytes / SPARE, &memory) != 0)
		return false;
	bool added = (uintptr_t)memory % (unit_pages * HEAP_PAGE) == 0;
	if (added) {
		heap_lock();
		added = heap_table_add(page_of(memory), pages);
		heap_unlock();
	}
	if (!added)
		vshmem_release(pool, memory);
	return added;
}

/* A chunk in which so many pages lie. */
static bool grow(uint32_t pages)
{
	pages = (pages + unit_pages - 1) / unit_pages * unit_pages;
	return (pages < chunk_pages && add_chunk(chunk_pages)) || add_chunk(pages);
}

void *heap_take(size_t bytes, size_t align, const void *caller, bool *dirty)
{
	int error = errno;
	void *memory = NULL;
	if (heap_inside || is_own_code(caller))
		return NULL;
	heap_inside = true;
	if (is_open() && bytes <= heap_bytes && align <= heap_bytes) {
		uint32_t pages = (uint32_t)((bytes + HEAP_PAGE - 1) / HEAP_PAGE);
		uint32_t pages_align = align > HEAP_PAGE ? (uint32_t)(align / HEAP_PAGE) : 1;
		uint32_t first = HEAP_NONE;
		for (int tries = 0; tries < 2 && first == HEAP_NONE; tries++) {
			if (tries > 0 && !grow(pages + pages_align - 1))
				break;
			heap_lock();
			first = heap_table_take(pages, pages_align, dirty);
			heap_unlock();
		}
		if (first != HEAP_NONE)
			memory = (void *)(heap_base + first * HEAP_PAGE);
	}
	heap_inside = false;
	errno = error;
	return memory;
}

size_t heap_usable(const void *memory)
{ return (uintptr_t)memory % HEAP_PAGE ? 0 : heap_table_pages(page_of(memory)) * HEAP_PAGE; }

void heap_give(void *memory)
{
	struct heap_chunk freed;
	size_t bytes = heap_usable(memory);
	/* A handler of a signal that has come inside: it is lost. */
	if (bytes == 0 || heap_inside)
		return;
	if (!heap_is_own()) {
		heap_system(SYS_madvise, (long)memory, (long)bytes, MADV_DONTNEED, 0, 0, 0);
		return;
	}
	int error = errno;
	heap_inside = true;
	heap_lock();
	bool whole = heap_table_give(page_of(memory), IDLE * chunk_pages, &freed);
	heap_unlock();
	if (whole) {
		char *start = (char *)heap_base + freed.first * HEAP_PAGE;
		if (freed.dirty)
			memset(start, 0, freed.pages * HEAP_PAGE);
		vshmem_release(pool, start);
	}
	heap_inside = false;
	errno = error;
}

bool heap_resize(void *memory, size_t bytes)
{
	size_t has = heap_usable(memory);
	if (has == 0 || bytes > heap_bytes)
		return false;
	uint32_t pages = (uint32_t)((bytes + HEAP_PAGE - 1) / HEAP_PAGE);
	if (pages * HEAP_PAGE == has)
		return true;
	if (heap_inside || !heap_is_own())
		return false;
	heap_inside = true;
	heap_lock();
	bool done = heap_table_resize(page_of(memory), pages);
	heap_unlock();
	heap_inside = false;
	return done;
}

static int note_code(struct dl_phdr_info *object, size_t size, void *argument)
{
	(void)size, (void)argument;
	const char *name = strrchr(object->dlpi_name, '/');
	if (strncmp(name ? name + 1 : object->dlpi_name, "libvshmem", strlen("libvshmem")) != 0
		|| codes == sizeof(code) / sizeof(*code))
		return 0;
	uintptr_t begin = UINTPTR_MAX, end = 0;
	for (int nth = 0; nth < object->dlpi_phnum; nth++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[nth];
		if (part->p_type != PT_LOAD)
			continue;
		uintptr_t at = object->dlpi_addr + part->p_vaddr;
		begin = at < begin ? at : begin;
		end = at + part->p_memsz > end ? at + part->p_memsz : end;
	}
	code[codes].begin = begin;
	code[codes++].end = end;
	return 0;
}

void heap_begin(const char *from, const char *name)
{
	char *end;
	unsigned long long bytes = strtoull(from, &end, 10);
	if (end == from || *end || !*name || strlen(name) >= sizeof(pool_name))
		return;
	if (getauxval(AT_SECURE)) {
		say("this program has rights that its user has not", "");
		return;
	}
	strcpy(pool_name, name);
	dl_iterate_phdr(note_code, NULL);
	heap_from = bytes < LEAST_FROM ? LEAST_FROM : bytes;
}
