"""Arrays of numpy by name: the memory, its shape and its type under one name."""
from __future__ import annotations

import errno
import json
import struct
from typing import Any, Optional, Union

from ._memory import SharedMemory, await_maker, of_name, open_or_make
from ._pool import Pool, pool_of

try:
    import numpy
except ImportError as error:  # pragma: no cover
    raise ImportError("vshmem.array needs numpy: python3 -m pip install numpy") from error

__all__ = ["SharedArray", "array"]

# Behind the data, which so begins on a page: what a C program opens is the array itself.
TRAILER = 4096
MAGIC = b"vshmem array 1\0\0"
HEAD = struct.Struct("<16sQI")  # magic, bytes of data, bytes of the description


class SharedArray(numpy.ndarray):
    """An array that lies in a pool. It is pickled as its name and place in it, not as its contents."""

    _shm: Optional[SharedMemory] = None

    def __array_finalize__(self, other: Any) -> None:
        # Views lie in the same memory, and keep it.
        self._shm = getattr(other, "_shm", None)

    def __array_wrap__(self, result: Any, context: Any = None, return_scalar: bool = False) -> Any:
        # What is computed of it is an array of its own.
        plain = result.view(numpy.ndarray) if isinstance(result, SharedArray) else result
        return plain[()] if return_scalar or plain.ndim == 0 else plain

    @property
    def shm(self) -> SharedMemory:
        """The memory that it lies in."""
        if self._shm is None:
            raise ValueError("this array lies in no pool")
        return self._shm

    @property
    def name(self) -> str:
        """By which others open it."""
        return self.shm.name

    def unlink(self) -> None:
        """Removes the name. The memory goes with its last user."""
        self.shm.unlink()

    def __reduce__(self) -> Any:
        offset = self._offset()
        if offset is None or self.dtype.hasobject:
            return numpy.asarray(self).__reduce__()
        place = (self.shm.name, offset, self.shape, self.strides, self.dtype)
        return _open_view, (*place, self.shm.pool)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def _offset(self) -> Optional[int]:
        """Where it begins in its memory, if all of it lies there."""
        if self._shm is None or self._shm._memory is None:
            return None
        start, end = numpy.lib.array_utils.byte_bounds(self) if _HAS_UTILS else _bounds(self)
        base, size = self._shm._memory.address, self._shm.size
        first = int(self.__array_interface__["data"][0])
        return first - base if base <= start and end <= base + size else None


_HAS_UTILS = hasattr(getattr(numpy.lib, "array_utils", None), "byte_bounds")


def _bounds(one: Any) -> tuple[int, int]:
    return numpy.byte_bounds(one)  # of numpy 1


def _open_view(
    name: str, offset: int, shape: Any, strides: Any, dtype: Any, pool: Pool
) -> SharedArray:
    shm = SharedMemory(name, pool=pool)
    return _over(shm, shape, dtype, offset, strides)


def _over(shm: SharedMemory, shape: Any, dtype: Any, offset: int = 0, strides: Any = None) -> Any:
    # Not of `shm.buf`: the array keeps the memory, and the handle can be closed.
    made = numpy.ndarray.__new__(SharedArray, shape, dtype, shm._memory, offset, strides)
    made._shm = shm
    return made


def array(
    name: str,
    shape: Any = None,
    dtype: Any = float,
    *,
    pool: Union[Pool, str, None] = None,
    create: Optional[bool] = None,
    mode: int = 0o600,
) -> SharedArray:
    """The array of a name, in a pool.

    ``array(name)`` opens one. With a shape it is made, of zeros, if there is none; one that exists
    must have that shape and type (ValueError). ``create=True`` makes it or fails with
    FileExistsError, ``create=False`` never makes it.

    It is a ``numpy.ndarray``: without a copy also for DLPack (``torch.from_dlpack``), for pyarrow
    (``pyarrow.py_buffer``) and for all that takes buffers. The memory stays attached as long as the
    array or a view of it lives, and in the pool until ``unlink``.
    """
    if create and shape is None:
        raise ValueError("a new array needs a shape")
    place = pool_of(pool)
    return open_or_make(
        False if shape is None else create,
        lambda: _open(place, name, shape, dtype),
        lambda: _make(place, name, shape, dtype, mode),
    )


def _make(pool: Pool, name: str, shape: Any, dtype: Any, mode: int) -> SharedArray:
    of = numpy.dtype(dtype)
    if of.hasobject:
        raise ValueError(f"{of} holds Python objects, which only this process can reach")
    shape = (shape,) if isinstance(shape, int) else tuple(int(extent) for extent in shape)
    count = 1
    for extent in shape:
        if extent < 0:
            raise ValueError("negative dimensions are not allowed")
        count *= extent
    data = -(-count * of.itemsize // TRAILER) * TRAILER
    text = json.dumps({"shape": shape, "dtype": numpy.lib.format.dtype_to_descr(of)}).encode()
    if len(text) > TRAILER - HEAD.size:
        raise ValueError("the type has too many fields")
    shm = SharedMemory(name, True, data + TRAILER, pool=pool, mode=mode)
    view = shm.buf[data:]
    view[HEAD.size : HEAD.size + len(text)] = text
    # Who finds the magic finds the rest.
    view[16 : HEAD.size] = HEAD.pack(MAGIC, data, len(text))[16:]
    view[:16] = MAGIC
    view.release()
    return _over(shm, shape, of)


def _open(pool: Pool, name: str, shape: Any, dtype: Any) -> SharedArray:
    shm, kept, of = await_maker(name, name, lambda: _describe(pool, name))
    if shape is not None:
        wanted = (shape,) if isinstance(shape, int) else tuple(shape)
        if wanted != kept or numpy.dtype(dtype) != of:
            raise ValueError(
                f"the array {name} has shape {kept} and type {of}, not {wanted} and "
                f"{numpy.dtype(dtype)}"
            )
    return _over(shm, kept, of)


def _describe(pool: Pool, name: str) -> Optional[tuple[SharedMemory, tuple[int, ...], Any]]:
    """The memory, the shape and the type. None: its maker has not finished it."""
    try:
        shm = SharedMemory(name, pool=pool)
    except ValueError:  # it has no size yet
        return None
    size = shm.size
    tail = bytes(shm.buf[max(0, size - TRAILER) :])
    if tail[:16] == MAGIC and len(tail) == TRAILER:
        _, data, length = HEAD.unpack_from(tail)
        return (shm, *_parse(name, tail[HEAD.size : HEAD.size + length], data, size - TRAILER))
    if tail[:16] != bytes(16):
        raise ValueError(f"the object {name} holds no array of vshmem.array")
    return None


def _parse(name: str, text: bytes, data: int, room: int) -> tuple[tuple[int, ...], Any]:
    """What a description says, if it makes sense: anybody may have written it."""
    try:
        said = json.loads(text)
        descr = said["dtype"]
        shape = tuple(int(extent) for extent in said["shape"])
        of = numpy.lib.format.descr_to_dtype(_tuples(descr))
        count = 1
        for extent in shape:
            count *= extent
        fits = min(shape, default=0) >= 0 and count * of.itemsize <= data <= room
    except (ValueError, KeyError, TypeError, AttributeError):
        fits = False
    if not fits or of.hasobject:
        raise of_name(OSError(errno.EIO, ""), name)
    return shape, of


def _tuples(descr: Any) -> Any:
    """A type's description as numpy wants it; JSON has made lists of its tuples."""
    if isinstance(descr, str):
        return descr
    fields = []
    for field in descr:
        parts = [_tuples(field[1]) if not isinstance(field[1], str) else field[1]]
        title = tuple(field[0]) if isinstance(field[0], list) else field[0]
        more = [tuple(field[2])] if len(field) > 2 else []
        fields.append((title, *parts, *more))
    return fields

