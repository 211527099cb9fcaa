"""What a profile says about itself in its comments: written by builders, read by viewers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

INCONCLUSIVE_BELOW = 400
"""CPU samples under which a profile must not be argued from (measured: -17..-35 % at about 105)."""

ADDED_UP = frozenset({"samples", "idle_ns", "gaps_ns", "slices", "repaired_strings"})
"""Keys whose numbers are summed when profiles are merged; all others are listed side by side."""

_JUDGED = frozenset({"error_percent", "confidence"})
_LONGEST = 1_000


@dataclass(frozen=True, kw_only=True)
class Context:
    """Where and how a capture was taken; free of account identifiers.

    Args:
        isoprof: version of this product.
        capture: which capture of the session, from 1.
        lock_start_ns, lock_stop_ns: the longest the isolate's lock was held to start and to stop
            the profiler.
        gaps_ns: time between slices in which nothing was sampled.
        truncated: what the sampler cut (``stopped_early``), comma-separated; the builder adds its
            own.
    """

    isoprof: str
    session: str
    capture: int
    worker: str
    version: str
    datacenter: str
    metal: str
    isolate: str
    lock_start_ns: int = 0
    lock_stop_ns: int = 0
    gaps_ns: int = 0
    truncated: str = ""


def write(context: Context, told: Mapping[str, object]) -> tuple[str, ...]:
    """Comments of a profile: the product, the context, then what the builder has to tell."""
    known: dict[str, object] = {
        "session": context.session,
        "capture": context.capture,
        "worker": context.worker,
        "version": context.version,
        "datacenter": context.datacenter,
        "metal": context.metal,
        "isolate": context.isolate,
        "lock_start_ns": context.lock_start_ns,
        "lock_stop_ns": context.lock_stop_ns,
        "gaps_ns": context.gaps_ns,
    }
    pairs = (f"{key}={_clean(value)}" for key, value in (known | dict(told)).items())
    return (f"isoprof {_clean(context.isoprof)}", *pairs)


def read(comments: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The ``key=value`` comments, several values a key when merged; the product is ``isoprof``."""
    found: dict[str, tuple[str, ...]] = {}
    for comment in comments:
        key, equals, value = comment.partition("=")
        if not equals:
            key, space, value = comment.partition(" ")
            if key != "isoprof" or not space:
                continue
        found[key] = (*found.get(key, ()), value)
    return found


def merged(several: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Comments of a merge: sums where adding up has a meaning, else every different one.

    What follows from the number of samples is judged anew.
    """
    sums: dict[str, int] = {}
    kept: set[str] = set()
    judged = False
    for comment in (comment for comments in several for comment in comments):
        key, _, value = comment.partition("=")
        if key in ADDED_UP and value.isascii() and value.isdigit() and len(value) < 20:
            sums[key] = sums.get(key, 0) + int(value)
        elif key in _JUDGED:
            judged = True
        else:
            kept.add(comment)
    told: dict[str, object] = dict(sorted(sums.items()))
    taken = sums.get("samples", 0)
    if judged:
        told |= verdict(taken)
    if taken:
        kept = {comment for comment in kept if not comment.startswith("note=")}
    return (
        *sorted(kept, key=lambda text: (not text.startswith("isoprof "), text)),
        *(f"{key}={value}" for key, value in told.items()),
    )


def verdict(samples: int) -> dict[str, object]:
    """How far CPU values can be trusted: the error to reckon with, and when not to argue at all."""
    told: dict[str, object] = {"error_percent": error_percent(samples)}
    if samples < INCONCLUSIVE_BELOW:
        told["confidence"] = "inconclusive"
    return told


def truncations(*several: str) -> str:
    """Every different reason of comma-separated lists, sorted."""
    return ",".join(sorted({part for text in several for part in text.split(",") if part}))


def error_percent(samples: int) -> int:
    """How far off a CPU total may be: two deviations of the count, never under the measured 5 %."""
    return min(100, max(5, math.ceil(200 / math.sqrt(samples)))) if samples else 100


def _clean(value: object) -> str:
    # One comment is one line: a name from outside must not be able to start another.
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(value))[
        :_LONGEST
    ]
