"""Semaphores, locks, conditions, events and barriers by name, with multiprocessing's interface.

What a process holds when it dies, or its virtual machine, is given back: a lock is free again, and
tells the next that takes it (``owner_died``).
"""
from __future__ import annotations

import threading
import time
from typing import Any, Callable, Optional, Union

from . import _named, _vshmem
from ._arguments import end_of, whole
from ._named import IPC_NOWAIT, SEM_UNDO, Named
from ._pool import Pool

__all__ = ["BoundedSemaphore", "Condition", "Event", "Lock", "RLock", "Semaphore"]

Place = Union[Pool, str, None]
HIGHEST = 32767


class Semaphore(Named):
    """A counting semaphore.

    ``undo=True``: what a process has taken, and not given back, is given back when it ends; then each
    must release what it has acquired itself, in the same process.
    """

    _kind = "semaphore"

    def __init__(
        self,
        value: int = 1,
        *,
        name: Optional[str] = None,
        undo: bool = False,
        pool: Place = None,
        create: Optional[bool] = None,
        mode: int = 0o600,
    ) -> None:
        value = whole("value", value)
        if not 0 <= value <= HIGHEST:
            raise ValueError(f"the value must be in 0..{HIGHEST}")
        self._open(name, pool, create, [value], [value, int(undo)], mode=mode)
        self._core = _vshmem.Semaphore(self._pool._core, self._semaphores, 0, bool(self._words[5]))

    def acquire(self, block: bool = True, timeout: Optional[float] = None) -> bool:
        """Takes one. Waits for it, at most ``timeout`` seconds; False: there was none."""
        return self._core.acquire(block, timeout)

    def release(self) -> None:
        """Gives one back."""
        self._core.release()

    def get_value(self) -> int:
        """How many there are now."""
        return self._core.value()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class BoundedSemaphore(Semaphore):
    """A semaphore that is never higher than at the start: ``release`` raises ValueError then."""

    def release(self) -> None:
        if self._core.value() >= self._words[4]:
            raise ValueError("semaphore or lock released too many times")
        self._core.release()


# Words of a lock's page.
_HOLDER, _DEATHS = 8, 9


class Lock(Named):
    """A lock that is not recursive.

    It is released by the process that has acquired it, through the same handle. When that process
    ends without it, or its machine does, the lock is free: the next ``acquire`` sets ``owner_died``
    to True, so that what the lock protects can be repaired.
    """

    _kind = "lock"
    #: Whether the holder before this one has died with the lock: what it protects may be half done.
    owner_died = False

    def __init__(
        self,
        *,
        name: Optional[str] = None,
        pool: Place = None,
        create: Optional[bool] = None,
        mode: int = 0o600,
    ) -> None:
        self._open(name, pool, create, [1], mode=mode)
        self._core = _vshmem.Semaphore(self._pool._core, self._semaphores, 0, True)
        self._held = -1  # the generation that has acquired it

    def acquire(self, block: bool = True, timeout: Optional[float] = None) -> bool:
        """Takes the lock. Waits for it, at most ``timeout`` seconds; False: it was not free."""
        if not self._core.acquire(block, timeout):
            return False
        words = self._words
        self.owner_died = words[_HOLDER] != 0
        words[_HOLDER] = self._pool._holder
        self._held = _named.generation
        return True

    def release(self) -> None:
        """Gives the lock back. ValueError: this handle has not acquired it."""
        if self._held != _named.generation:
            raise ValueError("semaphore or lock released too many times")
        self._held = -1
        self._words[_HOLDER] = 0
        self._core.release()

    def locked(self) -> bool:
        """Whether anybody has it."""
        return self._core.value() == 0

    @property
    def holder(self) -> Optional[tuple[int, int]]:
        """Domain and client number of who has it, or has died with it."""
        word = self._words[_HOLDER]
        return ((word >> 32) - 1, word & 0xFFFF_FFFF) if word else None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _is_mine(self) -> bool:
        return self._held == _named.generation

    def _save(self) -> int:
        self.release()
        return 1

    def _restore(self, count: int) -> None:
        self.acquire()


class RLock(Lock):
    """A lock that its holder, a thread, may acquire again."""

    def __init__(
        self,
        *,
        name: Optional[str] = None,
        pool: Place = None,
        create: Optional[bool] = None,
        mode: int = 0o600,
    ) -> None:
        super().__init__(name=name, pool=pool, create=create, mode=mode)
        self._thread = 0
        self._count = 0

    def acquire(self, block: bool = True, timeout: Optional[float] = None) -> bool:
        """As that of a lock; counts when this thread has it."""
        if self._is_mine():
            self._count += 1
            return True
        if not super().acquire(block, timeout):
            return False
        self._thread, self._count = threading.get_ident(), 1
        return True

    def release(self) -> None:
        """Gives it back when it was released as often as acquired. AssertionError: another's."""
        if not self._is_mine():
            raise AssertionError("attempt to release recursive lock not owned by thread")
        self._count -= 1
        if self._count == 0:
            self._thread = 0
            super().release()

    def _is_mine(self) -> bool:
        return self._held == _named.generation and self._thread == threading.get_ident()

    def _save(self) -> int:
        count, self._count = self._count, 1
        self.release()
        return count

    def _restore(self, count: int) -> None:
        self.acquire()
        self._count = count


# Of a condition: how many threads can wait at once; words of its page.
WAITERS = 120
_TICKET, _TICKETS = 8, 16


def _alive(slot: int) -> int:
    """The semaphore that a waiter raises with undo: 0 when it has died."""
    return 2 * slot


def _wake(slot: int) -> int:
    """The semaphore that it waits for."""
    return 2 * slot + 1


class Condition(Named):
    """A condition variable with a lock (an ``RLock`` of its own when none is given).

    A waiter that dies takes no notification from others. At most 120 threads wait at once.
    """

    _kind = "condition"

    def __init__(
        self,
        lock: Optional[Lock] = None,
        *,
        name: Optional[str] = None,
        pool: Place = None,
        create: Optional[bool] = None,
        mode: int = 0o600,
    ) -> None:
        if not (lock is None or isinstance(lock, Lock)):
            wrong = type(lock).__name__
            raise TypeError(f"lock must be a vshmem.Lock, a vshmem.RLock or None, not {wrong}")
        if lock is not None and pool is None:
            pool = lock.pool
        self._open(name, pool, create, [0] * (2 * WAITERS), mode=mode)
        if lock is None:
            own = None if self._is_anonymous else f"{self._name}.lock"
            lock = RLock(name=own, pool=self._pool, create=None if own else True, mode=mode)
        self._lock = lock
        self.acquire = lock.acquire
        self.release = lock.release

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Releases the lock, waits until notified, and takes it again; False: the time is over."""
        if not self._lock._is_mine():
            raise RuntimeError("cannot wait on un-acquired lock")
        slot = self._enter()
        count = self._lock._save()
        woken = False
        try:
            woken = self._semop((_wake(slot), -1, 0), timeout=timeout)
        finally:
            self._lock._restore(count)
            # It may have been notified after its time was over.
            woken = self._leave(slot) or woken
        return woken

    def _enter(self) -> int:
        words = self._words
        for slot in range(WAITERS):
            if words[_TICKETS + slot] == 0 or self._value(_alive(slot)) == 0:
                self._set(_wake(slot), 0)
                self._semop((_alive(slot), 1, SEM_UNDO))
                words[_TICKET] += 1
                words[_TICKETS + slot] = words[_TICKET]
                return slot
        raise RuntimeError(f"{WAITERS} threads wait for this condition already")

    def _leave(self, slot: int) -> bool:
        self._words[_TICKETS + slot] = 0
        notified = self._semop((_wake(slot), -1, IPC_NOWAIT), timeout=0)
        self._semop((_alive(slot), -1, SEM_UNDO | IPC_NOWAIT), timeout=0)
        return notified

    def wait_for(self, predicate: Callable[[], Any], timeout: Optional[float] = None) -> Any:
        """Waits until the predicate is true, and returns what it says last."""
        result = predicate()
        end = end_of(timeout)
        while not result:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                break
            self.wait(left)
            result = predicate()
        return result

    def notify(self, n: int = 1) -> None:
        """Wakes so many of those that wait, the longest waiting first."""
        if not self._lock._is_mine():
            raise RuntimeError("cannot notify on un-acquired lock")
        words = self._words
        waiting = [(words[_TICKETS + slot], slot) for slot in range(WAITERS)]
        for _, slot in sorted(pair for pair in waiting if pair[0]):
            if n <= 0:
                break
            if self._value(_alive(slot)) == 0:
                words[_TICKETS + slot] = 0  # it has died
            elif self._value(_wake(slot)) == 0:
                # Woken first: should this process die in between, the waiter takes itself out.
                self._semop((_wake(slot), 1, 0))
                words[_TICKETS + slot] = 0
                n -= 1

    def notify_all(self) -> None:
        """Wakes all that wait."""
        self.notify(WAITERS)

    def unlink(self) -> None:
        """Removes the name, and that of a lock of its own."""
        super().unlink()
        if self._lock.name == f"{self._name}.lock":
            self._lock.unlink()

    def __reduce__(self) -> Any:
        return _condition, (self._lock, self._name, self._pool)


def _condition(lock: Lock, name: str, pool: Pool) -> Condition:
    return Condition(lock, name=name, pool=pool, create=False)


class Event(Named):
    """A flag that threads of any process wait for."""

    _kind = "event"

    def __init__(
        self,
        *,
        name: Optional[str] = None,
        pool: Place = None,
        create: Optional[bool] = None,
        mode: int = 0o600,
    ) -> None:
        self._open(name, pool, create, [0], mode=mode)

    def is_set(self) -> bool:
        """Whether it is up."""
        return self._value(0) > 0

    def set(self) -> None:
        """Puts it up: all that wait go on."""
        self._set(0, 1)

    def clear(self) -> None:
        """Takes it down."""
        self._set(0, 0)

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits until it is up; False: the time is over."""
        # Both in one: the value stays as it is.
        return self._semop((0, -1, 0), (0, 1, 0), timeout=timeout)
