"""Captures: one isolate sampled once on one metal, on behalf of a session whose row is locked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum, unique
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    ARRAY,
    Integer,
    Interval,
    Text,
    bindparam,
    func,
    or_,
    select,
    text,
    update,
)

from contract.faults import Reason
from contract.messages import LIVE_CAPTURE_STATES, CaptureKey, CaptureState
from control_plane import breaker
from control_plane.breaker import Latest
from control_plane.session import CaptureEvent, advance_capture
from control_plane.store import history
from control_plane.store.notices import CHANNEL, STOPS
from control_plane.store.tables import captures, metals

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from sqlalchemy import ColumnElement, Select
    from sqlalchemy.engine import RowMapping
    from sqlalchemy.ext.asyncio import AsyncConnection
    from sqlalchemy.sql.dml import ReturningUpdate

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


# What ``from_row`` needs of a row.
COLUMNS: tuple[ColumnElement[Any], ...] = (
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
_NAMES = tuple(column.name for column in COLUMNS)


def from_row(row: RowMapping, prefix: str = "") -> Capture:
    """Build a capture of a row that has ``COLUMNS``, each name after ``prefix``."""
    values = {name: row[prefix + name] for name in _NAMES}
    values["state"] = CaptureState(values["state"])
    values["reason"] = Reason(values["reason"]) if values["reason"] is not None else None
    values["stop"] = Stop(values["stop"]) if values["stop"] is not None else None
    return Capture(**values)


# A capture, by the parameters that ``_key`` gives.
_IS = (
    captures.c.account_id == bindparam("of_account"),
    captures.c.session_id == bindparam("of_session"),
    captures.c.capture == bindparam("of_capture"),
)


# Built once: building a statement costs more than sending it.
_ONE = select(*COLUMNS).where(*_IS)
_OF_SESSIONS = (
    select(*COLUMNS)
    .where(
        captures.c.account_id == bindparam("of_account"),
        captures.c.session_id == func.any(bindparam("of_sessions", type_=ARRAY(Text))),
    )
    .order_by(captures.c.session_id, captures.c.capture)
)
_HEARD = (
    update(captures)
    .where(*_IS, captures.c.ended_at.is_(None))
    .values(
        heard_at=func.now(),
        sampled_ms=func.greatest(captures.c.sampled_ms, bindparam("new_sampled_ms", type_=Integer)),
    )
)
_FREED = _HEARD.values(freed_at=func.coalesce(captures.c.freed_at, func.now()))
_FREE_FOR = (
    update(captures)
    .where(
        captures.c.metal_id == bindparam("on_metal"),
        captures.c.isolate_id == bindparam("in_isolate"),
        captures.c.ended_at.is_(None),
        captures.c.freed_at.is_(None),
        or_(
            captures.c.session_id != bindparam("of_session"),
            captures.c.capture != bindparam("of_capture"),
        ),
    )
    .values(freed_at=func.now())
)


_FORGOTTEN = select(captures.c.session_id, captures.c.capture).where(
    captures.c.metal_id == bindparam("on_metal"),
    captures.c.ended_at.is_(None),
    captures.c.epoch < bindparam("before_epoch"),
)
# By way of the session: that index knows them without their account.
_HEARD_ALL = text(
    """
    UPDATE captures AS c SET heard_at = now()
    FROM unnest(CAST(:session_id AS text[]), CAST(:capture AS integer[])) AS k (session_id, capture)
    JOIN sessions AS s ON s.session_id = k.session_id
    WHERE c.account_id = s.account_id AND c.session_id = k.session_id AND c.capture = k.capture
      AND c.metal_id = :metal_id
    RETURNING c.session_id, c.capture, c.stop, c.ended_at IS NULL AND s.ended_at IS NOT NULL AS over
    """
)


def _key(capture: Capture) -> dict[str, Any]:
    return {
        "of_account": capture.account_id,
        "of_session": capture.session_id,
        "of_capture": capture.capture,
    }


def _is(capture: Capture) -> tuple[ColumnElement[bool], ...]:
    return (
        captures.c.account_id == capture.account_id,
        captures.c.session_id == capture.session_id,
        captures.c.capture == capture.capture,
    )


_ADD = text(
    """
    WITH made AS (
        INSERT INTO captures (account_id, session_id, capture, part, state, version_id, metal_id,
                              datacenter, address, epoch, ends_at)
        SELECT :account_id, :session_id, :captures + number, part, 'ordered', :version_id, metal_id,
               datacenter, address, epoch, now() + CAST(:window AS interval)
        FROM unnest(CAST(:part AS integer[]), CAST(:metal_id AS text[]),
                    CAST(:datacenter AS text[]), CAST(:address AS text[]),
                    CAST(:epoch AS bigint[]))
             WITH ORDINALITY AS chosen (part, metal_id, datacenter, address, epoch, number)
        RETURNING *
    ), counted AS (
        UPDATE sessions SET captures = :captures + cardinality(CAST(:part AS integer[]))
        WHERE account_id = :account_id AND session_id = :session_id
    ), written AS (
        INSERT INTO history (account_id, session_id, capture, event, state_after, message)
        SELECT account_id, session_id, capture, 'ordered', state, datacenter || '/' || metal_id
        FROM made ORDER BY capture
        RETURNING pg_notify(:channel, session_id)
    )
    SELECT * FROM made ORDER BY capture
    """
)


async def add(
    conn: AsyncConnection, session: Session, chosen: Mapping[int, Candidate]
) -> tuple[Capture, ...]:
    """Insert the session's next captures as ``ordered``; the orders go out after the commit.

    Args:
        chosen: where to, by part; at least one.
    """
    places = tuple(chosen.values())
    added = await conn.execute(
        _ADD,
        {
            "account_id": session.account_id,
            "session_id": session.session_id,
            "captures": session.captures,
            "version_id": session.version_id,
            "window": timedelta(milliseconds=session.duration_ms) + _AROUND,
            "part": list(chosen),
            "metal_id": [place.metal_id for place in places],
            "datacenter": [place.datacenter for place in places],
            "address": [place.address for place in places],
            "epoch": [place.epoch for place in places],
            "channel": CHANNEL,
        },
    )
    return tuple(from_row(row) for row in added.mappings())


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
        _OF_SESSIONS, {"of_account": account_id, "of_sessions": list(session_ids)}
    )
    found = (from_row(row) for row in rows.mappings())
    return {session: tuple(own) for session, own in groupby(found, lambda c: c.session_id)}


async def read(conn: AsyncConnection, session: Session, capture: int) -> Capture | None:
    """Read one capture of a session."""
    rows = await conn.execute(
        _ONE,
        {
            "of_account": session.account_id,
            "of_session": session.session_id,
            "of_capture": capture,
        },
    )
    row = rows.mappings().one_or_none()
    return from_row(row) if row is not None else None


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
    accepted = event is CaptureEvent.ACCEPTED
    values: dict[str, Any] = {
        "new_state": state,
        "new_reason": reason,
        "new_message": message,
        "new_retry_after_s": retry_after_s,
        "new_isolate_id": isolate_id or None,
        "new_sampled_ms": sampled_ms or 0,
    }
    if accepted and window_ms is not None:
        values["window"] = timedelta(milliseconds=window_ms) + _AROUND
    told = history.entry(
        event=event,
        state_before=capture.state,
        state_after=state,
        reason=reason,
        message=message,
    )
    changed = await conn.execute(
        _moving(
            accepted=accepted,
            windowed="window" in values,
            over=state not in LIVE_CAPTURE_STATES,
        ),
        {**_key(capture), "old_state": capture.state, **values, **told},
    )
    row = changed.mappings().one_or_none()
    return from_row(row) if row is not None else None


@cache
def _moving(*, accepted: bool, windowed: bool, over: bool) -> Select[Any]:
    """The statement of ``move``, built once for each shape."""
    values: dict[str, Any] = {
        "state": bindparam("new_state"),
        "reason": bindparam("new_reason"),
        "message": bindparam("new_message"),
        "retry_after_s": bindparam("new_retry_after_s"),
        "heard_at": func.now(),
        "isolate_id": func.coalesce(bindparam("new_isolate_id", type_=Text), captures.c.isolate_id),
        "sampled_ms": func.greatest(
            captures.c.sampled_ms, bindparam("new_sampled_ms", type_=Integer)
        ),
    }
    if accepted:
        values["accepted_at"] = func.now()
    if windowed:
        values["ends_at"] = func.now() + bindparam("window", type_=Interval)
    if over:
        values["ended_at"] = func.now()
    moved = (
        update(captures)
        .where(*_IS, captures.c.state == bindparam("old_state"))
        .values(**values)
        .returning(*COLUMNS)
    )
    return history.with_entry(moved.cte("moved"))


async def heard(
    conn: AsyncConnection, capture: Capture, *, sampled_ms: int = 0, freed: bool = False
) -> None:
    """Note that a live capture goes on. No history: progress is not a change of state.

    Args:
        freed: it holds its isolate no more; others may be sent there.
    """
    await conn.execute(_FREED if freed else _HEARD, {**_key(capture), "new_sampled_ms": sampled_ms})


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
    rows = await conn.execute(
        _HEARD_ALL,
        {
            "metal_id": metal_id,
            "session_id": [key.session_id for key in keys],
            "capture": [key.capture for key in keys],
        },
    )
    return {
        CaptureKey(session_id=row.session_id, capture=row.capture): (
            row.over or row.stop == Stop.DISCARD
        )
        for row in rows
    }


async def forgotten(conn: AsyncConnection, metal_id: str, epoch: int) -> tuple[CaptureKey, ...]:
    """Return live captures that an earlier start of the metal's agent was ordered."""
    rows = await conn.execute(_FORGOTTEN, {"on_metal": metal_id, "before_epoch": epoch})
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
        _FREE_FOR,
        {
            "of_session": capture.session_id,
            "of_capture": capture.capture,
            "on_metal": capture.metal_id,
            "in_isolate": isolate_id,
        },
    )


async def order_stop(conn: AsyncConnection, capture: Capture, stop: Stop) -> None:
    """Have the agent told to end a capture, by whichever replica comes first."""
    await conn.execute(
        update(captures)
        .where(*_is(capture))
        .values(stop=stop, stop_due_at=func.now())
        .returning(func.pg_notify(CHANNEL, STOPS))
    )


def _claiming_stop() -> ReturningUpdate[Any]:
    due = (
        select(captures.c.account_id, captures.c.session_id, captures.c.capture)
        .where(captures.c.stop_due_at <= func.now())
        .order_by(captures.c.stop_due_at)
        .limit(1)
        .with_for_update(skip_locked=True)
        .cte("due")
    )
    return (
        update(captures)
        .where(
            captures.c.account_id == due.c.account_id,
            captures.c.session_id == due.c.session_id,
            captures.c.capture == due.c.capture,
        )
        .values(stop_due_at=func.now() + _STOP_AGAIN)
        .returning(*COLUMNS)
    )


_CLAIM_STOP = _claiming_stop()


async def claim_stop(conn: AsyncConnection) -> Capture | None:
    """Take one stop that is due; unless it is settled it comes up again, for a while."""
    claimed = await conn.execute(_CLAIM_STOP)
    row = claimed.mappings().one_or_none()
    return from_row(row) if row is not None else None


async def settle_stop(conn: AsyncConnection, capture: Capture, *, told: bool) -> None:
    """Note that the agent knows, or give up telling it after a while."""
    statement = update(captures).where(*_is(capture)).values(stop_due_at=None)
    if not told:
        statement = statement.where(captures.c.ends_at < func.now() - _STOP_TRIED_FOR)
    await conn.execute(statement)


_LATEST = text(
    """
    SELECT count(*) AS ended, count(*) FILTER (WHERE blamed) AS failed,
           mode() WITHIN GROUP (ORDER BY reason) FILTER (WHERE blamed) AS reason,
           coalesce(extract(epoch FROM now() - max(ended_at) FILTER (WHERE blamed)), 0)::float8
               AS since_failed_s,
           (SELECT max(extract(epoch FROM ends_at - now()))::float8 FROM captures
            WHERE account_id = :account_id AND version_id = :version_id AND ended_at IS NULL)
               AS trying_ends_in_s
    FROM (SELECT ended_at, reason, coalesce(reason = ANY(CAST(:blamed AS text[])), false) AS blamed
          FROM captures
          WHERE account_id = :account_id AND version_id = :version_id
            AND ended_at > now() - CAST(:window AS interval)
          ORDER BY ended_at DESC LIMIT :latest) AS l
    """
)


async def latest(
    conn: AsyncConnection, account_id: str, version_id: str, *, within_ms: int
) -> Latest:
    """Return what became of a version's latest captures."""
    rows = await conn.execute(
        _LATEST,
        {
            "account_id": account_id,
            "version_id": version_id,
            "window": timedelta(milliseconds=within_ms),
            "blamed": sorted(breaker.BLAMED),
            "latest": breaker.LATEST,
        },
    )
    values = dict(rows.mappings().one())
    values["reason"] = Reason(values["reason"]) if values["reason"] is not None else None
    return Latest(**values)


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
