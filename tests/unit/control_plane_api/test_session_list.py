"""The filters of the session list: what is let in, and which one is named when it is wrong."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
from multidict import MultiDict

from contract.faults import Fault
from control_plane.api import session_list

UUID = "0123abcd-4567-89ab-cdef-0123456789ab"


def refused(*given: tuple[str, str]) -> list[str]:
    with pytest.raises(Fault) as caught:
        session_list.read(MultiDict(given))
    return [field.pointer for field in caught.value.fields]


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("worker", ""),
        ("worker", "A b"),
        ("worker", "a\0"),
        ("version", "zz"),
        ("version", "0123abc"),
        ("version", "latest"),
        ("profile_type", "memory"),
        ("state", "dead"),
        ("origin", "elsewhere"),
        ("since", "yesterday"),
        ("since", "1700000000"),
        ("since", "2026-12-01"),
        ("since", "2026-12-01T08:30:00"),
        ("since", "2026-13-01T08:30:00Z"),
        ("since", "0001-01-01T00:00:00+14:00"),
        ("until", "9999-12-31T23:59:59-14:00"),
        ("until", "2026-12-01T08:30:00 01:00"),
        ("limit", "0"),
        ("limit", "101"),
        ("limit", "1.5"),
        ("cursor", ""),
        ("cursor", "!"),
        ("cursor", "AAAA"),
        ("cursor", encoded(f"-1.{UUID}")),
        ("cursor", encoded(f"{10**17 * 9}.{UUID}")),
        ("cursor", encoded("1.not-a-uuid")),
        ("order", "asc"),
    ],
)
def test_a_wrong_filter_is_named(name: str, value: str) -> None:
    assert refused((name, value)) == [f"query/{name}"]


def test_all_that_is_wrong_is_told_at_once() -> None:
    given = [("limit", "x"), ("state", "dead"), ("other", "1"), ("since", "now")]
    assert sorted(refused(*given)) == ["query/limit", "query/other", "query/since", "query/state"]


def test_a_filter_given_twice_is_named() -> None:
    assert refused(("state", "ready"), ("state", "failed")) == ["query/state"]


def test_a_span_that_ends_before_it_begins() -> None:
    at = "2026-12-01T08:30:00Z"
    assert refused(("since", at), ("until", at)) == ["query/until"]


def test_times_are_read_with_their_offset() -> None:
    asked = session_list.read(
        {"since": "2026-12-01T08:30:00.25+01:00", "until": "2026-12-01 08:00:00z"}
    )
    assert asked.since == datetime(2026, 12, 1, 7, 30, 0, 250_000, tzinfo=UTC)
    assert asked.until == datetime(2026, 12, 1, 8, tzinfo=UTC)


def test_latest_is_let_in_beside_its_worker() -> None:
    asked = session_list.read({"version": "LATEST", "worker": "replacer"})
    assert (asked.version, asked.limit) == ("latest", 20)
