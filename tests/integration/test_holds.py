"""Retry-After is true: two metals, holds that end, are extended, and are given up early."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import text

from contract.faults import Fault, Reason
from contract.messages import Accepted, CaptureState
from control_plane import admission
from control_plane.session import SessionState
from tests.integration.edge_scene import edge_scene
from tests.integration.planes import (
    ACCOUNT,
    VERSION,
    Plane,
    manifest,
    metal,
    plane,
    profile_bytes,
    report,
    sighting,
    told,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from control_plane.store.sessions import Session


async def refused(p: Plane, **asked: str) -> Session:
    session = await p.admit(**asked)
    await p.turn()
    now = await p.session(session.session_id)
    assert (now.state, now.reason) == (SessionState.FAILED, Reason.ISOLATES_BUSY)
    return now


async def ends_of(p: Plane, *sessions: Session) -> datetime:
    """When the first hold of these sessions ends, as the store knows it."""
    async with p.db.read() as conn:
        found = await conn.execute(
            text("SELECT min(ends_at) FROM captures WHERE session_id = ANY(:ids)"),
            {"ids": [session.session_id for session in sessions]},
        )
        at: datetime = found.scalar_one()
        return at


async def told_to_wait_until(p: Plane, *first: Session, **asked: str) -> None:
    """Ask for one capture more: it is refused, and told when the first of these ends."""
    now = await refused(p, **asked)
    assert now.ended_at is not None
    assert now.retry_after_s is not None
    told_at = now.ended_at + timedelta(seconds=now.retry_after_s)
    # Milliseconds are what the wait is counted in.
    assert abs(told_at - await ends_of(p, *first)) < timedelta(milliseconds=2)


async def taken(p: Plane, duration_ms: int, **asked: str) -> Session:
    session = await p.admit(duration_ms=duration_ms, **asked)
    await p.turn()
    now = await p.session(session.session_id)
    assert now.state is SessionState.CAPTURING
    return now


async def test_the_first_of_two_holds_is_what_is_waited_for(database_url: str) -> None:
    async with plane(database_url, metals=2) as p:
        longer = await taken(p, 40_000)
        second = await taken(p, 5_000)
        assert await ends_of(p, second) < await ends_of(p, longer)
        await told_to_wait_until(p, second)
        # The shorter one ends, and a longer one takes its place.
        (capture,) = await p.captures(second.session_id)
        await p.intake.captured(told(capture, CaptureState.FAILED, reason=Reason.INTERNAL))
        await p.execute("UPDATE sessions SET order_due_at = NULL WHERE state <> 'queued'")
        await taken(p, 50_000)
        await told_to_wait_until(p, longer)


async def test_a_hold_that_lasts_longer_than_it_should_is_soon_over(database_url: str) -> None:
    async with plane(database_url) as p:
        await taken(p, 5_000)
        await p.execute("UPDATE captures SET ends_at = now() - interval '3 s'")
        waiting = await p.admit()
        await p.turn()
        # It is waited for, and not for ever.
        assert (await p.session(waiting.session_id)).state is SessionState.QUEUED
        await p.execute(
            "UPDATE sessions SET created_at = created_at - interval '4 s', order_due_at = now() "
            "WHERE state = 'queued'"
        )
        await p.turn()
        ended = await p.session(waiting.session_id)
        assert (ended.reason, ended.retry_after_s) == (Reason.ISOLATES_BUSY, 0.5)


async def test_who_comes_right_after_a_discard_gets_the_isolate(database_url: str) -> None:
    async with plane(database_url) as p:
        first = await taken(p, 50_000)
        await admission.cancel(p.db, ACCOUNT, first.session_id, discard=True)
        # The agent has not been told yet.
        session = await p.admit()
        assert (await p.dispatch()._order())[1].orders == ()
        assert (await p.session(session.session_id)).state is SessionState.QUEUED
        await p.turn()
        await p.execute("UPDATE sessions SET order_due_at = now() WHERE state = 'queued'")
        await p.turn()
        assert (await p.session(session.session_id)).state is SessionState.CAPTURING


async def test_a_hold_freed_by_a_stop_is_free_while_its_profile_comes(database_url: str) -> None:
    async with plane(database_url) as p:
        first = await taken(p, 50_000)
        await told_to_wait_until(p, first)
        (capture,) = await p.captures(first.session_id)
        p.agents.reports[capture.key] = told(
            capture, CaptureState.SAMPLING, sampled_ms=700, freed=True
        )
        await admission.cancel(p.db, ACCOUNT, first.session_id, discard=False)
        await p.turn()
        assert (await p.captures(first.session_id))[0].live
        p.agents.answers = [_accepted(p, capture.isolate_id)]
        await taken(p, 1_000)
        await upload(p, first)


async def test_an_isolate_is_free_once_its_profile_is_on_its_way(database_url: str) -> None:
    async with plane(database_url) as p:
        first = await taken(p, 1_000)
        (capture,) = await p.captures(first.session_id)
        data = profile_bytes()
        under_way = await p.intake.open_upload(manifest(capture, data))
        p.agents.answers = [_accepted(p, capture.isolate_id)]
        second = await taken(p, 1_000)
        await told_to_wait_until(p, second)
        await under_way.write(0, data)
        await under_way.finish()
        await upload(p, second)
        for session in (first, second):
            assert (await p.session(session.session_id)).state is SessionState.READY


async def test_another_versions_capture_frees_nothing_of_this_one(database_url: str) -> None:
    other = "22222222-2222-4222-8222-222222222222"
    async with plane(database_url) as p:
        await p.intake.sightings(report(sightings=(sighting(), sighting(version_id=other))))
        await taken(p, 1_000, version=other)
        session = await taken(p, 20_000, version=VERSION)
        await told_to_wait_until(p, session, version=VERSION)


async def test_a_full_metal_waits_for_whatever_ends_first_there(database_url: str) -> None:
    other = "22222222-2222-4222-8222-222222222222"
    async with plane(database_url) as p:
        seen = (sighting(), sighting(version_id=other))
        await p.intake.sightings(report(metal=metal(max_captures=1), sightings=seen))
        session = await taken(p, 3_000, version=other)
        await told_to_wait_until(p, session, version=VERSION)


async def test_agents_that_refuse_are_both_counted(database_url: str) -> None:
    """Two agents hold what the store knows nothing of: the shorter wait is told."""
    async with plane(database_url, metals=2) as p:
        p.agents.answers = [
            Fault(Reason.ISOLATES_BUSY, "held", retry_after_s=100),
            Fault(Reason.ISOLATES_BUSY, "held", retry_after_s=3_000),
        ]
        waits_s = (await refused(p)).retry_after_s
        assert waits_s is not None
        assert waits_s <= 100
        p.agents.answers = [Fault(Reason.ISOLATES_BUSY, "held", retry_after_s=30)]
        held = await p.admit(duration_ms=9_000)
        await p.turn()
        # One agent refuses; on the other metal this very session samples.
        assert (await p.session(held.session_id)).state is SessionState.CAPTURING


async def test_two_agents_over_the_wire(database_url: str) -> None:
    async with edge_scene(database_url, metals=2) as scene:
        for one in scene.metals:
            one.go.clear()
        asking = [
            asyncio.create_task(scene.profile(duration_ms=duration_ms))
            for duration_ms in (30_000, 8_000)
        ]
        for one in scene.metals:
            await asyncio.wait_for(one.orders.get(), 10)
        busy = await scene.profile()
        assert busy.error[:2] == (429, 10398)
        # Of the two holds the shorter one, and never at once.
        assert 1 <= int(busy.headers["retry-after"]) <= 9
        listed = await scene.call("GET", "profile-sessions?state=failed")
        (failed,) = listed.body["result"]
        assert failed["retry_at"] > failed["ended_at"]
        for one in scene.metals:
            one.go.set()
        assert [(await task).status for task in asking] == [200, 200]
        assert (await scene.profile()).status == 200


def _accepted(p: Plane, isolate_id: str | None) -> Callable[[], Awaitable[Accepted]]:
    async def answer() -> Accepted:
        return Accepted(key=p.agents.orders[-1][1].key, isolate_id=isolate_id or "")

    return answer


async def upload(p: Plane, session: Session) -> None:
    (capture,) = await p.captures(session.session_id)
    data = profile_bytes(session.session_id)
    bringing = await p.intake.open_upload(manifest(capture, data))
    await bringing.write(0, data)
    await bringing.finish()
