/* A place in a pool for a child, between the two ends of a fork. */
#include "module.h"

#include <unistd.h>

/* CHILD is NULL when it was taken, by fork_parent or fork_child; both ends of a fork have one. */
struct place {
	PyObject_HEAD;
	struct pool *pool;
	vshmem_child *child;
	/* The process that has asked for it. */
	pid_t maker;
};

PyObject *fork_prepare(PyObject *object, PyObject *unused)
{
	(void)unused;
	struct pool *pool = (struct pool *)object;
	allocfunc allocate = (allocfunc)PyType_GetSlot(place_type, Py_tp_alloc);
	struct place *self = (struct place *)allocate(place_type, 0);
	if (!self)
		return NULL;
	vshmem_pool *handle = pool_enter(pool);
	int result = handle ? vshmem_fork_prepare(handle, &self->child) : 0;
	if (!handle || result < 0) {
		self->child = NULL;
		Py_DECREF(self);
		if (handle)
			pool_leave(pool);
		return handle ? raise_errno(result, NULL) : NULL;
	}
	Py_INCREF(pool);
	self->pool = pool;
	self->maker = getpid();
	return (PyObject *)self;
}

/* Its child, which the caller gives to the library; or NULL with an exception. */
static vshmem_child *take(struct place *self, PyObject *pool, bool in_child)
{
	const char *what = NULL;
	if (!self->child)
		what = "the place was taken";
	else if ((PyObject *)self->pool != pool)
		what = "the place is of another pool";
	else if ((self->maker != getpid()) != in_child)
		what = in_child ? "this process is no child" : "this process is a child";
	if (what) {
		PyErr_SetString(PyExc_ValueError, what);
		return NULL;
	}
	vshmem_child *child = self->child;
	self->child = NULL;
	return child;
}

PyObject *fork_parent(PyObject *object, PyObject *arguments)
{
	struct place *place;
	int pid;
	if (!PyArg_ParseTuple(arguments, "O!i:fork_parent", place_type, &place, &pid))
		return NULL;
	vshmem_child *child = take(place, object, false);
	if (!child)
		return NULL;
	/* The place keeps the handle open, also when the pool is closed. */
	int result = vshmem_fork_parent(place->pool->handle, child, pid);
	pool_leave(place->pool);
	return none_or_raise(result, NULL);
}

PyObject *fork_child(PyObject *object, PyObject *arguments)
{
	struct place *place;
	if (!PyArg_ParseTuple(arguments, "O!:fork_child", place_type, &place))
		return NULL;
	vshmem_child *child = take(place, object, true);
	if (!child)
		return NULL;
	int result = vshmem_fork_child(place->pool->handle, child);
	pool_leave(place->pool);
	return none_or_raise(result, NULL);
}

static void destroy(PyObject *object)
{
	struct place *self = (struct place *)object;
	PyTypeObject *type = Py_TYPE(object);
	if (self->child) {
		/* In a child it is its parent's. */
		if (self->maker == getpid())
			vshmem_fork_parent(self->pool->handle, self->child, -1);
		pool_leave(self->pool);
	}
	Py_XDECREF(self->pool);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
	Py_DECREF(type);
}

static PyObject *refuse(PyTypeObject *type, PyObject *arguments, PyObject *words)
{
	(void)type, (void)arguments, (void)words;
	PyErr_SetString(PyExc_TypeError, "Pool.fork_prepare makes it");
	return NULL;
}

static PyType_Slot slots[] = {
	{Py_tp_doc, "A place in a pool for a child."},
	{Py_tp_new, refuse},
	{Py_tp_dealloc, destroy},
	{0, NULL},
};

PyType_Spec place_spec = {
	.name = "vshmem._vshmem.Place",
	.basicsize = sizeof(struct place),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};
