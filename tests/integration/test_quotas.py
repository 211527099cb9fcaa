"""Quotas across racing replicas, turns between accounts, the switch, and drains."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from contract.faults import Fault, Reason
from contract.messages import CaptureState
from control_plane import admission
from control_plane.admission import ProfileRequest
from control_plane.session import SessionState
from control_plane.store import sessions
from control_plane.store.captures import Stop
from control_plane.store.database import Database
from tests.integration.admin_scene import admin_scene
from tests.integration.planes import (
    ACCOUNT,
    OTHER_ACCOUNT,
    WORKER,
    manifest,
    plane,
    profile_bytes,
    report,
    sighting,
    told,
)

if TYPE_CHECKING:
    from tests.integration.planes import Plane

ASKED = {"worker": WORKER, "duration_ms": 1000}


async def test_replicas_that_race_admit_no_more_than_the_quota(database_url: str) -> None:
    async with (
        plane(database_url, max_concurrent_sessions=5) as p,
        Database.open(database_url) as second,
    ):
        request = ProfileRequest(worker=WORKER, duration_ms=1000)
        waits: list[float | None] = []

        async def ask(db: Database) -> Reason | None:
            try:
                await admission.admit(db, ACCOUNT, request, str(uuid.uuid4()), p.settings)
            except Fault as fault:
                waits.append(fault.retry_after_s)
                return fault.reason
            return None

        ended = await asyncio.gather(*(ask(db) for db in (p.db, second) for _ in range(20)))
        assert ended.count(None) == 5
        assert ended.count(Reason.ACCOUNT_QUOTA) == 35
        assert None not in waits
        async with p.db.read() as conn:
            assert await conn.scalar(text("SELECT count(*) FROM sessions")) == 5


async def test_a_limit_an_operator_sets_holds_at_once_and_says_until_when(
    database_url: str,
) -> None:
    async with admin_scene(database_url) as scene:
        path = f"accounts/{ACCOUNT}"
        await scene.call("PATCH", path, json={"limits": {"max_sessions_per_hour": 1}})
        assert (await scene.ask("POST", "profile-sessions", json=ASKED)).status == 202
        await scene.plane.execute("UPDATE sessions SET created_at = now() - interval '3570 s'")
        refused = await scene.ask("POST", "profile-sessions", json=ASKED)
        assert refused.code == (429, 10399)
        assert 25 <= int(refused.headers["Retry-After"]) <= 30
        assert "max_sessions_per_hour of 1" in refused.body["errors"][0]["message"]
        # Past what clients wait for, they are told not to try.
        await scene.plane.execute("UPDATE sessions SET created_at = now() - interval '60 s'")
        later = await scene.ask("POST", "profile-sessions", json=ASKED)
        assert later.headers["x-should-retry"] == "false"
        await scene.call("PATCH", path, json={"limits": {"max_sessions_per_hour": None}})
        assert (await scene.ask("POST", "profile-sessions", json=ASKED)).status == 202


async def test_seconds_that_were_not_sampled_are_given_back(database_url: str) -> None:
    async with plane(database_url, max_capture_seconds_per_hour=10) as p:
        p.agents.answers = [Fault(Reason.RUNTIME_UNSUPPORTED, "no")]
        session = await p.admit(duration_ms=10_000)
        with pytest.raises(Fault) as refused:
            await p.admit(duration_ms=1_000)
        assert refused.value.reason is Reason.ACCOUNT_QUOTA
        await p.turn()
        assert (await p.session(session.session_id)).state is SessionState.FAILED
        # Nothing was sampled, so nothing is charged.
        await p.admit(duration_ms=10_000)
        with pytest.raises(Fault) as never:
            await p.admit(duration_ms=11_000)
        assert never.value.reason is Reason.REQUEST_INVALID
        assert [field.pointer for field in never.value.fields] == ["/duration_ms"]


async def other_admits(p: Plane, **asked: object) -> str:
    request = ProfileRequest(worker="2" * 32, duration_ms=1000, **asked)  # type: ignore[arg-type]
    made = await admission.admit(p.db, OTHER_ACCOUNT, request, str(uuid.uuid4()), p.settings)
    return made.session_id


async def claimed(p: Plane, count: int) -> list[str]:
    """Whose turn it is, so many times."""
    turns = []
    for _ in range(count):
        async with p.db.begin() as conn:
            taken = await sessions.claim(conn, "r1", lease_ms=60_000)
            assert taken is not None
            turns.append(taken.session.account_id)
    return turns


async def both(p: Plane) -> None:
    mine = sighting()
    other = sighting(account_id=OTHER_ACCOUNT, worker_id="2" * 32, worker_name="theirs")
    await p.intake.sightings(report(sightings=(mine, other)))


async def test_one_account_that_asks_much_does_not_hold_up_another(database_url: str) -> None:
    async with plane(database_url) as p:
        await both(p)
        for _ in range(20):
            await p.admit()
        assert await claimed(p, 5) == [ACCOUNT] * 5
        for _ in range(2):
            await other_admits(p)
        turns = await claimed(p, 6)
        assert turns.count(OTHER_ACCOUNT) == 2
        assert turns[:4].count(OTHER_ACCOUNT) == 2


async def test_weights_share_the_turns(database_url: str) -> None:
    async with plane(database_url) as p:
        await both(p)
        await p.execute("UPDATE accounts SET weight = 3 WHERE account_id = :a", a=ACCOUNT)
        for _ in range(12):
            await p.admit()
            await other_admits(p)
        turns = await claimed(p, 12)
        assert turns.count(ACCOUNT) in {8, 9, 10}


async def test_switched_off_nothing_new_is_admitted_and_what_waits_ends(
    database_url: str,
) -> None:
    async with admin_scene(database_url) as scene:
        waiting = (await scene.ask("POST", "profile-sessions", json=ASKED)).result["id"]
        off = {"turned_on": False, "reason": "maintenance"}
        position = (await scene.call("PUT", "dispatch", json=off)).result
        assert (position["turned_on"], position["reason"]) == (False, "maintenance")
        refused = await scene.ask("POST", "profile-sessions", json=ASKED)
        assert refused.code == (503, 10397)
        await scene.plane.turn()
        ended = (await scene.ask("GET", f"profile-sessions/{waiting}")).result
        assert (ended["state"], ended["reason"]) == ("failed", "dispatch_off")
        assert scene.plane.agents.orders == []
        await scene.call("PUT", "dispatch", json={"turned_on": True})
        assert (await scene.ask("POST", "profile-sessions", json=ASKED)).status == 202
        entries = await scene.audited(action="dispatch.switch")
        assert [entry["details"]["turned_on"] for entry in entries] == [True, False]


async def test_nothing_new_lands_where_it_is_drained(database_url: str) -> None:
    async with admin_scene(database_url, metals=2) as scene:
        await scene.call("POST", "datacenters/dc1/drain")
        for _ in range(5):
            await scene.plane.admit()
        await scene.plane.turn()
        assert {address for address, _ in scene.plane.agents.orders} == {"10.0.0.2:1"}


@pytest.mark.parametrize("path", ["agents/m1", "datacenters/dc1"])
async def test_at_a_drains_deadline_the_partial_profile_is_kept(
    database_url: str, path: str
) -> None:
    async with admin_scene(database_url) as scene:
        p = scene.plane
        session, capture = await p.sampling()
        await scene.call("POST", f"{path}/drain", json={"within_s": 600})
        await p.sweep.turn()
        (still,) = await p.captures(session.session_id)
        assert still.stop is None
        await scene.call("POST", f"{path}/drain", json={"within_s": 0})
        await p.sweep.turn()
        await p.sweep.turn()
        p.agents.reports[capture.key] = told(capture, CaptureState.SAMPLING)
        await p.turn()
        assert p.agents.stops == [(capture.address, capture.key, False)]
        (stopped,) = await p.captures(session.session_id)
        assert stopped.stop is Stop.KEEP
        data = profile_bytes()
        upload = await p.intake.open_upload(manifest(capture, data, window_ms=300))
        await upload.write(0, data)
        await upload.finish()
        assert (await p.session(session.session_id)).state is SessionState.READY
        entries = await scene.audited(action="captures.stop-drained")
        assert [entry["target"] for entry in entries] == [f"{session.session_id}/1"]
