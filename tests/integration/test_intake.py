"""What agents send: taken in once however often it comes, and only from where it may come."""

from __future__ import annotations

import hashlib

import pytest

from contract.faults import Fault, Reason
from contract.messages import CaptureState, Receipt
from control_plane import admission
from control_plane.session import SessionState
from control_plane.store import profiles, workers
from tests.integration.planes import (
    ACCOUNT,
    VERSION,
    WORKER,
    Plane,
    manifest,
    metal,
    plane,
    profile_bytes,
    report,
    sighting,
    told,
)


async def send(p: Plane, capture: object, data: bytes, **changes: object) -> Receipt:
    upload = await p.intake.open_upload(manifest(capture, data, **changes))  # type: ignore[arg-type]
    await upload.write(upload.offset, data[upload.offset :])
    return await upload.finish()


async def stored(p: Plane, session_id: str) -> tuple[profiles.StoredProfile, ...]:
    async with p.db.read() as conn:
        return await profiles.of_session(conn, ACCOUNT, session_id)


async def test_a_profile_makes_its_session_ready(database_url: str) -> None:
    async with plane(database_url) as p:
        session, capture = await p.sampling()
        data = profile_bytes()
        with p.notices.watch(session.session_id) as watch:
            assert await send(p, capture, data) == Receipt(key=capture.key, size_bytes=len(data))
            assert await watch.wait(5)
        now = await p.session(session.session_id)
        assert (now.state, now.reason) == (SessionState.READY, None)
        assert now.ended_at is not None
        (profile,) = await stored(p, session.session_id)
        assert (profile.metal_id, profile.datacenter, profile.version_id) == ("m1", "dc1", VERSION)
        assert await p.blobs.get(profile.blob, hashlib.sha256(data).hexdigest()) == data
        assert [e for _, e in await p.events(session.session_id)][-3:] == [
            "sampled",
            "stored",
            "stored",
        ]


async def test_an_upload_sent_twice_is_answered_twice_and_kept_once(database_url: str) -> None:
    async with plane(database_url) as p:
        session, capture = await p.sampling()
        data = profile_bytes()
        first = await send(p, capture, data)
        entries = await p.events(session.session_id)
        assert await send(p, capture, data) == first
        assert await p.intake.kept_bytes(capture.key, hashlib.sha256(data).hexdigest()) == len(data)
        assert await p.events(session.session_id) == entries
        assert len(await stored(p, session.session_id)) == 1
        with pytest.raises(Fault) as other:
            await send(p, capture, profile_bytes("other"))
        assert other.value.reason is Reason.CAPTURE_STOPPED


async def test_an_upload_goes_on_where_it_was_cut(database_url: str) -> None:
    async with plane(database_url) as p:
        session, capture = await p.sampling()
        data = profile_bytes()
        digest = hashlib.sha256(data).hexdigest()
        cut = await p.intake.open_upload(manifest(capture, data))
        await cut.write(0, data[:10])
        assert await p.intake.kept_bytes(capture.key, digest) == 10
        again = await p.intake.open_upload(manifest(capture, data))
        assert again.offset == 10
        with pytest.raises(Fault) as stale:
            await cut.write(10, data[10:])
        assert stale.value.reason is Reason.CAPTURE_STOPPED
        with pytest.raises(Fault, match="goes on at 10"):
            await again.write(11, data[11:])
        await again.write(5, data[5:20])
        with pytest.raises(Fault, match="ended at 20"):
            await again.finish()
        await again.write(20, data[20:])
        await again.finish()
        assert (await p.session(session.session_id)).state is SessionState.READY


async def test_bytes_that_are_not_those_announced(database_url: str) -> None:
    async with plane(database_url) as p:
        session, capture = await p.sampling()
        data = profile_bytes()
        with pytest.raises(Fault) as wrong:
            await send(p, capture, data, sha256="0" * 64)
        assert wrong.value.reason is Reason.PROFILE_INVALID
        with pytest.raises(Fault, match="longer"):
            await send(p, capture, data, size_bytes=len(data) - 1)
        for size in (0, 64 * 1024 * 1024 + 1):
            with pytest.raises(Fault) as sized:
                await send(p, capture, data, size_bytes=size)
            assert sized.value.reason is Reason.PROFILE_TOO_LARGE
        assert await stored(p, session.session_id) == ()
        await send(p, capture, data)
        assert (await p.session(session.session_id)).state is SessionState.READY


async def test_what_is_no_profile_fails_the_capture_which_goes_elsewhere(
    database_url: str,
) -> None:
    async with plane(database_url, metals=2) as p:
        session, capture = await p.sampling()
        with pytest.raises(Fault) as refused:
            await send(p, capture, b"\x0a\xff no profile")
        assert refused.value.reason is Reason.PROFILE_INVALID
        await p.turn()
        first, second = await p.captures(session.session_id)
        assert (first.state, first.reason) == (CaptureState.FAILED, Reason.PROFILE_INVALID)
        assert second.live
        # Sampling was over once already: what a caller sees does not go back.
        assert (await p.session(session.session_id)).state is SessionState.FINISHING


async def test_only_the_capture_s_own_metal_and_isolate_may_bring_its_profile(
    database_url: str,
) -> None:
    async with plane(database_url, metals=2) as p:
        session, capture = await p.sampling()
        other = "m2" if capture.metal_id == "m1" else "m1"
        for changes, reason in (
            ({"metal_id": other}, Reason.PEER_FORBIDDEN),
            ({"isolate_id": "wd1/other"}, Reason.CAPTURE_UNKNOWN),
        ):
            with pytest.raises(Fault) as refused:
                await send(p, capture, profile_bytes(), **changes)
            assert refused.value.reason is reason
        with pytest.raises(Fault) as reported:
            await p.intake.captured(told(capture, CaptureState.FAILED, metal_id=other))
        assert reported.value.reason is Reason.PEER_FORBIDDEN
        sha256 = hashlib.sha256(profile_bytes()).hexdigest()
        with pytest.raises(Fault) as asked:
            await p.intake.kept_bytes(capture.key, sha256, metal_id=other)
        assert asked.value.reason is Reason.PEER_FORBIDDEN
        assert (await p.captures(session.session_id))[0].live
        # Written down once, however often it is tried.
        assert (await p.events(session.session_id)).count((1, "impostor")) == 1


async def test_an_old_upload_played_again_changes_nothing(database_url: str) -> None:
    async with plane(database_url) as p:
        session, capture = await p.sampling()
        await send(p, capture, profile_bytes())
        for other in (profile_bytes("cold"), profile_bytes() + b"\x00"):
            with pytest.raises(Fault) as refused:
                await send(p, capture, other)
            assert refused.value.reason is Reason.CAPTURE_STOPPED
        # The very same again is what a cut reply makes an agent do.
        await send(p, capture, profile_bytes())
        (kept,) = await stored(p, session.session_id)
        assert kept.sha256 == hashlib.sha256(profile_bytes()).hexdigest()


@pytest.mark.parametrize("state", [CaptureState.FAILED, CaptureState.REFUSED, CaptureState.STOPPED])
async def test_a_capture_that_ended_brings_no_profile(
    database_url: str, state: CaptureState
) -> None:
    async with plane(database_url) as p:
        session, capture = await p.sampling()
        await p.intake.captured(told(capture, state, reason=Reason.TARGET_EXITED))
        with pytest.raises(Fault) as refused:
            await send(p, capture, profile_bytes())
        assert refused.value.reason is Reason.CAPTURE_STOPPED
        assert await stored(p, session.session_id) == ()


async def test_reports_are_idempotent_and_late_ones_change_nothing(database_url: str) -> None:
    async with plane(database_url) as p:
        session, capture = await p.sampling()
        failed = told(capture, CaptureState.FAILED, reason=Reason.TARGET_EXITED, message="gone")
        for _ in range(3):
            await p.intake.captured(failed)
            await p.intake.captured(told(capture, CaptureState.SAMPLING, sampled_ms=1))
        (now,) = await p.captures(session.session_id)
        assert (now.state, now.reason) == (CaptureState.FAILED, Reason.TARGET_EXITED)
        await p.turn()
        await p.intake.captured(failed)
        ended = await p.session(session.session_id)
        assert (ended.state, ended.reason) == (SessionState.FAILED, Reason.TARGET_EXITED)
        events = await p.events(session.session_id)
        assert events.count((1, "failed")) == 1
        assert events.count((None, "gave_up")) == 1


async def test_progress_is_kept_and_the_end_of_sampling_is_told(database_url: str) -> None:
    async with plane(database_url) as p:
        session, capture = await p.sampling()
        for sampled_ms in (300, 200):
            await p.intake.captured(told(capture, CaptureState.SAMPLING, sampled_ms=sampled_ms))
        assert (await p.captures(session.session_id))[0].sampled_ms == 300
        await p.intake.captured(told(capture, CaptureState.SAMPLING, sampled_ms=1000))
        assert (await p.session(session.session_id)).state is SessionState.FINISHING


async def test_an_upload_that_overtakes_the_word_of_its_acceptance(database_url: str) -> None:
    async with plane(database_url) as p:
        session = await p.admit()
        await p.dispatch()._order()
        (capture,) = await p.captures(session.session_id)
        assert capture.state is CaptureState.ORDERED
        await send(p, capture, profile_bytes())
        now = await p.session(session.session_id)
        assert (now.state, now.captures) == (SessionState.READY, 1)
        await p.turn()
        assert p.agents.orders == []


async def test_a_late_profile_is_attached_and_changes_no_state(database_url: str) -> None:
    async with plane(database_url) as p:
        session, capture = await p.sampling()
        await p.execute("UPDATE captures SET heard_at = now() - interval '21 s'")
        await p.sweep.turn()
        await p.turn()
        lost = await p.session(session.session_id)
        assert (lost.state, lost.reason) == (SessionState.FAILED, Reason.CAPTURE_LOST)
        reply = await p.intake.sightings(report(captures=(capture.key,)))
        assert reply.stop == ()
        await send(p, capture, profile_bytes())
        assert (await p.session(session.session_id)).state is SessionState.FAILED
        assert (await p.captures(session.session_id))[0].state is CaptureState.LOST
        assert len(await stored(p, session.session_id)) == 1
        assert (await p.events(session.session_id))[-1] == (1, "attached")


async def test_a_cancelled_session_wants_no_profile(database_url: str) -> None:
    async with plane(database_url) as p:
        session, capture = await p.sampling()
        await admission.cancel(p.db, ACCOUNT, session.session_id, discard=True)
        with pytest.raises(Fault) as refused:
            await send(p, capture, profile_bytes())
        assert refused.value.reason is Reason.SESSION_CANCELLED
        reply = await p.intake.sightings(report(captures=(capture.key,)))
        assert reply.stop == (capture.key,)


async def test_stopping_early_keeps_what_was_sampled(database_url: str) -> None:
    async with plane(database_url) as p:
        session, capture = await p.sampling()
        await admission.cancel(p.db, ACCOUNT, session.session_id, discard=False)
        p.agents.reports[capture.key] = told(capture, CaptureState.STOPPED, sampled_ms=400)
        await p.turn()
        assert (await p.session(session.session_id)).state is SessionState.FINISHING
        await send(p, capture, profile_bytes(), window_ms=400)
        assert (await p.session(session.session_id)).state is SessionState.READY
        (profile,) = await stored(p, session.session_id)
        assert profile.window_ms == 400


async def test_all_unfinished_uploads_together_are_bounded(database_url: str) -> None:
    async with plane(database_url, upload_memory_bytes=20) as p:
        _, capture = await p.sampling()
        data = profile_bytes()
        upload = await p.intake.open_upload(manifest(capture, data))
        await upload.write(0, data[:15])
        with pytest.raises(Fault) as full:
            await upload.write(15, data[15:])
        assert full.value.reason is Reason.STORE_UNAVAILABLE
        assert upload.offset == 15


async def test_a_blob_store_that_keeps_other_bytes_makes_nothing_ready(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with plane(database_url) as p:
        session, capture = await p.sampling()
        data = profile_bytes()

        async def forgets(_key: str, _data: bytes) -> None:
            raise Fault(Reason.STORE_UNAVAILABLE, "full")

        with monkeypatch.context() as patch:
            patch.setattr(p.blobs, "put", forgets)
            with pytest.raises(Fault):
                await send(p, capture, data)
        assert (await p.session(session.session_id)).state is SessionState.FINISHING
        assert await p.intake.kept_bytes(capture.key, hashlib.sha256(data).hexdigest()) == len(data)
        await send(p, capture, data)
        assert (await p.session(session.session_id)).state is SessionState.READY


async def test_an_agent_that_restarted_has_forgotten_its_captures(database_url: str) -> None:
    async with plane(database_url) as p:
        session, capture = await p.sampling()
        same = await p.intake.sightings(report(snapshot=False, sightings=()))
        assert not same.snapshot_wanted
        assert (await p.captures(session.session_id))[0].live
        later = await p.intake.sightings(report(metal=metal(epoch=2), snapshot=False, sightings=()))
        assert later.snapshot_wanted
        await p.turn()
        now = await p.session(session.session_id)
        assert (now.state, now.reason) == (SessionState.FAILED, Reason.AGENT_RESTARTED)
        with pytest.raises(Fault) as replaced:
            await p.intake.sightings(report())
        assert replaced.value.reason is Reason.REQUEST_INVALID
        assert capture.epoch == 1


async def test_a_restarted_agent_that_still_has_the_capture_keeps_it(database_url: str) -> None:
    async with plane(database_url) as p:
        session, capture = await p.sampling()
        await p.intake.sightings(report(metal=metal(epoch=2), captures=(capture.key,)))
        assert (await p.captures(session.session_id))[0].live


async def test_a_gateway_that_lost_its_picture_asks_for_it(database_url: str) -> None:
    delta = report(snapshot=False, sightings=())
    async with plane(database_url) as p:
        assert not (await p.intake.sightings(delta)).snapshot_wanted
        await p.execute("TRUNCATE sightings, metal_reports")
        assert (await p.intake.sightings(delta)).snapshot_wanted
        assert not (await p.intake.sightings(report())).snapshot_wanted
        assert not (await p.intake.sightings(delta)).snapshot_wanted


async def test_what_agents_see_first_registers_itself_for_known_accounts(
    database_url: str,
) -> None:
    stranger = sighting(account_id="9" * 32)
    twin = sighting(worker_id="2" * 32, version_id="33333333-3333-4333-8333-333333333333")
    async with plane(database_url) as p:
        for _ in range(2):
            await p.intake.sightings(report(sightings=(sighting(), stranger, twin)))
        async with p.db.read() as conn:
            found, total = await workers.page(conn, ACCOUNT, offset=0, limit=10)
            versions, count = await workers.versions_page(conn, ACCOUNT, WORKER, offset=0, limit=10)
            nobody, none = await workers.page(conn, "9" * 32, offset=0, limit=10)
        assert [w.name for w in found] == ["replacer", "replacer-22222222"]
        assert (total, count, none, nobody) == (2, 1, 0, ())
        assert [(v.version_id, v.number) for v in versions] == [(VERSION, 1)]


async def test_a_snapshot_unloads_what_it_does_not_name(database_url: str) -> None:
    async with plane(database_url) as p:
        await p.intake.sightings(report(sightings=()))
        session = await p.admit()
        await p.turn()
        assert (await p.session(session.session_id)).reason is Reason.NOT_LOADED
