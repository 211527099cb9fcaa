"""How many objects stand behind V8's heap samples: worked out, because V8 tells bytes only.

V8 samples an object of s bytes with the probability 1-exp(-s/R), R the sampling interval, and
reports each sample as s * n(s, 1), each node as the sum over its sizes s of s * n(s, k): k the
samples of that size and n(s, k) = round(k / (1 - exp(-s/R))) the estimated number of objects.
The size itself it keeps. But it divides what is reported, and few sizes that do give back the very
number; of those the node's own sum mostly leaves one (94 of 100 nodes with several samples). A node
with one sample stays open: the smallest size is taken, and the count may be many times too high.

Source: V8's ScaleSample, and captures of known allocations (tests/unit/pprof/goldens).
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_SMALLEST = 8
_ALIGNED = 4
_SURE = 2.2
"""Objects so many intervals large are always sampled: what is reported is their size."""
_MOST_DIVISORS = 4_096
_MOST_SIZES = 10_000
_MOST_TRIES = 20_000


class Objects:
    """Estimates object counts of one capture; remembers the sizes it worked out.

    Args:
        interval_bytes: the sampling interval the capture was taken with.
    """

    def __init__(self, interval_bytes: int) -> None:
        self._interval = interval_bytes
        self._sizes: dict[int, tuple[int, ...]] = {}

    def count(self, self_bytes: int, samples: Sequence[int]) -> int:
        """Objects allocated at one node.

        Args:
            self_bytes: the node's selfSize.
            samples: the size of each of its samples, as reported.

        Returns:
            The estimate whose sizes explain ``self_bytes``; where several do, the one of the
            smallest objects. At least one object per sample.
        """
        groups = sorted(Counter(samples).items())
        sizes = [self.sizes(reported) for reported, _ in groups]
        tries = itertools.islice(itertools.product(*sizes), _MOST_TRIES) if all(sizes) else iter(())
        smallest: int | None = None
        for chosen in tries:
            counts = [self.scaled(size, k) for size, (_, k) in zip(chosen, groups, strict=True)]
            if smallest is None:
                smallest = sum(counts)
            if sum(size * n for size, n in zip(chosen, counts, strict=True)) == self_bytes:
                return sum(counts)
        return max(smallest or 0, len(samples), 1 if self_bytes else 0)

    def scaled(self, size: int, k: int) -> int:
        """V8's estimate of how many objects of this size were allocated when k were sampled."""
        return int(k / -math.expm1(-size / self._interval) + 0.5)

    def sizes(self, reported: int) -> tuple[int, ...]:
        """Object sizes for which V8 reports one sample as this many bytes, smallest first."""
        known = self._sizes.get(reported)
        if known is None:
            if len(self._sizes) >= _MOST_SIZES:
                return ()
            known = self._sizes[reported] = tuple(self._dividing(reported))
        return known

    def _dividing(self, reported: int) -> list[int]:
        if reported <= 0:
            return []
        if reported > _SURE * self._interval:
            return [reported]
        # Rounding makes a sample at least the interval and at most the interval plus one object.
        least = max(_SMALLEST, reported - self._interval)
        found: set[int] = set()
        for divisor in range(1, min(math.isqrt(reported), _MOST_DIVISORS) + 1):
            if reported % divisor == 0:
                found |= {divisor, reported // divisor}
        return sorted(
            size
            for size in found
            if size >= least and size % _ALIGNED == 0 and size * self.scaled(size, 1) == reported
        )
