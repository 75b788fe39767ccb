"""A pool that this process has joined, and what happens to it in a fork."""
from __future__ import annotations

import os
import select
import struct
import threading
import weakref
from typing import Any, Callable, Optional, Union

from . import _vshmem

__all__ = ["Pool", "default_pool", "set_default_pool"]

# How long a parent waits for its child's first steps.
CHILD_MILLISECONDS = 10_000


class _Attached(_vshmem.Memory):
    """Memory that all handles of this process share, and buffers keep."""

    __slots__ = ()


class _Membership:
    """What all handles of a pool share in this process, which is one client of it."""

    def __init__(self, core: _vshmem.Pool) -> None:
        self.core = core
        self.attached: weakref.WeakValueDictionary[int, _Attached] = weakref.WeakValueDictionary()
        self.lock = threading.Lock()
        self.identify()

    def identify(self) -> None:
        """Asks the pool who this process is."""
        self.name, self.uuid, self.domain, self.client, self.bytes = self.core.identify()
        # This process, as the page of a lock names who has it; 0 is nobody.
        self.holder = (self.domain + 1) << 32 | self.client
        self.pid = os.getpid()

    def attach(self, id: int, size: int) -> _Attached:
        """Memory by its id. A process attaches it once: all that use it have the same object."""
        with self.lock:
            memory = self.attached.get(id)
            if memory is None:
                memory = self.core.attach(_Attached, id, size)
                self.attached[id] = memory
            return memory


def _known(uuid: bytes) -> Optional[_Membership]:
    """The membership that this process has in a pool already."""
    # A child that got no place of its own may open the pool anew.
    own = (one for one in _memberships if one.uuid == uuid and one.pid == os.getpid())
    return next(own, None)


def _join(name: Optional[str]) -> _Membership:
    new = _Membership(_vshmem.Pool(name))
    with _registering:
        known = _known(new.uuid)
        if known is None:
            _memberships.add(new)
        return known or new


class Pool:
    """A pool that this process has joined.

    ``Pool()`` is the pool that ``VSHMEM_POOL`` names, or that this guest was given; ``Pool(name)`` one
    of that name, or that file or device. Two of the same pool are the same client.

    A pool is pickled as its name: the process that unpickles it joins the pool of that name, and gets
    an error if that is another one.
    """

    def __init__(self, name: Optional[str] = None) -> None:
        self._use(_join(name), name)

    def _use(self, membership: _Membership, spelling: Optional[str]) -> None:
        self._membership = membership
        self._core = membership.core
        self._attach = membership.attach
        self._spelling = spelling

    @property
    def name(self) -> str:
        """The pool's name."""
        return self._membership.name

    @property
    def uuid(self) -> bytes:
        """Sixteen bytes that no other pool has."""
        return self._membership.uuid

    @property
    def domain(self) -> int:
        """The number of this machine, host or container in the pool."""
        return self._membership.domain

    @property
    def client(self) -> int:
        """The number of this process in the pool."""
        return self._membership.client

    @property
    def size(self) -> int:
        """Bytes of the whole pool."""
        return self._membership.bytes

    @property
    def _holder(self) -> int:
        return self._membership.holder

    def _is_attached(self, id: int) -> bool:
        return id in self._membership.attached

    def unlink(self, name: str) -> None:
        """Removes the name of an object of shared memory, whichever process has made it.

        Its memory is freed when the last process has closed it. What a process that was killed has
        left half made goes by this too. For locks, queues and teams use their own ``unlink``.
        """
        self._core.shm_unlink(name)

    @property
    def leaving(self) -> bool:
        """Whether this machine leaves the pool, or has left it (``vshmem pool leave``)."""
        return self._core.leaving()

    def leave_fd(self) -> int:
        """A descriptor that becomes readable when this machine begins to leave the pool.

        From this call on a leave waits for ``part()``, until its time limit. The descriptor is the
        pool's: do not close it.
        """
        return self._core.leave_fd()

    def on_leave(self, call: Callable[[], object]) -> None:
        """Has a thread call that, once, when this machine begins to leave the pool."""
        # The pool's own may be closed with it.
        begun = os.dup(self.leave_fd())

        def wait() -> None:
            select.select([begun], [], [])
            os.close(begun)
            call()

        threading.Thread(target=wait, name="vshmem-leave", daemon=True).start()

    def part(self) -> None:
        """Makes private to this process, in place, what it has of the pool.

        Arrays and buffers keep their contents. Locks, queues and all other calls for the pool raise
        ``OSError`` (EIDRM) from then on.
        """
        self._core.part()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pool) and other.uuid == self.uuid

    def __hash__(self) -> int:
        return hash(self.uuid)

    def __repr__(self) -> str:
        return f"<vshmem.Pool {self.name!r}, domain {self.domain}, client {self.client}>"

    def __reduce__(self) -> Any:
        return _reopen, (self._spelling or self.name, self.uuid)


# Of all pools that are open. In a child each becomes a client of its own.
_memberships: weakref.WeakSet[_Membership] = weakref.WeakSet()
_registering = threading.Lock()
_default: Optional[Pool] = None


def default_pool() -> Pool:
    """The pool of objects that are made without naming one; opened when it is first needed."""
    global _default
    if _default is None:
        _default = Pool()
    return _default


def set_default_pool(pool: Union[Pool, str, None]) -> None:
    """Has objects that are made without naming a pool lie in this one. None: as at the start."""
    global _default
    _default = pool if pool is None or isinstance(pool, Pool) else Pool(pool)


def pool_of(pool: Union[Pool, str, None]) -> Pool:
    """The pool that a caller means."""
    if pool is None:
        return default_pool()
    return pool if isinstance(pool, Pool) else Pool(pool)


def _reopen(name: str, uuid: bytes) -> Pool:
    if _default is not None and _default.uuid == uuid:
        return _default
    with _registering:
        known = _known(uuid)
    if known is not None:
        pool = Pool.__new__(Pool)
        pool._use(known, name)
        return pool
    pool = Pool(name)
    if pool.uuid != uuid:
        raise FileNotFoundError(
            f"the pool {name} of this machine is not the one that was meant: its id is "
            f"{pool.uuid.hex()}, not {uuid.hex()}. Give this machine the same pool"
        )
    return pool


# What is under way between the two ends of a fork; Python forks in one thread at a time.
_under_way: list[tuple[_Membership, _vshmem.Place]] = []
_pipe: Optional[tuple[int, int]] = None


def _before_fork() -> None:
    """Keeps a place in each pool for the child, with all that is attached here."""
    global _pipe
    _registering.acquire()
    _under_way.clear()
    _pipe = None
    memberships = list(_memberships)
    if not memberships:
        return
    try:
        _pipe = os.pipe()
    except OSError:
        # Without it the parent could not say which process has a place: the child gets errors.
        return
    for membership in memberships:
        membership.lock.acquire()
        try:
            _under_way.append((membership, membership.core.fork_prepare()))
        except (OSError, ValueError):
            # The child has no place: it gets errors, and may open the pool anew.
            membership.lock.release()


def _after_in_parent() -> None:
    """Learns the child's pid, or that there is none."""
    global _pipe
    _registering.release()
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
    for membership, place in _under_way:
        membership.core.fork_parent(place, pid)
        membership.lock.release()
    _under_way.clear()


def _after_in_child() -> None:
    """Becomes a client of its own."""
    global _pipe
    _registering.release()
    if _pipe is None:
        return
    reading, writing = _pipe
    _pipe = None
    os.write(writing, struct.pack("i", os.getpid()))
    os.close(reading)
    os.close(writing)
    for membership, place in _under_way:
        membership.lock.release()
        try:
            membership.core.fork_child(place)
            membership.identify()
        except OSError:
            pass  # calls say that it is no client
    _under_way.clear()


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child
)
