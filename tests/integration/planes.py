"""A control plane's steps on a real database, with agents that follow a script."""

from __future__ import annotations

import contextlib
import hashlib
import random
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import obstore.store
from sqlalchemy import text

from contract.faults import Fault, Reason
from contract.messages import (
    Accepted,
    CaptureReport,
    CaptureState,
    Metal,
    Report,
    Sighting,
    UploadManifest,
)
from control_plane import access, admission
from control_plane.access import Refusals
from control_plane.admission import ProfileRequest
from control_plane.api.parts import Parts
from control_plane.blobs import Blobs
from control_plane.dispatch import Dispatch
from control_plane.intake import Intake
from control_plane.metrics import Metrics
from control_plane.settings import Settings
from control_plane.store import accounts, captures, history
from control_plane.store.accounts import Account
from control_plane.store.database import Database
from control_plane.store.notices import Notices
from control_plane.sweep import Sweep
from pprof import codec, model

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from contract.messages import CaptureKey, Order
    from control_plane.store.captures import Capture
    from control_plane.store.sessions import Session

ACCOUNT = "a" * 32
OTHER_ACCOUNT = "b" * 32
WORKER = "1" * 32
VERSION = "11111111-1111-4111-8111-111111111111"
TOKEN_KEY = bytes(range(32))
# Most tests are not about quotas.
UNLIMITED: dict[str, Any] = {
    "max_concurrent_sessions": 1_000_000,
    "max_sessions_per_hour": 1_000_000,
    "max_capture_seconds_per_hour": 1_000_000_000,
    "breaker_failures": 1_000_000,
}


class ScriptedAgents:
    """Agents by address. ``answers`` are used up first; then every order is accepted."""

    def __init__(self) -> None:
        self.orders: list[tuple[str, Order]] = []
        self.stops: list[tuple[str, CaptureKey, bool]] = []
        self.shown: list[CaptureKey] = []
        self.answers: list[Fault | Accepted | Callable[[], Awaitable[Accepted]]] = []
        self.reports: dict[CaptureKey, CaptureReport] = {}

    async def start_capture(self, address: str, order: Order, *, metal_id: str) -> Accepted:
        assert metal_id
        self.orders.append((address, order))
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Fault):
            raise answer
        if isinstance(answer, Accepted):
            return answer
        if answer is not None:
            return await answer()
        again = f"/{order.key.capture}" if order.key.capture > 1 else ""
        return Accepted(key=order.key, isolate_id=f"wd1/{order.key.session_id}{again}")

    async def stop_capture(
        self, address: str, key: CaptureKey, *, metal_id: str, discard: bool
    ) -> CaptureReport:
        assert metal_id
        self.stops.append((address, key, discard))
        return self._known(key)

    async def show_capture(self, address: str, key: CaptureKey, *, metal_id: str) -> CaptureReport:
        assert metal_id
        self.shown.append(key)
        return self._known(key)

    def _known(self, key: CaptureKey) -> CaptureReport:
        if key not in self.reports:
            raise Fault(Reason.CAPTURE_UNKNOWN, "never heard of it")
        return self.reports[key]


@dataclass
class Plane:
    """Everything one test works with; ``dispatch`` makes one more replica."""

    db: Database
    notices: Notices
    blobs: Blobs
    store: obstore.store.MemoryStore
    settings: Settings
    intake: Intake
    sweep: Sweep
    agents: ScriptedAgents = field(default_factory=ScriptedAgents)
    metrics: Metrics = field(default_factory=Metrics)

    def dispatch(self, replica: str = "r1", **changes: Any) -> Dispatch:
        parts: dict[str, Any] = {"db": self.db, "agents": self.agents, "settings": self.settings}
        parts |= changes
        return Dispatch(
            parts["db"],
            self.notices,
            parts["agents"],
            self.blobs,
            parts["settings"],
            replica=replica,
            rng=random.Random(7),
            metrics=self.metrics,
        )

    async def turn(self, dispatch: Dispatch | None = None) -> None:
        """Send all that is due, and what becomes due by it, until nothing is."""
        dispatch = dispatch or self.dispatch()
        for _ in range(10):
            await dispatch.turn()
            await dispatch.finished()

    async def admit(self, **asked: Any) -> Session:
        values: dict[str, Any] = {"worker": WORKER, "duration_ms": 1000}
        request = ProfileRequest(**(values | asked))
        return await admission.admit(self.db, ACCOUNT, request, uuid.uuid4().hex, self.settings)

    async def session(self, session_id: str) -> Session:
        return await admission.show(self.db, ACCOUNT, session_id)

    async def captures(self, session_id: str) -> tuple[Capture, ...]:
        async with self.db.read() as conn:
            return await captures.of_session(conn, ACCOUNT, session_id)

    async def events(self, session_id: str) -> list[tuple[int | None, str]]:
        async with self.db.read() as conn:
            entries = await history.of_session(conn, ACCOUNT, session_id)
        return [(e.capture, e.event) for e in entries]

    async def blob_keys(self) -> list[str]:
        """List what the blob store holds."""
        return [meta["path"] async for batch in self.store.list() for meta in batch]

    async def execute(self, statement: str, **values: Any) -> None:
        async with self.db.begin() as conn:
            await conn.execute(text(statement), values)

    async def sampling(self) -> tuple[Session, Capture]:
        """Bring a session to where its capture samples."""
        session = await self.admit()
        await self.turn()
        return await self.session(session.session_id), (await self.captures(session.session_id))[-1]


async def account_token(db: Database, account_id: str, **asked: Any) -> str:
    """Make a token that may read, or what is asked."""
    async with db.begin() as conn:
        return (await access.mint_for_account(conn, TOKEN_KEY, account_id, **asked)).text


async def operator_token(db: Database, **asked: Any) -> str:
    async with db.begin() as conn:
        values: dict[str, Any] = {"name": "ops"}
        return (await access.mint_for_operator(conn, TOKEN_KEY, **(values | asked))).text


def parts_of(db: Database, notices: Notices, blobs: Blobs, settings: Settings) -> Parts:
    """What a listener works with."""
    return Parts(
        db=db,
        notices=notices,
        blobs=blobs,
        settings=settings,
        token_key=TOKEN_KEY,
        refusals=Refusals(db),
        metrics=Metrics(),
    )


@contextlib.asynccontextmanager
async def plane(database_url: str, *, metals: int = 1, **settings: Any) -> AsyncIterator[Plane]:
    """Build a plane whose account runs VERSION on ``metals`` metals."""
    configured = Settings(**(UNLIMITED | settings))
    async with (
        Database.open(database_url, pool_size=configured.pool_size) as db,
        Notices.open(db) as notices,
    ):
        store = obstore.store.MemoryStore()
        blobs = Blobs(store)
        metrics = Metrics()
        made = Plane(
            db=db,
            notices=notices,
            blobs=blobs,
            store=store,
            settings=configured,
            intake=Intake(db, blobs, configured, metrics),
            metrics=metrics,
            sweep=Sweep(db, configured),
        )
        for account_id in (ACCOUNT, OTHER_ACCOUNT):
            account = Account(account_id=account_id, name="a", profiling_enabled=True)
            async with db.begin() as conn:
                await accounts.keep(conn, account)
        for number in range(1, metals + 1):
            await made.intake.sightings(report(number))
        yield made


def metal(number: int = 1, *, epoch: int = 1, max_captures: int = 4) -> Metal:
    return Metal(
        metal_id=f"m{number}",
        datacenter=f"dc{number % 2}",
        address=f"10.0.0.{number}:1",
        epoch=epoch,
        max_captures=max_captures,
    )


def sighting(**changes: Any) -> Sighting:
    values: dict[str, Any] = {
        "account_id": ACCOUNT,
        "worker_id": WORKER,
        "worker_name": "replacer",
        "version_id": VERSION,
        "executions": 10,
        "idle_ms": 5,
        "isolates": 1,
        "free_isolates": 1,
        "shared": False,
        "held_ms": 0,
    }
    return Sighting(**(values | changes))


def report(number: int = 1, **changes: Any) -> Report:
    values: dict[str, Any] = {
        "metal": metal(number),
        "snapshot": True,
        "sightings": (sighting(),),
    }
    return Report(**(values | changes))


def told(capture: Capture, state: CaptureState, **changes: Any) -> CaptureReport:
    """Build what the capture's own agent would say of it."""
    values: dict[str, Any] = {
        "key": capture.key,
        "metal_id": capture.metal_id,
        "state": state,
        "isolate_id": capture.isolate_id or f"wd1/{capture.session_id}",
        "sampled_ms": 0,
    }
    return CaptureReport(**(values | changes))


def profile_bytes(name: str = "hot", samples: int = 1) -> bytes:
    """Encode a small profile."""
    return codec.encode(
        model.Profile(
            sample_types=model.CPU_TYPES,
            period_type=model.CPU_PERIOD,
            period=1_000_000,
            time_ns=1,
            duration_ns=1_000_000_000,
            mappings=(),
            functions=(
                model.Function(id=1, name=name, system_name=name, filename="a.js", start_line=1),
            ),
            locations=(
                model.Location(id=1, mapping_id=0, lines=(model.Line(function_id=1, line=2),)),
            ),
            samples=(model.Sample(location_ids=(1,), values=(samples, samples * 1_000_000)),),
        )
    )


def manifest(capture: Capture, data: bytes, **changes: Any) -> UploadManifest:
    values: dict[str, Any] = {
        "key": capture.key,
        "metal_id": capture.metal_id,
        "isolate_id": capture.isolate_id or f"wd1/{capture.session_id}",
        "sha256": hashlib.sha256(data).hexdigest(),
        "size_bytes": len(data),
        "samples": 1,
        "window_ms": 1000,
        "slices": (),
    }
    return UploadManifest(**(values | changes))
