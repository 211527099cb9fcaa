"""What time alone decides."""

from __future__ import annotations

from contract.faults import Reason
from contract.messages import CaptureState
from control_plane.session import SessionState
from tests.integration.planes import manifest, plane, profile_bytes, report, told

AGO = "now() - interval '1 s'"


async def test_a_session_past_its_deadline_expires_and_its_agent_is_told(
    database_url: str,
) -> None:
    async with plane(database_url) as p:
        session, capture = await p.sampling()
        queued = await p.admit()
        await p.execute(f"UPDATE sessions SET deadline_at = {AGO}")
        for _ in range(2):
            await p.sweep.turn()
        for each in (queued, session):
            now = await p.session(each.session_id)
            assert (now.state, now.reason) == (SessionState.EXPIRED, Reason.DEADLINE_PASSED)
        await p.turn()
        assert [(k, d) for _, k, d in p.agents.stops if k == capture.key] == [(capture.key, True)]
        assert (await p.captures(session.session_id))[0].state is CaptureState.LOST


async def test_a_capture_unheard_of_is_lost_and_another_metal_is_tried(
    database_url: str,
) -> None:
    async with plane(database_url, metals=2) as p:
        session, capture = await p.sampling()
        await p.execute("UPDATE captures SET heard_at = now() - interval '21 s'")
        await p.sweep.turn()
        await p.turn()
        first, second = await p.captures(session.session_id)
        assert (first.state, first.reason) == (CaptureState.LOST, Reason.CAPTURE_LOST)
        assert second.state is CaptureState.SAMPLING
        assert second.metal_id != capture.metal_id
        assert (await p.session(session.session_id)).state is SessionState.CAPTURING


async def test_a_capture_heard_of_within_its_lease_goes_on(database_url: str) -> None:
    async with plane(database_url) as p:
        session, capture = await p.sampling()
        await p.execute("UPDATE captures SET heard_at = now() - interval '19 s'")
        await p.sweep.turn()
        await p.execute("UPDATE captures SET heard_at = now() - interval '30 s'")
        number = 1 if capture.metal_id == "m1" else 2
        await p.intake.sightings(
            report(number, snapshot=False, sightings=(), captures=(capture.key,))
        )
        await p.sweep.turn()
        assert (await p.captures(session.session_id))[0].live


async def test_a_stop_nobody_took_comes_again_and_ends_after_a_while(database_url: str) -> None:
    async with plane(database_url) as p:
        session, capture = await p.sampling()
        await p.execute(
            "UPDATE captures SET stop = 'discard', stop_due_at = now(), "
            "ends_at = now() - interval '61 s'"
        )

        class Deaf(type(p.agents)):  # type: ignore[misc]
            async def stop_capture(self, *args: object, **kwargs: object) -> object:
                raise TimeoutError

        dispatch = p.dispatch(agents=Deaf())
        await p.turn(dispatch)
        async with p.db.read() as conn:
            rows = await conn.exec_driver_sql(
                "SELECT count(*) FROM captures WHERE stop_due_at > 'epoch'"
            )
            assert rows.scalar_one() == 0
        assert (await p.captures(session.session_id))[0].live
        assert capture.live


async def test_an_isolate_given_to_another_capture_is_free_of_the_first(database_url: str) -> None:
    """The first one's profile may be on its way, and is no less its session's."""
    async with plane(database_url) as p:
        first, capture = await p.sampling()
        await p.execute("UPDATE sightings SET isolates = 2, free_isolates = 2")
        second = await p.admit()
        await p.dispatch()._order()
        (other,) = await p.captures(second.session_id)
        await p.intake.captured(told(other, CaptureState.SAMPLING, isolate_id=capture.isolate_id))
        (capture,) = await p.captures(first.session_id)
        assert capture.live
        assert capture.freed_at is not None
        assert (await p.captures(second.session_id))[0].state is CaptureState.SAMPLING
        data = profile_bytes()
        upload = await p.intake.open_upload(manifest(capture, data))
        await upload.write(0, data)
        await upload.finish()
        assert (await p.session(first.session_id)).state is SessionState.READY
        assert (await p.session(second.session_id)).state is SessionState.CAPTURING


async def test_old_sightings_are_forgotten(database_url: str) -> None:
    async with plane(database_url) as p:
        await p.intake.sightings(report(sightings=()))
        await p.execute("UPDATE sightings SET ran_at = now() - interval '2 h'")
        await p.sweep.turn()
        async with p.db.read() as conn:
            rows = await conn.exec_driver_sql("SELECT count(*) FROM sightings")
            assert rows.scalar_one() == 0
