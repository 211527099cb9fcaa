"""The operators' listener, for everybody who is no operator; and what is known of them after."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from control_plane import access
from control_plane.access import REFUSALS_AT_ONCE, Refusals, TokenKeyWrong
from control_plane.admin.acting import OPEN
from control_plane.api.auth import READS
from control_plane.credentials import TokenKind, compose, keyed, plain_hash
from control_plane.store.accounts import Permission
from services import operators
from tests.integration.admin_scene import AdminScene, admin_scene
from tests.integration.planes import ACCOUNT, TOKEN_KEY, account_token, operator_token

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import web

TABLES = ("accounts", "tokens", "operator_tokens", "sessions", "metals", "switches")


@pytest.fixture
async def scene(database_url: str) -> AsyncIterator[AdminScene]:
    async with admin_scene(database_url) as made:
        yield made


def routes(app: web.Application) -> list[tuple[str, str]]:
    found = []
    for route in app.router.routes():
        assert route.resource is not None
        if route.method != "HEAD" and route.resource.canonical not in OPEN:
            path = route.resource.canonical.format(
                metal="m1",
                datacenter="dc1",
                session_id=uuid.uuid4(),
                account_id=ACCOUNT,
                token_id="t",
            )
            found.append((route.method, path))
    return found


async def state(scene: AdminScene) -> list[object]:
    async with scene.plane.db.read() as conn:
        return [
            await conn.scalar(
                text(f"SELECT md5(string_agg(to_jsonb(t)::text, ' ' ORDER BY 1)) FROM {name} t")
            )
            for name in TABLES
        ]


async def test_every_route_refuses_all_but_operators_and_writes_it_down(
    scene: AdminScene,
) -> None:
    db = scene.plane.db
    expired = await operator_token(db, lifetime=timedelta(microseconds=1))
    revoked = await operator_token(db, name="revoked")
    await scene.plane.execute(
        "UPDATE operator_tokens SET revoked_at = now() WHERE name = 'revoked'"
    )
    everything = await account_token(db, ACCOUNT, permissions=frozenset(Permission))
    asked = routes(scene.app)
    assert len(asked) == 25
    before = await state(scene)
    for method, path in asked:
        for token in ("", "x", compose(TokenKind.OPERATOR, bytes(32)), expired, revoked):
            answer = await scene.call(method, path, token=token)
            assert answer.code == (401, 10000), (method, path, token)
        assert (await scene.call(method, path, token=everything)).code == (403, 9109)
    assert await state(scene) == before
    for path in ("", "nothing", "agents/m1/nothing"):
        assert (await scene.call("GET", path, token="")).code == (401, 10000)
    refused = await scene.audited(outcome="refused", limit="100")
    assert sum(entry["times"] for entry in refused) == len(asked) * 6 + 3


async def test_a_refusal_names_who_and_from_where(scene: AdminScene) -> None:
    headers = {"X-Request-Id": "r-1"}
    await scene.call("GET", "audit", token=scene.token, headers=headers)
    await scene.call("GET", "audit", token=scene.token)
    await scene.ask("GET", "workers/workers", token=scene.operator)
    own, theirs = await scene.audited(outcome="refused")
    assert theirs["actor"].startswith("token:")
    assert own["actor"].startswith("operator:")
    assert theirs["address"] == "127.0.0.1"
    assert theirs["request_id"] == "r-1"
    assert theirs["action"] == "GET /admin/v1/audit"
    assert theirs["details"] == {"reason": "permission_missing"}
    assert theirs["times"] == 2
    assert scene.token not in str(theirs)


async def test_what_is_open_tells_nothing_of_anybody(scene: AdminScene) -> None:
    for path in OPEN:
        answer = await scene.call("GET", path, token="")
        assert answer.status == 200
        assert ACCOUNT not in str(answer.body)


async def test_refusals_without_end_are_few_rows(scene: AdminScene) -> None:
    refusals = Refusals(scene.plane.db)
    for number in range(500):
        refusals.add(
            actor="unknown", address=f"10.0.0.{number}", request_id="", action="GET /", why="x"
        )
    await refusals.flush()
    entries = await scene.audited(outcome="refused", limit="100")
    assert len(entries) == REFUSALS_AT_ONCE + 1
    assert sum(entry["times"] for entry in entries) == 500


async def test_a_token_shows_when_it_was_used_last(scene: AdminScene) -> None:
    await scene.ask("GET", "workers/workers")
    (token,) = (await scene.call("GET", f"accounts/{ACCOUNT}/tokens")).result
    assert token["last_used_at"] is not None
    # Not at every use: the row is not rewritten by each request.
    await scene.ask("GET", "workers/workers")
    (again,) = (await scene.call("GET", f"accounts/{ACCOUNT}/tokens")).result
    assert again["last_used_at"] == token["last_used_at"]
    await scene.plane.execute("UPDATE tokens SET used_at = now() - interval '2 min'")
    await scene.ask("GET", "workers/workers")
    (later,) = (await scene.call("GET", f"accounts/{ACCOUNT}/tokens")).result
    assert later["last_used_at"] > token["last_used_at"]


async def test_tokens_of_before_the_key_go_on_and_are_brought_up_to_date(
    scene: AdminScene,
) -> None:
    db = scene.plane.db
    former = "isop_" + "x" * 43
    plain = plain_hash(former)
    await scene.plane.execute(
        "INSERT INTO tokens (account_id, token_id, hash, permissions) VALUES (:a, 'f', :h, :p)",
        a=ACCOUNT,
        h=plain,
        p=[Permission.WORKERS_SCRIPTS_READ.value],
    )
    await access.authenticate(db, TOKEN_KEY, former, ACCOUNT, READS)
    assert await operators.rekey(db, TOKEN_KEY, by="me") == 1
    assert await operators.rekey(db, TOKEN_KEY, by="me") == 0
    await access.authenticate(db, TOKEN_KEY, former, ACCOUNT, READS)
    async with db.read() as conn:
        stored = await conn.scalar(text("SELECT hash FROM tokens WHERE token_id = 'f'"))
    assert stored == keyed(TOKEN_KEY, plain)
    assert [entry["actor"] for entry in await scene.audited(action="tokens.rekey")] == ["local:me"]


async def test_a_replica_with_another_key_does_not_start(scene: AdminScene) -> None:
    await access.settle_key(scene.plane.db, TOKEN_KEY)
    await access.settle_key(scene.plane.db, TOKEN_KEY)
    with pytest.raises(TokenKeyWrong, match="ISOPROF_TOKEN_KEY_FILE"):
        await access.settle_key(scene.plane.db, bytes(32))


async def test_the_first_operator_token_needs_no_listener(scene: AdminScene) -> None:
    made = await operators.mint(scene.plane.db, TOKEN_KEY, "first", None, by="me")
    assert (await scene.call("GET", "agents", token=made["token"])).status == 200
    (entry,) = await scene.audited(action="operator-tokens.create")
    assert (entry["actor"], entry["target"]) == ("local:me", "first")
