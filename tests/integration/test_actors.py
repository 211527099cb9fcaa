"""Durable Objects: by id and by name, where they run now, and after they moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from contract.faults import Fault, Reason
from contract.ids import actor_id_of
from contract.messages import Actor, ActorSighting, CaptureState, NamespaceRef, Sighting
from control_plane.admission import NamedActor
from control_plane.session import SessionState
from tests.integration.planes import (
    ACCOUNT,
    VERSION,
    WORKER,
    Plane,
    plane,
    report,
    sighting,
    told,
)

if TYPE_CHECKING:
    from control_plane.store.sessions import Session

NAMESPACE = "c" * 32
KEY = "counter-Counter"
ACTOR = Actor(namespace_id=NAMESPACE, actor_id=actor_id_of(KEY, "foo"))
NAMED = NamedActor(namespace_id=NAMESPACE, name="foo")
# A slow machine must not use up what is given to a session, or to an actor that moves.
UNHURRIED: dict[str, int] = {"metals": 0, "actor_follow_ms": 600_000, "session_slack_ms": 900_000}
GONE = Fault(Reason.ACTOR_INACTIVE, "The object did not run here lately.")


def serving(unique_key: str = KEY, **changes: Any) -> Sighting:
    ref = NamespaceRef(namespace_id=NAMESPACE, class_name="Counter", unique_key=unique_key)
    return sighting(namespaces=(ref,), **changes)


async def sighted(p: Plane, number: int, *, idle_ms: int = 0, **changes: Any) -> None:
    """The actor ran on a metal."""
    values: dict[str, Any] = {
        "actor": ACTOR,
        "account_id": ACCOUNT,
        "worker_id": WORKER,
        "version_id": VERSION,
        "idle_ms": idle_ms,
    }
    actors = (ActorSighting(**(values | changes)),)
    await p.intake.sightings(report(number, snapshot=False, sightings=(), actors=actors))


async def metals(p: Plane, *numbers: int, **changes: Any) -> None:
    for number in numbers:
        await p.intake.sightings(report(number, sightings=(serving(**changes),)))


async def again(p: Plane, session: Session) -> Session:
    """Let dispatch look again now, as it would in a moment."""
    await p.execute("UPDATE sessions SET order_due_at = now() WHERE order_due_at IS NOT NULL")
    await p.turn()
    return await p.session(session.session_id)


async def test_a_name_is_the_id_derived_from_the_namespaces_key(database_url: str) -> None:
    async with plane(database_url, **UNHURRIED) as p:
        await metals(p, 1)
        await sighted(p, 1)
        session = await p.admit(actor=NAMED)
        assert (session.actor, session.actor_name) == (ACTOR, "foo")
        await p.turn()
        assert p.agents.orders[0][1].actor == ACTOR
        assert (await p.session(session.session_id)).state is SessionState.CAPTURING
        other = await p.admit(actor=NamedActor(namespace_id=NAMESPACE, name="bar"))
        await p.turn()
        now = await p.session(other.session_id)
        assert (now.state, now.reason) == (SessionState.FAILED, Reason.ACTOR_INACTIVE)


async def test_a_name_without_the_key_is_refused_and_says_why(database_url: str) -> None:
    async with plane(database_url, **UNHURRIED) as p:
        await metals(p, 1, unique_key="")
        with pytest.raises(Fault) as refused:
            await p.admit(actor=NAMED)
        assert refused.value.reason is Reason.REQUEST_INVALID
        assert [field.pointer for field in refused.value.fields] == ["/actor_name"]
        assert "unique key" in refused.value.message
        assert (await p.admit(actor=ACTOR)).actor == ACTOR
        # The agent was given it and restarted: the same version, told with its key now.
        await metals(p, 1)
        assert (await p.admit(actor=NAMED)).actor == ACTOR
        # One that does not know it takes nothing back.
        await metals(p, 2, unique_key="")
        assert (await p.admit(actor=NAMED)).actor == ACTOR


@pytest.mark.parametrize("asked", [ACTOR, NAMED])
async def test_a_namespace_of_another_worker(database_url: str, asked: Actor | NamedActor) -> None:
    async with plane(database_url, **UNHURRIED) as p:
        await metals(p, 1)
        other = sighting(worker_id="2" * 32, worker_name="other", version_id=VERSION[:-1] + "2")
        await p.intake.sightings(report(1, sightings=(serving(), other)))
        with pytest.raises(Fault) as refused:
            await p.admit(worker="other", actor=asked)
        assert refused.value.reason is Reason.ACTOR_INACTIVE
        assert "does not belong to this Worker" in refused.value.message


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (None, "is not active"),
        ({"idle_ms": 61_000}, "is not active"),
        ({"version_id": VERSION[:-1] + "2"}, f"runs version {VERSION[:-1]}2, not {VERSION}"),
        ({"worker_id": "2" * 32}, "does not run this Worker"),
    ],
)
async def test_what_is_wrong_with_an_actor_is_said(
    database_url: str, seen: dict[str, Any] | None, said: str
) -> None:
    async with plane(database_url, **UNHURRIED) as p:
        await metals(p, 1)
        if seen is not None:
            await sighted(p, 1, **seen)
        session = await p.admit(actor=ACTOR)
        await p.turn()
        now = await p.session(session.session_id)
        assert (now.state, now.reason) == (SessionState.FAILED, Reason.ACTOR_INACTIVE)
        assert said in now.message
        assert p.agents.orders == []


async def test_the_newest_owner_is_asked_whatever_the_order_of_the_reports(
    database_url: str,
) -> None:
    async with plane(database_url, **UNHURRIED) as p:
        await metals(p, 1, 2, 3)
        await sighted(p, 2, idle_ms=50)
        await sighted(p, 3, idle_ms=9_000)
        await sighted(p, 1, idle_ms=20_000)
        await p.admit(actor=ACTOR)
        await p.turn()
        assert [address for address, _ in p.agents.orders] == ["10.0.0.2:1"]


@pytest.mark.parametrize("reason", [Reason.ACTOR_INACTIVE, Reason.NOT_LOADED])
async def test_an_actor_that_moved_is_followed_when_it_is_seen(
    database_url: str, reason: Reason
) -> None:
    async with plane(database_url, **UNHURRIED) as p:
        await metals(p, 1, 2)
        await sighted(p, 1, idle_ms=900)
        p.agents.answers = [Fault(reason, "gone")]
        session = await p.admit(actor=ACTOR)
        await p.turn()
        # Nothing is known of where it went: neither ordered again nor given up.
        for _ in range(3):
            assert (await again(p, session)).state is SessionState.QUEUED
        assert len(p.agents.orders) == 1
        await sighted(p, 2)
        assert (await again(p, session)).state is SessionState.CAPTURING
        assert [address for address, _ in p.agents.orders] == ["10.0.0.1:1", "10.0.0.2:1"]
        first, second = await p.captures(session.session_id)
        assert (first.state, first.reason) == (CaptureState.REFUSED, reason)
        assert second.state is CaptureState.SAMPLING


async def test_an_actor_known_elsewhere_by_then_is_followed_at_once(database_url: str) -> None:
    async with plane(database_url, **UNHURRIED) as p:
        await metals(p, 1, 2)
        await sighted(p, 1, idle_ms=900)

        async def moves() -> Any:
            await sighted(p, 2)
            raise GONE

        p.agents.answers = [moves]
        session = await p.admit(actor=ACTOR)
        await p.turn()
        assert (await p.session(session.session_id)).state is SessionState.CAPTURING
        assert [address for address, _ in p.agents.orders] == ["10.0.0.1:1", "10.0.0.2:1"]


async def test_an_actor_that_came_back_is_asked_for_there_again(database_url: str) -> None:
    async with plane(database_url, **UNHURRIED) as p:
        await metals(p, 1)
        await sighted(p, 1, idle_ms=900)
        session = await p.admit(actor=ACTOR)
        await p.turn()
        (capture,) = await p.captures(session.session_id)
        await p.intake.captured(
            told(capture, CaptureState.FAILED, reason=Reason.TARGET_EXITED, message="gone")
        )
        assert len(p.agents.orders) == 1
        await again(p, session)
        assert len(p.agents.orders) == 1
        await sighted(p, 1)
        assert (await again(p, session)).state is SessionState.CAPTURING
        assert len(p.agents.orders) == 2


async def test_following_is_bounded_in_time(database_url: str) -> None:
    async with plane(database_url, **UNHURRIED) as p:
        await metals(p, 1, 2)
        await sighted(p, 1, idle_ms=900)
        p.agents.answers = [Fault(Reason.NOT_LOADED, "No isolate of this version is loaded.")]
        session = await p.admit(actor=ACTOR)
        await p.turn()
        await p.execute("UPDATE captures SET ended_at = ended_at - interval '601 s'")
        await p.execute("UPDATE actor_sightings SET ran_at = ran_at - interval '602 s'")
        now = await again(p, session)
        assert (now.state, now.reason) == (SessionState.FAILED, Reason.ACTOR_INACTIVE)
        assert "not active where it ran last" in now.message


async def test_following_is_bounded_in_moves(database_url: str) -> None:
    async with plane(database_url, **UNHURRIED) as p:
        await metals(p, 1, 2, 3, 4)
        await sighted(p, 1, idle_ms=900)
        p.agents.answers = [GONE] * 9
        session = await p.admit(actor=ACTOR)
        await p.turn()
        for number in (2, 3, 4):
            await sighted(p, number)
            await again(p, session)
        now = await p.session(session.session_id)
        assert (now.state, now.reason) == (SessionState.FAILED, Reason.ACTOR_INACTIVE)
        assert len(p.agents.orders) == p.settings.max_attempts


async def test_a_held_isolate_of_an_actor_is_busy_at_once(database_url: str) -> None:
    async with plane(database_url, **UNHURRIED) as p:
        await metals(p, 1, 2)
        await sighted(p, 1)
        p.agents.answers = [Fault(Reason.ISOLATES_BUSY, "held", retry_after_s=9)]
        session = await p.admit(actor=ACTOR)
        await p.turn()
        now = await p.session(session.session_id)
        assert (now.state, now.reason) == (SessionState.FAILED, Reason.ISOLATES_BUSY)
        assert now.retry_after_s is not None
        assert 0.5 <= now.retry_after_s <= 9
