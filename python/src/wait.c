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

int operate(vshmem_pool *handle, int id, struct sembuf *operations, size_t count, double timeout)
{
	/* Without waiting first: the interpreter's lock need not be released. */
	static const struct timespec at_once = {0};
	int result = vshmem_semop(handle, id, operations, count, &at_once);
	double end = 0;
	while (result == -EAGAIN || result == -EINTR) {
		if (PyErr_CheckSignals() != 0)
			return -1;
		double left = SLICE;
		if (timeout >= 0) {
			double time = now();
			end = end == 0 ? time + timeout : end;
			left = end - time;
			if (left <= 0)
				return 0;
		}
		result = wait_slice(handle, id, operations, count, left < SLICE ? left : SLICE);
	}
	if (result < 0) {
		raise_errno(result, result == -EIDRM ? "it was unlinked, and its last user has left"
						     : NULL);
		return -1;
	}
	return 1;
}
