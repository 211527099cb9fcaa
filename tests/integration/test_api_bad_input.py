"""Whatever is wrong with a request is named, each field once, before anything is done."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.edge_scene import Scene, edge_scene
from tests.integration.planes import VERSION, WORKER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PROFILE = f"workers/workers/{WORKER}/versions/{VERSION}/profile"
SESSIONS = "profile-sessions"
NAMESPACE = "c" * 32
ACTOR = "d" * 64


@pytest.fixture
async def scene(database_url: str) -> AsyncIterator[Scene]:
    async with edge_scene(database_url) as made:
        yield made


BODIES: list[tuple[Any, list[str]]] = [
    ({"duration_ms": 999}, ["/duration_ms"]),
    ({"duration_ms": 50_001}, ["/duration_ms"]),
    ({"duration_ms": "abc"}, ["/duration_ms"]),
    ({"duration_ms": 1000.5}, ["/duration_ms"]),
    ({"duration_ms": None}, ["/duration_ms"]),
    ({"duration_ms": 10**400}, ["/duration_ms"]),
    ({}, ["/duration_ms"]),
    ({"duration_ms": 1000, "namespace_id": NAMESPACE}, ["/actor_id"]),
    ({"duration_ms": 1000, "actor_id": ACTOR}, ["/namespace_id"]),
    ({"duration_ms": 1000, "namespace_id": NAMESPACE, "actor_id": "zz"}, ["/actor_id"]),
    ({"duration_ms": 1000, "profile_type": "memory"}, ["/profile_type"]),
    ({"duration_ms": 1000, "extra": 1}, ["/extra"]),
    ({"duration_ms": 1000, "<b>'; DROP TABLE": 1}, ["/<b>'; DROP TABLE"]),
    ({"duration_ms": 0, "profile_type": 1, "x": 1}, ["/duration_ms", "/profile_type", "/x"]),
    ([], [""]),
    ("text", [""]),
    (None, [""]),
]


async def test_every_bad_body_is_told_field_by_field(scene: Scene) -> None:
    for body, pointers in BODIES:
        answer = await scene.call("POST", PROFILE, json=body)
        assert answer.error[:2] == (400, 10021), body
        assert answer.pointers == pointers, body
        assert {error["code"] for error in answer.body["errors"]} == {10021}
        assert answer.headers["x-should-retry"] == "false"
    for body, pointers in BODIES[:12]:
        answer = await scene.call("POST", SESSIONS, json={"worker": "replacer"} | body)
        assert answer.pointers == pointers, body
    assert scene.metal.orders.empty()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"duration_ms=1000",
        b'{"duration_ms": NaN}',
        b'{"duration_ms": 1000, "duration_ms": 2000}',
        b'{"duration_ms": 1000, "a": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        b'{"duration_ms": 1000, "a": "\\u0000"}',
        b"\xff\xfe",
    ],
)
async def test_no_json(scene: Scene, raw: bytes) -> None:
    answer = await scene.call("POST", PROFILE, data=raw)
    assert answer.error[:2] == (400, 10021)
    assert answer.pointers == [""]


async def test_bad_paths_are_told_beside_bad_bodies(scene: Scene) -> None:
    rows = [
        ("workers/workers/Not%20one/versions/zz/profile", ["path/version", "path/worker"]),
        ("workers/workers/replacer/versions/1234567/profile", ["path/version"]),
        ("workers/workers/replacer/versions/12345678-zz/profile", ["path/version"]),
        ("workers/workers/replacer%00/versions/latest/profile", ["path/worker"]),
        ("workers/workers/..%2Fx/versions/latest/profile", ["path/worker"]),
    ]
    for path, pointers in rows:
        answer = await scene.call("POST", path, json={"duration_ms": 1000})
        assert answer.error[:2] == (400, 10021), path
        assert answer.pointers == pointers, path
        answer = await scene.call("POST", path, json={})
        assert answer.pointers == ["/duration_ms", *pointers], path
    assert (await scene.call("GET", "workers/workers/A")).pointers == ["path/worker"]
    shown = await scene.call("GET", "workers/workers/replacer/versions/zz")
    assert shown.pointers == ["path/version"]


async def test_bad_session_bodies(scene: Scene) -> None:
    rows: list[tuple[dict[str, Any], list[str]]] = [
        ({"duration_ms": 1000}, ["/worker"]),
        ({"duration_ms": 1000, "worker": "A b", "version": "zz"}, ["/version", "/worker"]),
        ({"duration_ms": 1000, "worker": 7, "version": []}, ["/version", "/worker"]),
        (
            {"duration_ms": 1000, "worker": "a", "sampling_interval_us": 99},
            ["/sampling_interval_us"],
        ),
        ({"duration_ms": 1000, "worker": "a", "labels": {"k": 1}}, ["/labels/k"]),
        ({"duration_ms": 1000, "worker": "a", "labels": []}, ["/labels"]),
    ]
    for body, pointers in rows:
        answer = await scene.call("POST", SESSIONS, json=body)
        assert answer.error[:2] == (400, 10021), body
        assert answer.pointers == pointers, body


@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        (f"{SESSIONS}?state=dead", "query/state"),
        (f"{SESSIONS}?limit=0", "query/limit"),
        (f"{SESSIONS}?limit=101", "query/limit"),
        (f"{SESSIONS}?limit=x", "query/limit"),
        (f"{SESSIONS}?cursor=%21", "query/cursor"),
        (f"{SESSIONS}?cursor=AAAA", "query/cursor"),
        (f"{SESSIONS}?other=1", "query/other"),
        ("workers/workers?page=0", "query/page"),
        ("workers/workers?per_page=x", "query/per_page"),
        (f"workers/workers/{WORKER}/versions?page=x", "query/page"),
    ],
)
async def test_bad_queries(scene: Scene, path: str, pointer: str) -> None:
    answer = await scene.call("GET", path)
    assert answer.error[:2] == (400, 10021)
    assert answer.pointers == [pointer]


async def test_body_too_large_names_the_limit(scene: Scene) -> None:
    for data in (b" " * 65_537, gzip.compress(b" " * 20_000_000)):
        headers = {"Content-Encoding": "gzip"} if data[:2] == b"\x1f\x8b" else {}
        answer = await scene.call("POST", PROFILE, data=data, headers=headers)
        status, code, message = answer.error
        assert (status, code) == (413, 10027)
        assert "65536" in message


async def test_body_that_is_not_the_encoding_it_claims(scene: Scene) -> None:
    answer = await scene.call(
        "POST", PROFILE, data=b"no gzip at all", headers={"Content-Encoding": "gzip"}
    )
    assert answer.error[:2] == (400, 10021)


async def test_unknown_routes_and_methods(scene: Scene) -> None:
    for path in ("/no", "/client/v4", "/client/v4/accounts", "workers", "profile-sessions/a/b/c"):
        assert (await scene.call("GET", path, token="")).error[:2] == (404, 7003), path
    answer = await scene.call("PUT", SESSIONS)
    assert answer.error[:2] == (405, 10405)
    assert answer.headers["allow"] == "GET, HEAD, POST"
    assert (await scene.call("GET", PROFILE)).error[:2] == (405, 10405)


async def test_request_id_is_taken_over_when_sane(scene: Scene) -> None:
    for given, taken in [("abc-1.2:3_4", True), ("a" * 129, False), ("a b", False)]:
        answer = await scene.call("GET", "/healthz", headers={"X-Request-Id": given})
        assert (answer.headers["x-request-id"] == given) is taken


async def test_problems_are_documented_where_errors_point(scene: Scene) -> None:
    answer = await scene.call("POST", PROFILE, json={})
    url = answer.body["errors"][0]["documentation_url"]
    shown = await scene.call("GET", url, token="")
    assert shown.status == 200
    assert shown.data.startswith(b"10021 (HTTP 400)")
    assert (await scene.call("GET", "/problems/none")).error[:2] == (404, 7003)
