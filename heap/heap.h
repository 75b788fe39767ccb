/* libvshmem_heap.so: large allocations of an unchanged program lie in a pool.
 *
 * What this process knows of its memory is in its own memory: members of the pool can write into
 * what is allocated, and into nothing that says where it lies. Whether memory is the pool's is a
 * question about its address.
 *
 * Locking: one lock around the table of pages. It is held for a few steps, and over a fork; no call
 * of libvshmem is made under it. A thread that is inside, or runs a handler of a signal that has
 * come meanwhile, gets libc's memory.
 *
 * No file calls one that calls it: table, pool, fork, begin, symbols.
 */
#ifndef VSHMEM_HEAP_H
#define VSHMEM_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEAP_PAGE UINT64_C(4096)

/* lock.c */
/* This thread works on the heap. */
extern __thread bool heap_inside __attribute__((tls_model("initial-exec")));
void heap_lock(void);
void heap_unlock(void);
/* In a child: nobody holds it. */
void heap_lock_reset(void);

/* table.c: pages of the pool that this process has. Under the lock, but for those that say so. */
#define HEAP_NONE UINT32_MAX
/* For a pool of so many pages, whose first one has this address, in pages. */
bool heap_table_open(uint64_t address, uint64_t pages);
/* A chunk that the pool has given: it reads as zeros. */
bool heap_table_add(uint32_t first, uint32_t pages);
/* Pages in a row, whose address is a multiple of `align` pages; HEAP_NONE: there are none. `dirty`:
 * they may hold old data. */
uint32_t heap_table_take(uint32_t pages, uint32_t align, bool *dirty);
/* Pages of what was taken from there; 0: nothing was. Without the lock, too, for its owner. */
uint32_t heap_table_pages(uint32_t first);
/* Makes it shorter or longer where it lies; false: there is no room. */
bool heap_table_resize(uint32_t first, uint32_t pages);
/* A chunk that went with what was given back. */
struct heap_chunk {
	uint32_t first, pages;
	bool dirty;
};
/* Gives it back. True: a chunk is free from end to end, and in the table no more. So many pages of
 * such chunks are kept. */
bool heap_table_give(uint32_t first, uint32_t most_idle, struct heap_chunk *freed);
/* The nth chunk, from 0; pages 0: none just now. False: there are no more. Without the lock, too.
 */
bool heap_table_chunk(uint32_t nth, struct heap_chunk *chunk);
/* The first page of the chunk from there on that was taken, and how many in a row are. */
uint32_t heap_table_taken(const struct heap_chunk *chunk, uint32_t from, uint32_t *pages);

/* pool.c */
/* Allocations of so many bytes go to the pool; SIZE_MAX: none do. */
extern size_t heap_from;
/* What the environment says of the size, and the pool's name. */
void heap_begin(const char *from, const char *name);
/* The pool in this process; 0 bytes until it is open. */
extern uintptr_t heap_base;
extern size_t heap_bytes;
/* Whether this process has taken the heap's memory itself. A child has a copy, and takes and gives
 * back nothing of the pool. */
bool heap_is_own(void);
/* Memory of the pool; NULL: there is none for this. `caller`: the code that wants it. */
void *heap_take(size_t bytes, size_t align, const void *caller, bool *dirty);
void heap_give(void *memory);
size_t heap_usable(const void *memory);
/* Makes it shorter or longer where it lies. */
bool heap_resize(void *memory, size_t bytes);

static inline bool heap_has(const void *memory)
{
	return (uintptr_t)memory - __atomic_load_n(&heap_base, __ATOMIC_RELAXED)
		< __atomic_load_n(&heap_bytes, __ATOMIC_RELAXED);
}

/* fork.c */
/* Has forks come by here, before any other handlers. */
void heap_follow_forks(void);

/* next.c */
/* The symbol as the libraries behind this one have it. */
void *heap_next(const char *name);

#endif
