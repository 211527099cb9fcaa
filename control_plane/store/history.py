"""What happened to a session, written in the same transaction and told to who waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import func, insert, select

from contract.messages import CaptureState
from control_plane.store.notices import CHANNEL, DISPATCH
from control_plane.store.tables import history

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

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


async def record_ordered(
    conn: AsyncConnection, account_id: str, session_id: str, places: Mapping[int, str]
) -> None:
    """Write that captures were ordered, in one statement.

    Args:
        places: where, by capture.
    """
    await conn.execute(
        insert(history)
        .values(
            [
                {
                    "account_id": account_id,
                    "session_id": session_id,
                    "capture": capture,
                    "event": "ordered",
                    "state_after": CaptureState.ORDERED,
                    "message": place,
                }
                for capture, place in places.items()
            ]
        )
        # The same notice many times in one transaction is told once.
        .returning(func.pg_notify(CHANNEL, session_id))
    )


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
