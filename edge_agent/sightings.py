"""What ran here, told to the control plane every interval, and at once when it matters."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import structlog

from contract.faults import Fault
from contract.messages import Actor as ActorName
from contract.messages import ActorSighting, NamespaceRef, Report, Sighting
from edge_agent.choice import namespace_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from random import Random

    from contract.messages import CaptureKey, Metal
    from edge_agent.activity import Activity
    from edge_agent.hold import Holds
    from edge_agent.loaded import Loaded
    from edge_agent.runtime import Clock, Runtime, Target
    from edge_agent.uplink import Uplink

# Changes of importance are gathered for this long, so that a burst of them is one report.
GATHER_S = 0.1
# After its replica died an agent turns to the next within this long, at a moment of its own: all of
# a fleet move at the same time.
MOVE_S = 2.0
# Whether isolates came or went is looked at this often, at least.
LOOK_S = 1.0
MOST_ACTORS = 5_000

log = structlog.get_logger()


class _Version(NamedTuple):
    """Versions are told apart by this; the first account is the one an isolate is for."""

    account_id: str
    worker_id: str
    version_id: str


class _Told(NamedTuple):
    """What a report said of a version, without what changes by itself as time passes."""

    isolates: int
    free_isolates: int
    shared: bool
    ran: bool


class Sightings:
    """Knows what was told last, and so what changed since.

    Nothing piles up while no gateway answers: a report is made of what is true when it is sent, and
    executions are counted from the last report that was taken.

    Args:
        captures: keys of the captures the agent is running.
        stop: ends a capture the control plane no longer wants.
        rng: spreads agents that turn to another replica at the same time.
    """

    def __init__(
        self,
        metal: Metal,
        *,
        loaded: Loaded,
        activity: Activity,
        holds: Holds,
        uplink: Uplink,
        clock: Clock,
        interval_ms: int,
        captures: Callable[[], tuple[CaptureKey, ...]],
        stop: Callable[[CaptureKey], Awaitable[object]],
        rng: Random,
    ) -> None:
        self._metal = metal
        self._loaded = loaded
        self._activity = activity
        self._holds = holds
        self._uplink = uplink
        self._clock = clock
        self._interval_s = interval_ms / 1000
        self._captures = captures
        self._stop = stop
        self._rng = rng
        self._urgent = asyncio.Event()
        self._told: dict[_Version, _Told] = {}
        self._totals: dict[tuple[str, int], int] = {}
        self._names: dict[_Version, tuple[str, tuple[NamespaceRef, ...]]] = {}
        self._told_ms: int | None = None
        self._replica = ""

    def changed(self) -> None:
        """Something placement should know at once: a first execution, an isolate taken or freed."""
        self._urgent.set()

    async def watch(self, runtime: Runtime) -> None:
        """Feed what runs in one runtime into the activity, for as long as it tells."""
        async for execution in runtime.executions():
            if self._activity.record(execution, self._now_ms()):
                self.changed()

    async def run(self) -> None:
        """Report for ever.

        When a gateway is away, the next one is tried soon; the same one, at the next interval.
        """
        while True:
            turned_to = self._uplink.replica
            told = await self.tell()
            moved = not told and self._uplink.replica != turned_to
            await self._until_due(self._rng.uniform(0, MOVE_S) if moved else self._interval_s)

    async def tell(self) -> bool:
        """Send one report, and a second at once when the answer asks for everything.

        Returns:
            whether it was taken.
        """
        self._urgent.clear()
        for _ in range(2):
            snapshot = self._told_ms is None
            now_ms = self._now_ms()
            report, told, totals = self._report(await self._loaded.look(), now_ms, snapshot)
            try:
                reply = await self._uplink.report(report)
            except Fault as fault:
                log.warning("report_failed", reason=fault.reason, error=fault.message)
                return False
            self._told, self._totals, self._told_ms = told, totals, now_ms
            for key in reply.stop:
                await self._stopped(key)
            replica, self._replica = self._replica, self._uplink.replica
            # Another replica over the same database has the same table, unless it says otherwise.
            moved = replica not in ("", self._replica)
            if not (reply.snapshot_wanted or moved) or snapshot:
                return True
            self._told_ms = None
        return True

    def _report(
        self, targets: tuple[Target, ...], now_ms: int, snapshot: bool
    ) -> tuple[Report, dict[_Version, _Told], dict[tuple[str, int], int]]:
        versions: dict[_Version, list[Target]] = defaultdict(list)
        for target in targets:
            version = _version(target)
            versions[version].append(target)
            self._names[version] = (target.worker_name, _namespaces(versions[version]))
        totals = {_life(one): self._activity.total(one.isolate_id) for one in targets}
        told: dict[_Version, _Told] = {}
        sightings = []
        # A version that is gone is told once, with no isolates.
        for version in {**dict.fromkeys(self._told), **dict.fromkeys(versions)}:
            sighting = self._sighting(version, versions[version], now_ms)
            now = _Told(
                isolates=sighting.isolates,
                free_isolates=sighting.free_isolates,
                shared=sighting.shared,
                ran=sighting.idle_ms is not None,
            )
            if versions[version]:
                told[version] = now
            if snapshot or sighting.executions or now != self._told.get(version):
                sightings.append(sighting)
        self._names = {version: self._names[version] for version in told}
        since_ms = self._told_ms
        within_ms = now_ms if snapshot or since_ms is None else now_ms - since_ms
        report = Report(
            metal=self._metal,
            snapshot=snapshot,
            sightings=tuple(sightings),
            actors=self._actors(targets, now_ms, within_ms),
            captures=self._captures(),
        )
        return report, told, totals

    def _sighting(self, version: _Version, targets: list[Target], now_ms: int) -> Sighting:
        name, namespaces = self._names[version]
        alone = [target for target in targets if len(target.accounts) == 1]
        held = [self._holds.held_ms(target.isolate_id, now_ms) for target in alone]
        idle = [self._activity.idle_ms(target.isolate_id, now_ms) for target in targets]
        return Sighting(
            account_id=version.account_id,
            worker_id=version.worker_id,
            worker_name=name,
            version_id=version.version_id,
            executions=sum(self._ran(target) for target in targets),
            idle_ms=min((one for one in idle if one is not None), default=None),
            isolates=len(targets),
            free_isolates=held.count(0),
            shared=bool(targets) and not alone,
            held_ms=min(held, default=0) if 0 not in held else 0,
            namespaces=namespaces,
        )

    def _ran(self, target: Target) -> int:
        """Executions since the last report that was taken."""
        total = self._activity.total(target.isolate_id)
        return max(0, total - self._totals.get(_life(target), 0))

    def _actors(
        self, targets: Iterable[Target], now_ms: int, within_ms: int
    ) -> tuple[ActorSighting, ...]:
        by_id = {target.isolate_id: target for target in targets}
        found = []
        for seen in self._activity.actors(now_ms, within_ms, MOST_ACTORS):
            target = by_id.get(seen.isolate_id)
            namespace_id = namespace_of(target, seen.entrypoint) if target else None
            # An actor whose namespace is not known can't be asked for.
            if target is None or namespace_id is None or len(target.accounts) > 1:
                continue
            version = _version(target)
            found.append(
                ActorSighting(
                    actor=ActorName(namespace_id=namespace_id, actor_id=seen.actor_id),
                    account_id=version.account_id,
                    worker_id=version.worker_id,
                    version_id=version.version_id,
                    idle_ms=seen.idle_ms,
                )
            )
        return tuple(found)

    async def _stopped(self, key: CaptureKey) -> None:
        try:
            await self._stop(key)
        except Fault as fault:
            log.info("stop_of_unknown_capture", session_id=key.session_id, reason=fault.reason)

    async def _until_due(self, left_s: float) -> None:
        """Wait so long, or less when an isolate came or went or something is urgent."""
        before = {_life(target) for target in self._loaded.targets}
        while left_s > 0 and not self._urgent.is_set():
            sleep_s = min(LOOK_S, left_s)
            sleep = asyncio.ensure_future(self._clock.sleep(sleep_s))
            urgent = asyncio.ensure_future(self._urgent.wait())
            try:
                await asyncio.wait((sleep, urgent), return_when=asyncio.FIRST_COMPLETED)
            finally:
                sleep.cancel()
                urgent.cancel()
                await asyncio.gather(sleep, urgent, return_exceptions=True)
            left_s -= sleep_s
            if {_life(target) for target in await self._loaded.look()} != before:
                break
        await self._clock.sleep(min(GATHER_S, self._interval_s))

    def _now_ms(self) -> int:
        return self._clock.monotonic_ns() // 1_000_000


def _version(target: Target) -> _Version:
    return _Version(target.accounts[0], target.worker_id, target.version_id)


def _life(target: Target) -> tuple[str, int]:
    return (target.isolate_id, target.generation)


def _namespaces(targets: Iterable[Target]) -> tuple[NamespaceRef, ...]:
    found = {
        namespace_id: NamespaceRef(
            namespace_id=namespace_id,
            class_name=class_name,
            unique_key=target.unique_keys.get(namespace_id, ""),
        )
        for target in targets
        for namespace_id, class_name in target.namespaces.items()
    }
    return tuple(found[namespace_id] for namespace_id in sorted(found))
