/* The extension module vshmem._vshmem: objects of libvshmem for Python 3.9 and later, one binary
 * for all (the limited API). What Python's users meet is written in Python, beside it.
 *
 * Calls that may wait release the interpreter's lock, and look for signals whenever a wait ends. */
#ifndef VSHMEM_PYTHON_MODULE_H
#define VSHMEM_PYTHON_MODULE_H

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#endif
#include <Python.h>
#include <stdbool.h>
#include <vshmem.h>

/* The buffer protocol is in the limited API from 3.11 on, with the layout that it has had in every
 * Python 3; the functions are in all of them. */
struct buffer {
	void *start;
	PyObject *object;
	Py_ssize_t bytes, item_bytes;
	int is_readonly, dimensions;
	char *format;
	Py_ssize_t *shape, *strides, *suboffsets;
	void *internal;
};
enum { BUFFER_SIMPLE = 0, BUFFER_WRITABLE = 1 };
enum { SLOT_GET_BUFFER = 1, SLOT_RELEASE_BUFFER = 2 };
extern int PyObject_GetBuffer(PyObject *object, struct buffer *view, int flags);
extern int PyBuffer_FillInfo(struct buffer *view, PyObject *object, void *start, Py_ssize_t bytes,
	int is_readonly, int flags);
extern void PyBuffer_Release(struct buffer *view);

/* A pool that is open. */
struct pool {
	PyObject_HEAD;
	vshmem_pool *handle;
};
extern PyTypeObject *pool_type;
/* The handle of an open pool, or NULL with an exception. */
vshmem_pool *pool_handle(PyObject *pool);

/* Memory of a pool that this process has attached; or, with WHOLE, a share of such a one. */
struct memory {
	PyObject_HEAD;
	struct pool *pool;
	PyObject *whole;
	void *start;
	Py_ssize_t bytes, exports;
	PyObject *weak_references;
};
PyObject *memory_attach(PyTypeObject *type, struct pool *pool, int id, Py_ssize_t bytes);

extern PyType_Spec pool_spec, memory_spec, semaphore_spec, team_spec;

/* Raises what a negative errno means, with a sentence or NULL: the result is NULL. */
PyObject *raise_errno(int result, const char *what);
/* The same for calls that give an int, and None for those that give nothing. */
PyObject *int_or_raise(int result, const char *what);
PyObject *none_or_raise(int result, const char *what);

/* semtimedop(2) with the waiting that Python wants. TIMEOUT: seconds, below 0 for as long as it
 * takes. 1: done; 0: the time is over; -1: an exception is set. */
int operate(vshmem_pool *handle, int id, struct sembuf *operations, size_t count, double timeout);
/* The seconds of a Python object; None is -1. False: an exception is set. */
bool seconds_of(PyObject *timeout, double *seconds);

#endif
