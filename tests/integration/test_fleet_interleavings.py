"""Whatever happens to a session of several isolates, in whatever order: what always holds."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from contract.faults import Fault, Reason
from contract.messages import LIVE_CAPTURE_STATES, Accepted, CaptureReport, CaptureState
from control_plane import admission, isolates
from control_plane.session import LIVE_STATES, SessionState
from control_plane.store import history, profiles
from pprof import codec
from pprof.model import total
from tests.integration.planes import (
    ACCOUNT,
    Plane,
    manifest,
    metal,
    plane,
    profile_bytes,
    report,
    sighting,
)

if TYPE_CHECKING:
    from contract.messages import CaptureKey, Order
    from control_plane.store.captures import Capture

METALS = 4
ISOLATES = 3
STEPS = 40
ORDER = [SessionState.QUEUED, SessionState.CAPTURING, SessionState.FINISHING]


class UnsteadyAgents:
    """Agents that hold isolates truly and are otherwise as unlucky as chance has it."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.running: dict[CaptureKey, tuple[str, str]] = {}
        self.ended: dict[CaptureKey, CaptureState] = {}
        self.most_at_once: Counter[tuple[str, str]] = Counter()

    async def start_capture(self, address: str, order: Order, *, metal_id: str) -> Accepted:
        if order.key in self.running:
            return Accepted(key=order.key, isolate_id=self.running[order.key][1])
        luck = self.rng.random()
        if luck < 0.15 or order.key in self.ended:
            raise Fault(Reason.NOT_LOADED, "evicted")
        if luck < 0.2:
            raise Fault(Reason.AGENT_UNREACHABLE, "never came")
        held = set(self.running.values())
        free = [i for i in range(ISOLATES) if (metal_id, f"wd1/{i}") not in held]
        if not free:
            raise Fault(Reason.ISOLATES_BUSY, "all held", retry_after_s=1)
        taken = (metal_id, f"wd1/{self.rng.choice(free)}")
        self.running[order.key] = taken
        holds = Counter(self.running.values())
        self.most_at_once |= holds
        if luck < 0.25:
            raise Fault(Reason.AGENT_UNREACHABLE, "its answer never came")
        return Accepted(key=order.key, isolate_id=taken[1])

    async def stop_capture(
        self, address: str, key: CaptureKey, *, metal_id: str, discard: bool
    ) -> CaptureReport:
        if self.rng.random() < 0.2:
            raise Fault(Reason.AGENT_UNREACHABLE, "not now")
        if key not in self.running and key not in self.ended:
            self.ended[key] = CaptureState.STOPPED
            raise Fault(Reason.CAPTURE_UNKNOWN, "never heard of it")
        if discard and key in self.running:
            self.end(key, CaptureState.STOPPED)
        return self.report(key, metal_id)

    async def show_capture(self, address: str, key: CaptureKey, *, metal_id: str) -> CaptureReport:
        if key not in self.running:
            raise Fault(Reason.CAPTURE_UNKNOWN, "never heard of it")
        return self.report(key, metal_id)

    def end(self, key: CaptureKey, state: CaptureState) -> None:
        self.running.pop(key, None)
        self.ended.setdefault(key, state)

    def report(self, key: CaptureKey, metal_id: str) -> CaptureReport:
        state = self.ended.get(key, CaptureState.SAMPLING)
        _, isolate_id = self.running.get(key, ("", ""))
        reason = Reason.CAPTURE_STOPPED if state is CaptureState.STOPPED else None
        return CaptureReport(
            key=key,
            metal_id=metal_id,
            state=state,
            isolate_id=isolate_id,
            sampled_ms=0,
            reason=reason,
        )


class Story:
    """One session, what happens to it, and what was seen of it."""

    def __init__(self, p: Plane, session_id: str, rng: random.Random) -> None:
        self.p = p
        self.session_id = session_id
        self.rng = rng
        self.agents = UnsteadyAgents(rng)
        self.seen = [SessionState.QUEUED]
        self.over: dict[int, CaptureState] = {}
        self.samples: dict[int, int] = {}
        self.replicas = [p.dispatch(name, agents=self.agents) for name in ("r1", "r2")]

    async def step(self) -> None:
        happening = self.rng.choices(
            [self.dispatched, self.uploaded, self.failed, self.unheard, self.lapsed, self.twice],
            weights=[6, 4, 2, 1, 2, 1],
        )[0]
        await happening()
        await self.look()

    async def dispatched(self) -> None:
        replica = self.rng.choice(self.replicas)
        if self.rng.random() < 0.2:
            # It dies between its commit and what it would have sent.
            await replica._order()
            return
        await replica.turn()
        await replica.finished()

    async def _one(self, *, live: bool = True) -> Capture | None:
        captures = await self.p.captures(self.session_id)
        fit = [c for c in captures if (c.key in self.agents.running) == live]
        return self.rng.choice(fit) if fit else None

    async def uploaded(self) -> None:
        capture = await self._one()
        if capture is None:
            return
        _, isolate_id = self.agents.running[capture.key]
        samples = self.samples.setdefault(capture.capture, self.rng.randrange(1, 1000))
        self.agents.end(capture.key, CaptureState.UPLOADED)
        data = profile_bytes(f"f{capture.capture % 2}", samples)
        told = manifest(capture, data, isolate_id=isolate_id, samples=samples)
        try:
            upload = await self.p.intake.open_upload(told)
            await upload.write(0, data)
            await upload.finish()
        except Fault as fault:
            if fault.reason not in {Reason.SESSION_CANCELLED, Reason.CAPTURE_STOPPED}:
                raise

    async def failed(self) -> None:
        capture = await self._one()
        if capture is not None:
            told = self.agents.report(capture.key, capture.metal_id)
            self.agents.end(capture.key, CaptureState.FAILED)
            await self._tell(told, CaptureState.FAILED)

    async def twice(self) -> None:
        """An old word comes again, late."""
        capture = await self._one(live=False)
        if capture is not None and capture.isolate_id:
            told = self.agents.report(capture.key, capture.metal_id)
            await self._tell(told, self.rng.choice([CaptureState.SAMPLING, CaptureState.FAILED]))

    async def _tell(self, told: CaptureReport, state: CaptureState) -> None:
        await self.p.intake.captured(
            CaptureReport(
                key=told.key,
                metal_id=told.metal_id,
                state=state,
                isolate_id=told.isolate_id or "wd1/0",
                sampled_ms=10,
                reason=Reason.TARGET_EXITED if state is CaptureState.FAILED else None,
            )
        )

    async def unheard(self) -> None:
        await self._age("random() < 0.3")

    async def _age(self, which: str) -> None:
        await self.p.execute(
            "UPDATE captures SET heard_at = now() - interval '21 s' "
            f"WHERE session_id = :id AND ended_at IS NULL AND {which}",
            id=self.session_id,
        )
        await self.p.sweep.turn()

    async def lapsed(self) -> None:
        await self.p.execute(
            "UPDATE sessions SET lease_until = now() - interval '1 s' "
            "WHERE session_id = :id AND lease_until IS NOT NULL",
            id=self.session_id,
        )

    async def look(self) -> None:
        session = await self.p.session(self.session_id)
        captures = await self.p.captures(self.session_id)
        # I5: what was seen never goes back, and what has ended stays.
        if session.state is not self.seen[-1]:
            assert self.seen[-1] in LIVE_STATES
            if session.live:
                assert ORDER.index(session.state) > ORDER.index(self.seen[-1])
            self.seen.append(session.state)
        for capture in captures:
            if capture.capture in self.over:
                assert capture.state is self.over[capture.capture]
            elif not capture.live:
                self.over[capture.capture] = capture.state
        # I2, as the store has it: one capture per isolate, one per part.
        held = Counter(
            (c.metal_id, c.isolate_id)
            for c in captures
            if c.live and c.freed_at is None and c.isolate_id
        )
        assert all(number == 1 for number in held.values())
        going = Counter(c.part for c in captures if c.live or c.state is CaptureState.UPLOADED)
        assert all(number == 1 for number in going.values())
        assert all(number <= 3 for number in Counter(c.part for c in captures).values())
        # Nothing is forgotten: what is not live for itself has somebody who looks after it.
        if session.live and not any(c.state is CaptureState.SAMPLING for c in captures):
            assert session.due
        if any(c.state is CaptureState.ORDERED for c in captures) and session.live:
            assert session.due
        told = isolates.tally(session, captures)
        assert told.taken + told.live + told.waiting + told.lost == told.asked
        assert sum(told.reasons.values()) == told.lost


async def ends(story: Story) -> None:
    """Let time do what it does: I1."""
    for turn in range(40):
        session = await story.p.session(story.session_id)
        captures = await story.p.captures(story.session_id)
        if not session.live and not any(c.state in LIVE_CAPTURE_STATES for c in captures):
            return
        if turn == 20:
            await story.p.execute(
                "UPDATE sessions SET deadline_at = now() - interval '3 min' "
                "WHERE session_id = :id AND ended_at IS NULL",
                id=story.session_id,
            )
        await story.uploaded()
        await story.lapsed()
        for replica in story.replicas:
            await replica.turn()
            await replica.finished()
        await story.p.execute(
            "UPDATE captures SET stop_due_at = now() WHERE stop_due_at IS NOT NULL"
        )
        # What its agent does not know of is never heard of again.
        known = {key.capture for key in story.agents.running}
        if unknown := [c.capture for c in captures if c.live and c.capture not in known]:
            await story._age(f"capture IN ({', '.join(map(str, unknown))})")
        await story.look()
    raise AssertionError(f"not ended: {session} {captures}")


@pytest.mark.parametrize("seed", range(12))
async def test_what_always_holds(database_url: str, seed: int) -> None:
    rng = random.Random(seed)
    async with plane(database_url) as p:
        for number in range(1, METALS + 1):
            seen = sighting(isolates=ISOLATES, free_isolates=ISOLATES)
            at = metal(number, max_captures=rng.randrange(2, 6))
            await p.intake.sightings(report(number, metal=at, sightings=(seen,)))
        # I6: another session, under way and on the same metals, is touched by nothing.
        other, _ = await p.sampling()
        before = await whole(p, other.session_id)
        session = await p.admit(isolates=rng.randrange(2, 9))
        story = Story(p, session.session_id, rng)
        last = rng.choice([None, None, True, False])
        when = rng.randrange(2, 12)
        for step in range(STEPS):
            if step == when and last is not None:
                await admission.cancel(p.db, ACCOUNT, session.session_id, discard=last)
                await story.look()
            await story.step()
        await ends(story)
        assert max(story.agents.most_at_once.values(), default=1) == 1
        assert await whole(p, other.session_id) == before
        now = await p.session(session.session_id)
        captures = await p.captures(session.session_id)
        taken = [c.capture for c in captures if c.state is CaptureState.UPLOADED]
        async with p.db.read() as conn:
            merged = await profiles.merged_of(conn, ACCOUNT, [session.session_id])
        if now.state is SessionState.READY:
            found = merged[session.session_id]
            assert list(found.captures) == taken
            profile = codec.decode(await p.blobs.get(found.blob, found.sha256))
            assert total(profile, 0) == sum(story.samples[n] for n in taken)
            assert (now.message == "") == (len(taken) == now.isolates)
        else:
            assert merged == {}
            if now.state is SessionState.FAILED:
                assert taken == []
        assert (now.state is SessionState.CANCELLED) <= (last is not None)


async def whole(p: Plane, session_id: str) -> object:
    session = await p.session(session_id)
    async with p.db.read() as conn:
        entries = await history.of_session(conn, ACCOUNT, session_id)
    return session.state, session.due, await p.captures(session_id), entries
