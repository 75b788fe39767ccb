"""A named object of this package: a page of shared memory, and a semaphore set that belongs to it.

Layout of the page, in words of 8 bytes, little-endian (all machines of a pool are of one kind):

====  ======================================================================================
word  what it holds
====  ======================================================================================
0, 1  MAGIC, written last
2     its kind (low half) and the id of its semaphore set (high half)
3     how many semaphores the set has
4-7   what the maker chose: parties, bounds
8-    what the kind keeps
====  ======================================================================================

A name of kind K is the pool's object "py.K.NAME".
"""
from __future__ import annotations

import atexit
import errno
import os
import struct
import time
import weakref
from typing import Any, Optional, Sequence, Union

from ._arguments import check_create, check_name, whole
from ._memory import Opened, await_maker, fresh_name, of_name, open_or_make
from ._pool import Pool, pool_of

PAGE = 4096
MAGIC = b"vshmem python 1\0"
IPC_CREAT, IPC_PRIVATE = 0o1000, 0
SEM_UNDO, IPC_NOWAIT = 0x1000, 0o4000
KINDS = ("semaphore", "lock", "condition", "event", "barrier", "queue", "team")
# Raised in each forked child: what a parent has locked, its child has not.
generation = 0


def _next_generation() -> None:
    global generation
    generation += 1


_has_forked = False


def _note_fork() -> None:
    global _has_forked
    _has_forked = True


os.register_at_fork(after_in_parent=_note_fork, after_in_child=_next_generation)


class Named:
    """One of them, open in this process."""

    _kind = ""

    def _open(
        self,
        name: Optional[str],
        pool: Union[Pool, str, None],
        create: Optional[bool],
        values: Sequence[int],
        chosen: Sequence[int] = (),
        more_bytes: int = 0,
        mode: int = 0o600,
    ) -> bool:
        """Opens it, or makes it with semaphores of these values. Whether it was made here."""
        check_name(name)
        check_create(create)
        mode = whole("mode", mode)
        self._pool = pool_of(pool)
        self._is_anonymous = name is None
        if name is None:
            if create is False:
                raise ValueError("an object without a name cannot be opened")
            name, create = fresh_name("anonymous-"), True
        self._name = name
        made = self._open_or_make(create, values, chosen, more_bytes, mode)
        semaphores = self._words[2] >> 32
        self._semaphores = int(semaphores)
        self._kept.semaphores = self._semaphores
        if made and self._is_anonymous:
            self._kept.maker = os.getpid()
        weakref.finalize(self, _close, self._kept)
        _remove_pending()
        return made

    def _full_name(self) -> str:
        return f"py.{self._kind}.{self._name}"

    def _open_or_make(
        self,
        create: Optional[bool],
        values: Sequence[int],
        chosen: Sequence[int],
        more_bytes: int,
        mode: int,
    ) -> bool:
        def find() -> bool:
            await_maker(self._name, self._full_name(), self._find)
            return False

        def make() -> bool:
            self._make(values, chosen, more_bytes, mode)
            return True

        return open_or_make(create, find, make)

    def _make(
        self, values: Sequence[int], chosen: Sequence[int], more_bytes: int, mode: int
    ) -> None:
        core = self._pool._core
        opened = self._descriptor(os.O_CREAT | os.O_EXCL | os.O_RDWR, mode, PAGE + more_bytes)
        try:
            self._map(opened, PAGE + more_bytes)
            semaphores = core.semget(IPC_PRIVATE, len(values), IPC_CREAT | mode)
        except OSError as error:
            core.shm_unlink(self._full_name())
            raise of_name(error, self._name) from None
        for number, value in enumerate(values):
            if value:
                core.semset(semaphores, number, value)
        self._words[2] = KINDS.index(self._kind) | semaphores << 32
        self._words[3] = len(values)
        for word, value in enumerate(chosen):
            self._words[4 + word] = value
        self._words[0], self._words[1] = struct.unpack("<QQ", MAGIC)

    def _descriptor(self, flags: int, mode: int = 0, size: int = 0) -> Opened:
        try:
            return Opened(self._pool, self._full_name(), flags, mode, size)
        except OSError as error:
            raise of_name(error, self._name) from None

    def _find(self) -> Optional[bool]:
        """Maps it. None: its maker has not finished it."""
        opened = self._descriptor(os.O_RDWR)
        size = self._pool._core.shm_stat(opened.id)[0]
        if size < PAGE:
            return None
        self._map(opened, size)
        if struct.pack("<QQ", self._words[0], self._words[1]) != MAGIC:
            return None
        if self._words[2] & 0xFFFF_FFFF != KINDS.index(self._kind):
            raise of_name(OSError(errno.EIO, ""), self._name)
        return True

    def _map(self, opened: Opened, size: int) -> None:
        self._id = opened.id
        memory = self._pool._attach(opened.id, size)
        self._bytes = memoryview(memory)
        self._words = self._bytes[:PAGE].cast("Q")
        self._kept = _Kept(self._pool, opened.id, self._full_name(), memory)
        self._kept.views = [self._words, self._bytes]
        # The mapping keeps it alive by itself.
        opened.close()

    def _semop(self, *operations: tuple[int, int, int], timeout: Optional[float] = None) -> bool:
        return self._pool._core.semop(self._semaphores, operations, timeout)

    def _value(self, number: int) -> int:
        return self._pool._core.semval(self._semaphores, number)

    def _set(self, number: int, value: int) -> None:
        self._pool._core.semset(self._semaphores, number, value)

    @property
    def name(self) -> str:
        """By which others open it."""
        return self._name

    @property
    def pool(self) -> Pool:
        """The pool that it lies in."""
        return self._pool

    def unlink(self) -> None:
        """Removes the name. Those that have it open go on using it; it goes with the last of them."""
        try:
            self._pool._core.shm_unlink(self._full_name())
        except OSError as error:
            raise of_name(error, self._name) from None

    def __repr__(self) -> str:
        return f"<vshmem.{type(self).__name__} {self._name!r}>"

    def __reduce__(self) -> Any:
        return _reopen, (type(self), self._name, self._pool)

    @classmethod
    def _reopened(cls, name: str, pool: Pool) -> Any:
        return cls(name=name, pool=pool, create=False)  # type: ignore[call-arg]


def _reopen(kind: Any, name: str, pool: Pool) -> Any:
    return kind._reopened(name, pool)


class _Kept:
    """What an object has open: given up when the object is dropped, or at exit."""

    semaphores = -1
    #: The process that has made it without a name: others know it from that one alone.
    maker = 0
    views: list[memoryview] = []

    def __init__(self, pool: Pool, id: int, full_name: str, memory: Any) -> None:
        self.pool, self.id, self.full_name, self.memory = pool, id, full_name, memory

    def empty(self) -> None:
        """What has to go before its name does."""

    def leave(self) -> None:
        """What else has its memory here."""

    def is_gone(self) -> bool:
        """Whether nobody has it any more."""
        try:
            self.pool._core.shm_stat(self.id)
        except OSError as error:
            return error.errno in (errno.EINVAL, errno.EIDRM)
        return False

    def is_linked(self) -> bool:
        """Whether it still has its name."""
        try:
            return bool(self.pool._core.shm_stat(self.id)[2])
        except OSError:
            return False

    def remove_semaphores(self) -> None:
        """Another may have been faster."""
        try:
            self.pool._core.semrm(self.semaphores)
        except OSError:
            pass


# Unlinked, and not gone when they were closed here: the last to have them may be one that has died,
# which the pool notices a moment later.
_pending: list[_Kept] = []
# How long that is waited for at exit; the death of a forked child is noticed later than others.
LAST_LOOK, LAST_LOOK_AFTER_FORK = 0.25, 1.5


def _close(kept: _Kept) -> None:
    """Gives up the page. The semaphores go when that is gone, with its name and its last user."""
    try:
        if kept.maker:
            kept.empty()
            unlink_of_maker(kept.pool, kept.full_name, kept.maker)
        kept.leave()
        for view in kept.views:
            view.release()
    except (BufferError, OSError, ValueError):
        pass  # a slice of it lives, or the pool is closed: this process ends
    kept.views, kept.memory = [], None
    if kept.pool._is_attached(kept.id):
        return  # another handle of this process has it
    try:
        if not kept.is_linked():
            _pending.append(kept)
            _remove_pending()
    except ValueError:
        pass  # the pool is closed


def _remove_pending() -> None:
    for kept in list(_pending):
        if kept.is_gone():
            kept.remove_semaphores()
            _pending.remove(kept)


def _remove_pending_at_exit() -> None:
    end = time.monotonic() + (LAST_LOOK_AFTER_FORK if _has_forked else LAST_LOOK)
    try:
        _remove_pending()
        while _pending and time.monotonic() < end:
            time.sleep(0.005)
            _remove_pending()
    except (OSError, ValueError):
        pass


# Those of `weakref.finalize` run before it, as they are registered later.
atexit.register(_remove_pending_at_exit)


def unlink_of_maker(pool: Pool, name: str, maker: int) -> None:
    """What has no name of its own is known to its maker alone, and to whom it has sent it."""
    if os.getpid() == maker:
        try:
            pool._core.shm_unlink(name)
        except (OSError, ValueError):
            pass
