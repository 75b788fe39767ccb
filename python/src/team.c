/* A member of a team: barrier, broadcast and reductions on buffers. */
#include "module.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

struct team {
	PyObject_HEAD;
	vshmem_team *handle;
	/* Keeps the memory attached. */
	struct buffer memory;
	/* A thread is in a call, without the interpreter's lock. */
	bool is_busy;
	/* The process that is the member. */
	pid_t member;
};

/* Asked in a wait, without the interpreter's lock. */
static int has_signal(void *unused)
{
	(void)unused;
	PyGILState_STATE state = PyGILState_Ensure();
	int raised = PyErr_CheckSignals() != 0;
	PyGILState_Release(state);
	return raised;
}

static PyObject *make(PyTypeObject *type, PyObject *arguments, PyObject *words)
{
	static char *names[] = {"memory", "offset", "members", "payload", "rank", NULL};
	PyObject *memory;
	Py_ssize_t offset, payload;
	uint32_t members, rank;
	if (!PyArg_ParseTupleAndKeywords(arguments, words, "OnO&nO&:Team", names, &memory, &offset,
		    read_uint32, &members, &payload, read_uint32, &rank)
		|| !is_size(offset, "offset") || !is_size(payload, "payload"))
		return NULL;
	allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	struct team *self = (struct team *)allocate(type, 0);
	if (!self)
		return NULL;
	int result = -EINVAL;
	if (PyObject_GetBuffer(memory, &self->memory, BUFFER_WRITABLE) != 0) {
		self->memory.object = NULL;
		Py_DECREF(self);
		return NULL;
	}
	size_t needed = vshmem_team_bytes(members, (size_t)payload);
	if (needed > 0 && offset <= self->memory.bytes
		&& needed <= (size_t)(self->memory.bytes - offset)) {
		char *start = (char *)self->memory.start + offset;
		result = vshmem_team_join(start, members, (size_t)payload, rank, &self->handle);
	}
	if (result < 0) {
		self->handle = NULL;
		Py_DECREF(self);
		return raise_errno(result, result == -EBUSY ? "that rank is taken" : NULL);
	}
	self->member = getpid();
	vshmem_team_stop(self->handle, has_signal, NULL);
	return (PyObject *)self;
}

static void give_up(struct team *self)
{
	vshmem_team_leave(self->handle);
	self->handle = NULL;
	if (self->memory.object)
		PyBuffer_Release(&self->memory);
}

static void destroy(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);
	give_up((struct team *)object);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
	Py_DECREF(type);
}

static vshmem_team *handle_of(PyObject *object)
{
	struct team *self = (struct team *)object;
	if (!self->handle)
		PyErr_SetString(PyExc_ValueError, "the team was left");
	else if (self->is_busy)
		PyErr_SetString(PyExc_RuntimeError, "another thread is in a call of this member");
	else
		return self->handle;
	return NULL;
}

static PyObject *leave(PyObject *object, PyObject *unused)
{
	(void)unused;
	if (((struct team *)object)->handle && !handle_of(object))
		return NULL;
	give_up((struct team *)object);
	Py_RETURN_NONE;
}

/* In a child of the member's process: forgets the handle, which is its parent's, as is the thread
 * that may have been in a call. */
static PyObject *forget(PyObject *object, PyObject *unused)
{
	(void)unused;
	struct team *self = (struct team *)object;
	if (self->handle && self->member == getpid()) {
		PyErr_SetString(PyExc_ValueError, "this process is the member");
		return NULL;
	}
	self->handle = NULL;
	self->is_busy = false;
	Py_RETURN_NONE;
}

static PyObject *answer(PyObject *object, int result)
{
	struct team *self = (struct team *)object;
	self->is_busy = false;
	if (PyErr_Occurred())
		return NULL;
	if (PyErr_CheckSignals() != 0)
		return NULL;
	if (result >= 0)
		Py_RETURN_NONE;
	char message[512] = "";
	int about = vshmem_team_failure(self->handle, message, sizeof message);
	return raise_errno(result, about >= 0 && message[0] ? message : NULL);
}

static PyObject *patience(PyObject *object, PyObject *arguments)
{
	PyObject *timeout;
	double seconds;
	if (!PyArg_ParseTuple(arguments, "O:patience", &timeout) || !seconds_of(timeout, &seconds))
		return NULL;
	vshmem_team *handle = handle_of(object);
	if (!handle)
		return NULL;
	bool forever = seconds < 0 || seconds * 1000 >= UINT32_MAX;
	vshmem_team_patience(handle, forever ? UINT32_MAX : (uint32_t)(seconds * 1000));
	Py_RETURN_NONE;
}

static PyObject *barrier(PyObject *object, PyObject *unused)
{
	(void)unused;
	vshmem_team *handle = handle_of(object);
	if (!handle)
		return NULL;
	int result;
	((struct team *)object)->is_busy = true;
	Py_BEGIN_ALLOW_THREADS;
	result = vshmem_team_barrier(handle);
	Py_END_ALLOW_THREADS;
	return answer(object, result);
}

static PyObject *broadcast(PyObject *object, PyObject *arguments)
{
	uint32_t root;
	PyObject *buffer;
	struct buffer data;
	if (!PyArg_ParseTuple(arguments, "O&O:broadcast", read_uint32, &root, &buffer)
		|| PyObject_GetBuffer(buffer, &data, BUFFER_WRITABLE) != 0)
		return NULL;
	vshmem_team *handle = handle_of(object);
	if (!handle) {
		PyBuffer_Release(&data);
		return NULL;
	}
	int result;
	((struct team *)object)->is_busy = true;
	Py_BEGIN_ALLOW_THREADS;
	result = vshmem_team_broadcast(handle, root, data.start, (size_t)data.bytes);
	Py_END_ALLOW_THREADS;
	PyBuffer_Release(&data);
	return answer(object, result);
}

/* Whether both hold so many numbers of that kind; without, an exception. */
static bool hold(const struct buffer *mine, const struct buffer *all, Py_ssize_t count, int number)
{
	static const Py_ssize_t number_bytes[] = {0, 4, 8, 8, 4, 8};
	if (number < VSHMEM_INT32 || number > VSHMEM_DOUBLE) {
		PyErr_Format(PyExc_ValueError, "there is no number of kind %d", number);
		return false;
	}
	Py_ssize_t shorter = mine->bytes < all->bytes ? mine->bytes : all->bytes;
	if (!is_size(count, "count"))
		return false;
	if (count > shorter / number_bytes[number]) {
		PyErr_Format(PyExc_ValueError, "the buffers do not hold %zd numbers", count);
		return false;
	}
	return true;
}

/* reduce(root, mine, result, count, number, operation); root -1: allreduce. */
static PyObject *reduce(PyObject *object, PyObject *arguments)
{
	int root, number, operation;
	Py_ssize_t count;
	PyObject *from, *to;
	struct buffer mine, all;
	if (!PyArg_ParseTuple(arguments, "iOOnii:reduce", &root, &from, &to, &count, &number,
		    &operation))
		return NULL;
	if (root < -1) {
		PyErr_Format(PyExc_ValueError, "there is no member %d", root);
		return NULL;
	}
	if (PyObject_GetBuffer(from, &mine, BUFFER_SIMPLE) != 0)
		return NULL;
	if (PyObject_GetBuffer(to, &all, BUFFER_WRITABLE) != 0) {
		PyBuffer_Release(&mine);
		return NULL;
	}
	int result = 0;
	size_t numbers = (size_t)count;
	vshmem_team *handle = hold(&mine, &all, count, number) ? handle_of(object) : NULL;
	if (handle) {
		((struct team *)object)->is_busy = true;
		Py_BEGIN_ALLOW_THREADS;
		result = root < 0 ? vshmem_team_allreduce(handle, mine.start, all.start, numbers,
					    number, operation)
				  : vshmem_team_reduce(handle, (uint32_t)root, mine.start,
					    all.start, numbers, number, operation);
		Py_END_ALLOW_THREADS;
	}
	PyBuffer_Release(&all);
	PyBuffer_Release(&mine);
	return handle ? answer(object, result) : NULL;
}

static PyMethodDef methods[] = {
	{"leave", leave, METH_NOARGS, "Leaves the team."},
	{"forget", forget, METH_NOARGS, "In a child of the member's process."},
	{"patience", patience, METH_VARARGS, "patience(seconds): how long a member is waited for."},
	{"barrier", barrier, METH_NOARGS, "Waits until all have come."},
	{"broadcast", broadcast, METH_VARARGS, "broadcast(root, buffer)"},
	{"reduce", reduce, METH_VARARGS,
		"reduce(root, mine, result, count, number, operation); root -1: for all"},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
	{Py_tp_doc, "Team(memory, offset, members, payload, rank): a member."},
	{Py_tp_new, make},
	{Py_tp_dealloc, destroy},
	{Py_tp_methods, methods},
	{0, NULL},
};

PyType_Spec team_spec = {
	.name = "vshmem._vshmem.Team",
	.basicsize = sizeof(struct team),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
	.slots = slots,
};
