"""Orders: to the right metal, exactly once, elsewhere when one fails; and what is told at last."""

from __future__ import annotations

import asyncio

import pytest

from contract.faults import Fault, Reason
from contract.messages import (
    Accepted,
    Actor,
    ActorSighting,
    CaptureState,
    NamespaceRef,
)
from control_plane import admission
from control_plane.session import SessionState
from tests.integration.planes import (
    ACCOUNT,
    OTHER_ACCOUNT,
    VERSION,
    WORKER,
    Plane,
    metal,
    plane,
    report,
    sighting,
    told,
)

NAMESPACE = "c" * 32
ACTOR = Actor(namespace_id=NAMESPACE, actor_id="d" * 64)


async def ended(p: Plane, **asked: object) -> tuple[SessionState, Reason | None, str]:
    session = await p.admit(**asked)
    await p.turn()
    now = await p.session(session.session_id)
    return now.state, now.reason, now.message


async def test_an_order_says_what_was_asked_for(database_url: str) -> None:
    async with plane(database_url) as p:
        session = await p.admit(duration_ms=2000, sampling_interval_us=500)
        await p.turn()
        ((address, order),) = p.agents.orders
        assert address == "10.0.0.1:1"
        assert (order.account_id, order.worker_id, order.version_id) == (ACCOUNT, WORKER, VERSION)
        assert (order.duration_ms, order.sampling_interval_us) == (2000, 500)
        assert 15_000 < order.deadline_ms <= 19_000
        now = await p.session(session.session_id)
        (capture,) = await p.captures(session.session_id)
        assert (now.state, now.captures) == (SessionState.CAPTURING, 1)
        assert capture.state is CaptureState.SAMPLING
        assert capture.isolate_id == f"wd1/{session.session_id}"
        assert await p.events(session.session_id) == [
            (None, "admitted"),
            (1, "ordered"),
            (1, "accepted"),
            (None, "accepted"),
        ]


async def test_two_replicas_race_and_each_session_is_ordered_once(database_url: str) -> None:
    async with plane(database_url, metals=3) as p:
        for number in (1, 2, 3):
            many = sighting(isolates=200, free_isolates=200)
            await p.intake.sightings(
                report(number, metal=metal(number, max_captures=500), sightings=(many,))
            )
        replicas = [p.dispatch("r1"), p.dispatch("r2")]
        sessions = []
        for _ in range(50):
            sessions.append((await p.admit()).session_id)
            await asyncio.gather(*(r.turn() for r in replicas))
        await asyncio.gather(*(r.finished() for r in replicas))
        ordered = [order.key for _, order in p.agents.orders]
        assert sorted(k.session_id for k in ordered) == sorted(sessions)
        assert {k.capture for k in ordered} == {1}


async def test_run_wakes_by_notice_and_ends_in_order(database_url: str) -> None:
    async with plane(database_url, dispatch_poll_ms=60_000) as p:
        running = asyncio.create_task(p.dispatch().run())
        session = await p.admit()
        with p.notices.watch(session.session_id) as watch:
            while (await p.session(session.session_id)).state is not SessionState.CAPTURING:
                assert await watch.wait(10)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_a_replica_that_died_after_its_order_is_followed(database_url: str) -> None:
    async with plane(database_url) as p:
        session = await p.admit()
        dead = p.dispatch("dead")
        _, step = await dead._order()
        assert len(step.orders) == 1
        (capture,) = await p.captures(session.session_id)
        await p.turn()
        assert p.agents.orders == []  # the lease holds
        await p.execute("UPDATE sessions SET lease_until = now() - interval '1 s'")
        await p.turn()
        assert p.agents.shown == [capture.key]
        assert [order.key for _, order in p.agents.orders] == [capture.key]
        assert (await p.session(session.session_id)).state is SessionState.CAPTURING


async def test_a_capture_the_dead_replica_had_started_is_not_started_twice(
    database_url: str,
) -> None:
    async with plane(database_url) as p:
        session = await p.admit()
        await p.dispatch("dead")._order()
        (capture,) = await p.captures(session.session_id)
        p.agents.reports[capture.key] = told(capture, CaptureState.SAMPLING, sampled_ms=400)
        await p.execute("UPDATE sessions SET lease_until = now() - interval '1 s'")
        await p.turn()
        assert p.agents.orders == []
        (now,) = await p.captures(session.session_id)
        assert (now.state, now.sampled_ms) == (CaptureState.SAMPLING, 400)


async def test_a_refused_order_goes_elsewhere_and_is_remembered(database_url: str) -> None:
    async with plane(database_url, metals=2) as p:
        p.agents.answers = [Fault(Reason.NOT_LOADED, "evicted")]
        session = await p.admit()
        await p.turn()
        first, second = await p.captures(session.session_id)
        assert (first.state, first.reason) == (CaptureState.REFUSED, Reason.NOT_LOADED)
        assert second.state is CaptureState.SAMPLING
        assert second.metal_id != first.metal_id
        assert (await p.session(session.session_id)).state is SessionState.CAPTURING


async def test_an_agent_that_does_not_answer_is_told_to_stop(database_url: str) -> None:
    async with plane(database_url, metals=2, order_timeout_ms=50) as p:

        async def never() -> object:
            return await asyncio.Event().wait()

        p.agents.answers = [never]  # type: ignore[list-item]
        session = await p.admit()
        await p.turn()
        first, second = await p.captures(session.session_id)
        assert (first.state, first.reason) == (CaptureState.LOST, Reason.AGENT_UNREACHABLE)
        assert second.state is CaptureState.SAMPLING
        assert p.agents.stops == [(first.address, first.key, True)]


async def test_giving_up_after_the_last_try_says_the_last_reason(database_url: str) -> None:
    async with plane(database_url, metals=4) as p:
        p.agents.answers = [Fault(Reason.RUNTIME_START_FAILED, f"no {n}") for n in range(9)]
        assert await ended(p) == (SessionState.FAILED, Reason.RUNTIME_START_FAILED, "no 2")
        assert len(p.agents.orders) == 3


async def test_what_would_fail_everywhere_is_not_tried_again(database_url: str) -> None:
    async with plane(database_url, metals=3) as p:
        p.agents.answers = [Fault(Reason.REQUEST_INVALID, "no such interval")]
        assert (await ended(p))[:2] == (SessionState.FAILED, Reason.REQUEST_INVALID)
        assert len(p.agents.orders) == 1


async def test_no_second_try_without_time_for_it(database_url: str) -> None:
    async with plane(database_url, metals=2) as p:
        session, capture = await p.sampling()
        await p.execute("UPDATE sessions SET deadline_at = now() + interval '2 s'")
        await p.intake.captured(
            told(capture, CaptureState.FAILED, reason=Reason.TARGET_EXITED, message="gone")
        )
        await p.turn()
        now = await p.session(session.session_id)
        assert (now.state, now.reason) == (SessionState.FAILED, Reason.TARGET_EXITED)


async def test_a_held_isolate_is_busy_until_its_capture_ends(database_url: str) -> None:
    async with plane(database_url) as p:
        await p.sampling()
        second = await p.admit()
        await p.turn()
        now = await p.session(second.session_id)
        assert (now.state, now.reason) == (SessionState.FAILED, Reason.ISOLATES_BUSY)
        assert now.retry_after_s is not None
        # What is left of its second, and of what it takes to open and close.
        assert 0 < now.retry_after_s <= 1.5


async def test_the_agents_own_word_on_when_it_is_free_is_kept(database_url: str) -> None:
    async with plane(database_url) as p:
        p.agents.answers = [Fault(Reason.ISOLATES_BUSY, "held", retry_after_s=7)]
        session = await p.admit()
        await p.turn()
        now = await p.session(session.session_id)
        assert now.reason is Reason.ISOLATES_BUSY
        assert now.retry_after_s is not None
        assert 0.5 <= now.retry_after_s <= 7


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        ({"idle_ms": 61_000}, Reason.NO_RECENT_EXECUTION),
        ({"idle_ms": None}, Reason.NO_RECENT_EXECUTION),
        ({"isolates": 0, "free_isolates": 0}, Reason.NOT_LOADED),
        ({"shared": True, "free_isolates": 0}, Reason.NOT_LOADED),
    ],
)
async def test_why_no_metal_is_asked(
    database_url: str, seen: dict[str, object], reason: Reason
) -> None:
    async with plane(database_url, metals=0) as p:
        await p.intake.sightings(report(sightings=(sighting(**seen),)))
        assert (await ended(p))[:2] == (SessionState.FAILED, reason)
        assert p.agents.orders == []


async def test_silence_and_drain_and_nothing_at_all(database_url: str) -> None:
    async with plane(database_url) as p:
        await p.execute("UPDATE metals SET draining = true")
        assert (await ended(p))[1] is Reason.DISPATCH_OFF
        await p.execute("UPDATE metals SET draining = false")
        await p.execute("UPDATE metal_reports SET reported_at = now() - interval '16 s'")
        assert (await ended(p))[1] is Reason.AGENT_UNREACHABLE
        await p.execute("DELETE FROM metal_reports")
        assert (await ended(p))[1] is Reason.AGENT_UNREACHABLE
        await p.execute("DELETE FROM sightings")
        assert (await ended(p))[1] is Reason.NO_RECENT_EXECUTION
        await p.execute("DELETE FROM metals")
        assert (await ended(p))[1] is Reason.DISPATCH_OFF


async def test_a_version_without_traffic_names_the_one_that_runs(database_url: str) -> None:
    new = "22222222-2222-4222-8222-222222222222"
    async with plane(database_url) as p:
        await p.intake.sightings(
            report(sightings=(sighting(), sighting(version_id=new, idle_ms=None)))
        )
        state, reason, message = await ended(p, version="latest")
        assert (state, reason) == (SessionState.FAILED, Reason.NO_RECENT_EXECUTION)
        assert new in message
        assert VERSION in message


async def test_another_accounts_sighting_of_the_version_is_not_used(database_url: str) -> None:
    async with plane(database_url) as p:
        await p.intake.sightings(report(1, sightings=()))
        await p.intake.sightings(report(2, sightings=(sighting(account_id=OTHER_ACCOUNT),)))
        assert (await ended(p))[1] is Reason.NOT_LOADED
        assert p.agents.orders == []


async def test_an_actor_is_captured_where_it_runs(database_url: str) -> None:
    owned = sighting(namespaces=(NamespaceRef(namespace_id=NAMESPACE, class_name="Counter"),))
    async with plane(database_url, metals=0) as p:
        for number in (1, 2, 3):
            await p.intake.sightings(report(number, sightings=(owned,)))
        assert (await ended(p, actor=ACTOR))[1] is Reason.ACTOR_INACTIVE
        seen = ActorSighting(
            actor=ACTOR, account_id=ACCOUNT, worker_id=WORKER, version_id=VERSION, idle_ms=9
        )
        await p.intake.sightings(report(2, snapshot=False, sightings=(), actors=(seen,)))
        assert (await ended(p, actor=ACTOR))[0] is SessionState.CAPTURING
        ((address, order),) = p.agents.orders
        assert (address, order.actor) == ("10.0.0.2:1", ACTOR)


async def test_a_session_cancelled_while_its_order_is_out(database_url: str) -> None:
    """The stop may overtake the order: it is sent again once the order was accepted."""
    async with plane(database_url) as p:
        session = await p.admit()
        (key, release) = (asyncio.Event(), asyncio.Event())

        async def slow() -> Accepted:
            key.set()
            await release.wait()
            order = p.agents.orders[0][1]
            return Accepted(key=order.key, isolate_id="wd1/x")

        p.agents.answers = [slow]
        dispatch = p.dispatch()
        await dispatch.turn()
        await key.wait()
        await admission.cancel(p.db, ACCOUNT, session.session_id, discard=True)
        await p.turn(p.dispatch("r2"))
        assert len(p.agents.stops) == 1
        release.set()
        await dispatch.finished()
        await p.turn()
        assert len(p.agents.stops) == 2
        (capture,) = await p.captures(session.session_id)
        assert not capture.live
        assert (await p.session(session.session_id)).state is SessionState.CANCELLED


async def test_a_session_stopped_before_its_order_is_accepted_ends_as_cancelled(
    database_url: str,
) -> None:
    async with plane(database_url, metals=2) as p:
        session = await p.admit()
        _, step = await p.dispatch()._order()
        assert len(step.orders) == 1
        await admission.cancel(p.db, ACCOUNT, session.session_id, discard=False)
        await p.turn()
        now = await p.session(session.session_id)
        assert (now.state, now.reason) == (SessionState.CANCELLED, Reason.SESSION_CANCELLED)
        assert p.agents.orders == []


async def test_an_order_sent_again_is_the_same_order(database_url: str) -> None:
    async with plane(database_url) as p:
        await p.admit()
        first = p.dispatch("dead")
        _, step = await first._order()
        (ordered,) = step.orders
        await p.execute("UPDATE sessions SET lease_until = now() - interval '1 s'")
        await p.turn()
        await first._start(ordered)
        (_, one), (_, two) = p.agents.orders
        assert one == two


async def test_a_crash_of_one_replica_between_many_leaves_nothing_undone(
    database_url: str,
) -> None:
    """Claims of a replica that dies at once, ten times, are all taken over."""
    async with plane(database_url) as p:
        many = sighting(isolates=50, free_isolates=50)
        await p.intake.sightings(report(metal=metal(max_captures=100), sightings=(many,)))
        made = [(await p.admit()).session_id for _ in range(10)]
        dying = p.dispatch("dying")
        for _ in made:
            await dying._order()
        await p.execute("UPDATE sessions SET lease_until = now() - interval '1 s'")
        await asyncio.gather(*(p.turn(p.dispatch(name)) for name in ("r1", "r2")))
        assert sorted(o.key.session_id for _, o in p.agents.orders) == sorted(made)
        states = {(await p.session(session_id)).state for session_id in made}
        assert states == {SessionState.CAPTURING}
