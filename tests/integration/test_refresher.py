"""Reports written together: each is answered for itself, and none is lost or mixed up."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import text

from contract.faults import Fault, Reason
from control_plane.refresher import Refresher
from control_plane.store import sightings
from tests.integration.planes import plane, report, sighting

if TYPE_CHECKING:
    from collections.abc import Collection

    import pytest

    from contract.messages import Report

METALS = 30


async def executions(p: Any) -> dict[str, int]:
    async with p.db.read() as conn:
        rows = await conn.execute(text("SELECT metal_id, executions FROM sightings"))
        return {row.metal_id: row.executions for row in rows}


async def test_many_at_once_go_in_few_statements_and_each_counts(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = sightings.refresh
    sizes: list[int] = []

    async def counted(conn: Any, reports: Collection[Report]) -> dict[str, bool]:
        sizes.append(len(reports))
        return await written(conn, reports)

    async with plane(database_url) as p:
        for number in range(METALS):
            await p.intake.sightings(report(number, snapshot=True, sightings=(sighting(),)))
        monkeypatch.setattr(sightings, "refresh", counted)
        told = [
            report(number, snapshot=False, sightings=(sighting(executions=number + 1),))
            for number in range(METALS)
        ]
        # Each metal tells twice: the second is written after the first, never beside it.
        replies = await asyncio.gather(*(p.intake.sightings(one) for one in told + told))
        assert not any(reply.snapshot_wanted for reply in replies)
        assert sum(sizes) == 2 * METALS
        assert len(sizes) <= 4
        seen = await executions(p)
        assert sorted(seen.values()) == [number + 1 for number in range(METALS)]


async def test_one_that_is_not_known_as_it_tells_is_taken_in_the_long_way(
    database_url: str,
) -> None:
    async with plane(database_url) as p:
        for number in (1, 2):
            await p.intake.sightings(report(number, snapshot=True, sightings=(sighting(),)))
        moved = report(1, snapshot=False, sightings=(sighting(executions=7),))
        moved = replace(moved, metal=replace(moved.metal, address="127.0.0.1:1"))
        same = report(2, snapshot=False, sightings=(sighting(executions=8),))
        replies = await asyncio.gather(p.intake.sightings(moved), p.intake.sightings(same))
        assert [reply.snapshot_wanted for reply in replies] == [False, False]
        assert sorted((await executions(p)).values()) == [7, 8]
        async with p.db.read() as conn:
            address = await conn.scalar(
                text("SELECT address FROM metals WHERE metal_id = :metal_id"),
                {"metal_id": moved.metal.metal_id},
            )
        assert address == "127.0.0.1:1"


async def test_a_database_that_is_away_is_told_to_all_and_the_next_are_written(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = sightings.refresh

    async def away(*_: Any) -> dict[str, bool]:
        raise Fault(Reason.STORE_UNAVAILABLE, "away")

    async with plane(database_url) as p:
        await p.intake.sightings(report(1, snapshot=True, sightings=(sighting(),)))
        refresher = Refresher(p.db)
        one = report(1, snapshot=False, sightings=(sighting(executions=3),))
        monkeypatch.setattr(sightings, "refresh", away)
        ended = await asyncio.gather(
            *(refresher.add(one) for _ in range(3)), return_exceptions=True
        )
        assert [getattr(fault, "reason", None) for fault in ended] == [Reason.STORE_UNAVAILABLE] * 3
        monkeypatch.setattr(sightings, "refresh", written)
        assert await refresher.add(one) is False


async def test_who_gave_up_waiting_changes_nothing_for_the_others(database_url: str) -> None:
    async with plane(database_url) as p:
        for number in (1, 2):
            await p.intake.sightings(report(number, snapshot=True, sightings=(sighting(),)))
        refresher = Refresher(p.db)
        gone, stays = (
            asyncio.create_task(
                refresher.add(report(n, snapshot=False, sightings=(sighting(executions=n),)))
            )
            for n in (1, 2)
        )
        await asyncio.sleep(0)
        gone.cancel()
        assert await stays is False
        assert (await executions(p))[report(2).metal.metal_id] == 2
