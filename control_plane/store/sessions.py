"""Sessions: every change is a compare-and-set along the state table, with its history row."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Float,
    Interval,
    and_,
    bindparam,
    exists,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from contract.faults import Reason
from contract.messages import Actor, CaptureState, ProfileType
from control_plane import breaker
from control_plane.session import LIVE_STATES, SessionEvent, SessionState, advance
from control_plane.store import history
from control_plane.store.notices import CHANNEL, DISPATCH
from control_plane.store.switches import DISPATCH_ON
from control_plane.store.tables import captures, sessions

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import ColumnElement, FromClause, Select
    from sqlalchemy.engine import RowMapping
    from sqlalchemy.ext.asyncio import AsyncConnection
    from sqlalchemy.sql.dml import ReturningUpdate


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


# What ``from_row`` needs of a row.
COLUMNS: tuple[ColumnElement[Any], ...] = (
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
_NAMES = tuple(column.name for column in COLUMNS)

_NO_LEASE: dict[str, None] = {"lease_owner": None, "lease_until": None}


def from_row(row: RowMapping, prefix: str = "") -> Session:
    """Build a session of a row that has ``COLUMNS``, each name after ``prefix``."""
    values = {name: row[prefix + name] for name in _NAMES}
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


def _turn() -> ColumnElement[float]:
    """Place a new session among all that are due, so that accounts take turns by their weights.

    Start-time fair queueing: an account that has nothing due joins where dispatch is now; one that
    has goes behind its own last, by what this session costs over its weight (``step``).
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
        .where(mine.c.account_id == bindparam("new_account_id"), mine.c.order_due_at.is_not(None))
        .scalar_subquery()
    )
    # NULLs do not count: of what is not there, the other decides.
    step = bindparam("step", type_=Float)
    return func.coalesce(func.greatest(now_at, own_last + step), 0.0)


_GIVEN = (
    "account_id",
    "session_id",
    "origin",
    "worker_id",
    "worker_name",
    "version_id",
    "profile_type",
    "duration_ms",
    "sampling_interval_us",
    "namespace_id",
    "actor_id",
    "actor_name",
    "labels",
    "isolates",
    "datacenters",
)
_ADD = history.with_entry(
    insert(sessions)
    .values(
        {name: bindparam(f"new_{name}") for name in _GIVEN}
        | {
            "state": SessionState.QUEUED,
            "deadline_at": func.now() + bindparam("lifetime", type_=Interval),
            "order_due_at": func.now(),
            "turn": _turn(),
        }
    )
    .on_conflict_do_nothing(index_elements=["account_id", "session_id"])
    .returning(*COLUMNS)
    .cte("made"),
    due=True,
)


async def add(conn: AsyncConnection, wanted: Wanted) -> Session:
    """Insert a queued session, due at once; one that is there already is returned."""
    actor = wanted.actor
    given = {
        **{f"new_{name}": getattr(wanted, name, None) for name in _GIVEN},
        "new_namespace_id": actor.namespace_id if actor else None,
        "new_actor_id": actor.actor_id if actor else None,
        "new_datacenters": list(wanted.datacenters),
        "lifetime": timedelta(milliseconds=wanted.lifetime_ms),
        "step": wanted.isolates / wanted.weight,
    }
    told = history.entry(event="admitted", state_before=None, state_after=SessionState.QUEUED)
    row = (await conn.execute(_ADD, given | told)).mappings().one_or_none()
    return from_row(row) if row is not None else await _there(conn, wanted)


async def _there(conn: AsyncConnection, wanted: Wanted) -> Session:
    session = await read(conn, wanted.account_id, wanted.session_id)
    if session is None:
        raise LookupError(f"session {wanted.session_id} went while it was read")
    return session


_IS = (
    sessions.c.account_id == bindparam("of_account"),
    sessions.c.session_id == bindparam("of_session"),
)
_ONE = select(*COLUMNS).where(*_IS)
_LOCK_OWN = _ONE.with_for_update()
_LOCK = select(*COLUMNS).where(_IS[1]).with_for_update()


async def read(conn: AsyncConnection, account_id: str, session_id: str) -> Session | None:
    """Read one session of an account."""
    rows = await conn.execute(_ONE, {"of_account": account_id, "of_session": session_id})
    row = rows.mappings().one_or_none()
    return from_row(row) if row is not None else None


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
    if account_id is None:
        rows = await conn.execute(_LOCK, {"of_session": session_id})
    else:
        rows = await conn.execute(_LOCK_OWN, {"of_account": account_id, "of_session": session_id})
    row = rows.mappings().one_or_none()
    return from_row(row) if row is not None else None


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
    rests = event is SessionEvent.ACCEPTED and session.isolates == 1
    if state is session.state and not rests:
        return None
    values: dict[str, Any] = {
        "of_account": session.account_id,
        "of_session": session.session_id,
        "old_state": session.state,
        "new_state": state,
    }
    over = state not in LIVE_STATES
    if over:
        values |= {
            "new_reason": reason,
            "new_message": message,
            "new_retry_after_s": retry_after_s,
        }
    if state is session.state:
        await conn.execute(_moving(rests=rests, over=over), values)
        return None
    told = history.entry(
        event=event,
        state_before=session.state,
        state_after=state,
        reason=reason,
        message=message,
    )
    changed = await conn.execute(_moving_told(rests=rests, over=over), values | told)
    row = changed.mappings().one_or_none()
    return from_row(row) if row is not None else None


@cache
def _moving(*, rests: bool, over: bool) -> ReturningUpdate[Any]:
    """The statement of ``move``, built once for each shape."""
    values: dict[str, Any] = {"state": bindparam("new_state")}
    if rests or over:
        values |= {"order_due_at": None, **_NO_LEASE}
    if over:
        values |= {
            "ended_at": func.now(),
            "reason": bindparam("new_reason"),
            "message": bindparam("new_message"),
            "retry_after_s": bindparam("new_retry_after_s"),
        }
    return (
        update(sessions)
        .where(*_IS, sessions.c.state == bindparam("old_state"))
        .values(**values)
        .returning(*COLUMNS)
    )


@cache
def _moving_told(*, rests: bool, over: bool) -> Select[Any]:
    return history.with_entry(_moving(rests=rests, over=over).cte("moved"))


def _is(session: Session) -> tuple[ColumnElement[bool], ...]:
    return (
        sessions.c.account_id == session.account_id,
        sessions.c.session_id == session.session_id,
    )


def _claiming() -> ReturningUpdate[Any]:
    def is_free(these: FromClause) -> ColumnElement[bool]:
        unleased = or_(these.c.lease_until.is_(None), these.c.lease_until < func.now())
        return and_(these.c.order_due_at <= func.now(), unleased)

    others = sessions.alias("others")
    more = exists().where(is_free(others), others.c.session_id != sessions.c.session_id)
    due = (
        select(sessions.c.account_id, sessions.c.session_id)
        .where(is_free(sessions))
        .order_by(sessions.c.turn, sessions.c.order_due_at)
        .limit(1)
        .with_for_update(skip_locked=True)
        .cte("due")
    )
    return (
        update(sessions)
        .where(sessions.c.account_id == due.c.account_id, sessions.c.session_id == due.c.session_id)
        .values(
            lease_owner=bindparam("owner"),
            lease_until=func.now() + bindparam("lease", type_=Interval),
        )
        .returning(
            *COLUMNS,
            more.label("more"),
            DISPATCH_ON.label("dispatch_on"),
            _blamed_lately().label("failed_lately"),
        )
    )


def _blamed_lately() -> ColumnElement[int]:
    """Count those of the version's latest captures that failed because of the profiler, maybe."""
    latest = (
        select(captures.c.reason)
        .where(
            captures.c.account_id == sessions.c.account_id,
            captures.c.version_id == sessions.c.version_id,
            captures.c.ended_at > func.now() - bindparam("window", type_=Interval),
        )
        .order_by(captures.c.ended_at.desc())
        .limit(breaker.LATEST)
        # Of the session that is claimed: a subquery two levels down is not tied to it by itself.
        .correlate(sessions)
        .subquery()
    )
    return (
        select(func.count())
        .select_from(latest)
        .where(latest.c.reason.in_(sorted(breaker.BLAMED)))
        .scalar_subquery()
    )


_CLAIM = _claiming()


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """A session whose lease was taken, and how things stood then.

    Args:
        more: others were due and free.
        dispatch_on: orders may go out.
        failed_lately: of the version's latest captures (``breaker.LATEST``), for a reason that is
            blamed on profiling.
    """

    session: Session
    more: bool
    dispatch_on: bool
    failed_lately: int


async def claim(
    conn: AsyncConnection, owner: str, *, lease_ms: int, within_ms: int = 0
) -> Claimed | None:
    """Take the lease of the session whose turn it is and that nobody else holds.

    Args:
        within_ms: how far back failures count.
    """
    claimed = await conn.execute(
        _CLAIM,
        {
            "owner": owner,
            "lease": timedelta(milliseconds=lease_ms),
            "window": timedelta(milliseconds=within_ms),
        },
    )
    row = claimed.mappings().one_or_none()
    if row is None:
        return None
    return Claimed(
        session=from_row(row),
        more=row["more"],
        dispatch_on=row["dispatch_on"],
        failed_lately=row["failed_lately"],
    )


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
        select(*COLUMNS)
        .where(sessions.c.ended_at.is_(None), sessions.c.deadline_at < func.now(), ~being_merged)
        .order_by(sessions.c.deadline_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    return tuple(from_row(row) for row in rows.mappings())
