"""Read the JSON that V8's profilers write, without building a dictionary per node."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pprof.check import Bounds, ProfileInvalid, within

if TYPE_CHECKING:
    from collections.abc import Callable

JsonObject = dict[str, object]
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def parse(data: bytes, hook: Callable[[JsonObject], object], bounds: Bounds) -> JsonObject:
    """The profile object in ``data``, bare or inside its protocol reply.

    Args:
        hook: called with every object, innermost first, once complete; what it returns takes the
            object's place. Shrinking frames and nodes there keeps the peak memory near the size of
            the text.

    Raises:
        ProfileInvalid: no JSON, nested beyond reason, or no profile inside.
        ProfileTooLarge: ``max_bytes``.
    """
    within(len(data), "max_bytes", bounds.max_bytes)
    try:
        # Bytes that are no UTF-8 become lone surrogates, which ``Places`` repairs and counts.
        text = data.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "surrogateescape")
        found = json.loads(text, object_hook=hook)
    except ProfileInvalid:
        raise
    except (ValueError, RecursionError) as error:
        raise ProfileInvalid(f"the capture is not readable JSON: {type(error).__name__}") from None
    for key in ("result", "profile"):
        if isinstance(found, dict) and isinstance(found.get(key), dict):
            found = found[key]
    if not isinstance(found, dict):
        raise ProfileInvalid("the capture holds no profile")
    return found


def whole(value: object, what: str, *, most: int = 2**53) -> int:
    """A number of the runtime as an int, bounded on both sides.

    Raises:
        ProfileInvalid: not a finite number.
    """
    if type(value) is float and value == value and abs(value) != float("inf"):
        value = int(value)
    if type(value) is not int:
        raise ProfileInvalid(f"{what} is not a number")
    return max(-most, min(most, value))
