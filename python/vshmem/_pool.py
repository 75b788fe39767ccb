"""A pool that this process has joined, and what happens to it in a fork."""
from __future__ import annotations

import os
import select
import struct
import threading
import weakref
from typing import Any, Optional, Union

from . import _vshmem

__all__ = ["Pool", "default_pool", "set_default_pool"]

# How long a parent waits for its child's first steps.
CHILD_MILLISECONDS = 10_000


class _Attached(_vshmem.Memory):
    """Memory that all handles of this process share, and buffers keep."""

    __slots__ = ()


class Pool:
    """A pool that this process has joined.

    ``Pool()`` is the pool that ``VSHMEM_POOL`` names, or that this guest was given; ``Pool(name)`` one
    of that name, or that file or device. Two of the same pool are the same client.

    A pool is pickled as its name: the process that unpickles it joins the pool of that name, and gets
    an error if that is another one.
    """

    def __init__(self, name: Optional[str] = None) -> None:
        self._core = _vshmem.Pool(name)
        self._spelling = name
        self._uuid: bytes
        self._identify()
        self._attached: weakref.WeakValueDictionary[int, _Attached] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()
        _pools.add(self)

    def _identify(self) -> None:
        self._name, self._uuid, self._domain, self._client, self._bytes = self._core.identify()
        # This process, as the page of a lock names who has it; 0 is nobody.
        self._holder = (self._domain + 1) << 32 | self._client

    @property
    def name(self) -> str:
        """The pool's name."""
        return self._name

    @property
    def uuid(self) -> bytes:
        """Sixteen bytes that no other pool has."""
        return self._uuid

    @property
    def domain(self) -> int:
        """The number of this machine, host or container in the pool."""
        return self._domain

    @property
    def client(self) -> int:
        """The number of this process in the pool."""
        return self._client

    @property
    def size(self) -> int:
        """Bytes of the whole pool."""
        return self._bytes

    def unlink(self, name: str) -> None:
        """Removes the name of an object of shared memory, whichever process has made it.

        Its memory is freed when the last process has closed it. What a process that was killed has
        left half made goes by this too. For locks, queues and teams use their own ``unlink``.
        """
        self._core.shm_unlink(name)

    def _attach(self, id: int, size: int) -> _Attached:
        """Memory by its id. A process attaches it once: all that use it have the same object."""
        with self._lock:
            memory = self._attached.get(id)
            if memory is None:
                memory = self._core.attach(_Attached, id, size)
                self._attached[id] = memory
            return memory

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pool) and other._uuid == self._uuid

    def __hash__(self) -> int:
        return hash(self._uuid)

    def __repr__(self) -> str:
        return f"<vshmem.Pool {self._name!r}, domain {self._domain}, client {self._client}>"

    def __reduce__(self) -> Any:
        return _reopen, (self._spelling or self._name, self._uuid)


# All that are open. In a child each becomes a client of its own.
_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
_default: Optional[Pool] = None
_opened: weakref.WeakValueDictionary[bytes, Pool] = weakref.WeakValueDictionary()


def default_pool() -> Pool:
    """The pool of objects that are made without naming one; opened when it is first needed."""
    global _default
    if _default is None:
        _default = Pool()
    return _default


def set_default_pool(pool: Union[Pool, str, None]) -> None:
    """Has objects that are made without naming a pool lie in this one. None: as at the start."""
    global _default
    _default = Pool(pool) if isinstance(pool, str) else pool


def pool_of(pool: Union[Pool, str, None]) -> Pool:
    """The pool that a caller means."""
    if pool is None:
        return default_pool()
    return pool if isinstance(pool, Pool) else Pool(pool)


def _reopen(name: str, uuid: bytes) -> Pool:
    for pool in [_default, *_pools]:
        if pool is not None and pool._uuid == uuid:
            return pool
    pool = _opened.get(uuid) or Pool(name)
    if pool._uuid != uuid:
        raise FileNotFoundError(
            f"the pool {name} of this machine is not the one that was meant: its id is "
            f"{pool._uuid.hex()}, not {uuid.hex()}. Give this machine the same pool"
        )
    _opened[uuid] = pool
    return pool


# What is under way between the two ends of a fork; Python forks in one thread at a time.
_under_way: list[tuple[Pool, int]] = []
_pipe: Optional[tuple[int, int]] = None


def _before_fork() -> None:
    """Keeps a place in each pool for the child, with all that is attached here."""
    global _pipe
    _under_way.clear()
    _pipe = None
    pools = list(_pools)
    if not pools:
        return
    try:
        _pipe = os.pipe()
    except OSError:
        # Without it the parent could not say which process has a place: the child gets errors.
        return
    for pool in pools:
        pool._lock.acquire()
        try:
            _under_way.append((pool, pool._core.fork_prepare()))
        except (OSError, ValueError):
            # The child has no place: it gets errors, and may open the pool anew.
            pool._lock.release()


def _after_in_parent() -> None:
    """Learns the child's pid, or that there is none."""
    global _pipe
    if _pipe is None:
        return
    reading, writing = _pipe
    _pipe = None
    os.close(writing)
    waits = select.poll()
    waits.register(reading, select.POLLIN)
    said = os.read(reading, 4) if waits.poll(CHILD_MILLISECONDS) else struct.pack("i", 0)
    os.close(reading)
    pid = struct.unpack("i", said)[0] if len(said) == 4 else -1
    for pool, place in _under_way:
        pool._core.fork_parent(place, pid)
        pool._lock.release()
    _under_way.clear()


def _after_in_child() -> None:
    """Becomes a client of its own."""
    global _pipe
    if _pipe is None:
        return
    reading, writing = _pipe
    _pipe = None
    os.write(writing, struct.pack("i", os.getpid()))
    os.close(reading)
    os.close(writing)
    for pool, place in _under_way:
        pool._lock.release()
        try:
            pool._core.fork_child(place)
            pool._identify()
        except OSError:
            pass  # calls say that it is no client
    _under_way.clear()


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child
)
