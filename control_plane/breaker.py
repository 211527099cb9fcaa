"""When a version is left alone: most of its latest captures failed, maybe from profiling it."""

from __future__ import annotations

from dataclasses import dataclass

from contract.faults import Reason

# How many of a version's latest captures are looked at.
LATEST = 20
# Endings that profiling the version may have caused. What the network, a deploy or another client
# of the inspector does is not held against it.
BLAMED = frozenset(
    {
        Reason.TARGET_EXITED,
        Reason.AGENT_RESTARTED,
        Reason.RUNTIME_TIMEOUT,
        Reason.RUNTIME_START_FAILED,
        Reason.PROFILE_TOO_LARGE,
        Reason.PROFILE_INVALID,
        Reason.INTERNAL,
    }
)
_AT_LEAST_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Limits:
    """When it opens, and for how long.

    Args:
        failures: of the latest captures, at least so many, and at least half.
        pause_s: from the last failure to the next try.
    """

    failures: int
    pause_s: float


@dataclass(frozen=True, kw_only=True)
class Latest:
    """What became of a version's latest captures.

    Args:
        ended: how many there are, ``LATEST`` at most.
        failed: of these, for a reason that is blamed on profiling.
        reason: the most frequent of those.
        since_failed_s: since the last one failed.
        trying_ends_in_s: until a capture that runs now is over; None when none runs.
    """

    ended: int
    failed: int
    reason: Reason | None
    since_failed_s: float
    trying_ends_in_s: float | None


def left_alone_s(latest: Latest, limits: Limits) -> float | None:
    """Return how long the version is to be left alone; None: it may be captured.

    After the pause one capture is let by. Should it fail, the pause begins anew; each that ends
    well takes the place of a failure among the latest.
    """
    if latest.failed < limits.failures or 2 * latest.failed < latest.ended:
        return None
    left_s = limits.pause_s - latest.since_failed_s
    if left_s > 0:
        return max(left_s, _AT_LEAST_S)
    if latest.trying_ends_in_s is not None:
        return max(latest.trying_ends_in_s, _AT_LEAST_S)
    return None
