"""Shared memory, arrays, locks and queues between processes, containers and virtual machines.

Everything lies in a *pool* of memory that the processes share, by name::

    import vshmem

    field = vshmem.array("field", (1024, 1024), "float32")   # numpy, the same memory for all
    with vshmem.Lock(name="field-lock"):
        field += 1

The pool is the one that ``VSHMEM_POOL`` names or that this virtual machine was given; see ``Pool``.
"""
from __future__ import annotations

from queue import Empty, Full
from typing import TYPE_CHECKING, Any

from ._barrier import Barrier, BrokenBarrierError
from ._context import Context, get_context
from ._locks import BoundedSemaphore, Condition, Event, Lock, RLock, Semaphore
from ._memory import ShareableList, SharedMemory
from ._pool import Pool, default_pool, set_default_pool
from ._queue import Channel, JoinableQueue, Queue
from ._team import Team
from ._vshmem import __version__

if TYPE_CHECKING:
    from ._array import SharedArray, array

__all__ = [
    "Barrier",
    "BoundedSemaphore",
    "BrokenBarrierError",
    "Channel",
    "Condition",
    "Context",
    "Empty",
    "Event",
    "Full",
    "JoinableQueue",
    "Lock",
    "Pool",
    "Queue",
    "RLock",
    "Semaphore",
    "ShareableList",
    "SharedArray",
    "SharedMemory",
    "Team",
    "__version__",
    "array",
    "default_pool",
    "get_context",
    "set_default_pool",
]


def __getattr__(name: str) -> Any:
    # numpy is imported when an array is wanted.
    if name in ("array", "SharedArray"):
        from . import _array

        return getattr(_array, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
