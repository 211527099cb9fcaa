"""Sessions: every change is a compare-and-set along the state table, with its history row."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, exists, func, literal, or_, select, true, tuple_, update
from sqlalchemy.dialects.postgresql import insert

from contract.faults import Reason
from contract.messages import Actor, CaptureState, ProfileType
from control_plane.session import LIVE_STATES, SessionEvent, SessionState, advance
from control_plane.store import history
from control_plane.store.notices import CHANNEL, DISPATCH
from control_plane.store.tables import captures, sessions

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import ColumnElement
    from sqlalchemy.engine import RowMapping
    from sqlalchemy.ext.asyncio import AsyncConnection


@dataclass(frozen=True, kw_only=True)
class Session:
    """What a caller asked for, and how it stands.

    Args:
        origin: ``sync`` (its caller waits) or ``api`` (asked for by id).
        reason, message, retry_after_s: how it ended, when it did not end well.
        captures: ordered so far, failed ones included.
        actor_name: what the actor was asked for by, when not by its id.
        isolates, datacenters: how many are to be captured, and the only places; empty for any.
        stopped: its owner wants no more sampling, and what there is kept.
        due: dispatch has something to decide.
        fewer_reason, fewer_message: why fewer isolates were ordered than asked for.
        read_at: when all this was so, in database time.
    """

    account_id: str
    session_id: str
    state: SessionState
    origin: str
    worker_id: str
    worker_name: str
    version_id: str
    profile_type: ProfileType
    duration_ms: int
    sampling_interval_us: int
    actor: Actor | None
    actor_name: str | None = None
    isolates: int
    datacenters: tuple[str, ...] = ()
    stopped: bool = False
    due: bool = False
    fewer_reason: Reason | None = None
    fewer_message: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    reason: Reason | None = None
    message: str = ""
    retry_after_s: float | None = None
    captures: int = 0
    created_at: datetime
    deadline_at: datetime
    ended_at: datetime | None = None
    read_at: datetime

    @property
    def remaining_ms(self) -> int:
        """From the read to the deadline."""
        return int((self.deadline_at - self.read_at).total_seconds() * 1000)

    @property
    def live(self) -> bool:
        """Whether it has not ended yet."""
        return self.state in LIVE_STATES


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A session about to be made."""

    account_id: str
    session_id: str
    origin: str
    worker_id: str
    worker_name: str
    version_id: str
    profile_type: ProfileType
    duration_ms: int
    sampling_interval_us: int
    actor: Actor | None
    actor_name: str | None = None
    labels: dict[str, str]
    isolates: int = 1
    datacenters: tuple[str, ...] = ()
    lifetime_ms: int
    weight: int = 1


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Which sessions a list shows; None does not restrict. All but ``version_prefix`` are exact."""

    worker_id: str | None = None
    version_prefix: str | None = None
    profile_type: ProfileType | None = None
    state: SessionState | None = None
    origin: str | None = None
    since: datetime | None = None
    until: datetime | None = None


_COLUMNS: tuple[ColumnElement[Any], ...] = (
    sessions.c.account_id,
    sessions.c.session_id,
    sessions.c.state,
    sessions.c.origin,
    sessions.c.worker_id,
    sessions.c.worker_name,
    sessions.c.version_id,
    sessions.c.profile_type,
    sessions.c.duration_ms,
    sessions.c.sampling_interval_us,
    sessions.c.namespace_id,
    sessions.c.actor_id,
    sessions.c.actor_name,
    sessions.c.isolates,
    sessions.c.datacenters,
    sessions.c.stopped_at.is_not(None).label("stopped"),
    sessions.c.order_due_at.is_not(None).label("due"),
    sessions.c.fewer_reason,
    sessions.c.fewer_message,
    sessions.c.labels,
    sessions.c.reason,
    sessions.c.message,
    sessions.c.retry_after_s,
    sessions.c.captures,
    sessions.c.created_at,
    sessions.c.deadline_at,
    sessions.c.ended_at,
    func.clock_timestamp().label("read_at"),
)

_NO_LEASE: dict[str, None] = {"lease_owner": None, "lease_until": None}


def _session(row: RowMapping) -> Session:
    values = dict(row)
    namespace_id, actor_id = values.pop("namespace_id"), values.pop("actor_id")
    values["actor"] = (
        Actor(namespace_id=namespace_id, actor_id=actor_id) if namespace_id is not None else None
    )
    values["state"] = SessionState(values["state"])
    values["profile_type"] = ProfileType(values["profile_type"])
    values["datacenters"] = tuple(values["datacenters"])
    for name in ("reason", "fewer_reason"):
        values[name] = Reason(values[name]) if values[name] is not None else None
    return Session(**values)


async def add(conn: AsyncConnection, wanted: Wanted) -> Session:
    """Insert a queued session, due at once; one that is there already is returned."""
    actor = wanted.actor
    inserted = await conn.execute(
        insert(sessions)
        .values(
            account_id=wanted.account_id,
            session_id=wanted.session_id,
            state=SessionState.QUEUED,
            origin=wanted.origin,
            worker_id=wanted.worker_id,
            worker_name=wanted.worker_name,
            version_id=wanted.version_id,
            profile_type=wanted.profile_type,
            duration_ms=wanted.duration_ms,
            sampling_interval_us=wanted.sampling_interval_us,
            namespace_id=actor.namespace_id if actor else None,
            actor_id=actor.actor_id if actor else None,
            actor_name=wanted.actor_name,
            labels=wanted.labels,
            isolates=wanted.isolates,
            datacenters=list(wanted.datacenters),
            deadline_at=func.now() + timedelta(milliseconds=wanted.lifetime_ms),
            order_due_at=func.now(),
            turn=_turn(wanted),
        )
        .on_conflict_do_nothing(index_elements=["account_id", "session_id"])
        .returning(*_COLUMNS)
    )
    row = inserted.mappings().one_or_none()
    if row is None:
        return await _there(conn, wanted)
    await history.record(
        conn,
        wanted.account_id,
        wanted.session_id,
        event="admitted",
        state_before=None,
        state_after=SessionState.QUEUED,
        due=True,
    )
    return _session(row)


def _turn(wanted: Wanted) -> ColumnElement[float]:
    """Place a session among all that are due, so that accounts take turns by their weights.

    Start-time fair queueing: an account that has nothing due joins where dispatch is now; one that
    has goes behind its own last, by what this session costs over its weight.
    """
    mine, all_due = sessions.alias("mine"), sessions.alias("all_due")
    now_at = (
        select(all_due.c.turn)
        .where(all_due.c.order_due_at.is_not(None), all_due.c.order_due_at <= func.now())
        .order_by(all_due.c.turn)
        .limit(1)
        .scalar_subquery()
    )
    own_last = (
        select(func.max(mine.c.turn))
        .where(mine.c.account_id == wanted.account_id, mine.c.order_due_at.is_not(None))
        .scalar_subquery()
    )
    # NULLs do not count: of what is not there, the other decides.
    step = wanted.isolates / wanted.weight
    return func.coalesce(func.greatest(now_at, own_last + step), 0.0)


async def _there(conn: AsyncConnection, wanted: Wanted) -> Session:
    session = await read(conn, wanted.account_id, wanted.session_id)
    if session is None:
        raise LookupError(f"session {wanted.session_id} went while it was read")
    return session


async def read(conn: AsyncConnection, account_id: str, session_id: str) -> Session | None:
    """Read one session of an account."""
    rows = await conn.execute(
        select(*_COLUMNS).where(
            sessions.c.account_id == account_id, sessions.c.session_id == session_id
        )
    )
    row = rows.mappings().one_or_none()
    return _session(row) if row is not None else None


async def page(
    conn: AsyncConnection,
    account_id: str,
    only: Filter,
    *,
    limit: int,
    after: tuple[datetime, str] | None = None,
) -> tuple[Session, ...]:
    """Return an account's sessions, newest first.

    Args:
        after: ``(created_at, session_id)`` of the last one of the page before.
    """
    return await _page(conn, sessions.c.account_id == account_id, only, limit, after)


async def page_of_all(
    conn: AsyncConnection,
    account_id: str | None,
    only: Filter,
    *,
    limit: int,
    after: tuple[datetime, str] | None = None,
) -> tuple[Session, ...]:
    """Return sessions across accounts, newest first. For operators alone.

    Args:
        account_id: only this account's; None: everybody's.
    """
    whose = true() if account_id is None else sessions.c.account_id == account_id
    return await _page(conn, whose, only, limit, after)


async def _page(
    conn: AsyncConnection,
    whose: ColumnElement[bool],
    only: Filter,
    limit: int,
    after: tuple[datetime, str] | None,
) -> tuple[Session, ...]:
    exact = {
        sessions.c.worker_id: only.worker_id,
        sessions.c.profile_type: only.profile_type,
        sessions.c.state: only.state,
        sessions.c.origin: only.origin,
    }
    query = select(*_COLUMNS).where(whose)
    query = query.where(*(column == value for column, value in exact.items() if value is not None))
    if only.version_prefix is not None:
        query = query.where(sessions.c.version_id.startswith(only.version_prefix, autoescape=True))
    if only.since is not None:
        query = query.where(sessions.c.created_at >= only.since)
    if only.until is not None:
        query = query.where(sessions.c.created_at < only.until)
    if after is not None:
        place = tuple_(literal(after[0]), literal(after[1]))
        query = query.where(tuple_(sessions.c.created_at, sessions.c.session_id) < place)
    rows = await conn.execute(
        query.order_by(sessions.c.created_at.desc(), sessions.c.session_id.desc()).limit(limit)
    )
    return tuple(_session(row) for row in rows.mappings())


async def account_of(conn: AsyncConnection, session_id: str) -> str | None:
    """Return whose session it is. For operators and agents, who know its id alone."""
    return await conn.scalar(
        select(sessions.c.account_id).where(sessions.c.session_id == session_id)
    )


async def lock(
    conn: AsyncConnection, session_id: str, *, account_id: str | None = None
) -> Session | None:
    """Read a session and keep others from changing it until the transaction ends.

    Args:
        account_id: given by every caller that speaks for an account; agents know the session id
            alone.
    """
    query = select(*_COLUMNS).where(sessions.c.session_id == session_id).with_for_update()
    if account_id is not None:
        query = query.where(sessions.c.account_id == account_id)
    rows = await conn.execute(query)
    row = rows.mappings().one_or_none()
    return _session(row) if row is not None else None


async def move(
    conn: AsyncConnection,
    session: Session,
    event: SessionEvent,
    *,
    reason: Reason | None = None,
    message: str = "",
    retry_after_s: float | None = None,
) -> Session | None:
    """Advance a locked session; None when the event comes too late or changes nothing.

    Accepted, a session of one isolate is no longer due: dispatch leaves it alone while its capture
    is under way. When one of several is due, its captures decide (``reports.settle``).

    Args:
        reason, retry_after_s: for the endings that are not ``ready``.
        message: for endings; that of ``ready`` says what is missing.
    """
    state = advance(session.state, event)
    if state is None:
        return None
    values: dict[str, Any] = {"state": state}
    if event is SessionEvent.ACCEPTED and session.isolates == 1:
        values |= {"order_due_at": None, **_NO_LEASE}
    elif state is session.state:
        return None
    if state not in LIVE_STATES:
        values |= {
            "ended_at": func.now(),
            "order_due_at": None,
            **_NO_LEASE,
            "reason": reason,
            "message": message,
            "retry_after_s": retry_after_s,
        }
    changed = await conn.execute(
        update(sessions)
        .where(*_is(session), sessions.c.state == session.state)
        .values(**values)
        .returning(*_COLUMNS)
    )
    row = changed.mappings().one_or_none()
    if row is None or state is session.state:
        return None
    await history.record(
        conn,
        session.account_id,
        session.session_id,
        event=event,
        state_before=session.state,
        state_after=state,
        reason=reason,
        message=message,
    )
    return _session(row)


def _is(session: Session) -> tuple[ColumnElement[bool], ...]:
    return (
        sessions.c.account_id == session.account_id,
        sessions.c.session_id == session.session_id,
    )


async def claim(conn: AsyncConnection, owner: str, *, lease_ms: int) -> Session | None:
    """Take the lease of the session whose turn it is and that nobody else holds."""
    due = (
        select(sessions.c.account_id, sessions.c.session_id)
        .where(
            sessions.c.order_due_at <= func.now(),
            or_(sessions.c.lease_until.is_(None), sessions.c.lease_until < func.now()),
        )
        .order_by(sessions.c.turn, sessions.c.order_due_at)
        .limit(1)
        .with_for_update(skip_locked=True)
        .cte("due")
    )
    claimed = await conn.execute(
        update(sessions)
        .where(sessions.c.account_id == due.c.account_id, sessions.c.session_id == due.c.session_id)
        .values(
            lease_owner=owner,
            lease_until=func.now() + timedelta(milliseconds=lease_ms),
        )
        .returning(*_COLUMNS)
    )
    row = claimed.mappings().one_or_none()
    return _session(row) if row is not None else None


async def holds_lease(conn: AsyncConnection, session: Session, owner: str) -> bool:
    """Return whether ``owner`` still holds the lease it took."""
    return bool(
        await conn.scalar(
            select(sessions.c.lease_until > func.now()).where(
                *_is(session), sessions.c.lease_owner == owner
            )
        )
    )


async def renew(conn: AsyncConnection, session: Session, owner: str, *, lease_ms: int) -> bool:
    """Keep a lease for longer; False when it is another's by now, or the session has ended."""
    renewed = await conn.execute(
        update(sessions)
        .where(*_is(session), sessions.c.lease_owner == owner, sessions.c.ended_at.is_(None))
        .values(lease_until=func.now() + timedelta(milliseconds=lease_ms))
    )
    return bool(renewed.rowcount)


async def counted(conn: AsyncConnection, session: Session, more: int = 1) -> Session:
    """Count captures that were ordered."""
    now = session.captures + more
    await conn.execute(update(sessions).where(*_is(session)).values(captures=now))
    return replace(session, captures=now)


async def fewer(conn: AsyncConnection, session: Session, reason: Reason, message: str) -> Session:
    """Keep why fewer isolates are ordered than asked for; the rest is not looked for again."""
    await conn.execute(
        update(sessions).where(*_is(session)).values(fewer_reason=reason, fewer_message=message)
    )
    return replace(session, fewer_reason=reason, fewer_message=message)


async def stop_sampling(conn: AsyncConnection, session: Session) -> Session:
    """Order nothing more for it; what it has so far is kept."""
    await conn.execute(
        update(sessions)
        .where(*_is(session))
        .values(stopped_at=func.coalesce(sessions.c.stopped_at, func.now()))
    )
    return replace(session, stopped=True)


async def rest(conn: AsyncConnection, session: Session) -> None:
    """Have dispatch leave a live session alone until one of its captures changes."""
    await conn.execute(
        update(sessions)
        .where(*_is(session), sessions.c.order_due_at.is_not(None))
        .values(order_due_at=None, **_NO_LEASE)
    )


async def make_due(conn: AsyncConnection, session: Session) -> None:
    """Have dispatch look at a live session: its capture ended without a profile."""
    await conn.execute(
        update(sessions)
        .where(*_is(session), sessions.c.ended_at.is_(None))
        .values(order_due_at=func.now(), **_NO_LEASE)
        .returning(func.pg_notify(CHANNEL, DISPATCH))
    )


async def look_again(conn: AsyncConnection, session: Session, *, in_ms: int) -> None:
    """Have dispatch look at a live session after a while: what it needs is not known yet."""
    await conn.execute(
        update(sessions)
        .where(*_is(session), sessions.c.ended_at.is_(None))
        .values(order_due_at=func.now() + timedelta(milliseconds=in_ms), **_NO_LEASE)
    )


async def overdue(conn: AsyncConnection, *, grace_ms: int, limit: int) -> tuple[Session, ...]:
    """Lock sessions past their deadline that nobody else has locked.

    Args:
        grace_ms: how long one of several isolates that has profiles, and nothing live any more, is
            left to be merged.
    """
    own = (
        captures.c.account_id == sessions.c.account_id,
        captures.c.session_id == sessions.c.session_id,
    )
    being_merged = and_(
        sessions.c.isolates > 1,
        sessions.c.deadline_at > func.now() - timedelta(milliseconds=grace_ms),
        exists().where(*own, captures.c.state == CaptureState.UPLOADED),
        ~exists().where(*own, captures.c.ended_at.is_(None)),
    )
    rows = await conn.execute(
        select(*_COLUMNS)
        .where(sessions.c.ended_at.is_(None), sessions.c.deadline_at < func.now(), ~being_merged)
        .order_by(sessions.c.deadline_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    return tuple(_session(row) for row in rows.mappings())
