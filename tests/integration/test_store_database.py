"""Trouble with Postgres is a fault a caller can be told, quickly; what comes after works again."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from contract.faults import Fault, Reason
from control_plane.session import SessionState
from control_plane.store import session_lists
from control_plane.store.database import Database
from control_plane.store.notices import DISPATCH, Notices
from tests.integration.planes import ACCOUNT, plane


async def _run(db: Database, *statements: str) -> None:
    async with db.begin() as conn:
        for statement in statements:
            await conn.execute(text(statement))


async def _cut(db: Database, other: Database) -> None:
    async with db.begin() as conn:
        pid = await conn.scalar(text("SELECT pg_backend_pid()"))
        await _run(other, f"SELECT pg_terminate_backend({pid})")
        await conn.execute(text("SELECT 1"))


async def test_a_pool_in_use_is_a_fault_and_not_a_wait(database_url: str) -> None:
    async with Database.open(database_url, pool_size=1, pool_wait_ms=50) as db, db.begin():
        with pytest.raises(Fault) as busy:
            await db.ping()
        assert busy.value.reason is Reason.STORE_UNAVAILABLE
        assert busy.value.retry_after_s is not None


async def test_a_connection_cut_by_the_server_is_a_fault_and_the_next_one_works(
    database_url: str,
) -> None:
    async with Database.open(database_url) as db, Database.open(database_url) as other:
        with pytest.raises(Fault) as cut:
            await _cut(db, other)
        assert cut.value.reason is Reason.STORE_UNAVAILABLE
        await db.ping()


async def test_no_server_a_read_only_one_and_a_lock_held_too_long(database_url: str) -> None:
    nowhere = database_url.partition("?")[0] + "?host=%2Fnowhere"
    async with Database.open(nowhere) as db:
        with pytest.raises(Fault) as absent:
            await db.ping()
        assert absent.value.reason is Reason.STORE_UNAVAILABLE
    async with Database.open(database_url) as db:
        with pytest.raises(Fault) as read_only:
            await _run(db, "SET TRANSACTION READ ONLY", "DELETE FROM metals")
        assert read_only.value.reason is Reason.STORE_UNAVAILABLE
        async with db.begin() as holder:
            await holder.execute(text("LOCK TABLE metals"))
            with pytest.raises(Fault) as locked:
                await _run(db, "SET LOCAL lock_timeout = '20ms'", "DELETE FROM metals")
            assert locked.value.reason is Reason.STORE_UNAVAILABLE


async def test_a_mistake_of_ours_is_not_called_unavailable(database_url: str) -> None:
    async with Database.open(database_url) as db:
        with pytest.raises(IntegrityError):
            async with db.begin() as conn:
                await conn.execute(
                    text(
                        "INSERT INTO accounts (account_id, name, profiling_enabled) "
                        "VALUES ('nonsense', 'x', true)"
                    )
                )


async def test_notices_survive_the_loss_of_their_connection(database_url: str) -> None:
    async with (
        Database.open(database_url) as db,
        Notices.open(db) as notices,
        Notices.open(db) as twin,
    ):
        with notices.watch("s") as watch, notices.watch(DISPATCH) as other, twin.watch("s") as far:
            for each in (watch, other, far):
                assert await each.wait(10)  # listening now
            async with db.begin() as conn:
                await conn.execute(text("SELECT pg_notify('isoprof', 's')"))
            assert await watch.wait(10)
            assert await far.wait(10)
            async with db.begin() as conn:
                await conn.execute(
                    text(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                        "WHERE query ILIKE '%listen%' AND pid <> pg_backend_pid()"
                    )
                )
            assert await watch.wait(10)  # woken, to look for what it missed
            assert await other.wait(10)
            for _ in range(50):
                async with db.begin() as conn:
                    await conn.execute(text("SELECT pg_notify('isoprof', 's')"))
                if await watch.wait(1):
                    break
            else:
                pytest.fail("never listened again")


async def test_notices_told_before_the_wait_are_not_missed(database_url: str) -> None:
    async with plane(database_url) as p:
        with p.notices.watch(DISPATCH) as watch:
            while await watch.wait(0.2):
                pass
            await p.admit()
            await asyncio.sleep(0)
            assert await watch.wait(10)
            assert not await watch.wait(0.01)


async def test_sessions_are_listed_newest_first_by_cursor_and_filter(database_url: str) -> None:
    async with plane(database_url) as p:
        made = [(await p.admit(origin="sync" if n % 2 else "api")).session_id for n in range(5)]
        async with p.db.read() as conn:
            first = await session_lists.page(conn, ACCOUNT, session_lists.Filter(), limit=3)
            last = first[-1]
            rest = await session_lists.page(
                conn,
                ACCOUNT,
                session_lists.Filter(),
                limit=3,
                after=(last.created_at, last.session_id),
            )
            sync = await session_lists.page(
                conn, ACCOUNT, session_lists.Filter(origin="sync"), limit=9
            )
            queued = session_lists.Filter(state=SessionState.QUEUED, since=last.created_at)
            since = await session_lists.page(conn, ACCOUNT, queued, limit=9)
            none = await session_lists.page(conn, "b" * 32, session_lists.Filter(), limit=9)
        assert [s.session_id for s in (*first, *rest)] == made[::-1]
        assert [s.session_id for s in sync] == [made[3], made[1]]
        assert {s.session_id for s in since} == set(made[2:])
        assert none == ()
