"""A version whose captures keep failing is left alone, said so, and tried again after a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contract.faults import Fault, Reason
from contract.messages import CaptureState
from control_plane.session import SessionState
from control_plane.store import sessions
from tests.integration.planes import VERSION, plane, report, sighting, told

if TYPE_CHECKING:
    from control_plane.store.sessions import Session
    from tests.integration.planes import Plane

OTHER_VERSION = "22222222-2222-4222-8222-222222222222"


async def tried(p: Plane, version: str = VERSION) -> Session:
    """Ask for a session and let dispatch decide."""
    session = await p.admit(version=version)
    await p.turn()
    return await p.session(session.session_id)


async def broken(p: Plane, times: int) -> None:
    """Have so many captures fail, each of a session of its own."""
    for _ in range(times):
        p.agents.answers = [Fault(Reason.RUNTIME_START_FAILED, "no profiler today")]
        assert (await tried(p)).reason is Reason.RUNTIME_START_FAILED


async def both_run(p: Plane) -> None:
    here = sighting(), sighting(version_id=OTHER_VERSION)
    await p.intake.sightings(report(sightings=here))


async def later(p: Plane, seconds: int) -> None:
    await p.execute(f"UPDATE captures SET ended_at = ended_at - interval '{seconds} s'")


async def test_a_version_whose_captures_fail_is_left_alone(database_url: str) -> None:
    async with plane(database_url, breaker_failures=3) as p:
        await both_run(p)
        await broken(p, 3)
        asked = len(p.agents.orders)
        suspended = await tried(p)
        assert (suspended.state, suspended.reason) == (
            SessionState.FAILED,
            Reason.VERSION_SUSPENDED,
        )
        assert "3 of the last 3 captures" in suspended.message
        assert "runtime_start_failed" in suspended.message
        assert suspended.retry_after_s is not None
        assert 55 < suspended.retry_after_s <= 60
        assert len(p.agents.orders) == asked
        # Another version of the same Worker, on the same metal, is captured as ever.
        assert (await tried(p, version=OTHER_VERSION)).state is SessionState.CAPTURING


async def test_one_is_tried_after_the_pause_and_its_end_decides(database_url: str) -> None:
    async with plane(database_url, breaker_failures=3) as p:
        await both_run(p)
        await broken(p, 3)
        await later(p, 61)
        probe = await tried(p)
        assert probe.state is SessionState.CAPTURING
        assert (await tried(p)).reason is Reason.VERSION_SUSPENDED
        # It fails: the pause begins anew.
        (capture,) = await p.captures(probe.session_id)
        await p.intake.captured(
            told(capture, CaptureState.FAILED, reason=Reason.TARGET_EXITED, message="gone")
        )
        await p.turn()
        assert (await tried(p)).reason is Reason.VERSION_SUSPENDED
        # Long after, the failures count no more.
        await later(p, 600)
        assert (await tried(p)).state is SessionState.CAPTURING


async def test_failures_that_are_nobodys_fault_count_for_nothing(database_url: str) -> None:
    async with plane(database_url, breaker_failures=3) as p:
        await both_run(p)
        for reason in (Reason.NOT_LOADED, Reason.ISOLATES_BUSY, Reason.ACTOR_INACTIVE) * 2:
            p.agents.answers = [Fault(reason, "not now")]
            assert (await tried(p)).reason is not Reason.VERSION_SUSPENDED
        assert (await tried(p)).state is SessionState.CAPTURING


async def test_a_session_that_was_tried_is_told_why_its_own_captures_failed(
    database_url: str,
) -> None:
    async with plane(database_url, breaker_failures=2, max_attempts=5) as p:
        for number in range(4):
            await p.intake.sightings(report(number, sightings=(sighting(),)))
        p.agents.answers = [Fault(Reason.RUNTIME_START_FAILED, f"{n}") for n in range(5)]
        session = await p.admit()
        for _ in range(4):
            await p.turn()
        ended = await p.session(session.session_id)
        assert (ended.state, ended.reason) == (SessionState.FAILED, Reason.RUNTIME_START_FAILED)
        assert ended.captures == 2


async def test_a_claim_counts_the_failures_of_its_own_version_alone(database_url: str) -> None:
    async with plane(database_url) as p:
        await both_run(p)
        await broken(p, 3)
        counted = {}
        for version in (VERSION, OTHER_VERSION):
            session = await p.admit(version=version)
            async with p.db.begin() as conn:
                taken = await sessions.claim(conn, "r1", lease_ms=60_000, within_ms=600_000)
            assert taken is not None
            assert taken.session.session_id == session.session_id
            counted[version] = taken.failed_lately
        assert counted == {VERSION: 3, OTHER_VERSION: 0}
