/* One semaphore of a set as a Python object: the fast path of locks. */
#include "module.h"

#include <errno.h>
#include <structmember.h>

struct semaphore {
	PyObject_HEAD;
	struct pool *pool;
	int id;
	unsigned short number;
	short flags;
};

static PyObject *make(PyTypeObject *type, PyObject *arguments, PyObject *words)
{
	static char *names[] = {"pool", "id", "number", "undo", NULL};
	struct pool *pool;
	int id, undo = 0;
	uint16_t number;
	if (!PyArg_ParseTupleAndKeywords(arguments, words, "O!iO&|p:Semaphore", names, pool_type,
		    &pool, &id, read_uint16, &number, &undo))
		return NULL;
	allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	struct semaphore *self = (struct semaphore *)allocate(type, 0);
	if (!self)
		return NULL;
	Py_INCREF(pool);
	self->pool = pool;
	self->id = id;
	self->number = number;
	self->flags = undo ? SEM_UNDO : 0;
	return (PyObject *)self;
}

static void destroy(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);
	Py_XDECREF(((struct semaphore *)object)->pool);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
	Py_DECREF(type);
}

static PyObject *acquire(PyObject *object, PyObject *arguments, PyObject *words)
{
	static char *names[] = {"block", "timeout", NULL};
	struct semaphore *self = (struct semaphore *)object;
	int block = 1;
	PyObject *timeout = Py_None;
	double seconds = -1;
	if (!PyArg_ParseTupleAndKeywords(arguments, words, "|pO:acquire", names, &block, &timeout)
		|| !seconds_of(timeout, &seconds))
		return NULL;
	struct sembuf down = {self->number, -1, self->flags};
	int done = operate(self->pool, self->id, &down, 1, block ? seconds : 0);
	return done < 0 ? NULL : PyBool_FromLong(done);
}

static PyObject *release(PyObject *object, PyObject *unused)
{
	(void)unused;
	struct semaphore *self = (struct semaphore *)object;
	vshmem_pool *handle = pool_handle(self->pool);
	if (!handle)
		return NULL;
	struct sembuf up = {self->number, 1, self->flags};
	int result = vshmem_semop(handle, self->id, &up, 1, NULL);
	if (result == -ERANGE) {
		PyErr_SetString(PyExc_OverflowError, "the semaphore is at its highest value");
		return NULL;
	}
	return none_or_raise(result, NULL);
}

static PyObject *value(PyObject *object, PyObject *unused)
{
	(void)unused;
	struct semaphore *self = (struct semaphore *)object;
	vshmem_pool *handle = pool_handle(self->pool);
	return handle ? int_or_raise(vshmem_semval(handle, self->id, self->number), NULL) : NULL;
}

static PyMethodDef methods[] = {
	{"acquire", (PyCFunction)(void (*)(void))acquire, METH_VARARGS | METH_KEYWORDS,
		"acquire(block=True, timeout=None) -> bool"},
	{"release", release, METH_NOARGS, "Adds one."},
	{"value", value, METH_NOARGS, "Its value."},
	{NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
	{"id", T_INT, offsetof(struct semaphore, id), READONLY, "The set's id."},
	{NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
	{Py_tp_doc, "Semaphore(pool, id, number, undo=False): one of a set."},
	{Py_tp_new, make},
	{Py_tp_dealloc, destroy},
	{Py_tp_methods, methods},
	{Py_tp_members, members},
	{0, NULL},
};

PyType_Spec semaphore_spec = {
	.name = "vshmem._vshmem.Semaphore",
	.basicsize = sizeof(struct semaphore),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
	.slots = slots,
};
