#include "module.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

PyTypeObject *pool_type, *memory_type, *place_type;

PyObject *raise_errno(int result, const char *what)
{
	int number = -result;
	if (number == EINTR && PyErr_CheckSignals() != 0)
		return NULL;
	/* OSError makes one of the number's class: FileNotFoundError ... Until 3.11 an exception
	 * is caught by the class that it was set with. */
	const char *text = what ? what : strerror(number);
	PyObject *error = PyObject_CallFunction(PyExc_OSError, "is", number, text);
	if (error) {
		PyErr_SetObject((PyObject *)Py_TYPE(error), error);
		Py_DECREF(error);
	}
	return NULL;
}

PyObject *int_or_raise(int result, const char *what)
{ return result < 0 ? raise_errno(result, what) : PyLong_FromLong(result); }

PyObject *none_or_raise(int result, const char *what)
{
	if (result < 0)
		return raise_errno(result, what);
	Py_RETURN_NONE;
}

static bool read_unsigned(PyObject *object, unsigned long long most, unsigned long long *number)
{
	PyObject *index = PyNumber_Index(object);
	if (!index)
		return false;
	*number = PyLong_AsUnsignedLongLong(index);
	Py_DECREF(index);
	if (*number == (unsigned long long)-1 && PyErr_Occurred())
		return false;
	if (*number <= most)
		return true;
	PyErr_Format(PyExc_OverflowError, "%llu is greater than %llu", *number, most);
	return false;
}

int read_uint16(PyObject *object, void *number)
{
	unsigned long long read;
	bool is_one = read_unsigned(object, UINT16_MAX, &read);
	if (is_one)
		*(uint16_t *)number = (uint16_t)read;
	return is_one;
}

int read_uint32(PyObject *object, void *number)
{
	unsigned long long read;
	bool is_one = read_unsigned(object, UINT32_MAX, &read);
	if (is_one)
		*(uint32_t *)number = (uint32_t)read;
	return is_one;
}

int read_uint64(PyObject *object, void *number)
{
	unsigned long long read;
	bool is_one = read_unsigned(object, UINT64_MAX, &read);
	if (is_one)
		*(uint64_t *)number = read;
	return is_one;
}

bool is_size(Py_ssize_t size, const char *name)
{
	if (size < 0)
		PyErr_Format(PyExc_ValueError, "%s must not be negative: %zd", name, size);
	return size >= 0;
}

static PyObject *key_of(PyObject *module, PyObject *arguments)
{
	(void)module;
	const char *name;
	if (!PyArg_ParseTuple(arguments, "s:key", &name))
		return NULL;
	return PyLong_FromLong(vshmem_key(name));
}

static PyObject *team_bytes(PyObject *module, PyObject *arguments)
{
	(void)module;
	uint32_t members;
	Py_ssize_t payload;
	if (!PyArg_ParseTuple(arguments, "O&n:team_bytes", read_uint32, &members, &payload)
		|| !is_size(payload, "payload"))
		return NULL;
	return PyLong_FromSize_t(vshmem_team_bytes(members, (size_t)payload));
}

static PyMethodDef functions[] = {
	{"key", key_of, METH_VARARGS, "key(name) -> int\n\nThe System V key of a name."},
	{"team_bytes", team_bytes, METH_VARARGS,
		"team_bytes(members, payload) -> int\n\nBytes of memory that a team needs; 0: none has "
		"so many members."},
	{NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	"vshmem._vshmem",
	"Objects of libvshmem. Use the package vshmem, which is made of them.",
	-1,
	functions,
	NULL,
	NULL,
	NULL,
	NULL,
};

static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec)
{
	PyObject *type = PyType_FromSpec(spec);
	if (!type)
		return NULL;
	const char *dot = strrchr(spec->name, '.');
	Py_INCREF(type);
	if (PyModule_AddObject(module, dot + 1, type) < 0) {
		Py_DECREF(type);
		Py_DECREF(type);
		return NULL;
	}
	return (PyTypeObject *)type;
}

PyMODINIT_FUNC PyInit__vshmem(void)
{
	PyObject *module = PyModule_Create(&definition);
	if (!module)
		return NULL;
	if (PyModule_AddStringConstant(module, "__version__", VSHMEM_VERSION) < 0) {
		Py_DECREF(module);
		return NULL;
	}
	pool_type = add_type(module, &pool_spec);
	memory_type = add_type(module, &memory_spec);
	place_type = add_type(module, &place_spec);
	if (!pool_type || !memory_type || !place_type || !add_type(module, &semaphore_spec)
		|| !add_type(module, &team_spec)) {
		Py_DECREF(module);
		return NULL;
	}
	return module;
}
