"""What the agents of the fleet say in their logs about isolates they profiled on their own."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from services.devfleet.processes import Child
    from services.devfleet.system import Fleet

PROFILED = frozenset({"isolate_warmed_up", "capture_ended"})
WARM_UP_ENDS = frozenset({"isolate_warmed_up", "isolate_not_warmed_up"})
LOOK_S = 0.2


def events(agent: Child) -> list[dict[str, Any]]:
    """Since the agent's latest start."""
    text = agent.log.read_text(encoding="utf-8", errors="replace")
    found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    starts = [index for index, one in enumerate(found) if one["event"] == "starting"]
    return found[starts[-1] :] if starts else found


async def profiled_before(fleet: Fleet, service: str) -> None:
    """Return once a service was profiled: what was optimised before has lost inlined callees.

    The agent warms every isolate up when it begins to run; a capture does the same good.
    """
    async with asyncio.timeout(60):
        while not any(  # noqa: ASYNC110 - a log has no event
            one["event"] in PROFILED and one["isolate"].endswith(f"/{service}")
            for agent in fleet.agents.values()
            for one in events(agent)
        ):
            await asyncio.sleep(LOOK_S)


async def warm_ups_over(fleet: Fleet) -> None:
    """Return when no agent has a warm-up under way: a second session would kill its own."""
    async with asyncio.timeout(60):
        while any(_warming_up(agent) for agent in fleet.agents.values()):  # noqa: ASYNC110 - a log has no event
            await asyncio.sleep(LOOK_S)


def _warming_up(agent: Child) -> set[str]:
    open_ = set()
    for one in events(agent):
        if one["event"] == "isolate_warming_up":
            open_.add(one["isolate"])
        elif one["event"] in WARM_UP_ENDS:
            open_.discard(one["isolate"])
    return open_
