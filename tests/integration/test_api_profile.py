"""The synchronous profile, from request to pprof bytes or to the one error that is right."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING

import aiohttp
import pytest

from contract.faults import Fault, Reason
from contract.messages import ProfileType
from control_plane import admission
from control_plane.session import SessionState
from control_plane.store import accounts, workers
from tests.integration.edge_scene import Scene, edge_scene
from tests.integration.planes import ACCOUNT, VERSION, WORKER, sighting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NO_RECENT = "No recent executions were found for this Worker."
NOT_LOADED = "The Worker has no loaded isolate in its recent execution locations."


@pytest.fixture
async def scene(database_url: str) -> AsyncIterator[Scene]:
    async with edge_scene(database_url) as made:
        yield made


async def test_bytes_are_those_the_metal_uploaded(scene: Scene) -> None:
    answer = await scene.profile()
    assert answer.status == 200
    assert answer.data == gzip.decompress(scene.metal.profile)
    assert answer.headers["content-type"] == "application/vnd.google.protobuf"
    assert "content-encoding" not in answer.headers
    assert answer.headers["x-isoprof-datacenter"] == "ams1"
    assert answer.headers["x-isoprof-metal"] == "ams1-m1"
    assert answer.headers["x-isoprof-version"] == VERSION
    assert answer.headers["x-isoprof-samples"] == "811"
    assert answer.headers["x-isoprof-lock-held-us"] == "600"
    shown = await scene.call("GET", f"profile-sessions/{answer.headers['x-isoprof-session']}")
    assert shown.body["result"]["state"] == "ready"
    assert shown.body["result"]["origin"] == "sync"


async def test_gzip_for_those_who_accept_it(scene: Scene) -> None:
    answer = await scene.call(
        "POST",
        f"workers/workers/{WORKER}/versions/latest/profile",
        json={"duration_ms": 1000},
        headers={"Accept-Encoding": "gzip, deflate"},
    )
    assert answer.status == 200
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.data == scene.metal.profile


async def test_order_says_what_was_asked(scene: Scene) -> None:
    await scene.profile(worker="replacer", version=VERSION[:8], profile_type="heap")
    order = scene.metal.orders.get_nowait()
    assert (order.worker_id, order.version_id) == (WORKER, VERSION)
    assert order.profile_type is ProfileType.HEAP
    assert order.duration_ms == 1000
    assert order.sampling_interval_us == 1000


async def test_form_type_around_json_is_let_in(scene: Scene) -> None:
    answer = await scene.call(
        "POST",
        f"workers/workers/{WORKER}/versions/latest/profile",
        data=b'{"duration_ms": 1000}',
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    assert answer.status == 200


async def test_loaded_but_never_run_is_no_recent_execution(scene: Scene) -> None:
    idle = "33333333-3333-4333-8333-333333333333"
    await scene.metal.sight(sighting(version_id=idle, idle_ms=None))
    answer = await scene.profile(version=idle)
    status, code, message = answer.error
    assert (status, code) == (404, 10393)
    assert message.startswith(NO_RECENT)
    assert answer.headers["x-should-retry"] == "false"
    assert scene.metal.orders.empty()


async def test_latest_that_does_not_run_names_what_does(scene: Scene) -> None:
    newest = "22222222-2222-4222-8222-222222222222"
    await scene.metal.sight(sighting(), sighting(version_id=newest, idle_ms=None))
    status, code, message = (await scene.profile(version="latest")).error
    assert (status, code) == (404, 10393)
    assert message.startswith(NO_RECENT)
    assert newest in message
    assert VERSION in message


@pytest.mark.parametrize("changes", [{"isolates": 0, "free_isolates": 0}, {"shared": True}])
async def test_not_loaded_and_shared_read_the_same(
    scene: Scene, changes: dict[str, int | bool]
) -> None:
    await scene.metal.sight(sighting(**changes))
    assert (await scene.profile()).error == (404, 10394, NOT_LOADED)


async def test_held_isolate_is_busy_until_its_hold_ends(scene: Scene) -> None:
    scene.metal.go.clear()
    first = asyncio.create_task(scene.profile(duration_ms=5_000))
    await asyncio.wait_for(scene.metal.orders.get(), 10)
    second = await scene.profile()
    assert second.error[:2] == (429, 10398)
    assert 1 <= int(second.headers["retry-after"]) <= 60
    assert "x-should-retry" not in second.headers
    # The isolate is sampled once, whoever asks how often.
    assert scene.metal.orders.empty()
    scene.metal.go.set()
    assert (await first).status == 200


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (Reason.NO_RECENT_EXECUTION, (404, 10393)),
        (Reason.NOT_LOADED, (404, 10394)),
        (Reason.RUNTIME_UNSUPPORTED, (400, 10395)),
        (Reason.RUNTIME_START_FAILED, (500, 10396)),
        (Reason.ISOLATES_BUSY, (429, 10398)),
        (Reason.INSPECTOR_LOST, (503, 10505)),
    ],
)
async def test_what_the_metal_refuses_with_reaches_the_caller(
    scene: Scene, reason: Reason, expected: tuple[int, int]
) -> None:
    scene.metal.refusal = Fault(reason, "because", retry_after_s=4)
    answer = await scene.profile()
    assert answer.error[:2] == expected
    if answer.status in {429, 503}:
        assert answer.headers["retry-after"] == "4"


async def test_metal_that_does_not_answer(scene: Scene) -> None:
    await scene.metal.server.stop(0)
    answer = await scene.profile()
    assert answer.error[:2] == (503, 10502)
    assert int(answer.headers["retry-after"]) >= 1


async def test_other_metal_is_asked_when_one_is_down(database_url: str) -> None:
    async with edge_scene(database_url, metals=2) as scene:
        await scene.metals[0].server.stop(0)
        for _ in range(3):
            answer = await scene.profile()
            assert answer.status == 200
            assert answer.headers["x-isoprof-metal"] == "ams1-m2"


async def test_no_metal_ever_reported(database_url: str) -> None:
    async with edge_scene(database_url, metals=0) as scene:
        async with scene.db.begin() as conn:
            await workers.register(conn, [sighting()])
        assert (await scene.profile()).error == (
            503,
            10397,
            "Worker profiling is unavailable in this environment.",
        )


async def test_hang_up_frees_the_isolate_at_once(scene: Scene) -> None:
    scene.metal.go.clear()
    asking = asyncio.create_task(scene.profile(duration_ms=50_000))
    order = await asyncio.wait_for(scene.metal.orders.get(), 10)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    key, discarded = await asyncio.wait_for(scene.metal.stops.get(), 10)
    assert (key, discarded) == (order.key, True)
    ended = await scene.session_until(order.key.session_id, "cancelled")
    assert ended["reason"] == "session_cancelled"
    scene.metal.go.set()
    assert (await scene.profile()).status == 200


async def test_draining_replica_leaves_the_session_to_others(scene: Scene) -> None:
    scene.metal.go.clear()
    asking = asyncio.create_task(scene.profile())
    order = await asyncio.wait_for(scene.metal.orders.get(), 10)
    stopping = asyncio.create_task(scene.runner.cleanup())
    answer = await asking
    await stopping
    assert answer.error[:2] == (503, 10500)
    assert order.key.session_id in answer.error[2]
    assert scene.metal.stops.empty()
    with scene.notices.watch(order.key.session_id) as watch:
        scene.metal.go.set()
        while (await admission.show(scene.db, ACCOUNT, order.key.session_id)).live:
            await watch.wait(5)
    ended = await admission.show(scene.db, ACCOUNT, order.key.session_id)
    assert ended.state is SessionState.READY


async def test_session_cancelled_under_its_caller(scene: Scene) -> None:
    scene.metal.go.clear()
    asking = asyncio.create_task(scene.profile())
    order = await asyncio.wait_for(scene.metal.orders.get(), 10)
    await scene.call("DELETE", f"profile-sessions/{order.key.session_id}")
    answer = await asking
    assert answer.error[:2] == (409, 10410)
    assert answer.headers["x-should-retry"] == "false"


async def test_profiling_disabled(scene: Scene) -> None:
    async with scene.db.begin() as conn:
        account = accounts.Account(account_id="a" * 32, name="a", profiling_enabled=False)
        await accounts.keep(conn, account)
    assert (await scene.profile()).error[:2] == (403, 10390)


async def test_caller_that_is_gone_before_the_row_leaves_nothing(scene: Scene) -> None:
    # Cut at a moment nobody chooses: whatever was made must end.
    scene.metal.go.clear()
    for _ in range(5):
        with pytest.raises((TimeoutError, aiohttp.ServerTimeoutError)):
            async with asyncio.timeout(0.01):
                await scene.profile()
    scene.metal.go.set()
    # The isolate is held until the last of them has ended, and some find it held.
    while (answer := await scene.profile()).status == 429:
        assert answer.error[1] == 10398
    assert answer.status == 200
    listed = await scene.call("GET", "profile-sessions")
    for session in listed.body["result"]:
        ended = await scene.session_until(session["id"], "cancelled", "ready", "failed")
        assert ended["state"] != "failed" or ended["reason"] == "isolates_busy"
