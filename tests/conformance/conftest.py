"""One suite over every runtime: each is set up here, and told apart nowhere else."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import aiohttp
import pytest

from bench import one_workerd
from edge_agent.runtime import IsolateConfig, Runtime
from edge_agent.runtimes.clock import SystemClock
from edge_agent.runtimes.simulated import SimulatedRuntime
from edge_agent.runtimes.workerd.inspector import Patience
from edge_agent.runtimes.workerd.runtime import WorkerdRuntime
from edge_agent.runtimes.workerd.tails import Tails
from edge_agent.runtimes.workload import Workload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

ACCOUNT = "a" * 32
OTHER_ACCOUNT = "b" * 32
NAMESPACE = "c" * 32

BUSY = """
function work(rounds) {
  let sum = 0;
  for (let i = 0; i < rounds; i++) sum += Math.sqrt(i);
  return sum;
}
let kept = [];
function allocate() {
  kept = [];
  for (let i = 0; i < 20000; i++) kept.push({ i, text: "x" + i });
  return kept.length;
}
export class Counter {
  constructor(state) { this.count = 0; }
  fetch() { return new Response(String(++this.count)); }
}
export default {
  fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === "/object") return env.Counter.getByName("one").fetch(request);
    return new Response(String(work(1000000) + allocate()));
  },
};
"""
OTHER = "export default { fetch: () => new Response('other') };"

ISOLATES = (
    IsolateConfig(
        service="busy",
        account_id=ACCOUNT,
        worker_id="1" * 32,
        worker_name="busy",
        version_id="00000000-0000-4000-8000-000000000001",
        namespaces={NAMESPACE: "Counter"},
    ),
    IsolateConfig(
        service="other",
        account_id=ACCOUNT,
        worker_id="2" * 32,
        worker_name="other",
        version_id="00000000-0000-4000-8000-000000000002",
        also_accounts=(OTHER_ACCOUNT,),
    ),
    IsolateConfig(
        service="absent",
        account_id=ACCOUNT,
        worker_id="3" * 32,
        worker_name="absent",
        version_id="00000000-0000-4000-8000-000000000003",
    ),
)


class Subject(Protocol):
    """A runtime under test, and how to make things happen in it from outside."""

    @property
    def runtime(self) -> Runtime: ...

    async def run(self, service: str) -> None:
        """Let something run once."""

    def traffic(self) -> AbstractAsyncContextManager[None]:
        """Let ``busy`` run all the time."""

    async def kill(self) -> None:
        """Kill the process."""

    async def restart(self) -> None:
        """Start it again."""

    async def steal(self, service: str) -> None:
        """Attach as another inspector client does."""

    async def left_running(self, service: str) -> bool:
        """Whether a CPU profile is being taken. Stops it where that's the only way to know."""


@dataclass
class Simulated:
    runtime: SimulatedRuntime

    async def run(self, service: str) -> None:
        self.runtime.ran(service)

    @asynccontextmanager
    async def traffic(self) -> AsyncIterator[None]:
        yield

    async def kill(self) -> None:
        self.runtime.exit()

    async def restart(self) -> None:
        self.runtime.restart()
        self.runtime.isolate("absent").unload()

    async def steal(self, service: str) -> None:
        self.runtime.isolate(service).cut()

    async def left_running(self, service: str) -> bool:
        return self.runtime.isolate(service).profiling


@dataclass
class Workerd:
    runtime: WorkerdRuntime
    process: one_workerd.OneWorkerd
    http: aiohttp.ClientSession

    async def run(self, service: str, path: str = "/") -> None:
        async with self.http.get(f"http://{self.process.workers[service]}{path}") as answer:
            assert answer.status == 200
            await answer.read()

    @asynccontextmanager
    async def traffic(self) -> AsyncIterator[None]:
        async def forever() -> None:
            while True:
                await self.run("busy")
                await asyncio.sleep(0.005)

        running = asyncio.create_task(forever())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def kill(self) -> None:
        self.process.child.kill()
        await self.process.child.ended()

    async def restart(self) -> None:
        await self.process.start()

    async def steal(self, service: str) -> None:
        async with self.http.ws_connect(f"ws://{self.process.inspector}/{service}") as socket:
            await socket.send_str('{"id":1,"method":"Runtime.enable"}')
            await socket.receive()

    async def left_running(self, service: str) -> bool:
        await asyncio.sleep(0.2)
        async with self.http.ws_connect(f"ws://{self.process.inspector}/{service}") as socket:
            await socket.send_str('{"id":1,"method":"Profiler.stop"}')
            return '"profile"' in str((await socket.receive()).data)[:300]


@asynccontextmanager
async def simulated(folder: Path) -> AsyncIterator[Subject]:
    workloads = {
        "busy": Workload(executions_per_s=0, bytes_per_s=50 << 20),
        "other": Workload(executions_per_s=0, busy=0),
    }
    runtime = SimulatedRuntime("rt1", ISOLATES, SystemClock(), workloads)
    runtime.isolate("absent").unload()
    yield Simulated(runtime)


@asynccontextmanager
async def workerd(folder: Path) -> AsyncIterator[Subject]:
    async with AsyncExitStack() as stack:
        tails = Tails("127.0.0.1:0")
        address = await tails.start()
        stack.push_async_callback(tails.close)
        process = await stack.enter_async_context(
            one_workerd.running(
                folder,
                {"busy": BUSY, "other": OTHER},
                tail=address,
                runtime_id="rt1",
                objects={"busy": one_workerd.Objects(class_name="Counter", unique_key=NAMESPACE)},
            )
        )
        runtime = WorkerdRuntime(
            "rt1",
            process.inspector,
            ISOLATES,
            "tail",
            tails,
            SystemClock(),
            back_off_s=2.0,
            patience=Patience(connect_s=3.0, command_s=3.0, start_s=3.0, stop_s=5.0),
        )
        stack.push_async_callback(runtime.close)
        http = await stack.enter_async_context(aiohttp.ClientSession())
        yield Workerd(runtime, process, http)


SUBJECTS: dict[str, Callable[[Path], AbstractAsyncContextManager[Subject]]] = {
    "simulated": simulated,
    "workerd": workerd,
}


@pytest.fixture(params=SUBJECTS)
async def subject(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Subject]:
    async with SUBJECTS[request.param](tmp_path) as made:
        yield made
