"""What the agent needs of any runtime: which isolates are loaded, and a probe into one.

Two implementations stand behind these protocols: ``runtimes.workerd`` (real) and
``runtimes.simulated``. One conformance suite runs over both (``tests/conformance``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager


class Clock(Protocol):
    """Time, passed in: ``runtimes.clock.SystemClock``, or in tests a clock that never waits."""

    def monotonic_ns(self) -> int:
        """The machine's monotonic clock, which is also the one workerd stamps profiles with."""
        ...

    def time_ns(self) -> int:
        """Since 1970, for what people read; never for measuring."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass."""
        ...


@dataclass(frozen=True, kw_only=True)
class IsolateConfig:
    """What an operator says stands in one isolate; the runtime says whether it is loaded.

    Args:
        service: the runtime's own name for it (workerd: inspector target id = service name).
        also_accounts: others that run in the same isolate, which makes it shared.
        namespaces: Durable Object namespace id (32 hex) -> class name.
        unique_keys: namespace id -> what the runtime knows it by, where the operator said.
    """

    service: str
    account_id: str
    worker_id: str
    worker_name: str
    version_id: str
    also_accounts: tuple[str, ...] = ()
    namespaces: dict[str, str] = field(default_factory=dict)
    unique_keys: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Target:
    """One isolate as configured on this metal and found loaded in its runtime.

    Args:
        isolate_id: unique on this metal and stable while the isolate lives,
            ``<runtime>/<service>``.
        runtime_id: the process that hosts it; all isolates of one process share one event loop.
        service: the runtime's own name for it.
        generation: grows each time the isolate goes and returns (a new heap, nothing remembered).
        accounts: every account that runs in it; more than one means it is shared.
        namespaces: Durable Object namespace id (32 hex) -> class name.
        unique_keys: namespace id -> what the runtime knows it by, where the operator said.
    """

    isolate_id: str
    runtime_id: str
    service: str
    generation: int
    accounts: tuple[str, ...]
    worker_id: str
    worker_name: str
    version_id: str
    namespaces: dict[str, str] = field(default_factory=dict)
    unique_keys: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Started:
    """The profiler runs. ``hold_us``: how long the isolate's lock was held to start it."""

    hold_us: int


@dataclass(frozen=True, kw_only=True)
class RawProfile:
    """What the runtime handed over, unconverted: parsing waits until the lock is long released.

    Args:
        data: the JSON text of V8's ``Profiler.Profile`` or ``HeapProfiler.SamplingHeapProfile``,
            possibly inside its protocol reply; empty when nothing was running.
        start_hold_us: isolate lock held by the start, known only now on some runtimes (CPU: first
            delta).
        stop_hold_us: isolate lock held by the stop and hand-over.
        started_us, ended_us: the window on the runtime's monotonic clock (CPU); 0 when it tells
            none.
        received_us: the same clock when the reply was complete here.
        samples, nodes: how many the profile has, counted without parsing; what its hand-over costs
            depends on them.
    """

    data: bytes
    start_hold_us: int
    stop_hold_us: int
    started_us: int
    ended_us: int
    received_us: int
    samples: int = 0
    nodes: int = 0


@dataclass(frozen=True, kw_only=True)
class HeapUsage:
    """Bytes, as V8 reports them; ``backing_store_bytes``: ArrayBuffers, outside the heap."""

    used_bytes: int
    total_bytes: int
    backing_store_bytes: int


class Probe(Protocol):
    """A short-lived inspector session on one isolate. Every call takes its lock briefly.

    Every method raises ``Fault``: ``target_exited`` when the process is gone, ``inspector_lost``
    when the session was cut or another client took it, ``runtime_timeout`` when no answer came in
    time, ``runtime_unsupported``.
    """

    async def heap_usage(self) -> HeapUsage:
        """Current heap numbers; exactly constant while the isolate is idle."""
        ...

    async def start_cpu(self, sampling_interval_us: int) -> Started:
        """Start the CPU profiler, stopping whatever ran before. One per isolate."""
        ...

    async def stop_cpu(self) -> RawProfile:
        """Stop and hand over; frees the profiler's memory in the runtime."""
        ...

    async def start_heap(self, sampling_interval_bytes: int) -> Started:
        """Start the sampling heap profiler, counting freed allocations too."""
        ...

    async def stop_heap(self) -> RawProfile:
        """Stop and hand over. The runtime forces a full garbage collection."""
        ...

    async def lost(self) -> None:
        """Return when the session is no longer usable (closed, process gone). Never raises."""
        ...


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Something ran: counted per isolate, and per actor when one was addressed.

    Args:
        count: executions since the last event for the same isolate and actor.
        actor_id: 64-hex id of the Durable Object, or None.
    """

    isolate_id: str
    count: int
    actor_id: str | None = None
    entrypoint: str | None = None


class Runtime(Protocol):
    """One runtime process (workerd first) on this metal."""

    runtime_id: str

    async def targets(self) -> tuple[Target, ...]:
        """Isolates loaded now. Empty when the process is gone; never raises."""
        ...

    def probe(self, target: Target) -> AbstractAsyncContextManager[Probe]:
        """Attach to one isolate. On exit nothing is left running in it and the session is closed.

        Sessions on one runtime are used one command at a time: the process has one event loop.
        """
        ...

    async def clear(self, target: Target) -> bool:
        """Stop a profiler an earlier agent may have left running. True if one was.

        Raises:
            Fault: as Probe does.
        """
        ...

    def executions(self) -> AsyncIterator[Execution]:
        """What ran, as it is learned; from tail events, or from heap numbers that changed."""
        ...

    async def close(self) -> None:
        """End every session and all of its own work. The process it speaks to lives on."""
        ...
