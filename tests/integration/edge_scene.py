"""A whole control plane on loopback, listeners and steps, and metals that follow a script."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import json
import random
import tempfile
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import obstore.store
from aiohttp import web

from contract import convert, identity, rpc
from contract.certificates import Certificates
from contract.faults import Fault, Reason
from contract.messages import (
    Accepted,
    CaptureReport,
    CaptureState,
    Metal,
    Report,
    ReportReply,
    SliceHolds,
    UploadManifest,
)
from control_plane.api import app as api
from control_plane.api import edge
from control_plane.api.parts import PARTS, Parts
from control_plane.blobs import Blobs
from control_plane.dispatch import Dispatch
from control_plane.intake import Intake
from control_plane.rpc import gateway
from control_plane.rpc.agents import GrpcAgents
from control_plane.settings import Settings
from control_plane.store import accounts
from control_plane.store.accounts import Account
from control_plane.store.database import Database
from control_plane.store.notices import Notices
from control_plane.sweep import Sweep
from protos.control.v1 import gateway_pb2, gateway_pb2_grpc
from protos.edge.v1 import edge_pb2, edge_pb2_grpc
from services.certificates import make, of_control_plane, of_metal
from tests.integration.planes import (
    ACCOUNT,
    OTHER_ACCOUNT,
    UNLIMITED,
    VERSION,
    WORKER,
    account_token,
    parts_of,
    profile_bytes,
    sighting,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from contract.certificates import Files
    from contract.messages import CaptureKey, Order, Sighting

ISOLATE = "wd1/replacer"
HOLDS = (
    SliceHolds(
        start_hold_us=300, stop_hold_us=200, gap_us=0, sampled_us=500_000, samples=400, nodes=9
    ),
    SliceHolds(
        start_hold_us=70, stop_hold_us=30, gap_us=10, sampled_us=500_000, samples=411, nodes=8
    ),
)
CHUNK_BYTES = 64


class ScriptedMetal(edge_pb2_grpc.EdgeAgentServicer):
    """One metal: takes every order unless ``refusal`` is set, uploads once ``go`` is set.

    It answers an order once ``accept`` is set and sends the second half of an upload once ``whole``
    is; both are at first. ``half_sent`` is set by the first half.
    """

    def __init__(self, metal_id: str, gateway_address: str, shown: Certificates) -> None:
        self.metal_id = metal_id
        self.profile = profile_bytes()
        self.refusal: Fault | None = None
        self.go = asyncio.Event()
        self.accept, self.whole, self.half_sent = (asyncio.Event() for _ in range(3))
        for one in (self.go, self.accept, self.whole):
            one.set()
        self.orders: asyncio.Queue[Order] = asyncio.Queue()
        self.stops: asyncio.Queue[tuple[CaptureKey, bool]] = asyncio.Queue()
        self.shown = shown
        self.channel = rpc.secure_channel(gateway_address, shown.current, identity.CONTROL_PLANE)
        self.gateway = gateway_pb2_grpc.GatewayStub(self.channel)
        self.server = rpc.server()
        self.address = ""
        self._playing: dict[CaptureKey, asyncio.Task[None]] = {}

    async def start(self) -> None:
        edge_pb2_grpc.add_EdgeAgentServicer_to_server(self, self.server)
        self.address = f"127.0.0.1:{rpc.bind(self.server, '127.0.0.1:0', self.shown)}"
        await self.server.start()

    async def stop(self) -> None:
        for task in self._playing.values():
            task.cancel()
        await asyncio.gather(*self._playing.values(), return_exceptions=True)
        await self.server.stop(0)
        await self.channel.close(None)

    async def StartCapture(  # noqa: N802
        self, request: edge_pb2.StartCaptureRequest, context: Any
    ) -> edge_pb2.StartCaptureResponse:
        order = convert.order_from_wire(request)
        await self.orders.put(order)
        await self.accept.wait()
        if self.refusal is not None:
            raise self.refusal
        self._playing[order.key] = asyncio.create_task(self._play(order))
        return convert.accepted_to_wire(Accepted(key=order.key, isolate_id=ISOLATE))

    async def StopCapture(  # noqa: N802
        self, request: edge_pb2.StopCaptureRequest, context: Any
    ) -> edge_pb2.StopCaptureResponse:
        key = convert.required_key(request)
        await self.stops.put((key, request.discard))
        state = CaptureState.SAMPLING
        if key not in self._playing:
            raise Fault(Reason.CAPTURE_UNKNOWN, "not here yet")
        if request.discard:
            self._playing[key].cancel()
            state = CaptureState.STOPPED
        else:
            self.go.set()
        report = replace(self._report(key, state), reason=Reason.CAPTURE_STOPPED)
        return edge_pb2.StopCaptureResponse(report=convert.capture_report_to_wire(report))

    async def ShowCapture(  # noqa: N802
        self, request: edge_pb2.ShowCaptureRequest, context: Any
    ) -> edge_pb2.ShowCaptureResponse:
        raise Fault(Reason.CAPTURE_UNKNOWN, "not here")

    async def ListIsolates(  # noqa: N802
        self, request: edge_pb2.ListIsolatesRequest, context: Any
    ) -> edge_pb2.ListIsolatesResponse:
        return edge_pb2.ListIsolatesResponse()

    async def _play(self, order: Order) -> None:
        await self.tell(self._report(order.key, CaptureState.SAMPLING))
        await self.go.wait()
        await self.upload(manifest(self.metal_id, order.key, self.profile), self.profile)

    def _report(self, key: CaptureKey, state: CaptureState) -> CaptureReport:
        return CaptureReport(
            key=key, metal_id=self.metal_id, state=state, isolate_id=ISOLATE, sampled_ms=0
        )

    async def tell(self, report: CaptureReport) -> None:
        wire = convert.capture_report_to_wire(report)
        await self.gateway.ReportCapture(gateway_pb2.ReportCaptureRequest(report=wire), timeout=10)

    async def sight(self, *seen: Sighting, **more: Any) -> ReportReply:
        metal = Metal(
            metal_id=self.metal_id,
            datacenter=self.metal_id.partition("-")[0],
            address=self.address,
            epoch=1,
            max_captures=4,
        )
        report = Report(metal=metal, snapshot=True, sightings=seen, **more)
        reply = await self.gateway.Report(convert.report_to_wire(report), timeout=10)
        return convert.report_reply_from_wire(reply)

    async def upload(self, told: UploadManifest, data: bytes, *, offset: int = 0) -> int:
        """Send a manifest, then the bytes from ``offset`` in small chunks."""

        async def parts() -> AsyncIterator[gateway_pb2.UploadRequest]:
            yield gateway_pb2.UploadRequest(manifest=convert.manifest_to_wire(told))
            for at in range(offset, len(data), CHUNK_BYTES):
                if at > len(data) // 2:
                    self.half_sent.set()
                    await self.whole.wait()
                chunk = gateway_pb2.Chunk(offset_bytes=at, data=data[at : at + CHUNK_BYTES])
                yield gateway_pb2.UploadRequest(chunk=chunk)

        reply = await self.gateway.Upload(parts(), timeout=10)
        return convert.receipt_from_wire(reply).size_bytes


def manifest(metal_id: str, key: CaptureKey, data: bytes) -> UploadManifest:
    return UploadManifest(
        key=key,
        metal_id=metal_id,
        isolate_id=ISOLATE,
        sha256=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
        samples=811,
        window_ms=1000,
        slices=HOLDS,
    )


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    headers: dict[str, str]
    data: bytes
    body: Any

    @property
    def error(self) -> tuple[int, int, str]:
        """Status, first code, first message; the envelope is checked on the way."""
        assert set(self.body) == {"success", "errors", "messages", "result"}, self.body
        assert self.body["success"] is False
        assert self.body["result"] is None
        assert self.body["messages"] == []
        first = self.body["errors"][0]
        return self.status, first["code"], first["message"]

    @property
    def pointers(self) -> list[str]:
        return sorted(error["source"]["pointer"] for error in self.body["errors"])


@dataclass(kw_only=True)
class Scene:
    db: Database
    notices: Notices
    gateway_address: str
    base: str
    app: web.Application
    runner: web.AppRunner
    http: aiohttp.ClientSession
    settings: Settings
    certificates: Path
    token: str = ""
    other_token: str = ""
    metals: list[ScriptedMetal] = field(default_factory=list)

    @property
    def metal(self) -> ScriptedMetal:
        return self.metals[0]

    @contextlib.asynccontextmanager
    async def replica(self) -> AsyncIterator[Scene]:
        """Run another replica of the account API: its own pool and notices, the same database."""
        async with contextlib.AsyncExitStack() as stack:
            db = await stack.enter_async_context(Database.open(self.db.url))
            notices = await stack.enter_async_context(Notices.open(db))
            parts = replace(self.app[PARTS], db=db, notices=notices)
            app, runner = await serve(stack, parts)
            base = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield replace(self, db=db, notices=notices, base=base, app=app, runner=runner)

    async def add_metal(self, metal_id: str = "ams1-m1") -> ScriptedMetal:
        make(self.certificates, [metal_id], now=datetime.now(UTC))
        shown = shown_by(of_metal(self.certificates, metal_id), identity.of_metal(metal_id))
        metal = ScriptedMetal(metal_id, self.gateway_address, shown)
        await metal.start()
        self.metals.append(metal)
        return metal

    async def call(
        self,
        method: str,
        path: str,
        *,
        account: str = ACCOUNT,
        token: str | None = None,
        headers: dict[str, str] | None = None,
        **sent: Any,
    ) -> Answer:
        """Call the account API; a ``path`` that begins with ``/`` is whole, or the account's."""
        url = path if path.startswith("/") else f"/client/v4/accounts/{account}/{path}"
        named = {"Accept-Encoding": "identity"} | (headers or {})
        token = self.token if token is None else token
        if token:
            named["Authorization"] = f"Bearer {token}"
        async with self.http.request(method, self.base + url, headers=named, **sent) as answer:
            data = await answer.read()
            told = {name.lower(): value for name, value in answer.headers.items()}
            plain = gzip.decompress(data) if told.get("content-encoding") == "gzip" else data
            is_json = told.get("content-type", "").startswith("application/json")
            assert told["x-request-id"]
            return Answer(
                status=answer.status,
                headers=told,
                data=data,
                body=json.loads(plain) if is_json and plain else None,
            )

    async def profile(self, worker: str = WORKER, version: str = VERSION, **body: Any) -> Answer:
        return await self.call(
            "POST",
            f"workers/workers/{worker}/versions/{version}/profile",
            json={"duration_ms": 1000} | body,
        )

    async def session_until(self, session_id: str, *states: str) -> dict[str, Any]:
        """Follow a session by its notices until it is in one of these states."""
        return await self.session_seen(session_id, lambda seen: seen["state"] in states)

    async def session_seen(
        self, session_id: str, reached: Callable[[dict[str, Any]], bool]
    ) -> dict[str, Any]:
        """Follow a session by its notices until it is as wanted."""
        with self.notices.watch(session_id) as watch:
            while True:
                answer = await self.call("GET", f"profile-sessions/{session_id}")
                result: dict[str, Any] = answer.body["result"]
                if reached(result):
                    return result
                await watch.wait(5)


async def serve(
    stack: contextlib.AsyncExitStack, parts: Parts
) -> tuple[web.Application, web.AppRunner]:
    app = api.make_app(parts, drain_s=0)
    runner = edge.make_runner(app, drain_s=0)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return app, runner


@contextlib.asynccontextmanager
async def edge_scene(
    database_url: str, *, metals: int = 1, **settings: Any
) -> AsyncIterator[Scene]:
    """Run everything; metals report the replacer Worker as active unless ``metals`` is 0."""
    configured = Settings(**(UNLIMITED | settings))
    async with contextlib.AsyncExitStack() as stack:
        db = await stack.enter_async_context(Database.open(database_url))
        notices = await stack.enter_async_context(Notices.open(db))
        blobs = Blobs(obstore.store.MemoryStore())
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        make(directory, (), now=datetime.now(UTC))
        shown = shown_by(of_control_plane(directory), identity.CONTROL_PLANE)
        listener = await gateway.listen(Intake(db, blobs, configured), "127.0.0.1:0", shown)
        stack.push_async_callback(listener.stop, 0)
        agents = GrpcAgents(shown)
        stack.push_async_callback(agents.close)
        dispatch = Dispatch(
            db, notices, agents, blobs, configured, replica="r1", rng=random.Random(7)
        )
        await stack.enter_async_context(running(dispatch.run()))
        await stack.enter_async_context(running(Sweep(db, configured).run()))
        parts = parts_of(db, notices, blobs, configured)
        app, runner = await serve(stack, parts)
        http = await stack.enter_async_context(aiohttp.ClientSession(auto_decompress=False))
        scene = Scene(
            db=db,
            notices=notices,
            gateway_address=f"127.0.0.1:{listener.port}",
            base=f"http://127.0.0.1:{runner.addresses[0][1]}",
            app=app,
            runner=runner,
            http=http,
            settings=configured,
            certificates=directory,
        )
        for account_id in (ACCOUNT, OTHER_ACCOUNT):
            async with db.begin() as conn:
                account = Account(account_id=account_id, name="a", profiling_enabled=True)
                await accounts.keep(conn, account)
        scene.token = await account_token(db, ACCOUNT)
        scene.other_token = await account_token(db, OTHER_ACCOUNT)
        for number in range(1, metals + 1):
            metal = await scene.add_metal(f"ams1-m{number}")
            await metal.sight(sighting())
        try:
            yield scene
        finally:
            for metal in scene.metals:
                await metal.stop()


def shown_by(files: Files, name: str) -> Certificates:
    return Certificates(files, name=name, now=partial(datetime.now, UTC))


@contextlib.asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
