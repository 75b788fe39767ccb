/* Waiting for semaphores, with the interpreter's lock released and an eye on signals. */
#include "module.h"

#include <errno.h>
#include <math.h>
#include <time.h>

/* A wait is looked at once a second: a signal that has come in the moment before a sleep does not
 * end it. */
#define SLICE 1.0

bool seconds_of(PyObject *timeout, double *seconds)
{
	*seconds = -1;
	if (timeout == Py_None)
		return true;
	*seconds = PyFloat_AsDouble(timeout);
	if (*seconds == -1 && PyErr_Occurred())
		return false;
	/* As threading and multiprocessing have it. */
	if (!(*seconds > 0))
		*seconds = 0;
	return true;
}

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int wait_slice(
	vshmem_pool *handle, int id, const struct sembuf *operations, size_t count, double slice)
{
	struct timespec time = {.tv_sec = (time_t)slice};
	time.tv_nsec = (long)((slice - floor(slice)) * 1e9);
	int result;
	Py_BEGIN_ALLOW_THREADS;
	result = vshmem_semop(handle, id, operations, count, &time);
	Py_END_ALLOW_THREADS;
	return result;
}

/* The result of the library's call, or 1 when the time is over. */
static int await(struct pool *pool, int id, struct sembuf *operations, size_t count, double timeout)
{
	double end = now() + timeout;
	int result;
	do {
		double left = timeout < 0 ? SLICE : end - now();
		/* A handler may have closed the pool, and another thread too. */
		if (PyErr_CheckSignals() != 0 || !pool_handle(pool))
			return -1;
		if (left <= 0)
			return 1;
		result = wait_slice(
			pool->handle, id, operations, count, left < SLICE ? left : SLICE);
	} while (result == -EAGAIN || result == -EINTR);
	return result;
}

int operate(struct pool *pool, int id, struct sembuf *operations, size_t count, double timeout)
{
	/* Without waiting first: the interpreter's lock need not be released. */
	static const struct timespec at_once = {0};
	vshmem_pool *handle = pool_handle(pool);
	if (!handle)
		return -1;
	int result = vshmem_semop(handle, id, operations, count, &at_once);
	if (result == -EAGAIN || result == -EINTR) {
		pool_enter(pool);
		result = await(pool, id, operations, count, timeout);
		pool_leave(pool);
		if (result > 0)
			return 0;
	}
	if (result >= 0)
		return 1;
	if (!PyErr_Occurred())
		raise_errno(result, result == -EIDRM ? "it was unlinked, and its last user has left"
						     : NULL);
	return -1;
}
