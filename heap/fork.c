/* A child has its parent's memory as it was: the parent copies the heap to private memory before it
 * forks, and the child moves the copy to the heap's addresses.
 *
 * That is done by the handler that is called last before a fork and first in the child: handlers of
 * other libraries take their locks before, and let go of them after it. libc's own forks (daemon,
 * forkpty) come by there. `fork` is also defined here, so that it can fail for want of memory.
 * vfork(2) and what is built on it (posix_spawn, system, popen) share the parent's memory, and pay
 * nothing.
 */
#define _GNU_SOURCE
#include "heap.h"
#include "system.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

/* The copy, and behind it a list of the chunks that are in it. */
struct copy {
	char *start;
	size_t bytes; /* all of it */
	struct heap_chunk *list;
	uint32_t count;
	bool locked; /* the table is ours over the fork */
	bool lost; /* there was no memory for it */
};
static __thread struct copy copy __attribute__((tls_model("initial-exec")));

extern void *__dso_handle __attribute__((visibility("hidden")));

/* Memory for a copy of all chunks; none where there are none. */
static bool reserve(struct copy *into)
{
	struct heap_chunk chunk;
	size_t pages = 0, count = 0;
	for (; heap_table_chunk((uint32_t)count, &chunk); count++)
		pages += chunk.pages;
	size_t list = (count * sizeof(chunk) + HEAP_PAGE - 1) / HEAP_PAGE;
	*into = (struct copy) { .bytes = (pages + list) * HEAP_PAGE };
	if (pages == 0)
		return true;
	into->start = heap_private(into->bytes, 0);
	if (into->start)
		heap_system(
			SYS_madvise, (long)into->start, (long)into->bytes, MADV_HUGEPAGE, 0, 0, 0);
	into->list = (struct heap_chunk *)(into->start + pages * HEAP_PAGE);
	return into->start;
}

static void give_up(struct copy *from)
{
	if (from->start)
		heap_system(SYS_munmap, (long)from->start, (long)from->bytes, 0, 0, 0, 0);
	*from = (struct copy) { 0 };
}

/* Pages that are zero need none in the copy. */
static void copy_pages(char *to, const char *from, size_t bytes)
{
	static const char zeros[HEAP_PAGE];
	for (size_t at = 0; at < bytes; at += HEAP_PAGE)
		if (memcmp(from + at, zeros, HEAP_PAGE) != 0)
			memcpy(to + at, from + at, HEAP_PAGE);
}

static void copy_chunk(char *to, const struct heap_chunk *chunk)
{
	const char *from = (const char *)heap_base + chunk->first * HEAP_PAGE;
	if (!copy.locked) {
		copy_pages(to, from, chunk->pages * HEAP_PAGE);
		return;
	}
	uint32_t pages, page = heap_table_taken(chunk, chunk->first, &pages);
	for (; pages; page = heap_table_taken(chunk, page + pages, &pages)) {
		size_t at = (page - chunk->first) * HEAP_PAGE;
		copy_pages(to + at, from + at, pages * HEAP_PAGE);
	}
}

/* Chunks that have come since memory was reserved are in it too, where the table is locked. */
static void make_copy(void)
{
	struct heap_chunk chunk;
	struct copy now = { 0 };
	if (copy.locked) {
		give_up(&copy);
		now.lost = !reserve(&now);
		now.locked = true;
		copy = now;
	}
	char *to = copy.start;
	for (uint32_t nth = 0; copy.start && heap_table_chunk(nth, &chunk); nth++) {
		size_t bytes = chunk.pages * HEAP_PAGE;
		char *end = (char *)&copy.list[copy.count + 1];
		if (bytes == 0 || bytes > (size_t)((char *)copy.list - to)
			|| end > copy.start + copy.bytes)
			continue;
		copy_chunk(to, &chunk);
		copy.list[copy.count++] = chunk;
		to += bytes;
	}
}

static void before(void)
{
	if (!heap_is_own())
		return;
	/* In a handler of a signal that has come inside, the table may be half changed: it is not
	 * looked at. */
	if (!heap_inside) {
		heap_inside = true;
		heap_lock();
		copy.locked = true;
	}
	make_copy();
}

static void in_parent(void)
{
	if (copy.locked) {
		heap_unlock();
		heap_inside = false;
	}
	give_up(&copy);
}

static void in_child(void)
{
	char *from = copy.start;
	for (uint32_t nth = 0; nth < copy.count; nth++) {
		long bytes = (long)(copy.list[nth].pages * HEAP_PAGE);
		long to = (long)(heap_base + copy.list[nth].first * HEAP_PAGE);
		copy.lost |= heap_system(SYS_mremap, (long)from, bytes, bytes,
				     MREMAP_MAYMOVE | MREMAP_FIXED, to, 0)
			!= to;
		from += bytes;
	}
	/* Its memory would be the parent's. As when the kernel has no memory for it. */
	if (copy.lost)
		heap_system(
			SYS_kill, heap_system(SYS_getpid, 0, 0, 0, 0, 0, 0), SIGKILL, 0, 0, 0, 0);
	if (copy.list)
		heap_system(SYS_munmap, (long)copy.list,
			(long)(copy.start + copy.bytes - (char *)copy.list), 0, 0, 0, 0);
	if (copy.locked) {
		heap_lock_reset();
		heap_inside = false;
	}
	copy = (struct copy) { 0 };
}

typedef pid_t fork_function(void);
/* Looked up before any program can call them: `_Fork` may be called by handlers of signals. */
static fork_function *next_fork, *next_raw_fork;
static int (*next_register)(void (*)(void), void (*)(void), void (*)(void), void *);

void heap_follow_forks(void)
{
	static uint32_t done;
	if (__atomic_exchange_n(&done, 1, __ATOMIC_RELAXED))
		return;
	next_fork = heap_next("fork");
	next_raw_fork = heap_next("_Fork");
	next_register = heap_next("__register_atfork");
	if (next_register)
		next_register(before, in_parent, in_child, &__dso_handle);
}

/* What pthread_atfork(3) is in every library and program. */
__attribute__((visibility("default"))) int __register_atfork(
	void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library)
{
	heap_follow_forks();
	return next_register ? next_register(prepare, parent, child, library) : ENOMEM;
}

/* `handlers`: libc calls the handlers above. */
static pid_t fork_with(fork_function *next, bool handlers)
{
	if (!next) {
		errno = ENOSYS;
		return -1;
	}
	/* Of a fork that a handler of a signal has interrupted. */
	struct copy outer = copy;
	if (heap_is_own() && !reserve(&copy)) {
		copy = outer;
		errno = ENOMEM;
		return -1;
	}
	if (!handlers)
		before();
	pid_t child = next();
	int error = errno;
	if (!handlers && child == 0)
		in_child();
	else if (!handlers)
		in_parent();
	/* libc calls no handlers where it cannot fork. */
	give_up(&copy);
	copy = outer;
	errno = error;
	return child;
}

/* fork(2) */
__attribute__((visibility("default"))) pid_t fork(void)
{
	heap_follow_forks();
	return fork_with(next_fork, true);
}

/* _Fork(3): for handlers of signals, so without a look at what others do. */
__attribute__((visibility("default"))) pid_t _Fork(void)
{
	bool inside = heap_inside;
	heap_inside = true;
	pid_t child = fork_with(next_raw_fork, false);
	heap_inside = inside;
	return child;
}
