"""Captures: one isolate sampled once on one metal, on behalf of a session whose row is locked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum, unique
from itertools import groupby
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, func, insert, or_, select, update

from contract.faults import Reason
from contract.messages import LIVE_CAPTURE_STATES, CaptureKey, CaptureState
from control_plane.session import CaptureEvent, advance_capture
from control_plane.store import history
from control_plane.store.notices import CHANNEL, DISPATCH
from control_plane.store.tables import captures, metals, sessions

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from sqlalchemy import ColumnElement
    from sqlalchemy.engine import RowMapping
    from sqlalchemy.ext.asyncio import AsyncConnection

    from control_plane.placement import Candidate
    from control_plane.store.sessions import Session

# An agent that took no stop by then learns of it from the answer to its next report.
_STOP_AGAIN = timedelta(seconds=3)
_STOP_TRIED_FOR = timedelta(seconds=60)
# Of a hold beyond its window: opening the isolate's session, starting and stopping the profiler.
_AROUND = timedelta(milliseconds=500)


@unique
class Stop(StrEnum):
    """How a capture is to be ended early: its profile kept, or dropped."""

    KEEP = "keep"
    DISCARD = "discard"


@dataclass(frozen=True, kw_only=True)
class Capture:
    """One try. ``isolate_id`` is None until the agent has accepted.

    Args:
        part: which of the isolates its session asked for it stands for, from 1.
    """

    account_id: str
    session_id: str
    capture: int
    part: int
    state: CaptureState
    version_id: str
    metal_id: str
    datacenter: str
    address: str
    epoch: int
    isolate_id: str | None
    sampled_ms: int
    reason: Reason | None
    message: str
    retry_after_s: float | None
    ordered_at: datetime
    accepted_at: datetime | None
    ended_at: datetime | None
    stop: Stop | None
    freed_at: datetime | None

    @property
    def live(self) -> bool:
        """Whether it has not ended yet."""
        return self.state in LIVE_CAPTURE_STATES

    @property
    def key(self) -> CaptureKey:
        """What the agent knows it by."""
        return CaptureKey(session_id=self.session_id, capture=self.capture)


_COLUMNS: tuple[ColumnElement[Any], ...] = (
    captures.c.account_id,
    captures.c.session_id,
    captures.c.capture,
    captures.c.part,
    captures.c.state,
    captures.c.version_id,
    captures.c.metal_id,
    captures.c.datacenter,
    captures.c.address,
    captures.c.epoch,
    captures.c.isolate_id,
    captures.c.sampled_ms,
    captures.c.reason,
    captures.c.message,
    captures.c.retry_after_s,
    captures.c.ordered_at,
    captures.c.accepted_at,
    captures.c.ended_at,
    captures.c.stop,
    captures.c.freed_at,
)


def _capture(row: RowMapping) -> Capture:
    values = dict(row)
    values["state"] = CaptureState(values["state"])
    values["reason"] = Reason(values["reason"]) if values["reason"] is not None else None
    values["stop"] = Stop(values["stop"]) if values["stop"] is not None else None
    return Capture(**values)


def _is(capture: Capture) -> tuple[ColumnElement[bool], ...]:
    return (
        captures.c.account_id == capture.account_id,
        captures.c.session_id == capture.session_id,
        captures.c.capture == capture.capture,
    )


async def add(
    conn: AsyncConnection, session: Session, chosen: Mapping[int, Candidate]
) -> tuple[Capture, ...]:
    """Insert the session's next captures as ``ordered``; the orders go out after the commit.

    Args:
        chosen: where to, by part; at least one.
    """
    ends_at = func.now() + timedelta(milliseconds=session.duration_ms) + _AROUND
    added = await conn.execute(
        insert(captures)
        .values(
            [
                {
                    "account_id": session.account_id,
                    "session_id": session.session_id,
                    "capture": number,
                    "part": part,
                    "state": CaptureState.ORDERED,
                    "version_id": session.version_id,
                    "metal_id": metal.metal_id,
                    "datacenter": metal.datacenter,
                    "address": metal.address,
                    "epoch": metal.epoch,
                    "ends_at": ends_at,
                }
                for number, (part, metal) in enumerate(chosen.items(), session.captures + 1)
            ]
        )
        .returning(*_COLUMNS)
    )
    made = tuple(sorted(map(_capture, added.mappings()), key=lambda c: c.capture))
    await history.record_ordered(
        conn,
        session.account_id,
        session.session_id,
        {c.capture: f"{c.datacenter}/{c.metal_id}" for c in made},
    )
    return made


async def of_session(
    conn: AsyncConnection, account_id: str, session_id: str
) -> tuple[Capture, ...]:
    """Read a session's captures in order."""
    return (await of_sessions(conn, account_id, (session_id,))).get(session_id, ())


async def of_sessions(
    conn: AsyncConnection, account_id: str, session_ids: Collection[str]
) -> dict[str, tuple[Capture, ...]]:
    """Read the captures of several sessions, each one's in order; none has no entry."""
    rows = await conn.execute(
        select(*_COLUMNS)
        .where(captures.c.account_id == account_id, captures.c.session_id.in_(session_ids))
        .order_by(captures.c.session_id, captures.c.capture)
    )
    found = (_capture(row) for row in rows.mappings())
    return {session: tuple(own) for session, own in groupby(found, lambda c: c.session_id)}


async def read(conn: AsyncConnection, session: Session, capture: int) -> Capture | None:
    """Read one capture of a session."""
    rows = await conn.execute(
        select(*_COLUMNS).where(
            captures.c.account_id == session.account_id,
            captures.c.session_id == session.session_id,
            captures.c.capture == capture,
        )
    )
    row = rows.mappings().one_or_none()
    return _capture(row) if row is not None else None


async def move(
    conn: AsyncConnection,
    capture: Capture,
    event: CaptureEvent,
    *,
    isolate_id: str | None = None,
    sampled_ms: int | None = None,
    window_ms: int | None = None,
    reason: Reason | None = None,
    message: str = "",
    retry_after_s: float | None = None,
) -> Capture | None:
    """Advance a capture; None when the event is a duplicate or comes too late.

    Args:
        window_ms: with ``accepted``: how long it will hold the isolate from now.
    """
    state = advance_capture(capture.state, event)
    if state is None:
        return None
    values: dict[str, Any] = {
        "state": state,
        "reason": reason,
        "message": message,
        "retry_after_s": retry_after_s,
        "heard_at": func.now(),
    }
    if isolate_id:
        values["isolate_id"] = isolate_id
    if sampled_ms is not None:
        values["sampled_ms"] = func.greatest(captures.c.sampled_ms, sampled_ms)
    if event is CaptureEvent.ACCEPTED:
        values["accepted_at"] = func.now()
        if window_ms is not None:
            values["ends_at"] = func.now() + timedelta(milliseconds=window_ms) + _AROUND
    if state not in LIVE_CAPTURE_STATES:
        values["ended_at"] = func.now()
    changed = await conn.execute(
        update(captures)
        .where(*_is(capture), captures.c.state == capture.state)
        .values(**values)
        .returning(*_COLUMNS)
    )
    row = changed.mappings().one_or_none()
    if row is None:
        return None
    await history.record(
        conn,
        capture.account_id,
        capture.session_id,
        capture=capture.capture,
        event=event,
        state_before=capture.state,
        state_after=state,
        reason=reason,
        message=message,
    )
    return _capture(row)


async def heard(
    conn: AsyncConnection, capture: Capture, *, sampled_ms: int = 0, freed: bool = False
) -> None:
    """Note that a live capture goes on. No history: progress is not a change of state.

    Args:
        freed: it holds its isolate no more; others may be sent there.
    """
    values: dict[str, Any] = {
        "heard_at": func.now(),
        "sampled_ms": func.greatest(captures.c.sampled_ms, sampled_ms),
    }
    if freed:
        values["freed_at"] = func.coalesce(captures.c.freed_at, func.now())
    await conn.execute(
        update(captures).where(*_is(capture), captures.c.ended_at.is_(None)).values(**values)
    )


async def heard_all(
    conn: AsyncConnection, metal_id: str, keys: Collection[CaptureKey]
) -> dict[CaptureKey, bool]:
    """Note what a metal says it is running.

    Returns:
        of each that is known: its key, and whether its agent is to drop it. A capture given up as
            lost is
        not: its profile, when it comes at last, is attached.
    """
    if not keys:
        return {}
    over = (
        select(sessions.c.ended_at.is_not(None))
        .where(
            sessions.c.account_id == captures.c.account_id,
            sessions.c.session_id == captures.c.session_id,
        )
        .scalar_subquery()
    )
    wanted = or_(
        *(
            and_(captures.c.session_id == key.session_id, captures.c.capture == key.capture)
            for key in sorted(keys, key=lambda k: (k.session_id, k.capture))
        )
    )
    rows = await conn.execute(
        update(captures)
        .where(wanted, captures.c.metal_id == metal_id)
        .values(heard_at=func.now())
        .returning(
            captures.c.session_id,
            captures.c.capture,
            captures.c.stop,
            (captures.c.ended_at.is_(None) & over).label("over"),
        )
    )
    return {
        CaptureKey(session_id=row.session_id, capture=row.capture): (
            row.over or row.stop == Stop.DISCARD
        )
        for row in rows
    }


async def forgotten(conn: AsyncConnection, metal_id: str, epoch: int) -> tuple[CaptureKey, ...]:
    """Return live captures that an earlier start of the metal's agent was ordered."""
    rows = await conn.execute(
        select(captures.c.session_id, captures.c.capture).where(
            captures.c.metal_id == metal_id,
            captures.c.ended_at.is_(None),
            captures.c.epoch < epoch,
        )
    )
    return tuple(CaptureKey(session_id=row.session_id, capture=row.capture) for row in rows)


async def unheard(
    conn: AsyncConnection, *, lease_ms: int, limit: int, key: CaptureKey | None = None
) -> tuple[CaptureKey, ...]:
    """Return live captures unheard of for longer than their lease; ``key`` asks of one."""
    query = select(captures.c.session_id, captures.c.capture).where(
        captures.c.ended_at.is_(None),
        captures.c.heard_at < func.now() - timedelta(milliseconds=lease_ms),
    )
    if key is not None:
        query = query.where(
            captures.c.session_id == key.session_id, captures.c.capture == key.capture
        )
    rows = await conn.execute(query.limit(limit))
    return tuple(CaptureKey(session_id=row.session_id, capture=row.capture) for row in rows)


async def free_for(conn: AsyncConnection, capture: Capture, isolate_id: str) -> None:
    """Note that whatever else held the isolate does so no more: its agent has given it away.

    What it sampled may still come; when nothing is heard of it, the sweep gives it up.
    """
    await conn.execute(
        update(captures)
        .where(
            captures.c.metal_id == capture.metal_id,
            captures.c.isolate_id == isolate_id,
            captures.c.ended_at.is_(None),
            captures.c.freed_at.is_(None),
            or_(
                captures.c.session_id != capture.session_id,
                captures.c.capture != capture.capture,
            ),
        )
        .values(freed_at=func.now())
    )


async def order_stop(conn: AsyncConnection, capture: Capture, stop: Stop) -> None:
    """Have the agent told to end a capture, by whichever replica comes first."""
    await conn.execute(
        update(captures)
        .where(*_is(capture))
        .values(stop=stop, stop_due_at=func.now())
        .returning(func.pg_notify(CHANNEL, DISPATCH))
    )


async def claim_stop(conn: AsyncConnection) -> Capture | None:
    """Take one stop that is due; unless it is settled it comes up again, for a while."""
    due = (
        select(captures.c.account_id, captures.c.session_id, captures.c.capture)
        .where(captures.c.stop_due_at <= func.now())
        .order_by(captures.c.stop_due_at)
        .limit(1)
        .with_for_update(skip_locked=True)
        .cte("due")
    )
    claimed = await conn.execute(
        update(captures)
        .where(
            captures.c.account_id == due.c.account_id,
            captures.c.session_id == due.c.session_id,
            captures.c.capture == due.c.capture,
        )
        .values(stop_due_at=func.now() + _STOP_AGAIN)
        .returning(*_COLUMNS)
    )
    row = claimed.mappings().one_or_none()
    return _capture(row) if row is not None else None


async def settle_stop(conn: AsyncConnection, capture: Capture, *, told: bool) -> None:
    """Note that the agent knows, or give up telling it after a while."""
    statement = update(captures).where(*_is(capture)).values(stop_due_at=None)
    if not told:
        statement = statement.where(captures.c.ends_at < func.now() - _STOP_TRIED_FOR)
    await conn.execute(statement)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How a session's captures stand.

    Args:
        ordered: whose agent has not been heard of yet.
        live: those, and the ones that run.
        failed_parts: parts whose captures have all come to nothing so far.
    """

    ordered: int
    live: int
    failed_parts: int


async def progress(conn: AsyncConnection, session: Session) -> Progress:
    """Count a session's captures."""
    going = (*sorted(LIVE_CAPTURE_STATES), CaptureState.UPLOADED)
    parts = func.count(captures.c.part.distinct())
    counted = await conn.execute(
        select(
            func.count().filter(captures.c.state == CaptureState.ORDERED).label("ordered"),
            func.count().filter(captures.c.ended_at.is_(None)).label("live"),
            (parts - parts.filter(captures.c.state.in_(going))).label("failed_parts"),
        ).where(
            captures.c.account_id == session.account_id,
            captures.c.session_id == session.session_id,
        )
    )
    return Progress(**counted.mappings().one())


async def current_addresses(conn: AsyncConnection, several: Collection[Capture]) -> dict[int, str]:
    """Return where the agents of a session's captures are reached now, by capture."""
    rows = await conn.execute(
        select(metals.c.metal_id, metals.c.address).where(
            metals.c.metal_id.in_({capture.metal_id for capture in several})
        )
    )
    known = {row.metal_id: row.address for row in rows}
    return {one.capture: known.get(one.metal_id, one.address) for one in several}


async def current_address(conn: AsyncConnection, capture: Capture) -> str:
    """Return where the capture's agent is reached now."""
    found = await conn.scalar(select(metals.c.address).where(metals.c.metal_id == capture.metal_id))
    return found or capture.address
