"""Whatever happens in whatever order, what must always be true is true after every step.

Events come from a seed: those of one control plane's steps on a real database, with agents that
accept, refuse, are silent, report twice, upload late, and clocks that run out.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

from contract.faults import Fault, Reason
from contract.messages import CaptureState
from control_plane import admission
from control_plane.session import LIVE_STATES, SessionState
from tests.integration.planes import (
    ACCOUNT,
    Plane,
    manifest,
    metal,
    plane,
    profile_bytes,
    report,
    sighting,
    told,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from control_plane.store.captures import Capture

RANK = {SessionState.QUEUED: 0, SessionState.CAPTURING: 1, SessionState.FINISHING: 2}
REFUSALS = (Reason.ISOLATES_BUSY, Reason.NOT_LOADED, Reason.AGENT_UNREACHABLE)
FAILURES = (Reason.TARGET_EXITED, Reason.INSPECTOR_LOST, Reason.RUNTIME_UNSUPPORTED)
STEPS = 60
SEEDS = range(6)
DATA = profile_bytes()


class Scene:
    """One plane, the events that may happen on it, and what has been promised so far."""

    def __init__(self, p: Plane, rng: random.Random) -> None:
        self.p = p
        self.rng = rng
        self.sessions: list[str] = []
        self.seen: dict[str, SessionState] = {}
        self.kept: set[str] = set()
        self.replicas = [p.dispatch("r1"), p.dispatch("r2")]

    async def step(self) -> str:
        """Let one thing happen; its name."""
        events: list[tuple[int, Callable[[], Awaitable[object]]]] = [
            (4, self.admit),
            (6, self.turn),
            (3, self.say),
            (4, self.upload),
            (2, self.cancel),
            (2, self.lapse),
            (2, self.p.sweep.turn),
            (1, self.restart),
        ]
        weights = [weight for weight, _ in events]
        (event,) = self.rng.choices([event for _, event in events], weights)
        # A refusal is an answer; what it must not do is leave something behind.
        with suppress(Fault):
            await event()
        return event.__name__

    async def admit(self) -> None:
        isolates = self.rng.choice((1, 1, 3))
        self.sessions.append((await self.p.admit(isolates=isolates)).session_id)

    async def turn(self) -> None:
        for _ in range(self.rng.randrange(3)):
            reason = self.rng.choice(REFUSALS)
            self.p.agents.answers.append(Fault(reason, "scripted", retry_after_s=1.0))
        await asyncio.gather(*(replica.turn() for replica in self.replicas))
        await asyncio.gather(*(replica.finished() for replica in self.replicas))
        self.p.agents.answers.clear()

    async def say(self) -> None:
        for capture in await self.some():
            state = self.rng.choice((CaptureState.SAMPLING, CaptureState.FAILED))
            reason = self.rng.choice(FAILURES) if state is CaptureState.FAILED else None
            said = told(capture, state, sampled_ms=self.rng.randrange(1000), reason=reason)
            for _ in range(self.rng.randrange(1, 3)):
                await self.p.intake.captured(said)

    async def upload(self) -> None:
        for capture in await self.some():
            for _ in range(self.rng.randrange(1, 3)):
                upload = await self.p.intake.open_upload(manifest(capture, DATA))
                await upload.write(upload.offset, DATA[upload.offset :])
                await upload.finish()
                self.kept.add(capture.session_id)

    async def cancel(self) -> None:
        if self.sessions:
            session_id = self.rng.choice(self.sessions)
            discard = self.rng.random() < 0.5
            await admission.cancel(self.p.db, ACCOUNT, session_id, discard=discard)

    async def lapse(self) -> None:
        what = self.rng.choice(
            (
                "UPDATE sessions SET lease_until = now() - interval '1 s' "
                "WHERE lease_until IS NOT NULL",
                "UPDATE captures SET heard_at = now() - interval '60 s' WHERE session_id = :id",
                "UPDATE sessions SET deadline_at = now() - interval '1 s' WHERE session_id = :id",
                "UPDATE captures SET stop_due_at = now() WHERE stop_due_at IS NOT NULL",
            )
        )
        if ":id" not in what:
            await self.p.execute(what)
        elif self.sessions:
            await self.p.execute(what, id=self.rng.choice(self.sessions))

    async def restart(self) -> None:
        number = self.rng.randrange(1, 4)
        epoch = self.rng.randrange(2, 5)
        await self.p.intake.sightings(fleet_report(number, epoch))

    async def some(self) -> list[Capture]:
        """A few captures that were ordered, whatever became of them."""
        if not self.sessions:
            return []
        found = await self.p.captures(self.rng.choice(self.sessions))
        ordered = {order.key for _, order in self.p.agents.orders}
        return [one for one in found if one.key in ordered and one.isolate_id is not None][:2]

    async def check(self, after: str) -> None:
        """Never backwards (I5), never two on one isolate (I2), each end once (I1)."""
        for session_id in self.sessions:
            state = (await self.p.session(session_id)).state
            before = self.seen.get(session_id, SessionState.QUEUED)
            if before in LIVE_STATES:
                assert state not in LIVE_STATES or RANK[state] >= RANK[before], after
            else:
                assert state is before, after
            self.seen[session_id] = state
        async with self.p.db.read() as conn:
            live = await conn.execute(
                text(
                    "SELECT metal_id, isolate_id FROM captures "
                    "WHERE ended_at IS NULL AND isolate_id IS NOT NULL"
                )
            )
            ends = await conn.execute(
                text(
                    "SELECT session_id FROM history WHERE capture IS NULL AND state_after IN "
                    "('ready', 'failed', 'cancelled', 'expired') AND state_before IS NOT NULL "
                    "AND state_before <> state_after"
                )
            )
            assert max(Counter(map(tuple, live)).values(), default=1) == 1, after
            over = Counter(ends.scalars().all())
        assert max(over.values(), default=1) == 1, after
        ended = {one for one, state in self.seen.items() if state not in LIVE_STATES}
        assert set(over) == ended, after

    async def finish(self) -> None:
        """Time passes: everything comes to its one end, and no accepted upload is lost (I1, I4)."""
        await self.p.execute("UPDATE sessions SET deadline_at = now() - interval '1 h'")
        for _ in range(5):
            await self.p.sweep.turn()
            await self.p.turn(self.replicas[0])
            await self.p.execute("UPDATE captures SET ordered_at = now() - interval '1 h'")
        for session_id in self.sessions:
            assert (await self.p.session(session_id)).state not in LIVE_STATES
        assert not [c for s in self.sessions for c in await self.p.captures(s) if c.live]
        async with self.p.db.read() as conn:
            stored = await conn.execute(text("SELECT DISTINCT session_id FROM profiles"))
            assert self.kept <= set(stored.scalars().all())


def fleet_report(number: int, epoch: int = 1) -> Any:
    many = sighting(isolates=50, free_isolates=50)
    return report(number, metal=metal(number, epoch=epoch, max_captures=50), sightings=(many,))


@pytest.mark.parametrize("seed", SEEDS)
async def test_any_order_of_events_keeps_what_must_be_true(database_url: str, seed: int) -> None:
    async with plane(database_url, metals=3) as p:
        for number in (1, 2, 3):
            await p.intake.sightings(fleet_report(number))
        scene = Scene(p, random.Random(seed))
        for number in range(STEPS):
            name = await scene.step()
            await scene.check(f"seed {seed}, step {number}: {name}")
        await scene.finish()
        await scene.check(f"seed {seed}, the end")
