"""A context like those of multiprocessing, whose locks and queues lie in a pool."""
from __future__ import annotations

import multiprocessing
import multiprocessing.context
from typing import Any, Callable, Optional, Union

from . import _barrier, _locks, _queue
from ._memory import SharedMemory, ShareableList
from ._pool import Pool, pool_of

__all__ = ["Context", "get_context"]


class Context:
    """What ``multiprocessing.get_context`` gives, with these of a pool: Lock, RLock, Semaphore,
    BoundedSemaphore, Condition, Event, Barrier, Queue, JoinableQueue, SharedMemory, ShareableList.

    Everything else (Process, Pool, Manager, Pipe ...) is that of multiprocessing.
    """

    def __init__(self, method: Optional[str] = None, pool: Union[Pool, str, None] = None) -> None:
        self._standard: Any = multiprocessing.get_context(method)
        self._place = pool_of(pool)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._standard, name)

    def get_context(self, method: Optional[str] = None) -> "Context":
        """The same with another way to start processes."""
        return self if method is None else Context(method, self._place)

    def Lock(self) -> _locks.Lock:
        """A lock without a name."""
        return _locks.Lock(pool=self._place)

    def RLock(self) -> _locks.RLock:
        """A recursive lock without a name."""
        return _locks.RLock(pool=self._place)

    def Semaphore(self, value: int = 1) -> _locks.Semaphore:
        """A semaphore without a name."""
        return _locks.Semaphore(value, pool=self._place)

    def BoundedSemaphore(self, value: int = 1) -> _locks.BoundedSemaphore:
        """A bounded semaphore without a name."""
        return _locks.BoundedSemaphore(value, pool=self._place)

    def Condition(self, lock: Optional[_locks.Lock] = None) -> _locks.Condition:
        """A condition without a name."""
        return _locks.Condition(lock, pool=self._place)

    def Event(self) -> _locks.Event:
        """An event without a name."""
        return _locks.Event(pool=self._place)

    def Barrier(
        self,
        parties: int,
        action: Optional[Callable[[], object]] = None,
        timeout: Optional[float] = None,
    ) -> _barrier.Barrier:
        """A barrier without a name."""
        return _barrier.Barrier(parties, action, timeout, pool=self._place)

    def Queue(self, maxsize: int = 0) -> _queue.Queue:
        """A queue without a name."""
        return _queue.Queue(maxsize, pool=self._place)

    def JoinableQueue(self, maxsize: int = 0) -> _queue.JoinableQueue:
        """A joinable queue without a name."""
        return _queue.JoinableQueue(maxsize, pool=self._place)

    def SharedMemory(
        self, name: Optional[str] = None, create: bool = False, size: int = 0
    ) -> SharedMemory:
        """Shared memory of the pool."""
        return SharedMemory(name, create, size, pool=self._place)

    def ShareableList(self, sequence: Any = None, *, name: Optional[str] = None) -> ShareableList:
        """A list of the pool."""
        return ShareableList(sequence, name=name, pool=self._place)

    def __reduce__(self) -> Any:
        return Context, (self._standard.get_start_method(), self._place)


def get_context(method: Optional[str] = None, pool: Union[Pool, str, None] = None) -> Context:
    """A context on a pool; ``method`` as multiprocessing has it: spawn, fork, forkserver."""
    return Context(method, pool)
