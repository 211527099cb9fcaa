"""Many profiles of one program as one, each part's samples labelled; bounded, with exact totals."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pprof import codec
from pprof.check import DEFAULT_BOUNDS, Bounds, ProfileTooLarge
from pprof.comments import truncations
from pprof.labels import heaviest, labelled, unlabelled
from pprof.merge import merge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pprof.model import Profile

_ROUND_SAMPLES = 20_000
_UNBOUND = Bounds(max_samples=sys.maxsize, max_nodes=sys.maxsize)


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """The merged profile.

    Args:
        data: as pprof, gzipped.
        window_ns: from the earliest start of a part to the latest end.
        truncated: the bounds that made it coarser than its parts, comma-separated; else empty.
        dropped: labels that had to go for it, comma-separated.
    """

    data: bytes
    window_ns: int
    truncated: str
    dropped: str


class Gathering:
    """Parts are added one by one and let go soon: memory follows the whole, not their number.

    A whole that passes a bound loses labels, the finest first; when none is left, its lightest
    stacks are counted together as ``(truncated)``. Totals are exact in any case.

    Args:
        keys: the labels parts are given, the finest first.
    """

    def __init__(self, keys: tuple[str, ...], bounds: Bounds = DEFAULT_BOUNDS) -> None:
        self._keys = keys
        self._bounds = bounds
        self._whole: list[Profile] = []
        self._waiting: list[Profile] = []
        self._dropped: list[str] = []
        self._limits: set[str] = set()

    def add(self, profile: Profile, told: Mapping[str, str]) -> None:
        """Take one part in.

        Raises:
            ProfileInvalid: it counts other things than the parts before it.
        """
        kept = {key: text for key, text in told.items() if key not in self._dropped}
        self._waiting.append(labelled(profile, kept))
        # As much again as is merged already: each sample is merged a few times, however many parts.
        if _samples(self._waiting) >= max(_ROUND_SAMPLES, _samples(self._whole)):
            self._join()

    def finish(self, *, comments: tuple[str, ...] = ()) -> Gathered:
        """Merge what was added.

        Args:
            comments: said beside those of the parts.

        Raises:
            ProfileInvalid: nothing was added, or a sum leaves its range.
            ProfileTooLarge: three stacks are too much for the bounds.
        """
        self._join()
        while True:
            truncated, dropped = ",".join(sorted(self._limits)), ",".join(self._dropped)
            whole = self._whole[0]
            told = [*whole.comments, *comments]
            if truncated:
                before = [text for text in told if text.startswith("truncated=")]
                all_ = truncations(truncated, *(text.partition("=")[2] for text in before))
                told = [*(text for text in told if text not in before), f"truncated={all_}"]
            if dropped:
                told.append(f"labels_dropped={dropped}")
            try:
                data = codec.encode(replace(whole, comments=tuple(told)), bounds=self._bounds)
            except ProfileTooLarge as error:
                self._whole = self._coarser(error, self._whole)
                self._join()
                continue
            return Gathered(
                data=data,
                window_ns=whole.duration_ns,
                truncated=truncated,
                dropped=dropped,
            )

    def _join(self) -> None:
        parts = [*self._whole, *self._waiting]
        while True:
            try:
                self._whole = [merge(parts, self._bounds)]
                break
            except ProfileTooLarge as error:
                parts = self._coarser(error, parts)
        self._waiting = []

    def _coarser(self, error: ProfileTooLarge, parts: list[Profile]) -> list[Profile]:
        self._limits.add(f"{error.limit}={error.allowed}")
        key = next((key for key in self._keys if key not in self._dropped), None)
        if key is not None:
            self._dropped.append(key)
            parts = [unlabelled(part, key) for part in parts]
        else:
            # Without the bound for once: no more than two wholes and a part are here.
            whole = merge(parts, _UNBOUND)
            # One fewer than half: what is cut off comes back as a sample.
            keep = len(whole.samples) // 2 - 1
            if keep < 1:
                raise error
            parts = [heaviest(whole, keep)]
        return parts


def _samples(profiles: list[Profile]) -> int:
    return sum(len(profile.samples) for profile in profiles)
