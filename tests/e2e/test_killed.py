"""Processes killed while they matter: each session ends, nothing keeps sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from services.devfleet import fleet as plan
from tests.e2e.reading import read

if TYPE_CHECKING:
    from services.devfleet.system import Fleet
    from tests.e2e.client import Client

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("left_clean")]

# Only one isolate each, so that no second attempt elsewhere hides how the first one ended.
ENDED_BADLY = ("failed", "expired")
AFTER_RESTART_S = 15.0


async def test_agent_killed_mid_capture(fleet: Fleet, client: Client) -> None:
    agent = fleet.agents["ams1-m1"]
    session = await client.begin(plan.REPLACER, "before", duration_ms=20_000)
    await client.until_sampling(plan.HARBOUR, session)
    agent.kill()
    await fleet.restart(agent)
    ended = await client.until_over(plan.HARBOUR, session, within_s=25)
    assert ended["state"] in ENDED_BADLY
    assert ended["reason"]
    assert ended["message"]
    await client.captured_again(plan.REPLACER, "before", within_s=AFTER_RESTART_S)


async def test_workerd_killed_mid_capture(fleet: Fleet, client: Client) -> None:
    workerd = fleet.workerds["ams1-m2", "wd1"]
    session = await client.begin(plan.METRICS, "before", duration_ms=20_000)
    await client.until_sampling(plan.HARBOUR, session)
    workerd.kill()
    await workerd.ended()
    ended = await client.until_over(plan.HARBOUR, session, within_s=15)
    # Seen by the cut session, long before its window or any lease was over: bench/target_exited.py
    # says how soon.
    (capture,) = ended["captures"]
    assert (capture["state"], capture["reason"]) == ("failed", "target_exited")
    assert (ended["state"], ended["reason"]) == ("failed", "target_exited")
    assert capture["sampled_ms"] < 20_000
    await fleet.restart(workerd)
    await client.captured_again(plan.METRICS, "before", within_s=AFTER_RESTART_S)


async def test_control_plane_killed_after_202(fleet: Fleet, client: Client) -> None:
    session = await client.begin(plan.LOOP, "live", duration_ms=4000)
    fleet.control_plane.kill()
    await fleet.restart(fleet.control_plane)
    ended = await client.until_over(plan.HARBOUR, session, within_s=40)
    # Found on restart, dispatched, finished.
    assert ended["state"] == "ready", ended
    answer = await client.call("GET", plan.HARBOUR, f"profile-sessions/{session}/profile")
    assert read(answer.data).samples > 0
    await client.captured_again(plan.LOOP, "live", within_s=AFTER_RESTART_S)
