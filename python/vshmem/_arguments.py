"""What callers give: each wrong type is a TypeError that says what is wanted."""
from __future__ import annotations

import operator
import time
from typing import Any, Optional


def check_name(name: Any) -> None:
    """A name, or None."""
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be a str or None, not {type(name).__name__}")


def check_create(create: Any) -> None:
    """Whether an object is made."""
    if create is not None and not isinstance(create, bool):
        raise TypeError(f"create must be True, False or None, not {type(create).__name__}")


def whole(what: str, value: Any) -> int:
    """A whole number."""
    try:
        return operator.index(value)
    except TypeError:
        hint = f"; a name is given as name={value!r}" if isinstance(value, str) else ""
        raise TypeError(f"{what} must be an int, not {type(value).__name__}{hint}") from None


def seconds(timeout: Any) -> Optional[float]:
    """How long is waited; None is for as long as it takes."""
    if timeout is None:
        return None
    try:
        return max(0.0, timeout + 0.0)
    except TypeError:
        wrong = type(timeout).__name__
        raise TypeError(f"timeout must be a number of seconds or None, not {wrong}") from None


def end_of(timeout: Any) -> Optional[float]:
    """Until when that is, by the monotonic clock."""
    left = seconds(timeout)
    return None if left is None else time.monotonic() + left
