"""Queues and channels by name."""
from __future__ import annotations

from queue import Empty, Full
from typing import Any, Optional

from ._arguments import end_of, whole
from ._locks import Place
from ._pool import Pool
from ._ring import Ring

__all__ = ["Channel", "JoinableQueue", "Queue"]

# Bytes of records that a queue has room for; longer ones and large buffers lie beside it.
ROOM = 256 * 1024


def _end(block: bool, timeout: Optional[float]) -> Optional[float]:
    return end_of(timeout if block else 0)


class _OnRing:
    """What has a ring inside."""

    def __init__(
        self, name: Optional[str], most: int, room: int, pool: Place, create: Optional[bool], mode: int
    ) -> None:
        self._ring = Ring(name, most, whole("room", room), pool, create, mode)

    @property
    def name(self) -> str:
        """By which others open it."""
        return self._ring.name

    @property
    def pool(self) -> Pool:
        """The pool that it lies in."""
        return self._ring.pool

    def unlink(self) -> None:
        """Removes the name, and what is in it. Those that have it open may go on using it."""
        self._ring.unlink()

    def __repr__(self) -> str:
        return f"<vshmem.{type(self).__name__} {self.name!r}>"

    def __reduce__(self) -> Any:
        return _reopen, (type(self), self.name, self.pool)


class Queue(_OnRing):
    """A queue of Python objects, first in first out, for any number of processes.

    ``put`` writes into the pool itself, without a thread beside it: when it returns, the object is
    there, also if this process ends. Large buffers in it (arrays of numpy, bytes of 32 KiB and more
    given as ``pickle.PickleBuffer``) are copied once, into the pool, and the receiver's arrays lie
    there. A process may die anywhere in ``put`` or ``get``: others go on, and an object is there
    whole or not at all.
    """

    def __init__(
        self,
        maxsize: int = 0,
        *,
        name: Optional[str] = None,
        pool: Place = None,
        create: Optional[bool] = None,
        room: int = ROOM,
        mode: int = 0o600,
    ) -> None:
        super().__init__(name, max(0, whole("maxsize", maxsize)), room, pool, create, mode)

    _counts = False

    def put(self, obj: Any, block: bool = True, timeout: Optional[float] = None) -> None:
        """Puts an object; ``queue.Full`` when there was no room in time."""
        try:
            self._ring.put(obj, _end(block, timeout), self._counts)
        except TimeoutError:
            raise Full from None

    def get(self, block: bool = True, timeout: Optional[float] = None) -> Any:
        """Takes the oldest; ``queue.Empty`` when there was none in time."""
        try:
            return self._ring.get(_end(block, timeout))
        except TimeoutError:
            raise Empty from None

    def put_nowait(self, obj: Any) -> None:
        """``put(obj, False)``"""
        self.put(obj, False)

    def get_nowait(self) -> Any:
        """``get(False)``"""
        return self.get(False)

    def qsize(self) -> int:
        """How many objects are there."""
        return self._ring.qsize()

    def empty(self) -> bool:
        """Whether there are none."""
        return self.qsize() == 0

    def full(self) -> bool:
        """Whether there are ``maxsize``."""
        return 0 < self._ring._most <= self.qsize()

    def close(self) -> None:
        """Nothing: for programs that were written for multiprocessing."""

    def join_thread(self) -> None:
        """Nothing: there is no thread."""

    def cancel_join_thread(self) -> None:
        """Nothing: there is no thread."""


class JoinableQueue(Queue):
    """A queue that knows whether what was put is done: ``task_done`` and ``join``."""

    _counts = True

    def task_done(self) -> None:
        """One that was taken is done."""
        self._ring.task_done()

    def join(self) -> None:
        """Waits until all that were put are done."""
        self._ring.join()


class Channel(_OnRing):
    """One way for objects and bytes, with the calls of ``multiprocessing.connection.Connection``.

    Any number of processes send and receive. Objects are pickled by protocol 5, with their large
    buffers in the pool: an array that is received lies there, and was copied once, by the sender. One
    that lies in the pool already (``vshmem.array``) is sent by its name, without any copy.
    """

    def __init__(
        self,
        name: Optional[str] = None,
        *,
        pool: Place = None,
        create: Optional[bool] = None,
        room: int = ROOM,
        mode: int = 0o600,
    ) -> None:
        super().__init__(name, 0, room, pool, create, mode)

    def send(self, obj: Any, timeout: Optional[float] = None) -> None:
        """Sends an object. TimeoutError: there was no room in time."""
        self._ring.put(obj, _end(True, timeout))

    def recv(self, timeout: Optional[float] = None) -> Any:
        """Receives an object. TimeoutError: none came in time."""
        return self._ring.get(_end(True, timeout))

    def send_bytes(self, buf: Any, offset: int = 0, size: Optional[int] = None) -> None:
        """Sends bytes, or a part of them."""
        view = memoryview(buf).cast("B")
        end = view.nbytes if size is None else offset + size
        if offset < 0 or not offset <= end <= view.nbytes:
            raise ValueError("buffer length < offset + size")
        self._ring.put_bytes(bytes(view[offset:end]), (), None)

    def recv_bytes(self, maxlength: Optional[int] = None) -> bytes:
        """Receives what was sent by ``send_bytes``."""
        found: bytes = self._ring.get_bytes(None)
        if maxlength is not None and len(found) > maxlength:
            raise OSError("bad message length")
        return found

    def poll(self, timeout: Optional[float] = 0.0) -> bool:
        """Whether there is something to receive, at the latest after so many seconds."""
        return self._ring.poll(_end(True, timeout))

    def close(self) -> None:
        """Nothing: the name stays, and the memory goes with the last handle."""

    def __enter__(self) -> "Channel":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _reopen(kind: Any, name: str, pool: Pool) -> Any:
    return kind(name=name, pool=pool, create=False)

