"""A whole agent without sockets: simulated runtime, virtual clock, scripted control plane."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from contract.messages import (
    CaptureKey,
    CaptureReport,
    CaptureState,
    Order,
    ProfileType,
    Receipt,
    Report,
    ReportReply,
    UploadManifest,
)
from edge_agent.activity import Activity
from edge_agent.builder import Build, Built
from edge_agent.capture import Captures
from edge_agent.hold import Holds
from edge_agent.journal import Journal
from edge_agent.loaded import Loaded
from edge_agent.runtime import Execution, IsolateConfig
from edge_agent.runtimes.simulated import SimulatedRuntime
from edge_agent.sampler import Limits
from edge_agent.taken import Site
from edge_agent.warm_up import WarmUps
from tests.unit.edge_agent.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from contract.faults import Fault
    from edge_agent.builder import BuildOrder

ACCOUNT, OTHER_ACCOUNT, WORKER, NAMESPACE = "a" * 32, "f" * 32, "b" * 32, "c" * 32
VERSION = "11111111-2222-4333-8444-555555555555"
PROFILE = b"what the builder made"


def isolate(service: str, **changes: object) -> IsolateConfig:
    given: dict[str, object] = {
        "service": service,
        "account_id": ACCOUNT,
        "worker_id": WORKER,
        "worker_name": "checkout",
        "version_id": VERSION,
        **changes,
    }
    return IsolateConfig(**given)  # type: ignore[arg-type]


def order(capture: int = 1, **changes: object) -> Order:
    given: dict[str, object] = {
        "key": CaptureKey(session_id="0b9d7f6e-1d2c-4a3b-9c4d-5e6f70819203", capture=capture),
        "account_id": ACCOUNT,
        "worker_id": WORKER,
        "version_id": VERSION,
        "profile_type": ProfileType.CPU,
        "duration_ms": 2_000,
        "sampling_interval_us": 1_000,
        "deadline_ms": 60_000,
        **changes,
    }
    return Order(**given)  # type: ignore[arg-type]


@dataclass
class ScriptedControl:
    """Keeps what it is told; fails as often as it is asked to."""

    replica: str = "one"
    captures: list[CaptureReport] = field(default_factory=list)
    uploads: list[tuple[UploadManifest, bytes]] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    replies: list[ReportReply] = field(default_factory=list)
    refuse: Fault | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def report(self, report: Report) -> ReportReply:
        if self.refuse is not None:
            raise self.refuse
        self.reports.append(report)
        return self.replies.pop(0) if self.replies else ReportReply(snapshot_wanted=False)

    async def report_capture(self, report: CaptureReport, *, for_s: float) -> None:
        if self.refuse is not None:
            raise self.refuse
        self.captures.append(report)
        if report.state not in {CaptureState.ORDERED, CaptureState.SAMPLING}:
            self.ended.set()

    async def upload(self, manifest: UploadManifest, data: bytes, *, for_s: float) -> Receipt:
        if self.refuse is not None:
            raise self.refuse
        self.uploads.append((manifest, data))
        self.ended.set()
        return Receipt(key=manifest.key, size_bytes=len(data))


class Metal:
    """One metal: its captures, and all they stand on."""

    def __init__(self, folder: Path, *isolates: IsolateConfig, max_captures: int = 4) -> None:
        self.clock = VirtualClock()
        self.runtime = SimulatedRuntime("wd1", isolates, self.clock)
        self.activity = Activity(60_000)
        self.loaded = Loaded((self.runtime,), self.activity)
        self.holds = Holds(max_captures)
        self.journal = Journal(folder)
        self.control = ScriptedControl()
        self.changes = 0
        self.built: list[BuildOrder] = []
        self.warm_ups = WarmUps(
            loaded=self.loaded,
            activity=self.activity,
            holds=self.holds,
            clock=self.clock,
            length_ms=3_000,
        )
        self.captures = Captures(
            Site(metal_id="ams1-m1", datacenter="ams1", product="test", max_captures=max_captures),
            loaded=self.loaded,
            activity=self.activity,
            holds=self.holds,
            journal=self.journal,
            uplink=self.control,
            builder=self._builder,
            clock=self.clock,
            limits=Limits(),
            changed=self._changed,
            make_way=self.warm_ups.make_way,
        )

    @property
    def now_ms(self) -> int:
        return self.clock.monotonic_ns() // 1_000_000

    def ran(self, service: str, count: int = 1, **changes: str) -> None:
        execution = Execution(isolate_id=f"wd1/{service}", count=count, **changes)
        self.activity.record(execution, self.now_ms)

    async def looked(self) -> None:
        await self.loaded.look()

    async def until(self, key: CaptureKey, *states: CaptureState) -> CaptureReport:
        """How the capture stands once it is in one of these states."""
        while (report := self.captures.show(key)).state not in states:  # noqa: ASYNC110 - the state has no event
            await asyncio.sleep(0)
        return report

    def _changed(self) -> None:
        self.changes += 1

    @asynccontextmanager
    async def _builder(self) -> AsyncIterator[Build]:
        async def build(what: BuildOrder) -> Built:
            self.built.append(what)
            return Built(data=PROFILE, samples=7, truncated="")

        yield build
