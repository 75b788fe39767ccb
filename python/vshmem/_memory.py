"""Shared memory by name, with the interface of multiprocessing.shared_memory."""
from __future__ import annotations

import errno
import os
import secrets
import time
import types
from multiprocessing import shared_memory as _standard
from typing import Any, Callable, Iterable, Optional, TypeVar, Union

from ._arguments import check_name, whole
from ._pool import Pool, pool_of

__all__ = ["SharedMemory", "ShareableList"]


# How long another process's half-made object is waited for.
PATIENCE = 10.0
T = TypeVar("T")


class Opened:
    """A descriptor of a named object: given back when it is dropped. A new one has ``size`` zeros
    before others find it."""

    __slots__ = ("pool", "id", "_owner", "__weakref__")

    def __init__(
        self, pool: Pool, name: str, flags: int, mode: int = 0o600, size: int = 0
    ) -> None:
        self._owner = 0
        self.pool = pool
        self.id: int = pool._core.shm_open(name, flags, mode, size)
        self._owner = 1

    def close(self) -> None:
        """Gives it back; a second time nothing happens."""
        if self._owner:
            self._owner = 0
            self.pool._core.shm_close(self.id)

    def __del__(self) -> None:
        try:
            self.close()
        except (OSError, ValueError, AttributeError):
            pass  # a child that is no client, or the end of the interpreter


def fresh_name(prefix: str) -> str:
    """A name that nobody else has."""
    return f"{prefix}{secrets.token_hex(8)}"


def open_or_make(create: Optional[bool], open: Callable[[], T], make: Callable[[], T]) -> T:
    """What ``open`` finds, or ``make`` makes if there is none. ``create`` forbids one of them."""
    while True:
        if create is not True:
            try:
                return open()
            except FileNotFoundError:
                if create is False:
                    raise
        try:
            return make()
        except FileExistsError:
            if create:
                raise


def await_maker(name: str, object_name: str, look: Callable[[], Optional[T]]) -> T:
    """What ``look`` finds as soon as the process that makes the object has finished it."""
    end = time.monotonic() + PATIENCE
    while True:
        found = look()
        if found is not None:
            return found
        if time.monotonic() > end:
            raise TimeoutError(
                errno.ETIMEDOUT,
                "its maker has not finished it, or it is something else. If the maker has ended: "
                f"vshmem.Pool().unlink({object_name!r})",
                name,
            )
        time.sleep(0.001)


def of_name(error: OSError, name: str) -> OSError:
    """The same error, with the name as its file."""
    return type(error)(error.errno, os.strerror(error.errno or 0), name)


class SharedMemory:
    """A block of memory in a pool, by name: as ``multiprocessing.shared_memory.SharedMemory``.

    ``create=True`` makes it with ``size`` bytes of zeros; without a name it gets one that nobody else
    has. ``create=False`` opens what another process, container or virtual machine has made.

    The memory stays until its name is unlinked and the last that has opened it has closed it or has
    ended, however. No process is in charge of it: ``track`` is accepted and means nothing.
    """

    _name: Optional[str] = None
    _opened: Optional[Opened] = None
    _memory: Any = None
    _buf: Optional[memoryview] = None

    def __init__(
        self,
        name: Optional[str] = None,
        create: bool = False,
        size: int = 0,
        *,
        track: bool = True,
        pool: Union[Pool, str, None] = None,
        mode: int = 0o600,
    ) -> None:
        check_name(name)
        size = whole("size", size)
        if size < 0:
            raise ValueError("'size' must be a positive integer")
        if create and size == 0:
            raise ValueError("'size' must be a positive number different from zero")
        if name is None and not create:
            raise ValueError("'name' can only be None if create=True")
        self._pool = pool_of(pool)
        self._create(name, size, mode) if create else self._open(name or "")

    def _create(self, name: Optional[str], size: int, mode: int) -> None:
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
        self._open_descriptor(name or fresh_name("psm_"), flags, mode, size)
        self._map()

    def _open(self, name: str) -> None:
        self._open_descriptor(name, os.O_RDWR)
        self._map()

    def _open_descriptor(self, name: str, flags: int, mode: int = 0, size: int = 0) -> None:
        # With or without the slash that shm_open(3) wants.
        self._name = name[1:] if name.startswith("/") else name
        try:
            self._opened = Opened(self._pool, self._name, flags, mode, size)
        except OSError as error:
            raise of_name(error, self._name) from None

    def _map(self) -> None:
        assert self._opened is not None
        self._size: int = self._pool._core.shm_stat(self._opened.id)[0]
        if self._size == 0:
            # As mmap(2) has it, of an object that its maker has given no size yet.
            raise ValueError("cannot mmap an empty file")
        # Buffers of this handle are counted apart from those of others.
        self._memory = self._pool._attach(self._opened.id, self._size).share()
        self._buf = memoryview(self._memory)

    def __reduce__(self) -> Any:
        return _open_memory, (type(self), self.name, self._pool)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, size={self.size})"

    def __enter__(self) -> "SharedMemory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def buf(self) -> memoryview:
        """The memory's bytes."""
        return self._buf  # type: ignore[return-value]

    @property
    def name(self) -> str:
        """By which others open it."""
        return self._name or ""

    @property
    def size(self) -> int:
        """Bytes."""
        return self._size

    @property
    def pool(self) -> Pool:
        """The pool that it lies in."""
        return self._pool

    def close(self) -> None:
        """Gives up this handle. BufferError while arrays or views of ``buf`` exist."""
        if self._buf is not None:
            self._buf.release()
            self._buf = None
        if self._memory is not None:
            # Arrays of numpy hold no buffer: they keep the memory, and it stays attached.
            self._memory.release()
            self._memory = None
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def unlink(self) -> None:
        """Removes the name. The memory goes with its last user."""
        if self._name:
            try:
                self._pool._core.shm_unlink(self._name)
            except OSError as error:
                raise of_name(error, self._name) from None


def _open_memory(kind: type, name: str, pool: Pool) -> SharedMemory:
    return kind(name, pool=pool)


_make_list = _standard.ShareableList.__init__


class ShareableList(_standard.ShareableList):
    """``multiprocessing.shared_memory.ShareableList`` in a pool: a list of fixed length of numbers,
    texts, bytes and None."""

    def __init__(
        self,
        sequence: Optional[Iterable[Any]] = None,
        *,
        name: Optional[str] = None,
        pool: Union[Pool, str, None] = None,
    ) -> None:
        place = pool_of(pool)

        def memory(name: Optional[str] = None, create: bool = False, size: int = 0) -> SharedMemory:
            return SharedMemory(name, create, size, pool=place)

        # The standard library's own code, which makes its memory here.
        names = {**_make_list.__globals__, "SharedMemory": memory}
        make = types.FunctionType(_make_list.__code__, names, closure=_make_list.__closure__)
        make.__kwdefaults__ = _make_list.__kwdefaults__
        make.__defaults__ = _make_list.__defaults__
        make(self, sequence, name=name)

    def __reduce__(self) -> Any:
        return _open_list, (type(self), self.shm.name, self.shm.pool)


def _open_list(kind: type, name: str, pool: Pool) -> ShareableList:
    return kind(name=name, pool=pool)


def is_missing(error: OSError) -> bool:
    """Whether there is no such name."""
    return error.errno == errno.ENOENT
