/* Memory of a pool as a Python object: a buffer of it (memoryview, numpy array) keeps it
 * attached. */
#include "module.h"

#include <structmember.h>

PyObject *memory_attach(PyTypeObject *type, struct pool *pool, int id, Py_ssize_t bytes)
{
	allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	struct memory *self = (struct memory *)allocate(type, 0);
	if (!self)
		return NULL;
	void *start;
	/* As long as it is attached: a close of the pool takes it from under no buffer. */
	vshmem_pool *handle = pool_enter(pool);
	int result = handle ? vshmem_attach(handle, id, (uint64_t)bytes, &start) : 0;
	if (!handle || result < 0) {
		Py_DECREF(self);
		if (handle)
			pool_leave(pool);
		return handle ? raise_errno(result, NULL) : NULL;
	}
	Py_INCREF(pool);
	self->pool = pool;
	self->start = start;
	self->bytes = bytes;
	return (PyObject *)self;
}

static PyObject *refuse(PyTypeObject *type, PyObject *arguments, PyObject *words)
{
	(void)type, (void)arguments, (void)words;
	PyErr_SetString(PyExc_TypeError, "Pool.attach makes it");
	return NULL;
}

/* The same memory, with buffers that are counted apart. */
static PyObject *share(PyObject *object, PyObject *unused)
{
	(void)unused;
	struct memory *self = (struct memory *)object;
	if (!self->start) {
		PyErr_SetString(PyExc_ValueError, "the memory was released");
		return NULL;
	}
	PyTypeObject *type = Py_TYPE(object);
	allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	struct memory *made = (struct memory *)allocate(type, 0);
	if (!made)
		return NULL;
	/* As a buffer of it, until the share is dropped: arrays of numpy keep the share alone. */
	Py_INCREF(object);
	self->exports++;
	made->whole = object;
	made->start = self->start;
	made->bytes = self->bytes;
	return (PyObject *)made;
}

/* A process that was forked and is no client releases nothing: it is its parent's. */
static void release(struct memory *self)
{
	if (self->start && self->pool) {
		vshmem_release(self->pool->handle, self->start);
		pool_leave(self->pool);
	}
	self->start = NULL;
}

static void destroy(PyObject *object)
{
	struct memory *self = (struct memory *)object;
	PyTypeObject *type = Py_TYPE(object);
	if (self->weak_references)
		PyObject_ClearWeakRefs(object);
	release(self);
	if (self->whole)
		((struct memory *)self->whole)->exports--;
	Py_XDECREF(self->pool);
	Py_XDECREF(self->whole);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
	Py_DECREF(type);
}

static int get_buffer(PyObject *object, struct buffer *view, int flags)
{
	struct memory *self = (struct memory *)object;
	if (!self->start) {
		PyErr_SetString(PyExc_ValueError, "the memory was released");
		return -1;
	}
	int result = PyBuffer_FillInfo(view, object, self->start, self->bytes, 0, flags);
	self->exports += result == 0;
	return result;
}

static void release_buffer(PyObject *object, struct buffer *view)
{
	(void)view;
	((struct memory *)object)->exports--;
}

static PyObject *release_now(PyObject *object, PyObject *unused)
{
	(void)unused;
	struct memory *self = (struct memory *)object;
	if (self->exports > 0) {
		PyErr_SetString(PyExc_BufferError, "cannot close exported pointers exist");
		return NULL;
	}
	release(self);
	Py_RETURN_NONE;
}

static PyObject *address_of(PyObject *object, void *unused)
{
	(void)unused;
	return PyLong_FromVoidPtr(((struct memory *)object)->start);
}

static PyMethodDef methods[] = {
	{"share", share, METH_NOARGS, "The same memory, with a count of buffers of its own."},
	{"release", release_now, METH_NOARGS, "Detaches it; BufferError while buffers exist."},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
	{"address", address_of, NULL, "Where it lies in this process.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
	{"__weaklistoffset__", T_PYSSIZET, offsetof(struct memory, weak_references), READONLY, NULL},
	{"size", T_PYSSIZET, offsetof(struct memory, bytes), READONLY, "Bytes."},
	{NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
	{Py_tp_doc, "Memory of a pool, attached: a buffer."},
	{Py_tp_new, refuse},
	{Py_tp_dealloc, destroy},
	{SLOT_GET_BUFFER, get_buffer},
	{SLOT_RELEASE_BUFFER, release_buffer},
	{Py_tp_methods, methods},
	{Py_tp_getset, attributes},
	{Py_tp_members, members},
	{0, NULL},
};

PyType_Spec memory_spec = {
	.name = "vshmem._vshmem.Memory",
	.basicsize = sizeof(struct memory),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
	.slots = slots,
};
