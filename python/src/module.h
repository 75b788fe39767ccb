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

/* A pool that is open. What uses the handle while other code of Python runs is counted: calls that
 * have released the interpreter's lock, memory, a child's place. After `close` nothing new begins,
 * and the last of these gives the handle back. */
struct pool {
	PyObject_HEAD;
	vshmem_pool *handle;
	Py_ssize_t users;
	bool is_closed;
};
extern PyTypeObject *pool_type, *memory_type, *place_type;
/* The handle of an open pool, or NULL with an exception: until Python's code may run again.
 * Arguments are read before, as that may run it. */
vshmem_pool *pool_handle(struct pool *pool);
/* For longer than that. */
vshmem_pool *pool_enter(struct pool *pool);
void pool_leave(struct pool *pool);
/* Gives the handle of a closed pool back that nobody uses. */
void pool_close_unused(struct pool *pool);

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

/* For a child: what fork_prepare gives, and fork_parent or fork_child takes. */
PyObject *fork_prepare(PyObject *pool, PyObject *unused);
PyObject *fork_parent(PyObject *pool, PyObject *arguments);
PyObject *fork_child(PyObject *pool, PyObject *arguments);

extern PyType_Spec pool_spec, place_spec, memory_spec, semaphore_spec, team_spec;

/* For "O&", where Python's own format cuts what is too large, or negative: OverflowError. */
int read_uint16(PyObject *object, void *number);
int read_uint32(PyObject *object, void *number);
int read_uint64(PyObject *object, void *number);
/* For sizes and places, which "n" reads: ValueError below 0. */
bool is_size(Py_ssize_t size, const char *name);

/* Raises what a negative errno means, with a sentence or NULL: the result is NULL. */
PyObject *raise_errno(int result, const char *what);
/* The same for calls that give an int, and None for those that give nothing. */
PyObject *int_or_raise(int result, const char *what);
PyObject *none_or_raise(int result, const char *what);

/* semtimedop(2) with the waiting that Python wants. TIMEOUT: seconds, below 0 for as long as it
 * takes. 1: done; 0: the time is over; -1: an exception is set. */
int operate(struct pool *pool, int id, struct sembuf *operations, size_t count, double timeout);
/* The seconds of a Python object; None is -1. False: an exception is set. */
bool seconds_of(PyObject *timeout, double *seconds);

#endif
