/* Who uses the handle of a pool, and when it is given back. */
#include "module.h"

vshmem_pool *pool_handle(struct pool *pool)
{
	if (pool->is_closed)
		PyErr_SetString(PyExc_ValueError, "the pool is closed");
	return pool->is_closed ? NULL : pool->handle;
}

vshmem_pool *pool_enter(struct pool *pool)
{
	vshmem_pool *handle = pool_handle(pool);
	if (handle)
		pool->users++;
	return handle;
}

void pool_close_unused(struct pool *pool)
{
	if (pool->is_closed && pool->users == 0) {
		vshmem_close(pool->handle);
		pool->handle = NULL;
	}
}

void pool_leave(struct pool *pool)
{
	pool->users--;
	pool_close_unused(pool);
}
