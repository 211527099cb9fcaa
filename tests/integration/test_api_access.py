"""Every route for every kind of caller that may not use it; and what an account may not learn."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web
from sqlalchemy import text

from control_plane.api import app as api
from control_plane.api import auth, edge
from control_plane.blobs import Blobs
from control_plane.credentials import TokenKind, compose
from control_plane.settings import Settings
from control_plane.store.accounts import Permission
from control_plane.store.database import Database
from control_plane.store.notices import Notices
from tests.integration.edge_scene import Scene, edge_scene
from tests.integration.planes import (
    ACCOUNT,
    OTHER_ACCOUNT,
    VERSION,
    WORKER,
    account_token,
    operator_token,
    parts_of,
    sighting,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

# The dashboard's files hold nothing of any account.
FILES = {"/", "/{account}", "/{account}/{view}", "/mark.svg", "/assets/{name}"}
SPEEDSCOPE = {"/speedscope", "/speedscope/", "/speedscope/{name}"}
OPEN = {"/healthz", "/readyz", "/problems/{reason}"} | FILES | SPEEDSCOPE
SECOND = "11111111-2222-4222-8222-222222222222"


@pytest.fixture
async def scene(database_url: str) -> AsyncIterator[Scene]:
    async with edge_scene(database_url) as made:
        yield made


def routes(app: web.Application) -> list[tuple[str, str]]:
    """Every route of the account API: method and pattern."""
    found = []
    for route in app.router.routes():
        assert route.resource is not None
        pattern = route.resource.canonical
        if pattern not in OPEN and route.method != "HEAD":
            found.append((route.method, pattern))
    return found


def filled(pattern: str) -> str:
    """A route's path, its places filled with what exists."""
    return pattern.format(
        account_id=ACCOUNT,
        worker=WORKER,
        version=VERSION,
        session_id=uuid.uuid4(),
        capture=1,
        base_id=uuid.uuid4(),
        namespace_id="c" * 32,
    )


async def test_every_route_has_its_rule(scene: Scene) -> None:
    assert sorted(routes(scene.app)) == sorted(auth.NEEDS)


async def test_every_route_refuses_strangers(scene: Scene) -> None:
    expired = await account_token(scene.db, ACCOUNT, lifetime=timedelta(microseconds=1))
    revoked = await account_token(scene.db, ACCOUNT, name="revoked")
    async with scene.db.begin() as conn:
        await conn.execute(text("UPDATE tokens SET revoked_at = now() WHERE name = 'revoked'"))
    operator = await operator_token(scene.db)
    before = await rows(scene)
    for method, pattern in routes(scene.app):
        path = filled(pattern)
        unknown = compose(TokenKind.ACCOUNT, bytes(32))
        for token in ("", "isop_" + "x" * 43, "x" * 600, unknown, expired, revoked):
            answer = await scene.call(method, path, token=token)
            assert answer.error == (401, 10000, "Authentication error"), (method, path)
        needs = auth.NEEDS[method, pattern]
        lacking = await account_token(scene.db, ACCOUNT, permissions=frozenset(Permission) - needs)
        for token in (scene.other_token, operator, lacking):
            status, code, message = (await scene.call(method, path, token=token)).error
            assert (status, code) == (403, 9109), (method, path)
            assert any(permission.value in message for permission in needs)
    assert scene.metal.orders.empty()
    assert await rows(scene) == before


async def rows(scene: Scene) -> list[int]:
    """How many there are of what a request could make."""
    tables = ("sessions", "captures", "workers", "versions", "accounts")
    async with scene.db.read() as conn:
        return [await conn.scalar(text(f"SELECT count(*) FROM {name}")) or 0 for name in tables]


async def test_one_of_the_permissions_is_enough(scene: Scene) -> None:
    for permission in Permission:
        token = await account_token(scene.db, ACCOUNT, permissions=frozenset({permission}))
        listed = await scene.call("GET", "workers/workers", token=token)
        assert listed.status == (403 if permission is Permission.PROFILING else 200)
        assert (await scene.call("GET", "profile-sessions", token=token)).status == 200


async def test_no_account_is_told_from_another_one(scene: Scene) -> None:
    known = await scene.call("GET", "workers/workers", account=OTHER_ACCOUNT)
    unknown = await scene.call("GET", "workers/workers", account="0" * 32)
    odd = await scene.call("GET", "workers/workers", account="%00")
    assert known.error == unknown.error == odd.error
    assert known.status == 403


async def test_only_bearer_is_a_scheme(scene: Scene) -> None:
    for value, status in [
        (f"bearer {scene.token}", 200),
        (f"Basic {scene.token}", 401),
        (scene.token, 401),
        ("Bearer", 401),
        ("Bearer  ", 401),
    ]:
        answer = await scene.call(
            "GET", "workers/workers", token="", headers={"Authorization": value}
        )
        assert answer.status == status, value


async def test_another_accounts_session_is_one_that_never_was(scene: Scene) -> None:
    made = await scene.call(
        "POST", "profile-sessions", json={"worker": "replacer", "duration_ms": 1000}
    )
    theirs = made.body["result"]["id"]
    for method, below in [("GET", ""), ("GET", "/profile"), ("POST", "/stop"), ("DELETE", "")]:
        answers = [
            await scene.call(
                method,
                f"profile-sessions/{session_id}{below}",
                account=OTHER_ACCOUNT,
                token=scene.other_token,
            )
            for session_id in (theirs, str(uuid.uuid4()), "x", "%00")
        ]
        assert {answer.error[:2] for answer in answers} == {(404, 10402)}
        assert len({answer.data for answer in answers}) == 1
    await scene.session_until(theirs, "ready")


async def test_workers_and_versions_that_are_not_there(scene: Scene) -> None:
    rows = [
        ("replacer-2", "latest", 404, 10007),
        ("0" * 32, "latest", 404, 10007),
        (WORKER, str(uuid.uuid4()), 404, 10391),
        (WORKER, "99999999", 404, 10391),
    ]
    for worker, version, status, code in rows:
        assert (await scene.profile(worker, version)).error[:2] == (status, code)
        asked = {"worker": worker, "version": version, "duration_ms": 1000}
        answer = await scene.call("POST", "profile-sessions", json=asked)
        assert answer.error[:2] == (status, code)
    # Theirs, by its right name: as if it were not.
    foreign = await scene.call(
        "GET", "workers/workers/replacer", account=OTHER_ACCOUNT, token=scene.other_token
    )
    assert foreign.error == (404, 10007, "This Worker does not exist on your account.")


async def test_prefix_of_two_versions_lists_them(scene: Scene) -> None:
    await scene.metal.sight(sighting(), sighting(version_id=SECOND))
    status, code, message = (await scene.profile(version="11111111")).error
    assert (status, code) == (400, 10392)
    assert VERSION in message
    assert SECOND in message


async def test_store_away_is_503_with_retry_after(tmp_path: Path) -> None:
    nowhere = "postgresql://u@127.0.0.1:1/none"
    async with Database.open(nowhere) as db:
        parts = parts_of(db, Notices(db), Blobs.in_directory(tmp_path), Settings())
        runner = edge.make_runner(api.make_app(parts, drain_s=0), drain_s=0)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            base = f"http://127.0.0.1:{runner.addresses[0][1]}"
            # One that could be a token: what can't be one is refused without asking.
            sent = {"Authorization": f"Bearer {compose(TokenKind.ACCOUNT, bytes(32))}"}
            async with aiohttp.ClientSession(headers=sent) as http:
                for path in (f"/client/v4/accounts/{ACCOUNT}/workers/workers", "/readyz"):
                    async with http.get(base + path) as answer:
                        body = await answer.json()
                        assert answer.status == 503
                        assert body["errors"][0]["code"] == 10500
                        assert int(answer.headers["Retry-After"]) >= 1
                async with http.get(base + "/healthz") as answer:
                    assert answer.status == 200
        finally:
            await runner.cleanup()
