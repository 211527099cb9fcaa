"""What was found to go wrong with a real workerd's inspector, and what must come of it."""

from __future__ import annotations

import asyncio
import json
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from bench import one_workerd
from contract.faults import Fault, Reason
from contract.messages import ProfileType
from edge_agent import sampler
from edge_agent.runtime import IsolateConfig
from edge_agent.runtimes.clock import SystemClock
from edge_agent.runtimes.workerd.inspector import Patience
from edge_agent.runtimes.workerd.runtime import WorkerdRuntime
from edge_agent.runtimes.workerd.tails import Tails

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from edge_agent.runtime import Execution

SOURCE = """
function spin(ms) {
  let sum = 0;
  for (let i = 0; i < ms * 500000; i++) sum += Math.sqrt(i);
  return sum;
}
export class Counter {
  constructor() { this.count = 0; }
  fetch() { return new Response(String(++this.count)); }
}
export default {
  fetch(request, env) {
    const url = new URL(request.url);
    if (url.pathname === "/object") return env.Counter.getByName("one").fetch(request);
    return new Response(String(spin(Number(url.searchParams.get("ms") ?? 1))));
  },
};
"""
NAMESPACE = "c" * 32
PATIENCE = Patience(connect_s=1.0, command_s=1.0, start_s=1.0, stop_s=1.0, leave_s=0.3)


class Place:
    def __init__(
        self, process: one_workerd.OneWorkerd, runtime: WorkerdRuntime, http: aiohttp.ClientSession
    ) -> None:
        self.process = process
        self.runtime = runtime
        self.http = http

    async def run(self, service: str = "main", path: str = "/") -> str:
        async with self.http.get(f"http://{self.process.workers[service]}{path}") as answer:
            return await answer.text()

    async def take(self, duration_ms: int, service: str = "main") -> sampler.Sampled:
        found = {one.service: one for one in await self.runtime.targets()}[service]
        order = sampler.SampleOrder(profile_type=ProfileType.CPU, duration_ms=duration_ms)
        async with self.runtime.probe(found) as probe:
            return await sampler.sample(
                probe, order, sampler.Limits(), SystemClock(), asyncio.Event(), lambda _ms: None
            )

    @asynccontextmanager
    async def bare(self, service: str = "main") -> AsyncIterator[Bare]:
        """A session of somebody else's."""
        async with self.http.ws_connect(
            f"ws://{self.process.inspector}/{service}", max_msg_size=0
        ) as socket:
            yield Bare(socket)

    async def left_running(self, service: str = "main") -> bool:
        await asyncio.sleep(0.2)
        async with self.bare(service) as bare:
            return "profile" in (await bare.ask("Profiler.stop")).get("result", {})


class Bare:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse[bool]) -> None:
        self.socket = socket

    async def ask(self, method: str) -> dict[str, Any]:
        await self.socket.send_str(json.dumps({"id": 1, "method": method}))
        answer: dict[str, Any] = json.loads((await self.socket.receive()).data)
        return answer

    def drop(self) -> None:
        """Go without a word, as a killed process does."""
        connection = self.socket._conn
        assert connection is not None
        assert connection.transport is not None
        connection.transport.abort()


def isolates(*services: str) -> list[IsolateConfig]:
    return [
        IsolateConfig(
            service=service,
            account_id="a" * 32,
            worker_id="b" * 32,
            worker_name=service,
            version_id="00000000-0000-4000-8000-000000000001",
            namespaces={NAMESPACE: "Counter"},
        )
        for service in services
    ]


@asynccontextmanager
async def placed(folder: Path, **more: Any) -> AsyncIterator[Place]:
    services = ("main", "second")
    tails = Tails("127.0.0.1:0")
    address = await tails.start()
    objects = {
        one: one_workerd.Objects(class_name="Counter", unique_key=f"{NAMESPACE}{one}")
        for one in services
    }
    try:
        async with (
            aiohttp.ClientSession() as http,
            one_workerd.running(
                folder, dict.fromkeys(services, SOURCE), tail=address, objects=objects
            ) as process,
        ):
            settings: dict[str, Any] = {"activity": "tail", "back_off_s": 1.0, "patience": PATIENCE}
            runtime = WorkerdRuntime(
                "wd1",
                process.inspector,
                isolates(*services),
                tails=tails,
                clock=SystemClock(),
                **(settings | more),
            )
            try:
                yield Place(process, runtime, http)
            finally:
                await runtime.close()
    finally:
        await tails.close()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with placed(tmp_path) as made:
        yield made


async def test_profile_left_by_a_killed_agent_is_cleared(place: Place) -> None:
    async with place.bare() as dead:
        for method in ("Profiler.stop", "Profiler.enable", "Profiler.start"):
            await dead.ask(method)
        dead.drop()
    main, _ = await place.runtime.targets()
    assert await place.runtime.clear(main) is True
    assert await place.runtime.clear(main) is False
    assert not await place.left_running()


async def test_capture_over_a_profile_left_running(place: Place) -> None:
    async with place.bare() as dead:
        for method in ("Profiler.stop", "Profiler.enable", "Profiler.start"):
            await dead.ask(method)
        dead.drop()
    await asyncio.sleep(0.2)
    sampled = await place.take(300)
    # Its own profile, not the one that ran before.
    assert sampled.holds[0].sampled_us < 2_000_000
    assert not await place.left_running()


async def test_runtime_exits_well_after_a_capture(place: Place) -> None:
    await place.take(300)
    place.process.child.signal(signal.SIGTERM)
    async with asyncio.timeout(5):
        await place.process.child.ended()
    assert place.process.child.returncode == 0


async def test_long_loop_while_starting_is_a_timeout(place: Place) -> None:
    looping = asyncio.create_task(place.run(path="/?ms=2500"))
    await asyncio.sleep(0.3)
    with pytest.raises(Fault) as caught:
        await place.take(500)
    assert caught.value.reason is Reason.RUNTIME_TIMEOUT
    await looping
    assert (await place.take(300)).slices


async def test_long_loop_while_stopping_leaves_nothing_running(place: Place) -> None:
    capturing = asyncio.create_task(place.take(600))
    await asyncio.sleep(0.3)
    looping = asyncio.create_task(place.run(path="/?ms=4000"))
    with pytest.raises(Fault) as caught:
        await capturing
    assert caught.value.reason is Reason.RUNTIME_TIMEOUT
    assert not looping.done()
    await looping
    # It is stopped as soon as the isolate answers again, without anybody asking.
    async with asyncio.timeout(10):
        await place.runtime.cleaned()
    assert not await place.left_running()


async def test_blocked_process_still_has_its_targets(place: Place) -> None:
    before = await place.runtime.targets()
    looping = asyncio.create_task(place.run(path="/?ms=3000"))
    await asyncio.sleep(0.2)
    assert await place.runtime.targets() == before
    assert not looping.done()
    await looping


async def test_somebody_attached_is_left_alone_for_a_while(place: Place) -> None:
    # A session that is cut before it started anything means a person; cut later it may as well be
    # the capture's own trouble. Which of the two a collision is, is the runtime's to decide.
    for _ in range(10):
        async with place.bare() as person:
            await person.ask("Runtime.enable")
            with pytest.raises(Fault) as first:
                await place.take(500)
            assert first.value.reason is Reason.INSPECTOR_LOST
        refused: Fault | None = None
        try:
            await place.take(100)
        except Fault as second:
            refused = second
        if refused is not None:
            assert refused.reason is Reason.INSPECTOR_LOST
            assert refused.retry_after_s is not None
            break
    else:
        pytest.fail("no collision was taken for a person")
    await asyncio.sleep(1.2)
    assert (await place.take(300)).slices


async def test_two_isolates_of_one_process_at_once(place: Place) -> None:
    one, two = await asyncio.gather(place.take(1000), place.take(1000, "second"))
    assert one.slices[0].data != two.slices[0].data
    assert not await place.left_running("main")
    assert not await place.left_running("second")


async def test_many_captures_in_a_row(place: Place) -> None:
    for _ in range(20):
        await place.run()
        assert (await place.take(30)).slices


async def test_tail_events_tell_the_actor(place: Place) -> None:
    assert await place.run(path="/object") == "1"
    seen: list[Execution] = []
    async with asyncio.timeout(10):
        async for execution in place.runtime.executions():
            seen.append(execution)
            if execution.actor_id is not None:
                break
    assert seen[-1].isolate_id == "wd1/main"
    assert len(seen[-1].actor_id or "") == 64
    assert seen[-1].entrypoint == "Counter"


async def test_heap_numbers_tell_what_ran(tmp_path: Path) -> None:
    async with placed(tmp_path, activity="heap", heap_poll_interval_ms=100) as place:
        seen: list[Execution] = []

        async def listen() -> None:
            async for execution in place.runtime.executions():
                seen.append(execution)  # noqa: PERF401 - looked at while it goes on

        listening = asyncio.create_task(listen())
        try:
            await asyncio.sleep(1.0)
            assert seen == []
            async with asyncio.timeout(10):
                while not seen:
                    await place.run("second")
                    await asyncio.sleep(0.05)
            assert {one.isolate_id for one in seen} == {"wd1/second"}
            del seen[:]
            await place.take(300)
            await asyncio.sleep(0.5)
            # What a capture does to a heap is no execution.
            assert [one for one in seen if one.isolate_id == "wd1/main"] == []
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
