/* malloc(3) and its kin. */
#include "heap.h"

#include <errno.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))
#define CALLER   __builtin_return_address(0)

/* libc's, or those of a library before it. */
static struct {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void (*free)(void *);
	void *(*memalign)(size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	int (*posix_memalign)(void **, size_t, size_t);
	size_t (*usable)(void *);
} next;

/* Looks them up. An old dlsym asks for memory itself, and does without. */
static bool look_up(void)
{
	static __thread bool looking __attribute__((tls_model("initial-exec")));
	if (looking)
		return false;
	looking = true;
	next.calloc = heap_next("calloc");
	next.realloc = heap_next("realloc");
	next.free = heap_next("free");
	next.memalign = heap_next("memalign");
	next.aligned_alloc = heap_next("aligned_alloc");
	next.posix_memalign = heap_next("posix_memalign");
	next.usable = heap_next("malloc_usable_size");
	__atomic_store_n(&next.malloc, heap_next("malloc"), __ATOMIC_RELEASE);
	looking = false;
	return true;
}

static inline bool has_next(void)
{ return __atomic_load_n(&next.malloc, __ATOMIC_ACQUIRE) || look_up(); }

EXPORTED void *malloc(size_t bytes)
{
	bool dirty;
	void *memory = bytes >= heap_from ? heap_take(bytes, 1, CALLER, &dirty) : NULL;
	return memory ? memory : has_next() ? next.malloc(bytes) : NULL;
}

EXPORTED void *calloc(size_t count, size_t each)
{
	size_t bytes;
	bool dirty;
	if (!__builtin_mul_overflow(count, each, &bytes) && bytes >= heap_from) {
		void *memory = heap_take(bytes, 1, CALLER, &dirty);
		if (memory)
			return dirty ? memset(memory, 0, bytes) : memory;
	}
	return has_next() ? next.calloc(count, each) : NULL;
}

EXPORTED void free(void *memory)
{
	if (heap_has(memory))
		heap_give(memory);
	else if (memory && has_next())
		next.free(memory);
}

/* Elsewhere, with what both have room for. */
static void *move(void *memory, size_t has, size_t bytes, const void *caller)
{
	bool dirty;
	void *moved = bytes >= heap_from ? heap_take(bytes, 1, caller, &dirty) : NULL;
	if (!moved && heap_has(memory))
		moved = next.malloc(bytes);
	if (moved && memory) {
		memcpy(moved, memory, has < bytes ? has : bytes);
		free(memory);
	}
	return moved;
}

EXPORTED void *realloc(void *memory, size_t bytes)
{
	if (!has_next())
		return NULL;
	if (heap_has(memory)) {
		if (bytes == 0) {
			free(memory);
			return NULL;
		}
		if (bytes >= heap_from && heap_resize(memory, bytes))
			return memory;
		return move(memory, heap_usable(memory), bytes, CALLER);
	}
	void *moved = NULL;
	if (bytes >= heap_from)
		moved = move(memory, memory ? next.usable(memory) : 0, bytes, CALLER);
	return moved ? moved : next.realloc(memory, bytes);
}

static bool is_power(size_t align) { return align && !(align & (align - 1)); }

static void *take_aligned(size_t align, size_t bytes, const void *caller)
{
	bool dirty;
	return bytes >= heap_from && is_power(align) ? heap_take(bytes, align, caller, &dirty)
						     : NULL;
}

EXPORTED void *memalign(size_t align, size_t bytes)
{
	void *memory = take_aligned(align, bytes, CALLER);
	return memory ? memory : has_next() ? next.memalign(align, bytes) : NULL;
}

EXPORTED void *aligned_alloc(size_t align, size_t bytes)
{
	void *memory = take_aligned(align, bytes, CALLER);
	return memory ? memory : has_next() ? next.aligned_alloc(align, bytes) : NULL;
}

EXPORTED int posix_memalign(void **into, size_t align, size_t bytes)
{
	void *memory = align % sizeof(void *) ? NULL : take_aligned(align, bytes, CALLER);
	if (!memory)
		return has_next() ? next.posix_memalign(into, align, bytes) : ENOMEM;
	*into = memory;
	return 0;
}

EXPORTED size_t malloc_usable_size(void *memory)
{
	if (heap_has(memory))
		return heap_usable(memory);
	return memory && has_next() ? next.usable(memory) : 0;
}
