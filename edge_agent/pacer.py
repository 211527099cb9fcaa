"""How long the next slice of a CPU capture may be, so that no hold passes its budget.

Handing a profile over costs the isolate a time that grows with the profile's nodes and samples, all
of it under the lock. A capture of up to a few seconds is one slice. A longer one begins with a
short slice to learn what this Worker costs; then each slice is the longest whose hand-over is
expected within the budget, because every further slice loses the time of a stop and a start. Pure;
decision 0002 has the measurements behind the constants.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ONE_SLICE_US = 6_000_000
LEARNING_US = 1_000_000
MOMENT_US = 100_000.0
SHORTEST_US = 1_000_000
# What is aimed at: costs per node were seen to differ by a third between slices of one capture.
AIM = 0.9
LOSS_AIM = 0.7
CAUTION = 1.1
# A slice has room for at most so many times the samples of the largest before it: traffic may begin
# while it runs.
GROWTH = 4.0
# A sample costs about a sixteenth of a node to hand over; a stop costs something whatever it hands
# over.
NODES_PER_SAMPLE = 1 / 16
BASE_US = 5_000
# What is expected before anything was learned, and how many nodes of experience that expectation is
# worth.
PRIOR_US_PER_NODE = 25.0
PRIOR_NODES = 400
# New stacks come ever more rarely: nodes grow as time to a power. Measured 0.55..0.7 on wide
# Workers.
POWERS = (0.5, 1.0)
POWER_CAUTION = 0.05
# Multiples of the interval that are tried when the budget can't be met. Fewer samples cost less
# than a longer stall or a window with holes: past a few thousand they hardly change the profile.
SLOWER = (1, 2, 3, 4, 5, 8, 10)
SLOWEST_US = 20_000


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a capture may cost: the longest hold, and the share of its window that may be lost."""

    max_hold_us: int
    max_lost_ratio: float = 0.02


@dataclass(frozen=True, kw_only=True)
class Observed:
    """One slice that was taken. ``lost_us``: gap before it."""

    interval_us: int
    sampled_us: int
    samples: int
    nodes: int
    start_hold_us: int
    stop_hold_us: int
    lost_us: int = 0


@dataclass(frozen=True, kw_only=True)
class Slice:
    """The next slice to take."""

    length_us: int
    interval_us: int


def first(duration_us: int, interval_us: int) -> Slice:
    """The slice a capture begins with."""
    length_us = duration_us if duration_us <= ONE_SLICE_US else LEARNING_US
    return Slice(length_us=length_us, interval_us=interval_us)


def following(
    taken: Sequence[Observed], remaining_us: int, duration_us: int, budget: Budget
) -> Slice:
    """The slice after those taken: the longest expected to stay within the budget.

    The sampling interval only ever grows within a capture, and only when slices at the present one
    would either hold the lock for too long or be so many that too much of the window is lost
    between them.

    Args:
        taken: not empty.
        remaining_us: of the window, above 0.
    """
    asked_us, present_us = taken[0].interval_us, taken[-1].interval_us
    model = _Model.of(taken)
    allowed_us = LOSS_AIM * budget.max_lost_ratio * duration_us - sum(one.lost_us for one in taken)
    most_samples = GROWTH * max(one.sampled_us / one.interval_us for one in taken)
    # One slice alone says nothing of how nodes grow: for what is lost, the best is hoped for.
    hopeful = model if len(taken) > 1 else replace(model, power=POWERS[0])
    chosen = None
    for factor in SLOWER:
        interval_us = min(asked_us * factor, max(asked_us, SLOWEST_US))
        if interval_us < present_us:
            continue
        fit_us = model.longest_us(AIM * budget.max_hold_us, interval_us)
        chosen = Slice(
            length_us=_even(min(fit_us, most_samples * interval_us), remaining_us),
            interval_us=interval_us,
        )
        if fit_us < SHORTEST_US:
            continue
        hoped_us = hopeful.longest_us(AIM * budget.max_hold_us, interval_us)
        if hopeful.lost_us(hoped_us, remaining_us, interval_us) <= allowed_us:
            break
    assert chosen is not None  # noqa: S101 - SLOWER is not empty
    return chosen


def _even(length_us: float, remaining_us: int) -> int:
    """Cut the rest into equal slices no longer than this: a short last one would cost too much."""
    slices = max(1, math.ceil(remaining_us / max(length_us, SHORTEST_US)))
    return math.ceil(remaining_us / slices)


@dataclass(frozen=True, kw_only=True)
class _Model:
    """What this Worker was seen to cost. ``base_us`` at ``interval_us`` found ``nodes``."""

    nodes: float
    base_us: float
    interval_us: int
    power: float
    samples_per_us: float
    us_per_node: float
    start_us: float

    @staticmethod
    def of(taken: Sequence[Observed]) -> _Model:
        recent = taken[-4:]
        widest = max(recent, key=lambda one: (one.nodes, one.sampled_us))
        weight = sum(one.nodes + one.samples * NODES_PER_SAMPLE for one in recent)
        cost_us = sum(max(0, one.stop_hold_us - BASE_US) for one in recent)
        pooled = (cost_us + PRIOR_US_PER_NODE * PRIOR_NODES) / (weight + PRIOR_NODES)
        return _Model(
            nodes=max(1.0, widest.nodes),
            base_us=max(MOMENT_US, widest.sampled_us),
            interval_us=widest.interval_us,
            power=_power(taken),
            samples_per_us=max(
                one.samples * one.interval_us / max(1, one.sampled_us) for one in recent
            ),
            us_per_node=pooled * CAUTION,
            start_us=sum(one.start_hold_us for one in recent) / len(recent),
        )

    def stop_us(self, length_us: float, interval_us: int) -> float:
        """The hold a stop is expected to take. Sampling half as often sees half the time."""
        share = (length_us / interval_us) / (self.base_us / self.interval_us)
        nodes = self.nodes * math.pow(share, self.power)
        samples = self.samples_per_us * length_us / interval_us
        return BASE_US + self.us_per_node * (nodes + samples * NODES_PER_SAMPLE)

    def longest_us(self, hold_us: float, interval_us: int) -> float:
        """The longest slice whose stop is expected to hold the lock no longer than this."""
        low, high = 0.0, 1e9
        for _ in range(50):
            middle = (low + high) / 2
            if self.stop_us(middle, interval_us) <= hold_us:
                low = middle
            else:
                high = middle
        return low

    def lost_us(self, length_us: float, remaining_us: int, interval_us: int) -> float:
        """What the gaps still to come would take; the last stop of all loses nothing."""
        slices = max(1, math.ceil(remaining_us / length_us))
        each_us = self.stop_us(remaining_us / slices, interval_us) / CAUTION + self.start_us
        return slices * each_us - (each_us - self.start_us) + self.start_us


def _power(taken: Sequence[Observed]) -> float:
    """How nodes grew with samples from the shortest slice to the longest, with some caution."""
    low, high = POWERS
    shortest = min(taken, key=lambda one: one.samples)
    longest = max(taken, key=lambda one: one.samples)
    if min(shortest.samples, shortest.nodes) < 1 or longest.samples < 1.5 * shortest.samples:
        return high
    grown = math.log(max(1, longest.nodes) / shortest.nodes)
    power = grown / math.log(longest.samples / shortest.samples)
    return max(low, min(high, power + POWER_CAUTION))
