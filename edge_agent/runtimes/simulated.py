"""A runtime in memory behind the same protocols as workerd, with faults on demand.

Time is the clock's: every hold passes by ``clock.sleep``. For tests, and for fleets larger than a
machine can run.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from contract.faults import Fault, Reason
from edge_agent.runtime import Execution, HeapUsage, RawProfile, Started, Target
from edge_agent.runtimes import workload as work

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from edge_agent.runtime import Clock, IsolateConfig, Probe

EXECUTIONS_EVERY_S = 1.0
MAX_WAITING = 10_000


class SimulatedRuntime:
    """A Runtime whose isolates do what their workloads say and suffer what a test wants them to.

    Args:
        workloads: by service; the default workload for those not named.
        stop_timeout_s: how long a probe waits for a stop before ``runtime_timeout``.
    """

    def __init__(
        self,
        runtime_id: str,
        isolates: Sequence[IsolateConfig],
        clock: Clock,
        workloads: Mapping[str, work.Workload] | None = None,
        *,
        stop_timeout_s: float = 20.0,
    ) -> None:
        self.runtime_id = runtime_id
        self.clock = clock
        self.stop_timeout_s = stop_timeout_s
        self.lock = asyncio.Lock()
        self.alive = True
        given = workloads or {}
        self._isolates = {
            isolate.service: SimulatedIsolate(isolate, given.get(isolate.service, work.Workload()))
            for isolate in isolates
        }
        self._ran: asyncio.Queue[Execution] = asyncio.Queue(MAX_WAITING)

    def isolate(self, service: str) -> SimulatedIsolate:
        """One isolate, to look at or to change."""
        return self._isolates[service]

    def exit(self) -> None:
        """The process is killed: sessions are cut, heaps gone."""
        self.alive = False
        for isolate in self._isolates.values():
            isolate.unload()

    def restart(self) -> None:
        """The process is there again, with new heaps."""
        self.alive = True
        for isolate in self._isolates.values():
            isolate.load()

    def ran(self, service: str, count: int = 1, actor_id: str | None = None) -> None:
        """Something ran, as if a tail event had told so. Beyond a bound it is forgotten."""
        execution = Execution(
            isolate_id=f"{self.runtime_id}/{service}", count=count, actor_id=actor_id
        )
        with suppress(asyncio.QueueFull):
            self._ran.put_nowait(execution)

    async def targets(self) -> tuple[Target, ...]:
        """Isolates loaded now."""
        return tuple(self._target(isolate) for isolate in self._isolates.values() if isolate.loaded)

    @asynccontextmanager
    async def probe(self, target: Target) -> AsyncIterator[Probe]:
        """Attach. A session already open is cut, and this one with it, as workerd does."""
        isolate = self._isolates[target.service]
        if not self.alive:
            raise Fault(Reason.TARGET_EXITED, "the simulated runtime has exited")
        if not isolate.loaded:
            raise Fault(Reason.NOT_LOADED, f"no service named {target.service!r}")
        if isolate.session is not None:
            isolate.cut()
            raise Fault(Reason.INSPECTOR_LOST, "another inspector client is attached")
        isolate.session = asyncio.Event()
        probe = SimulatedProbe(self, isolate, isolate.session)
        try:
            yield probe
        finally:
            probe.leave()

    async def clear(self, target: Target) -> bool:
        """Stop a profiler left running."""
        isolate = self._isolates[target.service]
        if not self.alive:
            raise Fault(Reason.TARGET_EXITED, "the simulated runtime has exited")
        left = isolate.profiling
        isolate.cpu = None
        return left

    async def executions(self) -> AsyncIterator[Execution]:
        """What ``ran`` was told, and what the workloads execute by themselves."""
        ticking = asyncio.create_task(self._tick())
        try:
            while True:
                yield await self._ran.get()
        finally:
            ticking.cancel()
            await asyncio.gather(ticking, return_exceptions=True)

    async def close(self) -> None:
        """Nothing of its own goes on."""

    async def _tick(self) -> None:
        owed = dict.fromkeys(self._isolates, 0.0)
        while True:
            await self.clock.sleep(EXECUTIONS_EVERY_S)
            for service, isolate in self._isolates.items():
                if isolate.loaded:
                    owed[service] += isolate.workload.executions_per_s * EXECUTIONS_EVERY_S
                    if owed[service] >= 1:
                        self.ran(service, int(owed[service]))
                        owed[service] %= 1

    def _target(self, isolate: SimulatedIsolate) -> Target:
        config = isolate.config
        return Target(
            isolate_id=f"{self.runtime_id}/{config.service}",
            runtime_id=self.runtime_id,
            service=config.service,
            generation=isolate.generation,
            accounts=(config.account_id, *config.also_accounts),
            worker_id=config.worker_id,
            worker_name=config.worker_name,
            version_id=config.version_id,
            namespaces=dict(config.namespaces),
            unique_keys=dict(config.unique_keys),
        )


class SimulatedIsolate:
    """One heap. ``stop_takes_s`` makes stops slow; ``backing_store_bytes``: what buffers hold."""

    def __init__(self, config: IsolateConfig, workload: work.Workload) -> None:
        self.config = config
        self.workload = workload
        self.generation = 1
        self.loaded = True
        self.session: asyncio.Event | None = None
        self.cpu: tuple[int, int, int] | None = None
        self.heap_since_us: int | None = None
        self.stop_takes_s = 0.0
        self.used_bytes = 1 << 20
        self.backing_store_bytes = 0

    @property
    def profiling(self) -> bool:
        """Whether a CPU profile is being taken; it outlives its session."""
        return self.cpu is not None

    def cut(self) -> None:
        """The session ends, as when somebody attaches DevTools. The CPU profiler goes on."""
        self.heap_since_us = None
        if self.session is not None:
            self.session.set()
            self.session = None

    def unload(self) -> None:
        """The isolate is evicted."""
        self.loaded = False
        self.cpu = None
        self.cut()

    def load(self) -> None:
        """It returns, as a new heap."""
        if not self.loaded:
            self.loaded = True
            self.generation += 1


class SimulatedProbe:
    """A Probe into a simulated isolate."""

    def __init__(
        self, runtime: SimulatedRuntime, isolate: SimulatedIsolate, session: asyncio.Event
    ) -> None:
        self._runtime = runtime
        self._isolate = isolate
        self._session = session
        self._heap_interval = 0

    async def heap_usage(self) -> HeapUsage:
        """The isolate's numbers."""
        await self._held(0)
        used = self._isolate.used_bytes
        return HeapUsage(
            used_bytes=used,
            total_bytes=2 * used,
            backing_store_bytes=self._isolate.backing_store_bytes,
        )

    async def start_cpu(self, sampling_interval_us: int) -> Started:
        """Start, after stopping what ran."""
        started_us = self._now_us()
        await self._held(self._isolate.workload.start_us)
        self._isolate.cpu = (started_us, self._now_us(), sampling_interval_us)
        return Started(hold_us=self._now_us() - started_us)

    async def stop_cpu(self) -> RawProfile:
        """Stop; the hold grows with nodes and samples."""
        running, ended_us = self._isolate.cpu, self._now_us()
        workload = self._isolate.workload
        if running is None:
            await self._held(0)
            return self._raw(b"", 0, ended_us, (0, 0, 0), (0, 0))
        started_us, first_us, interval_us = running
        data, samples, nodes = work.cpu(
            workload,
            started_us=started_us,
            first_us=first_us,
            ended_us=ended_us,
            interval_us=interval_us,
        )
        cost_us = workload.stop_us + nodes * workload.node_us + samples * workload.sample_us
        await self._held(int(cost_us), stopping=True)
        self._isolate.cpu = None
        times = (started_us, first_us, ended_us)
        return self._raw(data, first_us - started_us, ended_us, times, (samples, nodes))

    async def start_heap(self, sampling_interval_bytes: int) -> Started:
        """Start the sampling heap profiler."""
        await self._held(300)
        self._heap_interval = sampling_interval_bytes
        self._isolate.heap_since_us = self._now_us()
        return Started(hold_us=300)

    async def stop_heap(self) -> RawProfile:
        """Stop and hand over."""
        asked_us = self._now_us()
        since_us = self._isolate.heap_since_us
        if since_us is None:
            await self._held(0)
            raise Fault(Reason.RUNTIME_UNSUPPORTED, "the sampling heap profiler was not started")
        data, samples, nodes = work.heap(
            self._isolate.workload,
            sampled_us=asked_us - since_us,
            interval_bytes=self._heap_interval,
        )
        await self._held(50_000, stopping=True)
        self._isolate.heap_since_us = None
        return self._raw(data, 0, asked_us, (0, 0, 0), (samples, nodes))

    async def lost(self) -> None:
        """Return when the session was cut."""
        await self._session.wait()

    def leave(self) -> None:
        """Leave nothing running."""
        if self._isolate.session is self._session or self._runtime.alive:
            self._isolate.cpu = None
        if self._isolate.session is self._session:
            self._isolate.cut()

    def _now_us(self) -> int:
        return self._runtime.clock.monotonic_ns() // 1000

    async def _held(self, hold_us: int, *, stopping: bool = False) -> None:
        """Take the lock for as long as this takes; the session may be cut meanwhile."""
        async with self._runtime.lock:
            takes_s = hold_us / 1e6
            if stopping:
                takes_s += self._isolate.stop_takes_s
                if takes_s > self._runtime.stop_timeout_s:
                    await self._runtime.clock.sleep(self._runtime.stop_timeout_s)
                    raise Fault(Reason.RUNTIME_TIMEOUT, "the runtime did not answer the stop")
            if takes_s and not self._session.is_set():
                await self._runtime.clock.sleep(takes_s)
        if not self._runtime.alive or not self._isolate.loaded:
            raise Fault(Reason.TARGET_EXITED, "the isolate is gone")
        if self._session.is_set():
            raise Fault(Reason.INSPECTOR_LOST, "the inspector session was cut")

    def _raw(
        self,
        data: bytes,
        start_hold_us: int,
        asked_us: int,
        times: tuple[int, int, int],
        counted: tuple[int, int],
    ) -> RawProfile:
        started_us, _, ended_us = times
        received_us = self._now_us()
        return RawProfile(
            data=data,
            start_hold_us=start_hold_us,
            stop_hold_us=received_us - asked_us,
            started_us=started_us,
            ended_us=ended_us,
            received_us=received_us,
            samples=counted[0],
            nodes=counted[1],
        )
