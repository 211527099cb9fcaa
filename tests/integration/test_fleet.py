"""Sessions of several isolates: ordered together, followed up apart, merged at the end."""

from __future__ import annotations

import asyncio
import hashlib
import signal
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from contract.faults import Fault, Reason
from contract.messages import CaptureState
from control_plane import admission, isolates
from control_plane.session import SessionState
from control_plane.store import captures as store_captures
from control_plane.store import profiles
from pprof import codec
from pprof.model import ALLOC_TYPES, SPACE_PERIOD, Profile, total
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
    from control_plane.isolates import Tally
    from control_plane.store.captures import Capture
    from control_plane.store.profiles import MergedProfile


async def fleet(p: Plane, metals: int = 3, *, isolates: int = 4, max_captures: int = 8) -> None:
    for number in range(1, metals + 1):
        seen = sighting(isolates=isolates, free_isolates=isolates, executions=number * 10)
        at = metal(number, max_captures=max_captures)
        await p.intake.sightings(report(number, metal=at, sightings=(seen,)))


async def upload(p: Plane, capture: Capture, samples: int = 1, name: str = "hot") -> None:
    data = profile_bytes(name, samples)
    opened = await p.intake.open_upload(manifest(capture, data, samples=samples))
    await opened.write(opened.offset, data[opened.offset :])
    await opened.finish()


async def begun(p: Plane, count: int, **asked: object) -> tuple[str, tuple[Capture, ...]]:
    session = await p.admit(isolates=count, **asked)
    await p.turn()
    return session.session_id, await p.captures(session.session_id)


async def counted(p: Plane, session_id: str) -> Tally:
    return isolates.tally(await p.session(session_id), await p.captures(session_id))


async def merged(p: Plane, session_id: str) -> tuple[MergedProfile, Profile]:
    async with p.db.read() as conn:
        found = (await profiles.merged_of(conn, ACCOUNT, [session_id]))[session_id]
    return found, codec.decode(await p.blobs.get(found.blob, found.sha256))


def labels(profile: Profile, key: str) -> Counter[str]:
    sums: Counter[str] = Counter()
    for sample in profile.samples:
        sums.update({one.text: sample.values[0] for one in sample.labels if one.key == key})
    return sums


async def test_parts_are_ordered_together_and_merged_when_all_are_here(database_url: str) -> None:
    async with plane(database_url) as p:
        await fleet(p)
        session_id, captures = await begun(p, 6)
        assert [(c.part, c.capture, c.state) for c in captures] == [
            (n, n, CaptureState.SAMPLING) for n in range(1, 7)
        ]
        assert sorted(Counter(c.metal_id for c in captures).values()) == [1, 2, 3]
        assert sorted(Counter(c.datacenter for c in captures).values()) == [3, 3]
        assert len({(c.metal_id, c.isolate_id) for c in captures}) == 6
        now = await p.session(session_id)
        assert (now.state, now.captures, now.due) == (SessionState.CAPTURING, 6, False)
        for samples, capture in enumerate(captures[:-1], 1):
            await upload(p, capture, samples)
        await p.turn()
        assert (await p.session(session_id)).state is SessionState.CAPTURING
        assert await counted(p, session_id) == isolates.Tally(
            asked=6, taken=5, live=1, waiting=0, lost=0
        )
        await upload(p, captures[-1], 100)
        with p.notices.watch(session_id) as watch:
            await p.turn()
            assert await watch.wait(5)
        now = await p.session(session_id)
        assert (now.state, now.message, now.reason) == (SessionState.READY, "", None)
        kept, profile = await merged(p, session_id)
        assert (kept.captures, kept.samples) == ((1, 2, 3, 4, 5, 6), 115)
        assert (total(profile, 0), total(profile, 1)) == (115, 115_000_000)
        assert labels(profile, "isolate") == {
            capture.isolate_id: n for n, capture in zip((1, 2, 3, 4, 5, 100), captures, strict=True)
        }
        assert set(labels(profile, "metal")) == {"m1", "m2", "m3"}
        assert set(labels(profile, "datacenter")) == {"dc0", "dc1"}
        assert "isolates_asked=6" in profile.comments
        events = [event for capture, event in await p.events(session_id) if capture is None]
        assert events == ["admitted", "accepted", "sampled", "stored"]


async def test_fewer_isolates_than_asked_for_are_taken_and_it_is_said(database_url: str) -> None:
    async with plane(database_url) as p:
        await fleet(p, 2, isolates=2)
        session_id, captures = await begun(p, 9)
        assert len(captures) == 4
        now = await counted(p, session_id)
        assert (now.live, now.lost, now.reasons) == (4, 5, {Reason.NOT_LOADED: 5})
        for capture in captures:
            await upload(p, capture)
        await p.turn()
        session = await p.session(session_id)
        assert session.state is SessionState.READY
        assert session.message == "4 of 9 isolates were captured (not_loaded: 5)."
        assert "4 of 9 isolates could be asked (metals turned away: used_up: 2)" in (
            session.fewer_message
        )
        assert len(await p.captures(session_id)) == 4


async def test_what_others_hold_is_told_apart(database_url: str) -> None:
    async with plane(database_url) as p:
        await fleet(p, 1, isolates=3)
        await begun(p, 1)
        session_id, captures = await begun(p, 3)
        assert len(captures) == 2
        assert (await counted(p, session_id)).reasons == {Reason.ISOLATES_BUSY: 1}


async def test_nothing_at_all_fails_as_for_one_isolate(database_url: str) -> None:
    async with plane(database_url) as p:
        await fleet(p, 1, isolates=1)
        await begun(p, 1)
        session_id, captures = await begun(p, 3)
        session = await p.session(session_id)
        assert captures == ()
        assert (session.state, session.reason) == (SessionState.FAILED, Reason.ISOLATES_BUSY)
        assert session.retry_after_s is not None
        assert (await counted(p, session_id)).reasons == {Reason.ISOLATES_BUSY: 3}


async def test_only_in_the_datacenters_asked_for(database_url: str) -> None:
    async with plane(database_url) as p:
        await fleet(p, 4)
        session_id, captures = await begun(p, 3, datacenters=("dc0",))
        assert {c.datacenter for c in captures} == {"dc0"}
        assert (await p.session(session_id)).datacenters == ("dc0",)
        for capture in captures:
            await upload(p, capture)
        with pytest.raises(Fault) as unknown:
            await p.admit(datacenters=("dc0", "dc9", "dc8"))
        assert [field.pointer for field in unknown.value.fields] == [
            "/datacenters/1",
            "/datacenters/2",
        ]
        await p.execute("UPDATE sightings SET ran_at = NULL WHERE metal_id IN ('m2', 'm4')")
        session_id, captures = await begun(p, 1, datacenters=("dc0",))
        session = await p.session(session_id)
        assert (captures, session.reason) == ((), Reason.NO_RECENT_EXECUTION)
        assert "in dc0" in session.message


async def test_a_part_that_is_refused_or_fails_goes_elsewhere(database_url: str) -> None:
    async with plane(database_url) as p:
        await fleet(p, 4, isolates=1)
        p.agents.answers = [Fault(Reason.NOT_LOADED, "evicted")]
        session_id, captures = await begun(p, 2)
        assert [(c.part, c.state) for c in captures] == [
            (1, CaptureState.REFUSED),
            (2, CaptureState.SAMPLING),
            (1, CaptureState.SAMPLING),
        ]
        assert len({c.metal_id for c in captures}) == 3
        second = captures[1]
        failure = told(second, CaptureState.FAILED, reason=Reason.TARGET_EXITED, message="gone")
        await p.intake.captured(failure)
        assert (await counted(p, session_id)).waiting == 1
        await p.turn()
        captures = await p.captures(session_id)
        assert (captures[-1].part, len({c.metal_id for c in captures})) == (2, 4)
        for capture in captures[2:]:
            await upload(p, capture)
        await p.turn()
        assert (await p.session(session_id)).state is SessionState.READY
        assert (await counted(p, session_id)).taken == 2


async def test_an_isolate_that_failed_is_followed_by_another_on_the_same_metal(
    database_url: str,
) -> None:
    async with plane(database_url) as p:
        await fleet(p, 1, isolates=3)
        session_id, captures = await begun(p, 2)
        failure = told(captures[0], CaptureState.FAILED, reason=Reason.RUNTIME_TIMEOUT)
        await p.intake.captured(failure)
        await p.turn()
        third = (await p.captures(session_id))[2]
        assert (third.part, third.state) == (1, CaptureState.SAMPLING)
        # Now every isolate was in the session: another failure is not followed.
        await p.intake.captured(told(third, CaptureState.FAILED, reason=Reason.RUNTIME_TIMEOUT))
        await p.turn()
        now = await counted(p, session_id)
        assert (now.live, now.waiting, now.lost) == (1, 0, 1)
        assert now.reasons == {Reason.RUNTIME_TIMEOUT: 1}
        await upload(p, captures[1])
        await p.turn()
        session = await p.session(session_id)
        assert session.state is SessionState.READY
        assert session.message == "1 of 2 isolates were captured (runtime_timeout: 1)."


async def test_an_agent_at_capacity_refuses_with_a_reason_that_is_kept(database_url: str) -> None:
    async with plane(database_url) as p:
        await fleet(p, 1, isolates=3)
        full = Fault(Reason.ISOLATES_BUSY, "This metal takes no more captures.", retry_after_s=3)
        p.agents.answers = [full, full]
        session_id, captures = await begun(p, 3)
        assert [c.state for c in captures].count(CaptureState.REFUSED) == 2
        now = await counted(p, session_id)
        assert (now.live, now.lost, now.reasons) == (1, 2, {Reason.ISOLATES_BUSY: 2})
        (live,) = [c for c in captures if c.live]
        await upload(p, live)
        await p.turn()
        assert (await p.session(session_id)).state is SessionState.READY


async def test_it_fails_only_when_all_failed_for_the_commonest_reason(database_url: str) -> None:
    async with plane(database_url) as p:
        await fleet(p, 3, isolates=1)
        p.agents.answers = [
            Fault(Reason.RUNTIME_START_FAILED, "no"),
            Fault(Reason.NOT_LOADED, "evicted"),
            Fault(Reason.NOT_LOADED, "evicted too"),
        ]
        session_id, _ = await begun(p, 3)
        session = await p.session(session_id)
        assert (session.state, session.reason) == (SessionState.FAILED, Reason.NOT_LOADED)
        assert session.message.startswith(
            "0 of 3 isolates were captured (not_loaded: 2, runtime_start_failed: 1)."
        )
        now = await counted(p, session_id)
        assert (now.taken, now.lost) == (0, 3)


async def test_stop_keeps_what_all_have_and_orders_no_more(database_url: str) -> None:
    async with plane(database_url) as p:
        await fleet(p)
        session_id, captures = await begun(p, 4)
        await upload(p, captures[0], 7)
        await p.intake.captured(told(captures[1], CaptureState.FAILED, reason=Reason.TARGET_EXITED))
        await admission.cancel(p.db, ACCOUNT, session_id, discard=False)
        for capture in captures[2:]:
            p.agents.reports[capture.key] = told(
                capture, CaptureState.STOPPED, sampled_ms=400, reason=Reason.CAPTURE_STOPPED
            )
        await p.turn()
        assert {(key.capture, discard) for _, key, discard in p.agents.stops} == {
            (3, False),
            (4, False),
        }
        await upload(p, captures[2], 2)
        await upload(p, captures[3], 1)
        await p.turn()
        session = await p.session(session_id)
        assert (session.state, len(p.agents.orders)) == (SessionState.READY, 4)
        assert session.message == "3 of 4 isolates were captured (target_exited: 1)."
        _, profile = await merged(p, session_id)
        assert total(profile, 0) == 10


async def test_stopped_when_nothing_is_live_it_is_merged_at_once(database_url: str) -> None:
    async with plane(database_url) as p:
        await fleet(p, 2, isolates=1)
        session_id, captures = await begun(p, 2)
        await upload(p, captures[0])
        failed = told(captures[1], CaptureState.FAILED, reason=Reason.TARGET_EXITED)
        await p.intake.captured(failed)
        await fleet(p, 4, isolates=1)
        await admission.cancel(p.db, ACCOUNT, session_id, discard=False)
        await p.turn()
        assert (await p.session(session_id)).state is SessionState.READY
        assert len(await p.captures(session_id)) == 2


async def test_discarded_it_frees_every_isolate_and_is_not_merged(database_url: str) -> None:
    async with plane(database_url) as p:
        await fleet(p)
        session_id, captures = await begun(p, 4)
        await upload(p, captures[0])
        await admission.cancel(p.db, ACCOUNT, session_id, discard=True)
        await p.turn()
        assert {(key.capture, discard) for _, key, discard in p.agents.stops} == {
            (2, True),
            (3, True),
            (4, True),
        }
        assert not any(c.live for c in await p.captures(session_id))
        assert (await p.session(session_id)).state is SessionState.CANCELLED
        async with p.db.read() as conn:
            assert await profiles.merged_of(conn, ACCOUNT, [session_id]) == {}


async def test_a_late_part_is_attached_and_changes_nothing(database_url: str) -> None:
    async with plane(database_url) as p:
        await fleet(p, 2, isolates=1)
        session_id, captures = await begun(p, 2)
        await p.execute("UPDATE captures SET heard_at = now() - interval '21 s' WHERE capture = 2")
        await p.sweep.turn()
        await p.turn()
        await upload(p, captures[0])
        await p.turn()
        before = await p.session(session_id)
        assert before.state is SessionState.READY
        await upload(p, captures[1], 50)
        await p.turn()
        now = await p.session(session_id)
        assert (now.state, now.message) == (before.state, before.message)
        assert now.message == "1 of 2 isolates were captured (capture_lost: 1)."
        async with p.db.read() as conn:
            stored = await profiles.of_session(conn, ACCOUNT, session_id)
        assert [(one.capture, one.late) for one in stored] == [(1, False), (2, True)]
        _, profile = await merged(p, session_id)
        assert total(profile, 0) == 1


async def test_at_its_deadline_what_there_is_is_merged(database_url: str) -> None:
    async with plane(database_url) as p:
        await fleet(p)
        session_id, captures = await begun(p, 3)
        await upload(p, captures[0], 5)
        await p.execute("UPDATE sessions SET deadline_at = now() - interval '1 s'")
        for _ in range(2):
            await p.sweep.turn()
        assert (await p.session(session_id)).live
        await p.turn()
        session = await p.session(session_id)
        assert session.state is SessionState.READY
        assert session.message == "1 of 3 isolates were captured (deadline_passed: 2)."
        assert {discard for _, _, discard in p.agents.stops} == {True}


async def test_nothing_by_its_deadline_or_never_merged_expires(database_url: str) -> None:
    async with plane(database_url) as p:
        await fleet(p)
        nothing, _ = await begun(p, 3)
        await p.execute("UPDATE sessions SET deadline_at = now() - interval '1 s'")
        await p.sweep.turn()
        assert (await p.session(nothing)).state is SessionState.EXPIRED
        await p.turn()
        never, captures = await begun(p, 1 + 1)
        for capture in captures:
            await upload(p, capture)
        await p.execute(
            "UPDATE sessions SET deadline_at = now() - interval '121 s' WHERE ended_at IS NULL"
        )
        await p.sweep.turn()
        session = await p.session(never)
        assert (session.state, session.reason) == (SessionState.EXPIRED, Reason.DEADLINE_PASSED)


async def test_a_replica_that_died_before_sending_some_orders_is_followed(
    database_url: str,
) -> None:
    async with plane(database_url) as p:
        await fleet(p)
        session = await p.admit(isolates=5)
        dead = p.dispatch("dead")
        _, step = await dead._order()
        assert len(step.orders) == len(await p.captures(session.session_id)) == 5
        for ordered in step.orders[:2]:
            await dead._start(ordered)
            capture = (await p.captures(session.session_id))[ordered.capture.capture - 1]
            p.agents.reports[capture.key] = told(capture, CaptureState.SAMPLING)
        await p.turn()
        assert len(p.agents.orders) == 2  # the lease holds
        await p.execute("UPDATE sessions SET lease_until = now() - interval '1 s'")
        await p.turn()
        assert sorted(order.key.capture for _, order in p.agents.orders) == [1, 2, 3, 4, 5]
        assert {c.state for c in await p.captures(session.session_id)} == {CaptureState.SAMPLING}
        assert not (await p.session(session.session_id)).due


async def test_captures_of_a_session_are_written_all_or_none(database_url: str) -> None:
    """Whatever the moment: killed while it writes 64 captures, it has written none."""
    async with plane(database_url) as p:
        await fleet(p, 8, isolates=8)
        session = await p.admit(isolates=64)

        written = store_captures.add

        async def die(*asked: Any) -> None:
            await written(*asked)
            raise asyncio.CancelledError

        dispatch = p.dispatch()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("control_plane.store.captures.add", die)
            with pytest.raises(asyncio.CancelledError):
                await dispatch._order()
        assert await p.captures(session.session_id) == ()
        await p.turn()
        assert len({c.part for c in await p.captures(session.session_id)}) == 64
        assert len(p.agents.orders) == 64


async def test_a_replica_that_dies_while_it_merges_is_followed(database_url: str) -> None:
    async with plane(database_url) as p:
        await fleet(p)
        session_id, captures = await begun(p, 2)
        for capture in captures:
            await upload(p, capture)
        _, step = await p.dispatch("dead")._order()
        assert step.merge is not None
        assert (await p.session(session_id)).state is SessionState.FINISHING
        await p.turn()
        assert (await p.session(session_id)).live
        await p.execute("UPDATE sessions SET lease_until = now() - interval '1 s'")
        await p.turn()
        assert (await p.session(session_id)).state is SessionState.READY


async def test_two_replicas_that_merge_the_same_keep_it_once(database_url: str) -> None:
    async with plane(database_url) as p:
        await fleet(p)
        session_id, captures = await begun(p, 3)
        for capture in captures:
            await upload(p, capture)
        replicas = [p.dispatch("r1"), p.dispatch("r2")]
        _, step = await replicas[0]._order()
        assert step.merge is not None
        await asyncio.gather(*(r._merging.merge(step.merge) for r in replicas))
        assert (await p.session(session_id)).state is SessionState.READY
        found, profile = await merged(p, session_id)
        assert (found.captures, total(profile, 0)) == ((1, 2, 3), 3)


async def test_cancelled_while_it_is_merged_nothing_is_left(database_url: str) -> None:
    async with plane(database_url) as p:
        await fleet(p)
        session_id, captures = await begun(p, 2)
        for capture in captures:
            await upload(p, capture)
        dispatch = p.dispatch()
        _, step = await dispatch._order()
        assert step.merge is not None
        await admission.cancel(p.db, ACCOUNT, session_id, discard=True)
        await dispatch._merging.merge(step.merge)
        assert (await p.session(session_id)).state is SessionState.CANCELLED
        assert all("merged" not in key for key in await p.blob_keys())


async def test_a_blob_store_that_fails_never_makes_it_ready(database_url: str) -> None:
    async with plane(database_url) as p:
        await fleet(p)
        session_id, captures = await begun(p, 2)
        for capture in captures:
            await upload(p, capture)

        async def down(*_: object) -> None:
            raise Fault(Reason.STORE_UNAVAILABLE, "full")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(p.blobs, "put", down)
            await p.turn()
        assert (await p.session(session_id)).state is SessionState.FINISHING
        await p.execute("UPDATE sessions SET lease_until = now() - interval '1 s'")
        await p.turn()
        assert (await p.session(session_id)).state is SessionState.READY
        found, _ = await merged(p, session_id)
        data = await p.blobs.get(found.blob, found.sha256)
        assert hashlib.sha256(data).hexdigest() == found.sha256


async def test_a_merge_whose_process_dies_is_done_again(database_url: str) -> None:
    async with plane(database_url) as p:
        await fleet(p)
        session_id, captures = await begun(p, 2)
        for capture in captures:
            await upload(p, capture)
        with pytest.MonkeyPatch.context() as patch:
            # Says something else, and ends.
            patch.setattr("control_plane.merging._PROCESS", "platform")
            await p.turn()
        assert (await p.session(session_id)).state is SessionState.FINISHING
        await p.execute("UPDATE sessions SET lease_until = now() - interval '1 s'")
        await p.turn()
        assert (await p.session(session_id)).state is SessionState.READY


async def test_what_has_no_sum_fails_by_name(database_url: str) -> None:
    async with plane(database_url) as p:
        await fleet(p)
        session_id, captures = await begun(p, 2)
        await upload(p, captures[0])
        other = codec.decode(profile_bytes())
        data = codec.encode(replace(other, sample_types=ALLOC_TYPES, period_type=SPACE_PERIOD))
        opened = await p.intake.open_upload(manifest(captures[1], data))
        await opened.write(0, data)
        await opened.finish()
        await p.turn()
        session = await p.session(session_id)
        assert (session.state, session.reason) == (SessionState.FAILED, Reason.PROFILE_INVALID)
        assert "can't be merged: the profiles count different things" in session.message


async def test_a_lease_that_is_lost_ends_the_merge(database_url: str) -> None:
    async with plane(database_url, lease_ms=300) as p:
        await fleet(p)
        session_id, captures = await begun(p, 2)
        for capture in captures:
            await upload(p, capture)
        dispatch = p.dispatch("slow")
        _, step = await dispatch._order()
        assert step.merge is not None
        await p.execute("UPDATE sessions SET lease_owner = 'another'")

        async def never(*_: object) -> None:
            await asyncio.Event().wait()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dispatch._merging, "_gathered", never)
            await dispatch._merging.merge(step.merge)
        assert (await p.session(session_id)).state is SessionState.FINISHING


@pytest.mark.parametrize("statement", [1, 2, 3, 4, 5, "commit", "committed"])
async def test_killed_while_64_captures_are_made_there_are_none_or_64(
    database_url: str, statement: int | str
) -> None:
    async with plane(database_url) as p:
        await fleet(p, 8, isolates=8)
        session = await p.admit(isolates=64)
        killed = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.integration.killed_dispatch"),
            *(database_url, str(statement)),
            cwd=Path(__file__).parents[2],
        )
        assert await killed.wait() == -signal.SIGKILL
        made = await p.captures(session.session_id)
        assert len(made) == (64 if statement == "committed" else 0)
        await p.execute("UPDATE sessions SET lease_until = now() - interval '1 s'")
        await p.turn()
        captures = await p.captures(session.session_id)
        assert [c.part for c in captures] == list(range(1, 65))
        assert {c.state for c in captures} == {CaptureState.SAMPLING}
        assert sorted(o.key.capture for _, o in p.agents.orders) == list(range(1, 65))
