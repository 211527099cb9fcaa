"""Three replicas over one database, a thousand sessions: each is ordered exactly once."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from sqlalchemy import text

from tests.integration.planes import Plane, metal, plane, report, sighting

if TYPE_CHECKING:
    from contract.messages import Report
    from control_plane.store.sessions import Session

SESSIONS = 1_000
REPLICAS = 3
AT_ONCE = 20


def _report(number: int) -> Report:
    many = sighting(isolates=SESSIONS, free_isolates=SESSIONS)
    return report(number, metal=metal(number, max_captures=SESSIONS), sightings=(many,))


async def _admit(p: Plane) -> Session:
    return await p.admit()


async def test_a_thousand_sessions_are_each_ordered_once(database_url: str) -> None:
    async with plane(database_url, metals=3, pool_size=24, pool_wait_ms=20_000) as p:
        replicas = [p.dispatch(f"r{number}") for number in range(REPLICAS)]
        made: list[str] = []
        for _ in range(SESSIONS // AT_ONCE):
            await asyncio.gather(*(p.intake.sightings(_report(number)) for number in (1, 2, 3)))
            made += [one.session_id for one in await asyncio.gather(*map(_admit, [p] * AT_ONCE))]
            # Every replica goes for all of them: whoever comes first orders.
            await asyncio.gather(*(replica.turn() for replica in replicas))
        await asyncio.gather(*(replica.finished() for replica in replicas))
        ordered = Counter(order.key for _, order in p.agents.orders)
        assert len(made) == SESSIONS
        assert {key.session_id for key in ordered} == set(made)
        assert set(ordered.values()) == {1}
        assert {key.capture for key in ordered} == {1}
        async with p.db.read() as conn:
            states = await conn.execute(text("SELECT state, count(*) FROM sessions GROUP BY state"))
            assert dict(map(tuple, states)) == {"capturing": SESSIONS}
