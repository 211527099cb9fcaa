"""One workerd process as a Runtime: what is loaded, what ran, and probes into its isolates."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal

from contract.faults import Fault, Reason
from edge_agent.runtime import Execution, Target
from edge_agent.runtimes.workerd import listeners, targets
from edge_agent.runtimes.workerd.inspector import Patience
from edge_agent.runtimes.workerd.sessions import Sessions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from edge_agent.runtime import Clock, HeapUsage, IsolateConfig, Probe
    from edge_agent.runtimes.workerd.tails import Tails

MAX_REPLY_BYTES = 64 << 20
BACK_OFF_S = 180.0

Activity = Literal["tail", "heap"]


class WorkerdRuntime:
    """A Runtime over one process's inspector.

    Args:
        runtime_id: the id its tail Worker posts under.
        inspector: loopback ``IP:port``.
        isolates: what is configured to stand in it, by service.
        activity: ``tail`` needs ``tails``; ``heap`` polls heap numbers in brief sessions.
        tails: the metal's listener, started and closed by whoever made it.

    Raises:
        ValueError: an address that is not loopback, or ``tail`` without ``tails``.
    """

    def __init__(
        self,
        runtime_id: str,
        inspector: str,
        isolates: Sequence[IsolateConfig],
        activity: Activity,
        tails: Tails | None,
        clock: Clock,
        *,
        heap_poll_interval_ms: int = 2000,
        max_reply_bytes: int = MAX_REPLY_BYTES,
        back_off_s: float = BACK_OFF_S,
        patience: Patience | None = None,
    ) -> None:
        self.runtime_id = runtime_id
        _, self._port = targets.loopback(inspector)
        if activity == "tail":
            if tails is None:
                raise ValueError(f"runtime {runtime_id!r} wants tail events but no [tail] listens")
            tails.register(runtime_id)
        self._isolates = {isolate.service: isolate for isolate in isolates}
        self._activity = activity
        self._tails = tails
        self._clock = clock
        self._poll_s = heap_poll_interval_ms / 1000
        self._sessions = Sessions(
            inspector,
            clock,
            patience=patience or Patience(),
            back_off_s=back_off_s,
            max_reply_bytes=max_reply_bytes,
        )
        self._loaded: frozenset[str] = frozenset()
        self._generations: dict[str, int] = {}
        self._listener = ""
        self._used_bytes: dict[str, tuple[int, int]] = {}

    async def cleaned(self) -> None:
        """Return when every profiler that could not be stopped in time was."""
        await self._sessions.cleaned()

    async def targets(self) -> tuple[Target, ...]:
        """Configured isolates that are loaded now, in the order of the configuration."""
        listener = listeners.listener(self._port)
        loaded = await self._sessions.listed() or frozenset()
        if listener != self._listener:
            # Another process than at the last look: whatever was loaded then is gone.
            self._loaded = frozenset()
            self._listener = listener
        for service in loaded - self._loaded:
            self._generations[service] = self._generations.get(service, 0) + 1
        self._loaded = loaded
        return tuple(
            self._target(isolate)
            for service, isolate in self._isolates.items()
            if service in loaded
        )

    @asynccontextmanager
    async def probe(self, target: Target) -> AsyncIterator[Probe]:
        """A session with the isolate, stopped and closed on exit."""
        async with self._sessions.open(target.service) as probe:
            try:
                yield probe
            finally:
                # What a capture does to the heap is no execution.
                self._used_bytes.pop(target.service, None)

    async def clear(self, target: Target) -> bool:
        """Stop a profiler an earlier agent may have left running. True if one was."""
        return await self._sessions.clear(target.service)

    async def executions(self) -> AsyncIterator[Execution]:
        """What ran, from tail events or from heap numbers that changed. One reader at a time."""
        if self._activity == "tail" and self._tails is not None:
            async for ran, count in self._tails.ran(self.runtime_id):
                if ran.service in self._isolates:
                    yield Execution(
                        isolate_id=self._isolate_id(ran.service),
                        count=count,
                        actor_id=ran.actor_id,
                        entrypoint=ran.entrypoint,
                    )
        else:
            while True:
                await self._clock.sleep(self._poll_s)
                for target in await self.targets():
                    if await self._changed(target):
                        yield Execution(isolate_id=target.isolate_id, count=1)

    async def close(self) -> None:
        """End every session of its own."""
        await self._sessions.close()

    def _isolate_id(self, service: str) -> str:
        return f"{self.runtime_id}/{service}"

    def _target(self, isolate: IsolateConfig) -> Target:
        return Target(
            isolate_id=self._isolate_id(isolate.service),
            runtime_id=self.runtime_id,
            service=isolate.service,
            generation=self._generations[isolate.service],
            accounts=(isolate.account_id, *isolate.also_accounts),
            worker_id=isolate.worker_id,
            worker_name=isolate.worker_name,
            version_id=isolate.version_id,
            namespaces=dict(isolate.namespaces),
            unique_keys=dict(isolate.unique_keys),
        )

    async def _changed(self, target: Target) -> bool:
        """Whether the heap in use changed since the last look at it: idle, it is constant."""
        if self._sessions.busy(target.service):
            return False
        try:
            async with self._sessions.open(target.service) as probe:
                usage: HeapUsage = await probe.heap_usage()
        except Fault as fault:
            if fault.reason is Reason.INTERNAL:
                raise
            return False
        before = self._used_bytes.get(target.service)
        self._used_bytes[target.service] = (target.generation, usage.used_bytes)
        return (
            before is not None and before[0] == target.generation and before[1] != usage.used_bytes
        )
