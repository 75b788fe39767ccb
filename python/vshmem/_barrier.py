"""A barrier by name, with the interface of threading.Barrier."""
from __future__ import annotations

import os
import time
import weakref
from threading import BrokenBarrierError
from typing import Any, Callable, Optional

from ._arguments import end_of, seconds, whole
from ._locks import Condition, Place
from ._named import SEM_UNDO, Named, unlink_of_maker
from ._pool import Pool

__all__ = ["Barrier", "BrokenBarrierError"]

# Words of its page, and its semaphore: how many wait, raised with undo.
_GENERATION, _COUNT, _BROKEN = 8, 9, 10
_WAITING = 0
# How often those that wait look whether one of them has died.
LOOK = 1.0


class Barrier(Named):
    """Where ``parties`` threads, of any processes, wait for each other.

    One that dies while it waits breaks the barrier for all: BrokenBarrierError.
    """

    _kind = "barrier"

    def __init__(
        self,
        parties: int = 0,
        action: Optional[Callable[[], object]] = None,
        timeout: Optional[float] = None,
        *,
        name: Optional[str] = None,
        pool: Place = None,
        create: Optional[bool] = None,
        mode: int = 0o600,
    ) -> None:
        parties, timeout = whole("parties", parties), seconds(timeout)
        if not (action is None or callable(action)):
            raise TypeError(f"action must be callable or None, not {type(action).__name__}")
        if parties < 1 and create is not False:
            raise ValueError("parties must be > 0")
        made = self._open(name, pool, create, [0], [parties], mode=mode)
        if not made and parties not in (0, self._words[4]):
            raise ValueError(f"the barrier {name} has {self._words[4]} parties, not {parties}")
        self._action, self._timeout = action, timeout
        own = f"{self._name}.barrier"
        self._condition = Condition(name=own, pool=self._pool, create=None, mode=mode)
        if made and self._is_anonymous:
            for full in (f"py.condition.{own}", f"py.lock.{own}.lock"):
                weakref.finalize(self, unlink_of_maker, self._pool, full, os.getpid())

    @property
    def parties(self) -> int:
        """How many it takes."""
        return int(self._words[4])

    @property
    def n_waiting(self) -> int:
        """How many wait now."""
        return int(self._words[_COUNT])

    @property
    def broken(self) -> bool:
        """Whether it is broken, until ``reset``."""
        return self._words[_BROKEN] != 0

    def wait(self, timeout: Optional[float] = None) -> int:
        """Waits for all parties; a number of 0..parties-1, another for each."""
        end = end_of(self._timeout if timeout is None else timeout)
        words = self._words
        with self._condition:
            self._look_for_deaths()
            if words[_BROKEN]:
                raise BrokenBarrierError
            place = int(words[_COUNT])
            if place + 1 == self.parties:
                self._let_go()
                return place
            words[_COUNT] = place + 1
            self._semop((_WAITING, 1, SEM_UNDO))
            try:
                self._await(int(words[_GENERATION]), end)
            finally:
                self._semop((_WAITING, -1, SEM_UNDO), timeout=0)
            return place

    def _await(self, mine: int, end: Optional[float]) -> None:
        words = self._words
        try:
            while words[_GENERATION] == mine and not words[_BROKEN]:
                left = LOOK if end is None else min(LOOK, end - time.monotonic())
                if left <= 0:
                    break
                self._condition.wait(left)
                self._look_for_deaths()
        finally:
            if words[_GENERATION] == mine:
                # Broken, out of time, or interrupted: none of the others may go on.
                words[_COUNT] -= 1
                self._break()
        if words[_GENERATION] == mine:
            raise BrokenBarrierError

    def _look_for_deaths(self) -> None:
        # Those that were let go have not all left yet: as many more.
        if self._value(_WAITING) < self._words[_COUNT]:
            self._words[_COUNT] = self._value(_WAITING)
            self._break()

    def _let_go(self) -> None:
        try:
            if self._action:
                self._action()
        except BaseException:
            self._break()
            raise
        self._words[_COUNT] = 0
        self._words[_GENERATION] += 1
        self._condition.notify_all()

    def _break(self) -> None:
        self._words[_BROKEN] = 1
        self._condition.notify_all()

    def abort(self) -> None:
        """Breaks it: all that wait, and come, get BrokenBarrierError."""
        with self._condition:
            self._break()

    def reset(self) -> None:
        """Makes it whole again. Those that wait get BrokenBarrierError."""
        end = time.monotonic() + 10 * LOOK
        with self._condition:
            self._break()
            while self._words[_COUNT] and time.monotonic() < end:
                self._condition.release()
                time.sleep(0.001)
                self._condition.acquire()
            self._words[_BROKEN] = self._words[_COUNT] = 0

    def unlink(self) -> None:
        """Removes the name."""
        super().unlink()
        self._condition.unlink()

    def __reduce__(self) -> Any:
        return _barrier, (self._name, self._action, self._timeout, self._pool)


def _barrier(
    name: str, action: Optional[Callable[[], object]], timeout: Optional[float], pool: Pool
) -> Barrier:
    return Barrier(0, action, timeout, name=name, pool=pool, create=False)
