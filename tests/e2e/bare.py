"""A bare inspector session of the tests' own: is a profiler still running in an isolate?"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    from services.devfleet.system import Fleet

# A session closed a moment ago may still be on its way out; a second one too soon kills both.
SETTLE_S = 0.2
ANSWER_S = 10.0


async def stopped_profile(inspector: str, service: str) -> dict[str, Any] | None:
    """Send ``Profiler.stop`` from a new session; what was still being taken, or None."""
    await asyncio.sleep(SETTLE_S)
    async with (
        asyncio.timeout(ANSWER_S),
        aiohttp.ClientSession() as http,
        http.ws_connect(f"ws://{inspector}/{service}", max_msg_size=0) as session,
    ):
        await session.send_json({"id": 1, "method": "Profiler.stop"})
        while True:
            answer = await session.receive_json()
            if answer.get("id") == 1:
                profile: dict[str, Any] | None = answer.get("result", {}).get("profile")
                return profile


async def running_profilers(fleet: Fleet) -> list[str]:
    """Stop what profilers still run anywhere in the fleet; the isolates they ran in."""
    places = [
        (f"{metal.metal_id}/{process.runtime_id}/{place.service}", process_addresses, place.service)
        for metal in fleet.plan.metals
        for process in metal.processes
        for process_addresses in [
            fleet.addresses.metals[metal.metal_id].processes[process.runtime_id].inspector
        ]
        for place in process.places
    ]
    found = await asyncio.gather(
        *(stopped_profile(inspector, service) for _name, inspector, service in places)
    )
    return [
        name for (name, _, _), profile in zip(places, found, strict=True) if profile is not None
    ]
