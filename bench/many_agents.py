"""A thousand agents in one process: each with a port, an epoch and reports of its own.

They accept every order at once, sample nothing, and upload the same small profile when the window
is over. What they cost is not what is measured.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from contract import convert, rpc
from contract.faults import Fault, Reason
from contract.messages import (
    Accepted,
    CaptureReport,
    CaptureState,
    Metal,
    Report,
    Sighting,
    SliceHolds,
    UploadManifest,
)
from edge_agent.rpc.gateway import Gateway
from edge_agent.runtimes.clock import SystemClock
from pprof import build_cpu, codec
from pprof.comments import Context
from protos.edge.v1 import edge_pb2, edge_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from contract.messages import CaptureKey, Order

ACCOUNT, WORKER = "a" * 32, "b" * 32
REPORT_S = 5.0
UPLOAD_S = 20.0
METALS_PER_VERSION = 10


def versions(metals: int) -> tuple[str, ...]:
    """One version for every ten metals, each of which runs it."""
    return tuple(
        str(uuid.UUID(int=number + 1, version=4))
        for number in range(max(1, metals // METALS_PER_VERSION))
    )


@dataclass
class Seen:
    """When each session's order was accepted and its stop came, on the monotonic clock."""

    accepted: dict[str, float] = field(default_factory=dict)
    stopped: dict[str, float] = field(default_factory=dict)
    orders: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, what: dict[str, float], session_id: str, within_s: float) -> float:
        """When it happened, waiting for it if need be."""
        async with asyncio.timeout(within_s):
            while session_id not in what:
                self.changed.clear()
                await self.changed.wait()
        return what[session_id]


class Agent(edge_pb2_grpc.EdgeAgentServicer):
    """One metal."""

    def __init__(self, number: int, version_id: str, gateway: Gateway, seen: Seen) -> None:
        self._number = number
        self._version_id = version_id
        self._gateway = gateway
        self._seen = seen
        self._snapshot = True
        self._running: dict[CaptureKey, asyncio.Task[None]] = {}
        self._server = rpc.server()
        edge_pb2_grpc.add_EdgeAgentServicer_to_server(self, self._server)
        self._port = rpc.bind(self._server, "127.0.0.1:0", None)
        self._metal = Metal(
            metal_id=f"m{number:04d}",
            datacenter=f"dc{number % 20:02d}",
            address=f"127.0.0.1:{self._port}",
            epoch=1,
            max_captures=1_000,
        )

    async def start(self) -> None:
        """Listen."""
        await self._server.start()

    async def report(self) -> None:
        """Tell that the version ran here a hundred times since the last report; all, at first."""
        sighting = Sighting(
            account_id=ACCOUNT,
            worker_id=WORKER,
            worker_name="bench",
            version_id=self._version_id,
            executions=100,
            idle_ms=0,
            isolates=1_000,
            free_isolates=1_000,
            shared=False,
            held_ms=0,
        )
        with suppress(Fault):
            reply = await self._gateway.report(
                Report(
                    metal=self._metal,
                    snapshot=self._snapshot,
                    sightings=(sighting,),
                    captures=tuple(self._running),
                )
            )
            self._snapshot = reply.snapshot_wanted

    async def StartCapture(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Accept."""
        order = convert.order_from_wire(request)
        self._seen.orders += 1
        self._seen.accepted.setdefault(order.key.session_id, time.monotonic())
        self._seen.changed.set()
        isolate_id = f"sim/{order.key.session_id}"
        if order.key not in self._running:
            self._running[order.key] = asyncio.create_task(self._take(order, isolate_id))
        return convert.accepted_to_wire(Accepted(key=order.key, isolate_id=isolate_id))

    async def StopCapture(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Stop; its profile is dropped."""
        key = convert.key_from_wire(request.key)
        self._seen.stopped.setdefault(key.session_id, time.monotonic())
        self._seen.changed.set()
        task = self._running.pop(key, None)
        if task is None:
            raise Fault(Reason.CAPTURE_UNKNOWN, "unknown")
        task.cancel()
        report = self._report(key, CaptureState.STOPPED, Reason.CAPTURE_STOPPED)
        return edge_pb2.StopCaptureResponse(report=convert.capture_report_to_wire(report))

    async def ShowCapture(self, request: Any, context: Any) -> Any:  # noqa: N802
        """How one that runs stands."""
        key = convert.key_from_wire(request.key)
        if key not in self._running:
            raise Fault(Reason.CAPTURE_UNKNOWN, "unknown")
        report = self._report(key, CaptureState.SAMPLING, None)
        return edge_pb2.ShowCaptureResponse(report=convert.capture_report_to_wire(report))

    async def ListIsolates(self, request: Any, context: Any) -> Any:  # noqa: N802
        """None that is worth telling."""
        return edge_pb2.ListIsolatesResponse()

    def _report(self, key: CaptureKey, state: CaptureState, reason: Reason | None) -> CaptureReport:
        return CaptureReport(
            key=key,
            metal_id=self._metal.metal_id,
            state=state,
            isolate_id=f"sim/{key.session_id}",
            sampled_ms=0,
            reason=reason,
            message="" if reason is None else reason.value,
        )

    async def _take(self, order: Order, isolate_id: str) -> None:
        try:
            await asyncio.sleep(order.duration_ms / 1000)
            manifest = UploadManifest(
                key=order.key,
                metal_id=self._metal.metal_id,
                isolate_id=isolate_id,
                sha256=SHA256,
                size_bytes=len(PROFILE),
                samples=3,
                window_ms=order.duration_ms,
                slices=(SLICE,),
            )
            with suppress(Fault):
                await self._gateway.upload(manifest, PROFILE, for_s=UPLOAD_S)
        finally:
            self._running.pop(order.key, None)

    async def close(self) -> None:
        """Drop what runs and stop listening."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.stop(0)


async def keep_reporting(agents: Sequence[Agent]) -> None:
    """Every agent once in ``REPORT_S``, spread over it, for ever."""
    pause_s = REPORT_S / len(agents)
    due = time.monotonic()
    sending: set[asyncio.Task[None]] = set()
    while True:
        for agent in agents:
            task = asyncio.create_task(agent.report())
            sending.add(task)
            task.add_done_callback(sending.discard)
            due += pause_s
            await asyncio.sleep(max(0.0, due - time.monotonic()))


def connect(address: str) -> Gateway:
    """The control plane as all agents of this process reach it, in plain text."""
    return Gateway((address,), SystemClock(), rng=Random(1))


def _profile() -> bytes:
    frame = {"functionName": "work", "scriptId": "1", "url": "bench.js", "lineNumber": 3}
    root = {"functionName": "(root)", "scriptId": "0", "url": "", "lineNumber": -1}
    raw: dict[str, Any] = {
        "nodes": [
            {"id": 1, "callFrame": {**root, "columnNumber": -1}, "children": [2]},
            {"id": 2, "callFrame": {**frame, "columnNumber": 1}},
        ],
        "samples": [2, 2, 2, 2],
        "timeDeltas": [100, 1000, 1000, 1000],
        "startTime": 0,
        "endTime": 1_000_000,
    }
    context = Context(
        isoprof="bench",
        session="-",
        capture=1,
        worker="bench",
        version="-",
        datacenter="-",
        metal="-",
        isolate="-",
    )
    built = build_cpu.profile([json.dumps(raw).encode()], context, 0, 1_000_000_000, 1_000)
    return codec.encode(built.profile)


PROFILE = _profile()
SHA256 = hashlib.sha256(PROFILE).hexdigest()
SLICE = SliceHolds(
    start_hold_us=1_000, stop_hold_us=1_000, gap_us=0, sampled_us=1_000_000, samples=3, nodes=2
)
