"""Teams: barrier, broadcast and reductions of numpy arrays among a fixed number of processes."""
from __future__ import annotations

import os
import weakref
from typing import Any, Optional

from . import _vshmem
from ._arguments import seconds, whole
from ._locks import Place
from ._named import PAGE, Named
from ._pool import Pool

__all__ = ["Team"]

_NUMBERS = {"int32": 1, "int64": 2, "uint64": 3, "float32": 4, "float64": 5}
_OPERATIONS = {"sum": 1, "prod": 2, "min": 3, "max": 4, "and": 5, "or": 6, "xor": 7}


class Team(Named):
    """A member of a team. All members make the same calls in the same order, each in one thread.

    A call that fails has ended the team for all: ``OSError`` with ETIMEDOUT (a member did not come
    within ``timeout`` seconds), EOWNERDEAD (it died), EPIPE (it left), EPROTO (it makes another call).
    """

    _kind = "team"

    def __init__(
        self,
        size: int = 0,
        rank: int = 0,
        *,
        name: Optional[str] = None,
        payload: int = 1 << 20,
        timeout: Optional[float] = 10.0,
        pool: Place = None,
        create: Optional[bool] = None,
        mode: int = 0o600,
    ) -> None:
        size, rank, payload = whole("size", size), whole("rank", rank), whole("payload", payload)
        patience = seconds(timeout)
        bytes = _vshmem.team_bytes(size, payload) if size > 0 <= payload else 0
        if not bytes:
            raise ValueError(f"there is no team of {size} members with {payload} bytes")
        if not 0 <= rank < size:
            raise ValueError(f"rank must be in 0..{size - 1}, not {rank}")
        self._open(name, pool, create, [0], [size, payload], bytes, mode)
        if (size, payload) != (self._words[4], self._words[5]):
            raise ValueError(
                f"the team {self._name} has {self._words[4]} members and a payload of "
                f"{self._words[5]} bytes"
            )
        self._rank, self._size, self._patience = rank, size, patience
        self._core = _vshmem.Team(self._kept.memory, PAGE, size, payload, rank)
        self._core.patience(patience)
        # It has a buffer of the memory.
        self._kept.leave = self._core.leave  # type: ignore[method-assign]
        _members.add(self)

    @property
    def rank(self) -> int:
        """The number of this member, from 0."""
        return self._rank

    @property
    def size(self) -> int:
        """How many members the team has."""
        return self._size

    def barrier(self) -> None:
        """Waits until all have come."""
        self._core.barrier()

    def broadcast(self, buffer: Any, root: int = 0) -> Any:
        """Copies the root's array to all; gives it back."""
        self._core.broadcast(root, _contiguous(buffer))
        return buffer

    def allreduce(self, array: Any, op: str = "sum", out: Any = None) -> Any:
        """Makes one array of those of all members, number by number; all get the same bytes.

        ``op``: sum, prod, min, max, and, or, xor. int32, int64, uint64, float32 and float64.
        """
        return self._reduce(-1, array, op, out)

    def reduce(self, array: Any, op: str = "sum", root: int = 0, out: Any = None) -> Any:
        """The same for one member; None for the others."""
        result = self._reduce(root, array, op, out)
        return result if self._rank == root else None

    def _reduce(self, root: int, array: Any, op: str, out: Any) -> Any:
        import numpy

        mine = numpy.ascontiguousarray(array)
        number = _NUMBERS.get(mine.dtype.name)
        if number is None or op not in _OPERATIONS:
            raise ValueError(f"no {op!r} of {mine.dtype}: see Team.allreduce")
        if out is None:
            out = numpy.empty(mine.shape, mine.dtype)
        elif out.dtype != mine.dtype or out.size != mine.size:
            raise ValueError("the result has another shape or type")
        self._core.reduce(root, mine, _contiguous(out), mine.size, number, _OPERATIONS[op])
        return out if out.ndim else out[()]

    def leave(self) -> None:
        """Leaves the team; the others' next call fails."""
        self._core.leave()

    def __enter__(self) -> "Team":
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def __reduce__(self) -> Any:
        raise TypeError("a member cannot be sent: make another, with a rank of its own")

    @classmethod
    def _reopened(cls, name: str, pool: Pool) -> Any:
        raise TypeError("a member cannot be sent")


def _contiguous(buffer: Any) -> Any:
    if not memoryview(buffer).c_contiguous:
        raise ValueError("the array is not contiguous")
    return buffer


_members: weakref.WeakSet[Team] = weakref.WeakSet()


def _forget_in_child() -> None:
    # They are the parent's.
    for member in list(_members):
        member._core.forget()


os.register_at_fork(after_in_child=_forget_in_child)
