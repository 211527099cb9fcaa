"""Postgres goes away under load and comes back: what was promised is there, nothing else is."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from sqlalchemy import text

from contract.faults import Fault, Reason
from control_plane.session import SessionState
from services import embedded_postgres, migrate
from tests.integration.planes import Plane, metal, plane, report, sighting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from services.embedded_postgres import Postgres

CALLERS = 6


@pytest_asyncio.fixture
async def own(tmp_path: Path) -> AsyncIterator[Path]:
    """A cluster of the test's own, with commits that wait for the disk."""
    server = await embedded_postgres.start(tmp_path)
    await migrate.upgrade(server.url)
    await server.stop()
    yield tmp_path
    await (await embedded_postgres.start(tmp_path)).stop()


async def _killed(server: Postgres, how: signal.Signals) -> None:
    assert server.process is not None
    server.process.send_signal(how)
    while server.process.poll() is None:  # noqa: ASYNC110 - a process of the library's has no event
        await asyncio.sleep(0.05)


class Load:
    """Callers that ask again and again, and remember what they were told."""

    def __init__(self, p: Plane) -> None:
        self.p = p
        self.promised: list[str] = []
        self.refused: list[Fault] = []
        self.going = True

    async def caller(self) -> None:
        while self.going:
            try:
                self.promised.append((await self.p.admit()).session_id)
            except Fault as fault:
                self.refused.append(fault)
            await asyncio.sleep(0.01)

    async def until(self, promised: int) -> None:
        while len(self.promised) < promised:  # noqa: ASYNC110 - bounded by the test's own timeout
            await asyncio.sleep(0.02)

    async def until_refused(self) -> None:
        while not self.refused:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["fast", "immediate"])
async def test_a_restart_under_load_loses_nothing(own: Path, how: signal.Signals) -> None:
    server = await embedded_postgres.start(own)
    try:
        async with plane(server.url) as p:
            load = Load(p)
            callers = [asyncio.create_task(load.caller()) for _ in range(CALLERS)]
            await load.until(promised=20)
            await _killed(server, how)
            await load.until_refused()
            server = await embedded_postgres.start(own)
            await load.until(promised=len(load.promised) + 20)
            load.going = False
            await asyncio.gather(*callers)
            assert {fault.reason for fault in load.refused} == {Reason.STORE_UNAVAILABLE}
            assert all(fault.retry_after_s for fault in load.refused)
            async with p.db.read() as conn:
                found = await conn.execute(text("SELECT session_id FROM sessions"))
                there = set(found.scalars().all())
                busy = await conn.execute(
                    text(
                        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'isoprof' "
                        "AND state <> 'idle' AND pid <> pg_backend_pid()"
                    )
                )
                assert busy.scalar_one() == 0
            assert set(load.promised) <= there
            # Soft state is rebuilt from what the agents tell, and everything goes on.
            many = sighting(isolates=1_000, free_isolates=1_000)
            roomy = metal(max_captures=1_000)
            await p.intake.sightings(report(metal=roomy, sightings=(many,)))
            await p.turn()
            states = {(await p.session(one)).state for one in load.promised}
            assert states == {SessionState.CAPTURING}
    finally:
        await server.stop()
