"""Idempotency-Key: one request, however often it is sent, to whichever replica."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

from contract.faults import Fault, Reason
from control_plane import admission
from control_plane.store.idempotency import Key
from tests.integration.edge_scene import Answer, Scene, edge_scene
from tests.integration.planes import ACCOUNT, OTHER_ACCOUNT, plane, sighting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ASKED = {"worker": "replacer", "duration_ms": 1000}
KEY = "order-4711:first"


@pytest.fixture
async def scene(database_url: str) -> AsyncIterator[Scene]:
    async with edge_scene(database_url) as made:
        yield made


async def ask(scene: Scene, key: str = KEY, **more: Any) -> Answer:
    sent: dict[str, Any] = {"json": ASKED} | more
    return await scene.call("POST", "profile-sessions", headers={"Idempotency-Key": key}, **sent)


async def count(scene: Scene) -> int:
    async with scene.db.read() as conn:
        found = await conn.execute(text("SELECT count(*) FROM sessions"))
        return int(found.scalar_one())


async def test_the_same_again_is_the_same_session(scene: Scene) -> None:
    first = await ask(scene)
    assert first.status == 202
    assert "idempotent-replayed" not in first.headers
    made = first.body["result"]["id"]
    await scene.session_until(made, "ready")
    again = await ask(scene)
    assert again.status == 202
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["location"] == first.headers["location"]
    # How it stands now, not how it stood then.
    assert (again.body["result"]["id"], again.body["result"]["state"]) == (made, "ready")
    assert len(again.body["result"]["captures"]) == 1
    assert await count(scene) == 1
    assert (await ask(scene, "another")).body["result"]["id"] != made


async def test_bodies_are_compared_by_what_they_say(scene: Scene) -> None:
    made = (await ask(scene)).body["result"]["id"]
    spaced = await ask(scene, json=None, data=b'{ "duration_ms":1000,\n "worker" : "replacer" }')
    assert spaced.body["result"]["id"] == made
    other = await ask(scene, json=ASKED | {"duration_ms": 1001})
    assert other.error[:2] == (409, 10412)
    assert other.headers["x-should-retry"] == "false"
    assert await count(scene) == 1


async def test_duplicates_at_once_on_two_replicas_make_one_session(scene: Scene) -> None:
    async with scene.replica() as second:
        for turn in range(10):
            key = f"turn-{turn}"
            answers = await asyncio.gather(*(ask(one, key) for one in (scene, second) * 4))
            assert {answer.status for answer in answers} == {202}
            assert len({answer.body["result"]["id"] for answer in answers}) == 1
            assert sum("idempotent-replayed" in answer.headers for answer in answers) == 7
    assert await count(scene) == 10


async def test_a_refused_request_uses_up_no_key(scene: Scene) -> None:
    later = {"worker": "later", "duration_ms": 1000}
    version = "22222222-2222-4222-8222-222222222222"
    other = {"worker_id": "2" * 32, "worker_name": "later", "version_id": version}
    assert (await ask(scene, json=later)).error[:2] == (404, 10007)
    assert (await ask(scene, json={"worker": "later"})).error[:2] == (400, 10021)
    await scene.metal.sight(sighting(), sighting(**other))
    assert (await ask(scene, json=later)).status == 202


async def test_a_key_is_its_accounts_own(scene: Scene) -> None:
    await ask(scene)
    theirs = sighting(account_id=OTHER_ACCOUNT, worker_id="2" * 32)
    await scene.metal.sight(sighting(), theirs)
    answer = await scene.call(
        "POST",
        "profile-sessions",
        account=OTHER_ACCOUNT,
        token=scene.other_token,
        json=ASKED | {"duration_ms": 2000},
        headers={"Idempotency-Key": KEY},
    )
    assert answer.status == 202
    assert "idempotent-replayed" not in answer.headers


@pytest.mark.parametrize("key", ["", " ", "a b", "a" * 256, "schl\u00fcssel", "tab\there"])
async def test_a_key_of_another_shape_is_named(scene: Scene, key: str) -> None:
    answer = await ask(scene, key)
    assert answer.error[:2] == (400, 10021)
    assert answer.pointers == ["header/Idempotency-Key"]
    assert "255" in answer.error[2]
    assert (await ask(scene, "a" * 255)).status == 202


async def test_a_repeated_request_is_answered_whatever_changed_since(scene: Scene) -> None:
    made = (await ask(scene)).body["result"]["id"]
    async with scene.db.begin() as conn:
        await conn.execute(text("UPDATE accounts SET profiling_enabled = false"))
    assert (await ask(scene)).body["result"]["id"] == made
    assert (await ask(scene, "new")).error[:2] == (403, 10390)


async def test_a_reply_that_was_lost(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit was made, its answer cut off, twice: the caller is told 503 and asks again."""
    made = admission._admit
    cuts = [1, 2]

    async def cut(*args: Any) -> Any:
        session = await made(*args)
        if cuts:
            cuts.pop()
            raise Fault(Reason.STORE_UNAVAILABLE, "cut", retry_after_s=0)
        return session

    monkeypatch.setattr(admission, "_admit", cut)
    assert (await ask(scene)).error[:2] == (503, 10500)
    again = await ask(scene)
    assert again.status == 202
    assert again.headers["idempotent-replayed"] == "true"
    assert await count(scene) == 1


async def test_a_key_is_forgotten_after_its_time(database_url: str) -> None:
    async with plane(database_url) as p:
        key = Key(text=KEY, body=b"one")
        request = admission.ProfileRequest(worker="replacer", duration_ms=1000)
        made = [f"{n}" * 32 for n in range(3)]
        for number, session_id in enumerate(made):
            session = await admission.admit(p.db, ACCOUNT, request, session_id, p.settings, key=key)
            # Used again as soon as it counts no more, whether or not it was swept by then.
            assert session.session_id == session_id
            await p.execute("UPDATE idempotency_keys SET expires_at = now() - interval '1 s'")
            if number == 1:
                await p.sweep.turn()
                async with p.db.read() as conn:
                    left = await conn.execute(text("SELECT count(*) FROM idempotency_keys"))
                    assert left.scalar_one() == 0
        fresh = Key(text="fresh", body=b"one")
        await admission.admit(p.db, ACCOUNT, request, "f" * 32, p.settings, key=fresh)
        for _ in range(61):
            await p.sweep.turn()
        async with p.db.read() as conn:
            left = await conn.execute(text("SELECT key FROM idempotency_keys"))
            assert left.scalars().all() == ["fresh"]
