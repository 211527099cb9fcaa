"""What is refused, field by field; and what is let in."""

from __future__ import annotations

from typing import Any

import pytest

from contract.faults import Fault, Reason
from contract.messages import Actor, ProfileType
from control_plane.api import schema, strict_json

NAMESPACE = "a" * 32
ACTOR = "b" * 64


def pointers(raw: Any) -> list[str]:
    with pytest.raises(Fault) as caught:
        schema.body(schema.ProfileBody, raw)
    assert caught.value.reason is Reason.REQUEST_INVALID
    return [field.pointer for field in caught.value.fields]


@pytest.mark.parametrize(
    "duration", [999, 50_001, "abc", "1000", 1000.5, None, True, [], {}, 10**30, -1]
)
def test_duration(duration: Any) -> None:
    assert pointers({"duration_ms": duration}) == ["/duration_ms"]


@pytest.mark.parametrize("duration", [1_000, 50_000])
def test_duration_bounds_are_let_in(duration: int) -> None:
    checked = schema.body(schema.ProfileBody, {"duration_ms": duration})
    assert checked.duration_ms == duration
    assert checked.kind is ProfileType.CPU
    assert checked.actor is None


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({}, ["/duration_ms"]),
        ([], [""]),
        (None, [""]),
        ("text", [""]),
        ({"duration_ms": 1000, "namespace_id": NAMESPACE}, ["/actor_id"]),
        ({"duration_ms": 1000, "actor_id": ACTOR}, ["/namespace_id"]),
        (
            {"duration_ms": 1000, "namespace_id": NAMESPACE, "actor_id": "zz"},
            ["/actor_id"],
        ),
        ({"duration_ms": 1000, "profile_type": "memory"}, ["/profile_type"]),
        ({"duration_ms": 1000, "profile_type": None}, ["/profile_type"]),
        ({"duration_ms": 1000, "extra": 1}, ["/extra"]),
        ({"duration_ms": 1000, "a/b~c": 1}, ["/a~1b~0c"]),
    ],
)
def test_one_fault(raw: Any, expected: list[str]) -> None:
    assert pointers(raw) == expected


def test_every_fault_is_told_at_once() -> None:
    raw = {"duration_ms": "abc", "profile_type": 7, "namespace_id": "zz", "extra": 1}
    assert sorted(pointers(raw)) == [
        "/actor_id",
        "/duration_ms",
        "/extra",
        "/namespace_id",
        "/profile_type",
    ]


def test_an_actor_comes_whole() -> None:
    checked = schema.body(
        schema.ProfileBody,
        {
            "actor_id": ACTOR,
            "duration_ms": 1000,
            "namespace_id": NAMESPACE,
            "profile_type": "heap",
        },
    )
    assert checked.actor == Actor(namespace_id=NAMESPACE, actor_id=ACTOR)
    assert checked.kind is ProfileType.HEAP


@pytest.mark.parametrize(
    "text",
    [
        "latest",
        "0123abcd",
        "0123ABCD",
        "0123abcd-",
        "0123abcd-45",
        "0123abcd-4567-89ab-cdef-0123456789ab",
    ],
)
def test_versions_let_in(text: str) -> None:
    assert schema.version(text) == []


@pytest.mark.parametrize(
    "text",
    ["", "0123abc", "0123abcde", "newest", "0123abcd\n", "0123abcd-" + "1" * 40],
)
def test_versions_refused(text: str) -> None:
    assert [field.pointer for field in schema.version(text)] == ["path/version"]


@pytest.mark.parametrize("text", ["", "../x", "Upper", "a b", "a\n", "a" * 256])
def test_workers_refused(text: str) -> None:
    assert [field.pointer for field in schema.worker(text)] == ["path/worker"]


@pytest.mark.parametrize(
    ("model", "raw", "expected"),
    [
        (schema.PageQuery, {"page": "x"}, "query/page"),
        (schema.PageQuery, {"per_page": "101"}, "query/per_page"),
        (schema.ProfileQuery, {"format": "exe"}, "query/format"),
    ],
)
def test_queries(model: Any, raw: dict[str, str], expected: str) -> None:
    with pytest.raises(Fault) as caught:
        schema.query(model, raw)
    assert [field.pointer for field in caught.value.fields] == [expected]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{} {}",
        b"duration_ms=1000",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1e999}',
        b'{"a": 1, "a": 1}',
        b'{"a": "\\u0000"}',
        b'{"a": "\\ud800"}',
        b"\xff\xfe{\x00}\x00",
        b"1" * 5_000,
        b"[" * 100_000,
        b'{"a":' * 17 + b"1" + b"}" * 17,
    ],
)
def test_json_that_is_none(body: bytes) -> None:
    with pytest.raises(Fault) as caught:
        strict_json.parse(body)
    assert [field.pointer for field in caught.value.fields] == [""]


def test_json_that_is_some() -> None:
    assert strict_json.parse(b' {"a": [1, 2.5, "\xc3\xa9", null, true]} ') == {
        "a": [1, 2.5, "é", None, True]
    }


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"isolates": 0}, ["/isolates"]),
        ({"isolates": 65}, ["/isolates"]),
        ({"isolates": "2"}, ["/isolates"]),
        ({"isolates": True}, ["/isolates"]),
        ({"isolates": None}, ["/isolates"]),
        ({"isolates": 2, "namespace_id": NAMESPACE, "actor_id": ACTOR}, ["/isolates"]),
        ({"datacenters": []}, ["/datacenters"]),
        ({"datacenters": "ams1"}, ["/datacenters"]),
        ({"datacenters": ["ams1", ""]}, ["/datacenters/1"]),
        ({"datacenters": ["../x", 7]}, ["/datacenters/0", "/datacenters/1"]),
        ({"datacenters": ["a"] * 65}, ["/datacenters"]),
        ({"isolates": 64, "datacenters": ["ams1", "iad1"]}, []),
        ({"isolates": 1, "namespace_id": NAMESPACE, "actor_id": ACTOR}, []),
    ],
)
def test_several_isolates(asked: dict[str, Any], expected: list[str]) -> None:
    raw = {"worker": "replacer", "duration_ms": 1000, **asked}
    if not expected:
        schema.session_body(raw)
        return
    with pytest.raises(Fault) as caught:
        schema.session_body(raw)
    assert [field.pointer for field in caught.value.fields] == expected


def test_one_isolate_is_all_a_waiting_caller_can_ask_for() -> None:
    assert pointers({"duration_ms": 1000, "isolates": 2}) == ["/isolates"]


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ({"namespace_id": NAMESPACE}, ["/actor_id"]),
        ({"actor_name": "foo"}, ["/namespace_id"]),
        ({"actor_id": ACTOR}, ["/namespace_id"]),
        ({"namespace_id": NAMESPACE, "actor_id": ACTOR, "actor_name": "foo"}, ["/actor_name"]),
        ({"namespace_id": NAMESPACE, "actor_name": ""}, ["/actor_name"]),
        ({"namespace_id": NAMESPACE, "actor_name": "a" * 1025}, ["/actor_name"]),
        ({"namespace_id": NAMESPACE, "actor_name": 7}, ["/actor_name"]),
    ],
)
def test_an_actor_is_asked_for_in_exactly_one_way(
    named: dict[str, Any], expected: list[str]
) -> None:
    with pytest.raises(Fault) as caught:
        schema.session_body({"worker": "a", "duration_ms": 1000} | named)
    assert [field.pointer for field in caught.value.fields] == expected


def test_a_name_is_for_sessions_alone() -> None:
    named = {"duration_ms": 1000, "namespace_id": NAMESPACE, "actor_name": "foo"}
    assert pointers(named) == ["/actor_name", "/actor_id"]
    checked = schema.session_body(named | {"worker": "a"})
    assert (checked.actor_name, checked.actor) == ("foo", None)
