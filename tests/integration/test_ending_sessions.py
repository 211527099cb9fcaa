"""Stop keeps and DELETE discards, at every point of a session, however often; hang-ups too."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import obstore
import pytest

from contract.faults import Fault, Reason
from contract.messages import Accepted, CaptureState
from control_plane import admission
from control_plane.session import SessionState
from control_plane.store import profiles
from tests.integration.edge_scene import edge_scene
from tests.integration.planes import (
    ACCOUNT,
    Plane,
    ScriptedAgents,
    manifest,
    plane,
    profile_bytes,
    told,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from contract.messages import CaptureKey, CaptureReport
    from control_plane.intake import Upload
    from control_plane.store.captures import Capture

DATA = profile_bytes()
# A slow machine must not use up what is given to an order.
UNHURRIED = {"order_timeout_ms": 600_000, "lease_ms": 600_000, "session_slack_ms": 900_000}


@dataclass(kw_only=True)
class At:
    """A session brought to some point of its life; ``finish`` lets what is under way go on."""

    session_id: str
    capture: Capture | None = None
    upload: Upload | None = None
    release: asyncio.Event | None = None


class Obedient(ScriptedAgents):
    """An agent that drops a capture when told so, as real ones do."""

    async def stop_capture(
        self, address: str, key: CaptureKey, *, metal_id: str, discard: bool
    ) -> CaptureReport:
        report = await super().stop_capture(address, key, metal_id=metal_id, discard=discard)
        if discard:
            report = replace(report, state=CaptureState.STOPPED, reason=Reason.CAPTURE_STOPPED)
        return report


async def queued(p: Plane) -> At:
    return At(session_id=(await p.admit()).session_id)


async def ordered(p: Plane) -> At:
    """The order is out, and its agent takes its time to accept."""
    at = At(session_id=(await p.admit()).session_id, release=asyncio.Event())
    arrived = asyncio.Event()

    async def slow() -> Accepted:
        arrived.set()
        assert at.release is not None
        await at.release.wait()
        return Accepted(key=p.agents.orders[0][1].key, isolate_id="wd1/slow")

    p.agents.answers = [slow]
    await p.dispatch("slow").turn()
    await arrived.wait()
    (at.capture,) = await p.captures(at.session_id)
    assert at.capture.state is CaptureState.ORDERED
    return at


async def sampling(p: Plane) -> At:
    session, capture = await p.sampling()
    p.agents.__class__ = Obedient
    # What the agent answers to a stop that keeps, while it has yet to build and upload.
    p.agents.reports[capture.key] = told(capture, CaptureState.SAMPLING, sampled_ms=300, freed=True)
    return At(session_id=session.session_id, capture=capture)


async def uploading(p: Plane) -> At:
    at = await sampling(p)
    assert at.capture is not None
    at.upload = await p.intake.open_upload(manifest(at.capture, DATA))
    await at.upload.write(0, DATA[:20])
    return at


async def ready(p: Plane) -> At:
    at = await uploading(p)
    assert at.upload is not None
    await at.upload.write(20, DATA[20:])
    await at.upload.finish()
    assert (await p.session(at.session_id)).state is SessionState.READY
    at.upload = None
    return at


POINTS = [queued, ordered, sampling, uploading, ready]


async def until(so: Callable[[], Awaitable[bool]]) -> None:
    """Return once it is so, of something that has no event."""
    async with asyncio.timeout(60):
        while not await so():  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)


async def _is_answered(p: Plane, session_id: str) -> bool:
    return (await p.captures(session_id))[0].state is not CaptureState.ORDERED


async def kept(p: Plane, session_id: str) -> tuple[int, int]:
    """How many profiles the session has, and how many blobs there are at all."""
    async with p.db.read() as conn:
        stored = await profiles.of_session(conn, ACCOUNT, session_id)
    blobs = [one async for batch in obstore.list(p.blobs._store) for one in batch]
    return len(stored), len(blobs)


async def finish(p: Plane, at: At) -> None:
    """Let everything under way come to its end, as far as it is let."""
    await p.turn()
    if at.release is not None:
        at.release.set()
        await until(lambda: _is_answered(p, at.session_id))
    if at.capture is not None and at.upload is None:
        with contextlib.suppress(Fault):
            at.upload = await p.intake.open_upload(manifest(at.capture, DATA))
    if at.upload is not None:
        with contextlib.suppress(Fault):
            await at.upload.write(at.upload.offset, DATA[at.upload.offset :])
            await at.upload.finish()
    await p.turn()


async def takes_another(p: Plane) -> None:
    """The one isolate there is takes a capture again."""
    p.agents.answers = []
    session = await p.admit()
    await p.turn()
    assert (await p.session(session.session_id)).state is SessionState.CAPTURING


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("turns", [(True,), (True, True), (False, True), (True, False)])
async def test_discarded_at_every_point(
    database_url: str, point: Callable[[Plane], Awaitable[At]], turns: tuple[bool, ...]
) -> None:
    async with plane(database_url, **UNHURRIED) as p:
        at = await point(p)
        seen = []
        for discard in turns:
            session = await admission.cancel(p.db, ACCOUNT, at.session_id, discard=discard)
            seen.append(session.state)
        await finish(p, at)
        now = await p.session(at.session_id)
        if point is ready:
            # What has ended stays as it is, its profile readable.
            assert now.state is SessionState.READY
            assert await kept(p, at.session_id) == (1, 1)
        else:
            assert (now.state, now.reason) == (
                SessionState.CANCELLED,
                Reason.SESSION_CANCELLED,
            )
            assert seen[-1] is SessionState.CANCELLED
            assert await kept(p, at.session_id) == (0, 0)
        if at.capture is not None and point is not ready:
            assert (at.capture.address, at.capture.key, True) in p.agents.stops
        assert not any(one.live for one in await p.captures(at.session_id))
        ends = [event for _, event in await p.events(at.session_id) if event == "cancelled"]
        assert len(ends) == (0 if point is ready else 1)
        await takes_another(p)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("times", [1, 2])
async def test_stopped_at_every_point(
    database_url: str, point: Callable[[Plane], Awaitable[At]], times: int
) -> None:
    async with plane(database_url, **UNHURRIED) as p:
        at = await point(p)
        for _ in range(times):
            await admission.cancel(p.db, ACCOUNT, at.session_id, discard=False)
        await finish(p, at)
        now = await p.session(at.session_id)
        if point in (sampling, uploading, ready):
            assert now.state is SessionState.READY
            assert await kept(p, at.session_id) == (1, 1)
        else:
            assert (now.state, now.reason) == (
                SessionState.CANCELLED,
                Reason.SESSION_CANCELLED,
            )
            assert await kept(p, at.session_id) == (0, 0)
        if point in (ordered, sampling, uploading):
            assert at.capture is not None
            assert (at.capture.address, at.capture.key, False) in p.agents.stops
        assert not any(one.live for one in await p.captures(at.session_id))
        await takes_another(p)


async def test_stops_are_sent_while_orders_wait_for_silent_agents(database_url: str) -> None:
    async with plane(database_url, metals=3, max_orders=2, order_timeout_ms=600_000) as p:
        session, capture = await p.sampling()

        async def never() -> Any:
            await asyncio.Event().wait()

        p.agents.answers = [never, never]
        dispatch = p.dispatch()
        for _ in range(3):
            await p.admit()
        running = asyncio.create_task(dispatch.run())

        async def all_slots_are_taken() -> bool:
            return len(p.agents.orders) == 3

        async def told_to_stop() -> bool:
            return bool(p.agents.stops)

        await until(all_slots_are_taken)
        await admission.cancel(p.db, ACCOUNT, session.session_id, discard=True)
        await until(told_to_stop)
        assert p.agents.stops == [(capture.address, capture.key, True)]
        running.cancel()
        for task in list(dispatch._sending):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def hangs_up(asking: asyncio.Task[Any]) -> None:
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_a_caller_hangs_up_while_its_session_is_written(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit is on its way when the caller goes: the session is made, and ended."""
    async with edge_scene(database_url) as scene:
        made, asked, go_on = admission._admit, asyncio.Event(), asyncio.Event()

        async def slow(*args: Any) -> Any:
            asked.set()
            await go_on.wait()
            return await made(*args)

        monkeypatch.setattr(admission, "_admit", slow)
        scene.metal.go.clear()
        asking = asyncio.create_task(scene.profile(duration_ms=50_000))
        await asyncio.wait_for(asked.wait(), 10)
        await hangs_up(asking)
        monkeypatch.setattr(admission, "_admit", made)
        go_on.set()

        async def cancelled() -> bool:
            listed = await scene.call("GET", "profile-sessions?state=cancelled")
            return bool(listed.body["result"])

        await until(cancelled)
        scene.metal.go.set()
        assert (await scene.profile()).status == 200


async def test_a_caller_hangs_up_while_its_order_is_out(database_url: str) -> None:
    async with edge_scene(database_url) as scene:
        scene.metal.accept.clear()
        asking = asyncio.create_task(scene.profile(duration_ms=50_000))
        order = await asyncio.wait_for(scene.metal.orders.get(), 10)
        await hangs_up(asking)
        await scene.session_until(order.key.session_id, "cancelled")
        scene.metal.accept.set()
        while (await asyncio.wait_for(scene.metal.stops.get(), 10)) != (order.key, True):
            pass
        await scene.session_seen(
            order.key.session_id, lambda seen: seen["captures"][0]["state"] == "stopped"
        )
        assert (await scene.profile()).status == 200


async def test_a_caller_hangs_up_while_its_profile_comes(database_url: str) -> None:
    async with edge_scene(database_url) as scene:
        scene.metal.whole.clear()
        asking = asyncio.create_task(scene.profile())
        order = await asyncio.wait_for(scene.metal.orders.get(), 10)
        await asyncio.wait_for(scene.metal.half_sent.wait(), 10)
        await scene.session_until(order.key.session_id, "finishing")
        await hangs_up(asking)
        ended = await scene.session_until(order.key.session_id, "cancelled")
        assert ended["profile"] is None
        scene.metal.whole.set()
        assert (await scene.profile()).status == 200
