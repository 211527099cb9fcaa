"""What happened to a session, written in the same transaction and told to who waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Text, bindparam, func, insert, select

from control_plane.store.notices import CHANNEL, DISPATCH
from control_plane.store.tables import history

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from sqlalchemy import CTE, ColumnElement, Select
    from sqlalchemy.ext.asyncio import AsyncConnection

    from contract.faults import Reason


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One change of state. ``capture`` is None when it is the session's own."""

    at: datetime
    capture: int | None
    event: str
    state_before: str | None
    state_after: str
    reason: str | None
    message: str


def with_entry(changed: CTE, *, due: bool = False) -> Select[Any]:
    """Select what a statement changed, and write the entry of it in the same round trip.

    Its parameters are those that ``entry`` gives. Without a changed row there is no entry.

    Args:
        changed: an insert or update that returns ``account_id`` and ``session_id``, and ``capture``
            when it is one of a capture.
        due: tell dispatch as well.
    """
    told = [func.pg_notify(CHANNEL, history.c.session_id)]
    if due:
        told.append(func.pg_notify(CHANNEL, DISPATCH))
    names = ["event", "state_before", "state_after", "reason", "message"]
    values: list[ColumnElement[Any]] = [bindparam(f"entry_{name}", type_=Text) for name in names]
    if "capture" in changed.c:
        names.append("capture")
        values.append(changed.c.capture)
    written = insert(history).from_select(
        ["account_id", "session_id", *names],
        select(changed.c.account_id, changed.c.session_id, *values),
        include_defaults=False,
    )
    return select(changed).add_cte(written.returning(*told).cte("written"))


def entry(
    *,
    event: str,
    state_before: str | None,
    state_after: str,
    reason: Reason | None = None,
    message: str = "",
) -> dict[str, str | None]:
    """Return the parameters of ``with_entry``."""
    return {
        "entry_event": event,
        "entry_state_before": state_before,
        "entry_state_after": state_after,
        "entry_reason": reason,
        "entry_message": message,
    }


async def record(
    conn: AsyncConnection,
    account_id: str,
    session_id: str,
    *,
    event: str,
    state_before: str | None,
    state_after: str,
    capture: int | None = None,
    reason: Reason | None = None,
    message: str = "",
    due: bool = False,
) -> None:
    """Write one entry; who watches the session is told at commit.

    Args:
        due: tell dispatch as well.
    """
    told = [func.pg_notify(CHANNEL, session_id)]
    if due:
        told.append(func.pg_notify(CHANNEL, DISPATCH))
    await conn.execute(
        insert(history)
        .values(
            account_id=account_id,
            session_id=session_id,
            capture=capture,
            event=event,
            state_before=state_before,
            state_after=state_after,
            reason=reason,
            message=message,
        )
        .returning(*told)
    )


async def tells(
    conn: AsyncConnection, account_id: str, session_id: str, capture: int, *, event: str
) -> bool:
    """Whether an event of a capture is written down; exact while the session is locked."""
    found = select(history.c.entry).where(
        history.c.account_id == account_id,
        history.c.session_id == session_id,
        history.c.capture == capture,
        history.c.event == event,
    )
    return await conn.scalar(found.limit(1)) is not None


async def of_session(
    conn: AsyncConnection, account_id: str, session_id: str, *, after: int = 0
) -> tuple[Entry, ...]:
    """Read a session's history, oldest first.

    A session's entries are written under its row's lock, so their order is that of their commits
    and an entry's place in it, counted from 1, never changes.

    Args:
        after: leave out so many of the oldest.
    """
    columns = (
        history.c.at,
        history.c.capture,
        history.c.event,
        history.c.state_before,
        history.c.state_after,
        history.c.reason,
        history.c.message,
    )
    rows = await conn.execute(
        select(*columns)
        .where(history.c.account_id == account_id, history.c.session_id == session_id)
        .order_by(history.c.entry)
        .offset(after)
    )
    return tuple(Entry(**row) for row in rows.mappings())
