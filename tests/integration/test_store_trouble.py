"""A database that takes no writes, or has no connection left: reads go on, writes are told when."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg
import pytest
from sqlalchemy import text

from contract.faults import Fault, Reason
from control_plane.settings import Settings
from control_plane.store.database import Database
from tests.integration.edge_scene import Answer, Scene, edge_scene
from tests.integration.planes import plane, report, sighting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ASKED = {"worker": "replacer", "duration_ms": 1000}


@pytest.fixture
async def scene(database_url: str) -> AsyncIterator[Scene]:
    async with edge_scene(database_url) as made:
        yield made


async def _asked(scene: Scene) -> Answer:
    return await scene.call("POST", "profile-sessions", json=ASKED)


async def _ready(scene: Scene) -> str:
    answer = await _asked(scene)
    assert answer.status == 202, answer.body
    session_id: str = answer.body["result"]["id"]
    ended = await scene.session_until(session_id, "ready", "failed", "expired")
    assert ended["state"] == "ready", ended
    return session_id


async def _sessions(scene: Scene) -> int:
    async with scene.db.read() as conn:
        return int((await conn.execute(text("SELECT count(*) FROM sessions"))).scalar_one())


async def _reads_work_and_writes_do_not(scene: Scene, ready: str) -> None:
    for path in (
        "profile-sessions",
        f"profile-sessions/{ready}",
        f"profile-sessions/{ready}/profile",
    ):
        assert (await scene.call("GET", path)).status == 200
    refused = await _asked(scene)
    assert refused.error[:2] == (503, 10500)
    assert int(refused.headers["retry-after"]) >= 1


@asynccontextmanager
async def _read_only(scene: Scene) -> AsyncIterator[None]:
    """Set for new connections, as a standby or a full disk would have it; the pool is emptied."""
    admin = await asyncpg.connect(scene.db.url)
    try:
        name = await admin.fetchval("SELECT current_database()")
        await admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        await scene.db._engine.dispose()
        yield
        await admin.execute(f"SET transaction_read_only = off; ALTER DATABASE {name} RESET ALL")
        await scene.db._engine.dispose()
    finally:
        await admin.close()


async def test_a_read_only_database(scene: Scene) -> None:
    ready = await _ready(scene)
    async with _read_only(scene):
        await _reads_work_and_writes_do_not(scene, ready)
    assert await _sessions(scene) == 1
    await _ready(scene)


async def test_a_lock_on_the_sessions(scene: Scene) -> None:
    ready = await _ready(scene)
    async with Database.open(scene.db.url) as other, other.begin() as holder:
        # Readers alone pass: the strongest lock an index or a constraint being added takes.
        await holder.execute(text("LOCK TABLE sessions IN EXCLUSIVE MODE"))
        await _reads_work_and_writes_do_not(scene, ready)
        # Telemetry has tables of its own.
        await scene.metal.sight(sighting())
    assert await _sessions(scene) == 1
    await _ready(scene)


async def test_every_connection_in_use(scene: Scene) -> None:
    ready = await _ready(scene)
    async with AsyncExitStack() as held:
        connections = [
            await held.enter_async_context(scene.db.begin()) for _ in range(Settings().pool_size)
        ]
        assert len(set(map(id, connections))) == Settings().pool_size
        for answer in (
            await _asked(scene),
            await scene.call("GET", f"profile-sessions/{ready}"),
        ):
            assert answer.error[:2] == (503, 10500)
            assert int(answer.headers["retry-after"]) >= 1
    assert await _sessions(scene) == 1
    await _ready(scene)


def test_nobody_waits_a_second_for_a_connection() -> None:
    assert Settings().pool_wait_ms < 1000


async def test_an_agent_is_told_that_its_report_was_not_kept(database_url: str) -> None:
    """It keeps what it has to tell (``edge_agent/sightings.py``) and is asked for all of it."""
    async with plane(database_url, metals=0) as p:
        await p.intake.sightings(report())
        async with Database.open(database_url) as other, other.begin() as holder:
            await holder.execute(text("LOCK TABLE sightings, metal_reports IN EXCLUSIVE MODE"))
            with pytest.raises(Fault) as told:
                await p.intake.sightings(report())
        assert told.value.reason is Reason.STORE_UNAVAILABLE
        await p.intake.sightings(report())
