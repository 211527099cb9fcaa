"""What an account may use: how much is left, and when there is more again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum, unique
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WINDOW = timedelta(hours=1)
# Told where waiting an hour does not help either: a limit of none.
_NEVER_S = WINDOW.total_seconds()
_AT_LEAST_S = 1.0


@unique
class Quota(StrEnum):
    """The three quotas, by the name of their limit."""

    CONCURRENT_SESSIONS = "max_concurrent_sessions"
    SESSIONS_PER_HOUR = "max_sessions_per_hour"
    CAPTURE_SECONDS_PER_HOUR = "max_capture_seconds_per_hour"


@dataclass(frozen=True, kw_only=True)
class Allowed:
    """An account's limits."""

    max_concurrent_sessions: int
    max_sessions_per_hour: int
    max_capture_seconds_per_hour: int


@dataclass(frozen=True, kw_only=True)
class Spent:
    """One session of the last hour, or one that still goes on.

    Args:
        charged_ms: of sampling, over its isolates: what it asked for while it goes on, what it
            really held isolates for once it has ended. What it did not use is given back so.
        ends_at: of one that goes on, when it should end.
    """

    made_at: datetime
    live: bool
    charged_ms: int
    ends_at: datetime


@dataclass(frozen=True, kw_only=True)
class AtMost:
    """What an account has used, counted cheaply: never less than it really is.

    Args:
        asked_ms: of sampling, that the sessions of the last hour asked for.
    """

    live: int
    made: int
    asked_ms: int


@dataclass(frozen=True, kw_only=True)
class Exceeded:
    """A quota that is used up, the one that takes longest to have room again."""

    quota: Quota
    limit: int
    retry_after_s: float


def judge(
    allowed: Allowed, spent: Sequence[Spent], *, wanted_ms: int, now: datetime
) -> Exceeded | None:
    """Say which quota one more session would exceed, and when none would be.

    Every session counts to the hour it was made in, whatever came of it: that quota guards the
    control plane. Seconds of sampling are charged as they are used: that one guards the metals.

    Args:
        spent: oldest first.
        wanted_ms: of sampling, over all isolates asked for.
    """
    recent = [one for one in spent if one.made_at > now - WINDOW]
    found = (
        _concurrent(allowed.max_concurrent_sessions, spent, now),
        _per_hour(allowed.max_sessions_per_hour, recent, now),
        _seconds(allowed.max_capture_seconds_per_hour, recent, wanted_ms, now),
    )
    exceeded = [one for one in found if one is not None]
    return max(exceeded, key=lambda one: one.retry_after_s, default=None)


def fits_surely(allowed: Allowed, used: AtMost, wanted_ms: int) -> bool:
    """Whether one more session exceeds nothing; False leaves it to ``judge``."""
    return (
        used.live < allowed.max_concurrent_sessions
        and used.made < allowed.max_sessions_per_hour
        and used.asked_ms + wanted_ms <= allowed.max_capture_seconds_per_hour * 1000
    )


def fits_never(allowed: Allowed, wanted_ms: int) -> bool:
    """Whether a request asks for more sampling than a whole hour allows."""
    return wanted_ms > allowed.max_capture_seconds_per_hour * 1000


def _concurrent(limit: int, spent: Sequence[Spent], now: datetime) -> Exceeded | None:
    ends = sorted(one.ends_at for one in spent if one.live)
    if len(ends) < limit:
        return None
    # So many have to end before one may begin.
    in_s = (ends[len(ends) - limit] - now).total_seconds() if limit else _NEVER_S
    return _exceeded(Quota.CONCURRENT_SESSIONS, limit, in_s)


def _per_hour(limit: int, recent: Sequence[Spent], now: datetime) -> Exceeded | None:
    if len(recent) < limit:
        return None
    in_s = _leaves_s(recent[len(recent) - limit], now) if limit else _NEVER_S
    return _exceeded(Quota.SESSIONS_PER_HOUR, limit, in_s)


def _seconds(limit: int, recent: Sequence[Spent], wanted_ms: int, now: datetime) -> Exceeded | None:
    over_ms = sum(one.charged_ms for one in recent) + wanted_ms - limit * 1000
    if over_ms <= 0:
        return None
    in_s = _NEVER_S
    for one in recent:
        over_ms -= one.charged_ms
        if over_ms <= 0:
            in_s = _leaves_s(one, now)
            break
    return _exceeded(Quota.CAPTURE_SECONDS_PER_HOUR, limit, in_s)


def _leaves_s(one: Spent, now: datetime) -> float:
    return (one.made_at + WINDOW - now).total_seconds()


def _exceeded(quota: Quota, limit: int, in_s: float) -> Exceeded:
    return Exceeded(quota=quota, limit=limit, retry_after_s=max(in_s, _AT_LEAST_S))
