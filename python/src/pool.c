/* A pool, and the calls for its objects that hardly ever wait. */
#include "module.h"

#include <errno.h>

static PyObject *make(PyTypeObject *type, PyObject *arguments, PyObject *words)
{
	static char *names[] = {"name", NULL};
	const char *name = NULL;
	if (!PyArg_ParseTupleAndKeywords(arguments, words, "|z:Pool", names, &name))
		return NULL;
	allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	struct pool *self = (struct pool *)allocate(type, 0);
	if (!self)
		return NULL;
	char message[1024] = "";
	int result;
	Py_BEGIN_ALLOW_THREADS;
	result = vshmem_open(name, &self->handle, message, sizeof message);
	Py_END_ALLOW_THREADS;
	if (result < 0) {
		self->handle = NULL;
		raise_errno(result, message[0] ? message : NULL);
		Py_DECREF(self);
		return NULL;
	}
	return (PyObject *)self;
}

static PyObject *close_pool(PyObject *object, PyObject *unused)
{
	(void)unused;
	struct pool *self = (struct pool *)object;
	self->is_closed = true;
	pool_close_unused(self);
	Py_RETURN_NONE;
}

static void destroy(PyObject *object)
{
	struct pool *self = (struct pool *)object;
	PyTypeObject *type = Py_TYPE(object);
	vshmem_close(self->handle);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
	Py_DECREF(type);
}

/* (name, uuid, domain, client, bytes) */
static PyObject *identify(PyObject *object, PyObject *unused)
{
	(void)unused;
	vshmem_pool *handle = pool_handle((struct pool *)object);
	if (!handle)
		return NULL;
	char name[64], uuid[16];
	uint32_t domain, client;
	vshmem_whoami(handle, name, &domain, &client);
	vshmem_identify(handle, (uint8_t *)uuid);
	return Py_BuildValue("(sy#IIK)", name, uuid, (Py_ssize_t)sizeof uuid, domain, client,
		(unsigned long long)vshmem_bytes(handle));
}

static PyObject *attach(PyObject *object, PyObject *arguments)
{
	PyTypeObject *type;
	int id;
	Py_ssize_t bytes;
	if (!PyArg_ParseTuple(arguments, "O!in:attach", &PyType_Type, &type, &id, &bytes)
		|| !is_size(bytes, "bytes"))
		return NULL;
	if (!PyType_IsSubtype(type, memory_type)) {
		PyErr_SetString(PyExc_TypeError, "attach() makes objects of Memory and its subclasses");
		return NULL;
	}
	return memory_attach(type, (struct pool *)object, id, bytes);
}

static PyObject *call_semget(PyObject *object, PyObject *arguments)
{
	int key, count, flags;
	if (!PyArg_ParseTuple(arguments, "iii:semget", &key, &count, &flags))
		return NULL;
	vshmem_pool *handle = pool_handle((struct pool *)object);
	return handle ? int_or_raise(vshmem_semget(handle, key, count, flags), NULL) : NULL;
}

static PyObject *call_semval(PyObject *object, PyObject *arguments)
{
	int id, number;
	if (!PyArg_ParseTuple(arguments, "ii:semval", &id, &number))
		return NULL;
	vshmem_pool *handle = pool_handle((struct pool *)object);
	return handle ? int_or_raise(vshmem_semval(handle, id, number), NULL) : NULL;
}

static PyObject *call_semset(PyObject *object, PyObject *arguments)
{
	int id, number, value;
	if (!PyArg_ParseTuple(arguments, "iii:semset", &id, &number, &value))
		return NULL;
	vshmem_pool *handle = pool_handle((struct pool *)object);
	return handle ? none_or_raise(vshmem_semset(handle, id, number, value), NULL) : NULL;
}

static PyObject *call_semrm(PyObject *object, PyObject *arguments)
{
	int id;
	if (!PyArg_ParseTuple(arguments, "i:semrm", &id))
		return NULL;
	vshmem_pool *handle = pool_handle((struct pool *)object);
	return handle ? none_or_raise(vshmem_semrm(handle, id), NULL) : NULL;
}

/* The operations of a list of (number, change, flags); how many, or -1. */
static Py_ssize_t read_operations(PyObject *list, struct sembuf *operations, Py_ssize_t room)
{
	Py_ssize_t count = PyTuple_Size(list);
	if (count > room) {
		PyErr_SetString(PyExc_ValueError, "too many operations");
		return -1;
	}
	for (Py_ssize_t nth = 0; nth < count; nth++) {
		PyObject *one = PyTuple_GetItem(list, nth);
		if (!PyTuple_Check(one)) {
			PyErr_SetString(PyExc_TypeError,
				"semop() takes operations (number, change, flags)");
			return -1;
		}
		struct sembuf *operation = &operations[nth];
		if (!PyArg_ParseTuple(one, "O&hh:semop", read_uint16, &operation->sem_num,
			    &operation->sem_op, &operation->sem_flg))
			return -1;
	}
	return count;
}

/* True: done; False: the time is over. */
static PyObject *call_semop(PyObject *object, PyObject *arguments)
{
	int id;
	PyObject *list, *timeout = Py_None;
	double seconds;
	if (!PyArg_ParseTuple(arguments, "iO!|O:semop", &id, &PyTuple_Type, &list, &timeout)
		|| !seconds_of(timeout, &seconds))
		return NULL;
	struct sembuf operations[16];
	Py_ssize_t count = read_operations(list, operations, 16);
	if (count < 0)
		return NULL;
	int done = operate((struct pool *)object, id, operations, (size_t)count, seconds);
	return done < 0 ? NULL : PyBool_FromLong(done);
}

static PyObject *call_shm_open(PyObject *object, PyObject *arguments)
{
	const char *name;
	int flags, result;
	uint32_t mode;
	uint64_t bytes;
	struct pool *self = (struct pool *)object;
	if (!PyArg_ParseTuple(arguments, "siO&O&:shm_open", &name, &flags, read_uint32, &mode,
		    read_uint64, &bytes))
		return NULL;
	vshmem_pool *handle = pool_enter(self);
	if (!handle)
		return NULL;
	/* Zeroing takes its time. */
	Py_BEGIN_ALLOW_THREADS;
	result = vshmem_shm_open(handle, name, flags, mode, bytes);
	Py_END_ALLOW_THREADS;
	pool_leave(self);
	return int_or_raise(result, NULL);
}

static PyObject *call_shm_close(PyObject *object, PyObject *arguments)
{
	int id;
	if (!PyArg_ParseTuple(arguments, "i:shm_close", &id))
		return NULL;
	vshmem_pool *handle = pool_handle((struct pool *)object);
	return handle ? none_or_raise(vshmem_shm_close(handle, id), NULL) : NULL;
}

/* (bytes, attaches, links, mode, uid, gid) */
static PyObject *call_shm_stat(PyObject *object, PyObject *arguments)
{
	int id;
	if (!PyArg_ParseTuple(arguments, "i:shm_stat", &id))
		return NULL;
	vshmem_pool *handle = pool_handle((struct pool *)object);
	if (!handle)
		return NULL;
	struct vshmem_shm_stat found;
	int result = vshmem_shm_stat(handle, id, &found);
	if (result < 0)
		return raise_errno(result, NULL);
	return Py_BuildValue("(KIIIII)", (unsigned long long)found.bytes, found.attaches,
		found.links, found.mode, found.uid, found.gid);
}

static PyObject *call_shm_unlink(PyObject *object, PyObject *arguments)
{
	const char *name;
	if (!PyArg_ParseTuple(arguments, "s:shm_unlink", &name))
		return NULL;
	vshmem_pool *handle = pool_handle((struct pool *)object);
	return handle ? none_or_raise(vshmem_shm_unlink(handle, name), NULL) : NULL;
}

static PyObject *call_leaving(PyObject *object, PyObject *unused)
{
	(void)unused;
	vshmem_pool *handle = pool_handle((struct pool *)object);
	return handle ? PyBool_FromLong(vshmem_leaving(handle)) : NULL;
}

static PyObject *call_leave_fd(PyObject *object, PyObject *unused)
{
	(void)unused;
	vshmem_pool *handle = pool_handle((struct pool *)object);
	return handle ? int_or_raise(vshmem_leave_fd(handle), NULL) : NULL;
}

static PyObject *call_part(PyObject *object, PyObject *unused)
{
	(void)unused;
	int result;
	struct pool *self = (struct pool *)object;
	vshmem_pool *handle = pool_enter(self);
	if (!handle)
		return NULL;
	/* Copying takes its time, and other threads store meanwhile. */
	Py_BEGIN_ALLOW_THREADS;
	result = vshmem_part(handle);
	Py_END_ALLOW_THREADS;
	pool_leave(self);
	return none_or_raise(result, NULL);
}

static PyMethodDef methods[] = {
	{"close", close_pool, METH_NOARGS, "Leaves with the last close."},
	{"identify", identify, METH_NOARGS, "(name, uuid, domain, client, bytes)"},
	{"attach", attach, METH_VARARGS, "attach(type, id, bytes): memory of that type."},
	{"semget", call_semget, METH_VARARGS, "semget(key, count, flags): a semaphore set's id."},
	{"semval", call_semval, METH_VARARGS, "semval(id, number): a semaphore's value."},
	{"semset", call_semset, METH_VARARGS, "semset(id, number, value)"},
	{"semrm", call_semrm, METH_VARARGS, "semrm(id): removes the set."},
	{"semop", call_semop, METH_VARARGS, "semop(id, ((number, change, flags), ...), timeout=None)"},
	{"shm_open", call_shm_open, METH_VARARGS, "shm_open(name, flags, mode, bytes): an object's id."},
	{"shm_close", call_shm_close, METH_VARARGS, "shm_close(id): one who has it open less."},
	{"shm_stat", call_shm_stat, METH_VARARGS, "(bytes, attaches, links, mode, uid, gid)"},
	{"shm_unlink", call_shm_unlink, METH_VARARGS, "shm_unlink(name)"},
	{"leaving", call_leaving, METH_NOARGS, "Whether this domain leaves the pool, or has left."},
	{"leave_fd", call_leave_fd, METH_NOARGS, "A descriptor that is readable from then on."},
	{"part", call_part, METH_NOARGS, "Makes private what this process has of the pool."},
	{"fork_prepare", fork_prepare, METH_NOARGS, "Before a fork: a place for the child."},
	{"fork_parent", fork_parent, METH_VARARGS, "fork_parent(place, pid), in the parent."},
	{"fork_child", fork_child, METH_VARARGS, "fork_child(place), in the child."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
	{Py_tp_doc, "Pool(name=None): a pool that this process has joined."},
	{Py_tp_new, make},
	{Py_tp_dealloc, destroy},
	{Py_tp_methods, methods},
	{0, NULL},
};

PyType_Spec pool_spec = {
	.name = "vshmem._vshmem.Pool",
	.basicsize = sizeof(struct pool),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
	.slots = slots,
};
