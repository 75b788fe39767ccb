"""Records in the order in which they were put, in memory of a pool: what queues and channels are of.

A record is published by one store, and taken by another: a process may die anywhere between, and the
next that takes the lock finds either all of it or nothing.

The page of a ring (see `_named`) has, from word 8: HOLDER, HEAD, TAIL, PUT, GOT; HEAD and TAIL are
bytes since the beginning, PUT and GOT records. Behind the page lie the bytes. A record is a word with
its kind (low byte) and its length, and its bytes, in whole words; what does not fit before the end
goes on at the start.

Large buffers, and records that are long for the ring, lie in an object of their own, "NAME.N" for the
Nth record: the receiver maps it, and nobody copies it a second time.
"""
from __future__ import annotations

import errno
import os
import pickle
import time
from typing import Any, Callable, Optional

from . import _vshmem
from ._memory import PATIENCE, Opened
from ._named import IPC_NOWAIT, PAGE, Named
from ._pool import Pool

_HOLDER, _HEAD, _TAIL, _PUT, _GOT = 8, 9, 10, 11, 12
# Its semaphores. The events are up whenever they might be: who waits for one looks himself.
_LOCK, _ITEMS, _SPACE, UNFINISHED = 0, 1, 2, 3
INLINE, APART = 1, 2
# Buffers of more bytes are not copied into the ring.
LARGE = 32 * 1024
ALIGNMENT = 64
# A ring holds no more: what a damaged page says beyond is not believed.
MOST_RECORDS = 1 << 20


def _aligned(bytes: int, to: int) -> int:
    return -(-bytes // to) * to


class Ring(Named):
    """One of them; `queue` says what it is the inside of."""

    _kind = "queue"

    def __init__(
        self, name: Optional[str], most: int, room: int, pool: Any, create: Optional[bool], mode: int
    ) -> None:
        room = _aligned(max(room, PAGE), PAGE)
        self._open(name, pool, create, [1, 0, 1, 0], [most, room], room, mode)
        self._lock = _vshmem.Semaphore(self._pool._core, self._semaphores, _LOCK, True)
        self._room = len(self._bytes) - PAGE
        self._ring = self._bytes[PAGE:]
        kept, words, pool, name = self._kept, self._words, self._pool, self._full_name()
        kept.views.insert(0, self._ring)
        kept.empty = lambda: _unlink_apart(pool, words, name)  # type: ignore[method-assign]
        self._most = int(self._words[4])

    def _take_lock(self, timeout: Optional[float]) -> bool:
        if not self._lock.acquire(True, timeout):
            return False
        if self._words[_HOLDER]:
            # A process died with the lock. What it did is done or not; events may be missing.
            self._raise_event(_ITEMS)
            self._raise_event(_SPACE)
        self._words[_HOLDER] = self._pool._holder
        return True

    def _give_lock(self) -> None:
        self._words[_HOLDER] = 0
        self._lock.release()

    def _raise_event(self, number: int) -> None:
        if self._value(number) == 0:
            self._set(number, 1)

    def _when(
        self, event: int, ready: Callable[[], bool], act: Callable[[], Any], end: Optional[float]
    ) -> Any:
        """Acts under the lock as soon as it can. TimeoutError: the time is over."""
        is_last = False
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            # The lock is held for moments, also by one who has died: no reason not to look.
            if not self._take_lock(None if left is None else left + 1.0):
                raise TimeoutError
            try:
                if ready():
                    return act()
                self._set(event, 0)
            finally:
                self._give_lock()
            left = None if end is None else end - time.monotonic()
            if is_last or left is not None and left <= 0:
                raise TimeoutError
            # What came while this process stood still is taken all the same.
            is_last = not self._semop((event, -1, 0), (event, 1, 0), timeout=left)

    # Counting.

    def qsize(self) -> int:
        """How many records there are."""
        return max(0, int(self._words[_PUT]) - int(self._words[_GOT]))

    def _has_item(self) -> bool:
        words = self._words
        return words[_TAIL] != words[_HEAD]

    def _has_space(self, bytes: int) -> bool:
        words = self._words
        if self._most and self.qsize() >= self._most:
            return False
        return int(words[_TAIL]) - int(words[_HEAD]) + bytes <= self._room

    # Bytes of the ring.

    def _write(self, at: int, data: Any) -> None:
        at %= self._room
        first = min(len(data), self._room - at)
        self._ring[at : at + first] = data[:first]
        self._ring[: len(data) - first] = data[first:]

    def _read(self, at: int, bytes: int) -> bytearray:
        at %= self._room
        first = min(bytes, self._room - at)
        return bytearray(self._ring[at : at + first]) + self._ring[: bytes - first]

    # Records.

    def put(self, value: Any, end: Optional[float], count: bool = False) -> None:
        """Puts one that is pickled. TimeoutError: there was no room until then."""
        buffers: list[pickle.PickleBuffer] = []

        def is_inline(buffer: pickle.PickleBuffer) -> bool:
            with buffer.raw() as raw:
                small = raw.nbytes < LARGE
            if not small:
                buffers.append(buffer)
            return small

        text = pickle.dumps(value, protocol=5, buffer_callback=is_inline)
        try:
            self.put_bytes(text, buffers, end, count)
        finally:
            for buffer in buffers:
                buffer.release()

    def put_bytes(
        self, text: bytes, buffers: Any, end: Optional[float], count: bool = False
    ) -> None:
        """Puts one of these bytes, with buffers beside them."""
        apart = bool(buffers) or len(text) > self._room // 4
        bytes = 8 if apart else 8 + _aligned(len(text), 8)

        def publish() -> None:
            words = self._words
            tail, number = int(words[_TAIL]), int(words[_PUT])
            if apart:
                self._write_apart(number, text, buffers)
                self._write(tail, APART.to_bytes(8, "little"))
            else:
                head = INLINE | len(text) << 8
                self._write(tail, head.to_bytes(8, "little"))
                self._write(tail + 8, text)
            if count:
                self._semop((UNFINISHED, 1, 0))
            # Before it can be seen: who dies in between has woken others for nothing.
            self._raise_event(_ITEMS)
            words[_PUT] = number + 1
            words[_TAIL] = tail + bytes

        self._when(_SPACE, lambda: self._has_space(bytes), publish, end)

    def get(self, end: Optional[float]) -> Any:
        """Takes the oldest. TimeoutError: there was none until then."""
        while True:
            text, buffers = self._when(_ITEMS, self._has_item, self._take, end)
            if text is not None:
                return pickle.loads(text, buffers=buffers)

    def get_bytes(self, end: Optional[float]) -> Any:
        """As `get`, of one that was put as bytes."""
        while True:
            text, _ = self._when(_ITEMS, self._has_item, self._take, end)
            if text is not None:
                return bytes(text)

    def poll(self, end: Optional[float]) -> bool:
        """Waits until there is one."""
        try:
            return bool(self._when(_ITEMS, self._has_item, lambda: True, end))
        except TimeoutError:
            return False

    def _take(self) -> tuple[Any, Any]:
        words = self._words
        head, number = int(words[_HEAD]), int(words[_GOT])
        word = int.from_bytes(self._read(head, 8), "little")
        kind, length = word & 0xFF, word >> 8
        bytes, found = 8, (None, None)
        if kind == APART:
            found = self._read_apart(number)
        elif kind == INLINE and length <= self._room - 8:
            bytes += _aligned(length, 8)
            found = self._read(head + 8, length), ()
        else:
            raise OSError(errno.EIO, f"the queue {self._name} is damaged: a record of no known kind")
        self._raise_event(_SPACE)
        words[_GOT] = number + 1
        words[_HEAD] = head + bytes
        return found

    # Records that lie in an object of their own: a count, as many lengths, and the parts.

    def _apart_name(self, number: int) -> str:
        return f"{self._full_name()}.{number}"

    def _write_apart(self, number: int, text: bytes, buffers: Any) -> None:
        parts = [memoryview(text), *(buffer.raw() for buffer in buffers)]
        table = _aligned(8 * (1 + len(parts)), ALIGNMENT)
        size = table + sum(_aligned(part.nbytes, ALIGNMENT) for part in parts)
        core, name = self._pool._core, self._apart_name(number)
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
        try:
            opened = Opened(self._pool, name, flags, size=size)
        except FileExistsError:
            # Of one who died before this record was published.
            core.shm_unlink(name)
            opened = Opened(self._pool, name, flags, size=size)
        try:
            memory = memoryview(self._pool._attach(opened.id, size))
            lengths = memory[:table].cast("Q")
            lengths[0] = len(parts)
            at = table
            for nth, part in enumerate(parts):
                lengths[1 + nth] = part.nbytes
                memory[at : at + part.nbytes] = part
                at += _aligned(part.nbytes, ALIGNMENT)
        except BaseException:
            core.shm_unlink(name)
            raise

    def _read_apart(self, number: int) -> tuple[Any, Any]:
        name = self._apart_name(number)
        try:
            opened = Opened(self._pool, name, os.O_RDWR)
        except FileNotFoundError:
            return None, None  # a receiver has taken it, and died before it had said so
        size = self._pool._core.shm_stat(opened.id)[0]
        memory = memoryview(self._pool._attach(opened.id, size))
        # From here on it goes with its last buffer.
        self._pool._core.shm_unlink(name)
        opened.close()
        count = int.from_bytes(memory[:8], "little")
        if not 1 <= count < size // 8:
            raise OSError(errno.EIO, f"the queue {self._name} is damaged: a record of {count} parts")
        lengths = [int(length) for length in memory[8 : 8 + 8 * count].cast("Q")]
        at, parts = _aligned(8 * (1 + count), ALIGNMENT), []
        for length in lengths:
            if length > size - at:
                raise OSError(errno.EIO, f"the queue {self._name} is damaged: a part that is too long")
            parts.append(memory[at : at + length])
            at += _aligned(length, ALIGNMENT)
        return parts[0], parts[1:]

    def drop_all(self) -> None:
        """Takes what there is away, with the objects of long records."""
        if self._take_lock(PATIENCE):
            try:
                while self._has_item():
                    self._take()
            finally:
                self._give_lock()

    def task_done(self) -> None:
        """One of those that were counted is done. ValueError: there are none left."""
        if not self._semop((UNFINISHED, -1, IPC_NOWAIT), timeout=0):
            raise ValueError("task_done() called too many times")

    def join(self) -> None:
        """Waits until all that were counted are done."""
        self._semop((UNFINISHED, 0, 0))

    def unlink(self) -> None:
        """Removes the name, and what is in it."""
        self.drop_all()
        _unlink_apart(self._pool, self._words, self._full_name())
        super().unlink()


def _unlink_apart(pool: Pool, words: Any, name: str) -> None:
    """Objects of long records that are still there, and one of a process that died with it."""
    first, last = int(words[_GOT]), int(words[_PUT])
    for number in range(max(first, last - MOST_RECORDS), last + 1):
        try:
            pool._core.shm_unlink(f"{name}.{number}")
        except OSError:
            pass
