/* Memory of the pool that this process has attached, by its id.
 *
 * A process attaches a memory once, for all of its domains and endpoints: this list counts them. It
 * also knows memory that the program has taken itself, as long as a region lies in it.
 */
#include "regions.h"

#include <errno.h>
#include <stdlib.h>

struct attached {
	struct attached *next;
	vshmem_pool *pool;
	char *start;
	uint64_t bytes; /* at least */
	int id;
	uint32_t uses;
	bool ours; /* the last use gives it back */
	bool taken; /* by vfi_attached_hold, which is one use */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct attached *list;

void vfi_attached_forked(void)
{
	pthread_mutex_init(&lock, NULL);
	list = NULL;
}

/* A page, and how many of them memory of the program is looked for before a region's start. */
enum { PAGE = 4096, PAGES = 1 << 14 };

static struct attached *find(vshmem_pool *pool, int id)
{
	struct attached *one = list;
	while (one && (one->pool != pool || one->id != id))
		one = one->next;
	return one;
}

static struct attached *add(vshmem_pool *pool, int id, void *start, uint64_t bytes, bool ours)
{
	struct attached *one = malloc(sizeof(*one));
	if (one) {
		*one = (struct attached) { .next = list,
			.pool = pool,
			.start = start,
			.bytes = bytes,
			.id = id,
			.uses = 1,
			.ours = ours };
		list = one;
	}
	return one;
}

static void drop(struct attached *one)
{
	if (--one->uses > 0)
		return;
	struct attached **link = &list;
	while (*link != one)
		link = &(*link)->next;
	*link = one->next;
	if (one->ours)
		vshmem_release(one->pool, one->start);
	free(one);
}

static int take(vshmem_pool *pool, int id, uint64_t bytes, char **start)
{
	struct attached *one = find(pool, id);
	if (one && bytes > one->bytes) {
		/* -EBUSY is said of memory that has so many bytes, and is attached already. */
		void *again;
		int rc = vshmem_attach(pool, id, bytes, &again);
		if (rc == 0)
			vshmem_release(pool, again);
		if (rc != -EBUSY)
			return -EINVAL;
		one->bytes = bytes;
	}
	if (!one) {
		void *memory;
		int rc = vshmem_attach(pool, id, bytes, &memory);
		if (rc != 0)
			return rc;
		one = add(pool, id, memory, bytes, true);
		if (!one) {
			vshmem_release(pool, memory);
			return -ENOMEM;
		}
		one->uses = 0;
	}
	one->uses++;
	*start = one->start;
	return 0;
}

int vfi_attached_take(vshmem_pool *pool, int id, uint64_t bytes, char **start)
{
	if (id <= 0)
		return -EINVAL;
	pthread_mutex_lock(&lock);
	int rc = take(pool, id, bytes, start);
	pthread_mutex_unlock(&lock);
	return rc;
}

void vfi_attached_drop(vshmem_pool *pool, int id)
{
	pthread_mutex_lock(&lock);
	struct attached *one = find(pool, id);
	if (one)
		drop(one);
	pthread_mutex_unlock(&lock);
}

/* Memory that the program itself has taken of the pool: it begins on a page not far before. */
static struct attached *program_memory(vshmem_pool *pool, const char *start, uint64_t bytes)
{
	char *pool_start = vshmem_base(pool);
	uint64_t into = (uint64_t)(start - pool_start) / PAGE;
	for (uint64_t back = 0; back <= into && back < PAGES; back++) {
		char *begin = pool_start + (into - back) * PAGE;
		int id = vshmem_id(pool, begin);
		if (id <= 0)
			continue;
		/* The nearest one that begins there: does it reach so far? */
		uint64_t needed = (uint64_t)(start - begin) + bytes;
		void *again;
		int rc = vshmem_attach(pool, id, needed, &again);
		if (rc == 0)
			vshmem_release(pool, again);
		return rc == -EBUSY ? add(pool, id, begin, needed, false) : NULL;
	}
	return NULL;
}

int vfi_attached_around(vshmem_pool *pool, const void *start, uint64_t bytes, char **begin)
{
	const char *first = start;
	const char *pool_start = vshmem_base(pool);
	uint64_t pool_bytes = vshmem_bytes(pool), into = (uint64_t)(first - pool_start);
	if (!pool_start || first < pool_start || into >= pool_bytes || bytes > pool_bytes - into)
		return 0;
	pthread_mutex_lock(&lock);
	struct attached *one = list;
	while (one
	        && !(one->pool == pool && first >= one->start
	                && (uint64_t)(first - one->start) <= one->bytes
	                && bytes <= one->bytes - (uint64_t)(first - one->start)))
		one = one->next;
	if (one)
		one->uses++;
	else
		one = program_memory(pool, first, bytes);
	int id = one ? one->id : 0;
	if (one)
		*begin = one->start;
	pthread_mutex_unlock(&lock);
	return id;
}

int vfi_attached_hold(vshmem_pool *pool, uint64_t bytes, void **start)
{
	int rc = vshmem_hold(pool, bytes, start);
	if (rc != 0)
		return rc;
	pthread_mutex_lock(&lock);
	struct attached *one = add(pool, vshmem_id(pool, *start), *start, bytes, true);
	if (one)
		one->taken = true;
	pthread_mutex_unlock(&lock);
	if (!one)
		vshmem_release(pool, *start);
	return one ? 0 : -ENOMEM;
}

int vfi_attached_release(vshmem_pool *pool, void *start)
{
	pthread_mutex_lock(&lock);
	struct attached *one = list;
	while (one && !(one->pool == pool && one->taken && one->start == start))
		one = one->next;
	if (one) {
		one->taken = false;
		drop(one);
	}
	pthread_mutex_unlock(&lock);
	return one ? 0 : -ENOENT;
}
