"""Which metal is asked: feasible, ranked, selected; every one turned away has its reason."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum, unique
from typing import TYPE_CHECKING

from contract.faults import Reason

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from random import Random


# A hold that outlives its estimate is being wound up: it ends soon, not at once.
WINDING_UP_MS = 500


@unique
class TurnedAway(StrEnum):
    """Why a metal that has seen the version is not asked, or not once more.

    ``used_up``: every isolate it has of the version is in the session already.
    """

    STALE = "stale"
    AGENT_SILENT = "agent_silent"
    DRAINING = "draining"
    NOT_LOADED = "not_loaded"
    SHARED = "shared"
    HELD = "held"
    AT_CAPACITY = "at_capacity"
    FAILED_HERE = "failed_here"
    OTHER_DATACENTER = "other_datacenter"
    USED_UP = "used_up"


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
class Standing:
    """What a session already has, or has tried, on one metal.

    Args:
        live: its captures that hold an isolate there now.
        taken: isolates that were sampled for it, their profiles here or on their way.
        failed: isolates that were sampled for it in vain.
    """

    live: int = 0
    taken: int = 0
    failed: int = 0


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a session wants of the placement.

    Args:
        count: metals to choose; one that has several isolates may be chosen several times.
        failed_on: metals that are not asked again.
        standing: by metal.
        datacenters: the only ones to be asked; empty for any.
    """

    count: int = 1
    failed_on: Collection[str] = ()
    standing: Mapping[str, Standing] = field(default_factory=dict)
    datacenters: Collection[str] = ()


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The outcome: up to ``count`` metals, in the order they were drawn.

    Args:
        turned_away: how many metals for which reason; where fewer were found than asked for, those
            that could give some but no more are counted too.
        retry_after_s: when trying again can help, because what is held ends then.
    """

    chosen: tuple[Candidate, ...]
    turned_away: dict[TurnedAway, int] = field(default_factory=dict)
    retry_after_s: float | None = None

    def explained(self) -> str:
        """Say the counted reasons, for the caller and the history."""
        said = ", ".join(f"{why.value}: {n}" for why, n in sorted(self.turned_away.items()))
        return f"metals turned away: {said}" if said else "no metal has sighted it"


def select(
    candidates: Sequence[Candidate], asked: Asked, *, limits: Limits, rng: Random
) -> Selection:
    """Draw metals that can take a capture now: spread first, then by traffic.

    Each datacenter gives one before any gives two, and so does each of its metals; among equals
    chance decides, weighted by traffic. A metal that may have no free isolate, or that failed the
    session before, is used only when no other is left.
    """
    reasons: Counter[TurnedAway] = Counter()
    free_in: list[int] = []
    rooms: list[_Room] = []
    for candidate in candidates:
        room = _room(candidate, asked, limits)
        if isinstance(room, _Room):
            rooms.append(room)
        else:
            reasons[room] += 1
            free_in.append(_free_in_ms(candidate, room))
    chosen = _drawn(rooms, asked, rng)
    if len(chosen) < asked.count:
        for room in rooms:
            reasons[room.then] += 1
            free_in.append(_free_in_ms(room.candidate, room.then))
    return Selection(
        chosen=tuple(chosen),
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


@dataclass(frozen=True, kw_only=True)
class _Room:
    """How many captures a metal can take.

    Args:
        sure: of those, the ones its last report had a free isolate for.
        failed: isolates there that failed the session.
        weight: of the random choice.
        then: why it can take no more than that.
    """

    candidate: Candidate
    most: int
    sure: int
    failed: int
    weight: int
    then: TurnedAway


def _room(candidate: Candidate, asked: Asked, limits: Limits) -> _Room | TurnedAway:
    why = _why_not(candidate, asked, limits)
    if why is not None:
        return why
    standing = asked.standing.get(candidate.metal_id, Standing())
    spent = standing.taken + standing.failed
    isolates = candidate.isolates - candidate.live_here - spent
    slots = candidate.max_captures - candidate.live_on_metal
    held_by_others = candidate.live_here > standing.live
    then = TurnedAway.HELD if held_by_others else TurnedAway.USED_UP
    if isolates <= 0:
        return then
    if slots <= 0:
        return TurnedAway.AT_CAPACITY
    most = min(isolates, slots, asked.count)
    return _Room(
        candidate=candidate,
        most=most,
        sure=max(0, min(most, candidate.free_isolates - candidate.live_here - spent)),
        failed=standing.failed,
        weight=candidate.executions + 1,
        then=TurnedAway.AT_CAPACITY if slots < isolates else then,
    )


def _drawn(rooms: Sequence[_Room], asked: Asked, rng: Random) -> list[Candidate]:
    on_metal = Counter({m: s.live + s.taken for m, s in asked.standing.items()})
    in_datacenter = Counter[str]()
    for room in rooms:
        in_datacenter[room.candidate.datacenter] += on_metal[room.candidate.metal_id]
    tiers = (
        [(room, room.sure) for room in rooms if room.sure and not room.failed],
        [(room, room.sure) for room in rooms if room.sure and room.failed],
        [(room, room.most - room.sure) for room in rooms if room.most > room.sure],
    )
    chosen: list[Candidate] = []
    for tier in tiers:
        queues = _queues(tier, on_metal, rng)
        weights = Counter[str]()
        for room, _ in tier:
            weights[room.candidate.datacenter] += room.weight
        while queues and len(chosen) < asked.count:
            fewest = min(in_datacenter[name] for name in queues)
            names = [name for name in queues if in_datacenter[name] == fewest]
            name = rng.choices(names, weights=[weights[name] for name in names])[0]
            _, draw, number, room, left = heapq.heappop(queues[name])
            candidate = room.candidate
            chosen.append(candidate)
            on_metal[candidate.metal_id] += 1
            in_datacenter[name] += 1
            if left > 1:
                again = (on_metal[candidate.metal_id], draw, number, room, left - 1)
                heapq.heappush(queues[name], again)
            elif not queues[name]:
                del queues[name]
    return chosen


# How often its metal was chosen; a draw that comes first as often as its weight says; a number to
# tell equals apart; what it is about; how often it may still be chosen.
_Queued = tuple[int, float, int, _Room, int]


def _queues(
    tier: Sequence[tuple[_Room, int]], on_metal: Counter[str], rng: Random
) -> dict[str, list[_Queued]]:
    queues: dict[str, list[_Queued]] = {}
    for number, (room, most) in enumerate(tier):
        draw = rng.expovariate(room.weight)
        entry = (on_metal[room.candidate.metal_id], draw, number, room, most)
        queues.setdefault(room.candidate.datacenter, []).append(entry)
    for queue in queues.values():
        heapq.heapify(queue)
    return queues


def _why_not(candidate: Candidate, asked: Asked, limits: Limits) -> TurnedAway | None:
    elsewhere = bool(asked.datacenters) and candidate.datacenter not in asked.datacenters
    checks = (
        (elsewhere, TurnedAway.OTHER_DATACENTER),
        (
            candidate.idle_ms is None or candidate.idle_ms > limits.recent_ms,
            TurnedAway.STALE,
        ),
        (
            candidate.silent_ms is None or candidate.silent_ms > limits.silent_ms,
            TurnedAway.AGENT_SILENT,
        ),
        (candidate.draining, TurnedAway.DRAINING),
        (candidate.metal_id in asked.failed_on, TurnedAway.FAILED_HERE),
        (candidate.isolates == 0, TurnedAway.NOT_LOADED),
        (candidate.shared, TurnedAway.SHARED),
    )
    return next((why for failed, why in checks if failed), None)


def why_not(candidate: Candidate, asked: Asked, *, limits: Limits) -> TurnedAway | None:
    """Say why a metal is turned away; None when it can take a capture now."""
    room = _room(candidate, asked, limits)
    return None if isinstance(room, _Room) else room


def verdict(selection: Selection) -> Reason:
    """Name the one reason a caller is given when no metal, or too few, could be chosen.

    What passes by waiting comes first; what was never there comes last. A shared isolate is told as
    one that is not loaded: a tenant learns nothing about another.
    """
    reasons = selection.turned_away
    if reasons.keys() & {TurnedAway.HELD, TurnedAway.AT_CAPACITY}:
        return Reason.ISOLATES_BUSY
    if reasons.keys() & {TurnedAway.NOT_LOADED, TurnedAway.SHARED, TurnedAway.USED_UP}:
        return Reason.NOT_LOADED
    if TurnedAway.AGENT_SILENT in reasons:
        return Reason.AGENT_UNREACHABLE
    if TurnedAway.DRAINING in reasons:
        return Reason.DISPATCH_OFF
    return Reason.NO_RECENT_EXECUTION
