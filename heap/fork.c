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

/* Memory for the copy. */
struct copy {
	char *start;
	size_t bytes;
	bool locked; /* the table is ours over the fork */
	bool made;
	bool lost; /* there was no memory for it */
};
static __thread struct copy copy __attribute__((tls_model("initial-exec")));

extern void *__dso_handle __attribute__((visibility("hidden")));

/* Bytes of all chunks. */
static size_t bytes_of_chunks(void)
{
	struct heap_chunk chunk;
	size_t pages = 0;
	for (uint32_t nth = 0; heap_table_chunk(nth, &chunk); nth++)
		pages += chunk.pages;
	return pages * HEAP_PAGE;
}

static bool reserve(struct copy *into, size_t bytes)
{
	*into = (struct copy) { .bytes = bytes };
	if (bytes)
		into->start = heap_private(bytes, 0);
	return !bytes || into->start;
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

static void make_copy(void)
{
	struct heap_chunk chunk;
	size_t bytes = bytes_of_chunks(), at = 0;
	if (bytes > copy.bytes) {
		bool locked = copy.locked;
		give_up(&copy);
		copy.lost = !reserve(&copy, bytes);
		copy.locked = locked;
		if (copy.lost)
			return;
	}
	for (uint32_t nth = 0; heap_table_chunk(nth, &chunk); nth++) {
		if (chunk.pages * HEAP_PAGE > copy.bytes - at)
			continue;
		copy_chunk(copy.start + at, &chunk);
		at += chunk.pages * HEAP_PAGE;
	}
	copy.made = true;
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

static void move(const struct heap_chunk *chunk, char *from)
{
	size_t bytes = chunk->pages * HEAP_PAGE;
	long to = (long)(heap_base + chunk->first * HEAP_PAGE);
	if (heap_system(SYS_mremap, (long)from, (long)bytes, (long)bytes,
		    MREMAP_MAYMOVE | MREMAP_FIXED, to, 0)
	        != to)
		copy.lost = true;
}

static void in_child(void)
{
	struct heap_chunk chunk;
	size_t at = 0;
	for (uint32_t nth = 0; copy.made && heap_table_chunk(nth, &chunk); nth++) {
		if (chunk.pages * HEAP_PAGE > copy.bytes - at)
			continue;
		move(&chunk, copy.start + at);
		at += chunk.pages * HEAP_PAGE;
	}
	/* Its memory would be the parent's. As when the kernel has no memory for it. */
	if (copy.lost)
		heap_system(SYS_kill, heap_system(SYS_getpid, 0, 0, 0, 0, 0, 0), SIGKILL, 0, 0, 0, 0);
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
	if (heap_is_own() && !reserve(&copy, bytes_of_chunks())) {
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
