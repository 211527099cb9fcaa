"""Which metal is asked: feasible, ranked, selected; every one turned away has its reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum, unique
from typing import TYPE_CHECKING

from contract.faults import Reason

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from random import Random


# A hold that outlives its estimate is being wound up: it ends soon, not at once.
WINDING_UP_MS = 500


@unique
class TurnedAway(StrEnum):
    """Why a metal that has seen the version is not asked."""

    STALE = "stale"
    AGENT_SILENT = "agent_silent"
    DRAINING = "draining"
    NOT_LOADED = "not_loaded"
    SHARED = "shared"
    HELD = "held"
    AT_CAPACITY = "at_capacity"
    FAILED_HERE = "failed_here"


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One metal that has sighted the version, with what the store knows of it at this moment.

    Args:
        executions: in its last reporting interval; the weight of the random choice.
        idle_ms: since the version last ran there, age of the report included; None when it never
            did.
        silent_ms: since the agent was last heard of.
        isolates: loaded at the last report.
        free_isolates: of those, alone and unheld at the last report: a preference, it may be
            outdated.
        live_here: captures of this version that hold an isolate there now.
        live_on_metal: captures of any version that hold one there now.
        ends_in_ms: until the first hold of this version's captures ends, below 0 when it should
            have; None when there is none.
        metal_ends_in_ms: the same of all captures there.
    """

    metal_id: str
    datacenter: str
    address: str
    epoch: int
    executions: int
    idle_ms: int | None
    silent_ms: int | None
    draining: bool
    isolates: int
    free_isolates: int
    shared: bool
    live_here: int
    live_on_metal: int
    max_captures: int
    ends_in_ms: int | None = None
    metal_ends_in_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What counts as recent, and as silent."""

    recent_ms: int
    silent_ms: int


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The outcome. ``chosen`` is None when every metal was turned away.

    Args:
        turned_away: how many metals for which reason.
        retry_after_s: when trying again can help, because what is held ends then.
    """

    chosen: Candidate | None
    turned_away: dict[TurnedAway, int] = field(default_factory=dict)
    retry_after_s: float | None = None

    def explained(self) -> str:
        """Say the counted reasons, for the caller and the history."""
        said = ", ".join(f"{why.value}: {n}" for why, n in sorted(self.turned_away.items()))
        return f"metals turned away: {said}" if said else "no metal has sighted it"


def choose(
    candidates: Sequence[Candidate],
    *,
    failed_on: Collection[str],
    limits: Limits,
    rng: Random,
) -> Placement:
    """Pick one metal, by traffic-weighted chance among those that can take a capture now.

    A metal that last reported no free isolate is used only when no other is left: its report may be
    older than the end of the capture that held it.

    Args:
        failed_on: metals this session has already failed on.
    """
    reasons: Counter[TurnedAway] = Counter()
    feasible: list[Candidate] = []
    free_in: list[int] = []
    for candidate in candidates:
        why = _why_not(candidate, failed_on, limits)
        if why is None:
            feasible.append(candidate)
            continue
        reasons[why] += 1
        free_in.append(_free_in_ms(candidate, why))
    free = [c for c in feasible if c.free_isolates > c.live_here] or feasible
    chosen = rng.choices(free, weights=[c.executions + 1 for c in free])[0] if free else None
    return Placement(
        chosen=chosen,
        turned_away=dict(reasons),
        retry_after_s=min(told) / 1000 if (told := [ms for ms in free_in if ms]) else None,
    )


def _free_in_ms(candidate: Candidate, why: TurnedAway) -> int:
    """Until a metal that is too busy takes a capture again; 0 where waiting does not help."""
    match why:
        case TurnedAway.HELD:
            return max(candidate.ends_in_ms or 0, WINDING_UP_MS)
        case TurnedAway.AT_CAPACITY:
            return max(candidate.metal_ends_in_ms or 0, WINDING_UP_MS)
        case _:
            return 0


def _why_not(candidate: Candidate, failed_on: Collection[str], limits: Limits) -> TurnedAway | None:
    checks = (
        (
            candidate.idle_ms is None or candidate.idle_ms > limits.recent_ms,
            TurnedAway.STALE,
        ),
        (
            candidate.silent_ms is None or candidate.silent_ms > limits.silent_ms,
            TurnedAway.AGENT_SILENT,
        ),
        (candidate.draining, TurnedAway.DRAINING),
        (candidate.metal_id in failed_on, TurnedAway.FAILED_HERE),
        (candidate.isolates == 0, TurnedAway.NOT_LOADED),
        (candidate.shared, TurnedAway.SHARED),
        (candidate.live_here >= candidate.isolates, TurnedAway.HELD),
        (candidate.live_on_metal >= candidate.max_captures, TurnedAway.AT_CAPACITY),
    )
    return next((why for failed, why in checks if failed), None)


def verdict(placement: Placement) -> Reason:
    """Name the one reason a caller is given when every metal was turned away.

    What passes by waiting comes first; what was never there comes last. A shared isolate is told as
    one that is not loaded: a tenant learns nothing about another.
    """
    reasons = placement.turned_away
    if reasons.keys() & {TurnedAway.HELD, TurnedAway.AT_CAPACITY}:
        return Reason.ISOLATES_BUSY
    if reasons.keys() & {TurnedAway.NOT_LOADED, TurnedAway.SHARED}:
        return Reason.NOT_LOADED
    if TurnedAway.AGENT_SILENT in reasons:
        return Reason.AGENT_UNREACHABLE
    if TurnedAway.DRAINING in reasons:
        return Reason.DISPATCH_OFF
    return Reason.NO_RECENT_EXECUTION
