"""A session followed from the command line: events read, streams taken up again, ends told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from cli import api, events
from tests.unit.cli import test_parts as parts
from tests.unit.cli.test_commands import ROOT, fake, isoprof, ok, pprof, refused

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.fake_api import FakeApi

__all__ = ["fake"]

PLACE = f"{ROOT}/profile-sessions"


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "PAUSE_S", 0)


def told(kind: str, number: int | None, **data: Any) -> str:
    head = "" if number is None else f"id: {number}\n"
    return f"{head}event: {kind}\ndata: {json.dumps({'at': '08:30', **data})}\n\n"


def stream(*parts: str) -> api.Answer:
    text = "retry: 2000\n\n" + "".join(parts) + ": still here\n\n"
    return api.Answer(status=200, headers={"content-type": "text/event-stream"}, body=text.encode())


QUEUED = told("session", 1, state="queued")
ORDERED = told("capture", 2, capture=1, state="ordered", message="ams1/ams1-m1")
HALF = told("progress", None, capture=1, sampled_ms=500, duration_ms=1000)
READY = told("session", 3, state="ready")
FAILED = told("session", 3, state="failed", reason="not_loaded", message="gone")


def read(*lines: str) -> list[events.Event]:
    parser = events.Parser()
    found = (parser.line(line) for line in lines)
    return [event for event in found if event is not None]


def test_what_a_stream_may_hold_is_read_or_passed_over() -> None:
    assert read(": hello", "", "retry: 5", "", "data: 7", "", "data: {", "", "event: x", "") == []
    (one,) = read("id:4", "event: session", 'data: {"state":', 'data: "ready"}', "new: 1", "")
    assert (one.id, one.kind, one.data, one.ends) == ("4", "session", {"state": "ready"}, True)
    (two,) = read('data: {"state": "ready"}', "")
    assert (two.kind, two.ends) == ("message", False)


def test_watch_prints_a_line_per_event(fake: FakeApi) -> None:
    fake.answers = [stream(QUEUED, ORDERED, HALF, READY)]
    result = isoprof("sessions", "watch", "s1")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        "08:30  session queued",
        "08:30  capture 1 ordered  ams1/ams1-m1",
        "08:30  session ready",
    ]
    assert fake.sent[0].url == f"{PLACE}/s1/events"
    assert fake.sent[0].headers == {"Accept": "text/event-stream"}


def test_watch_prints_json_for_programs(fake: FakeApi) -> None:
    fake.answers = [stream(QUEUED, HALF, READY)]
    lines = [
        json.loads(line)
        for line in isoprof("sessions", "watch", "s1", "--json").stdout.split("\n")
        if line
    ]
    assert [(one["id"], one["event"]) for one in lines] == [
        ("1", "session"),
        ("", "progress"),
        ("3", "session"),
    ]
    assert lines[1]["data"]["sampled_ms"] == 500


def test_a_bad_end_is_told_and_is_the_exit_status(fake: FakeApi) -> None:
    fake.answers = [stream(QUEUED, FAILED)]
    result = isoprof("sessions", "watch", "s1")
    assert result.exit_code == 1
    assert "the session is failed, not_loaded: gone" in result.stderr


def test_a_stream_that_broke_off_goes_on_after_its_last_event(fake: FakeApi) -> None:
    fake.answers = [
        stream(QUEUED, HALF),
        ConnectionResetError("cut"),
        refused(503, 10500, "away"),
        stream(ORDERED, READY),
    ]
    result = isoprof("sessions", "watch", "s1")
    assert result.exit_code == 0, result.stderr
    assert len(result.stdout.splitlines()) == 3
    assert [(sent.headers or {}).get("Last-Event-ID") for sent in fake.sent] == [
        None,
        "1",
        "1",
        "1",
    ]


def test_an_api_that_stays_away_is_given_up(fake: FakeApi) -> None:
    fake.answers = [ConnectionRefusedError("no") for _ in range(events.MAX_TRIES + 5)]
    result = isoprof("sessions", "watch", "s1")
    assert result.exit_code == 1
    assert "could not be reached" in result.stderr
    assert len(fake.sent) == events.MAX_TRIES


def test_a_refusal_is_not_tried_again(fake: FakeApi) -> None:
    fake.answers = [refused(404, 10402, "This account has no such profile session.")]
    result = isoprof("sessions", "watch", "s1")
    assert result.exit_code == 1
    assert "error 10402" in result.stderr
    assert len(fake.sent) == 1


def test_a_session_is_created_with_what_was_asked_for(fake: FakeApi) -> None:
    fake.answers = [ok({"id": "s1", "state": "queued"})]
    result = isoprof(
        *("sessions", "create", "--worker-id", "shop", "--duration-ms", "2000"),
        *("--namespace-id", "n", "--actor-name", "cart 7", "--label", "why=slow=er"),
        *("--sampling-interval-us", "500", "--idempotency-key", "k1"),
    )
    assert json.loads(result.stdout) == {"id": "s1", "state": "queued"}
    (sent,) = fake.sent
    assert (sent.method, sent.url) == ("POST", PLACE)
    assert sent.headers == {"Idempotency-Key": "k1"}
    assert sent.body == {
        "worker": "shop",
        "version": "latest",
        "duration_ms": 2000,
        "profile_type": "cpu",
        "isolates": 1,
        "sampling_interval_us": 500,
        "namespace_id": "n",
        "actor_name": "cart 7",
        "labels": {"why": "slow=er"},
    }


def test_a_created_session_is_followed_to_its_profile(fake: FakeApi, tmp_path: Path) -> None:
    fake.answers = [ok({"id": "s1"}), stream(QUEUED, READY), ok(parts.READY), pprof(b"bytes")]
    file = tmp_path / "out.pprof"
    words = ("--worker-id", "shop", "--duration-ms", "2000", "--output", str(file))
    result = isoprof("sessions", "create", *words)
    assert result.exit_code == 0, result.stderr
    assert file.read_bytes() == b"bytes"
    assert "session ready" in result.stderr


ACTOR = (
    *("workers", "versions", "profile", "latest", "--worker-id", "w", "--duration-ms", "2000"),
    *("--namespace-id", "n", "--actor-name", "beta"),
)


def test_a_profile_of_a_named_object_is_taken_as_a_session(fake: FakeApi) -> None:
    ready = ok({"id": "s1", "state": "ready"})
    fake.answers = [ok({"id": "s1"}), stream(QUEUED, READY), ready, pprof(b"\x0a\xff")]
    result = isoprof(*ACTOR)
    assert result.exit_code == 0, result.stderr
    assert result.stdout_bytes == b"\x0a\xff"
    assert [(sent.method, sent.url) for sent in fake.sent] == [
        ("POST", PLACE),
        ("GET", f"{PLACE}/s1/events"),
        ("GET", f"{PLACE}/s1"),
        ("GET", f"{PLACE}/s1/profile"),
    ]
    assert fake.sent[0].body == {
        "actor_name": "beta",
        "duration_ms": 2000,
        "namespace_id": "n",
        "profile_type": "cpu",
        "version": "latest",
        "worker": "w",
    }


def test_an_object_that_is_not_active_leaves_no_profile(fake: FakeApi) -> None:
    failed = ok({"id": "s1", "state": "failed", "reason": "not_loaded", "message": "gone"})
    fake.answers = [ok({"id": "s1"}), stream(QUEUED, FAILED), failed]
    result = isoprof(*ACTOR)
    assert (result.exit_code, result.stdout_bytes) == (1, b"")
    assert "not_loaded: gone" in result.stderr


def test_lists_beyond_a_page_are_read_with_the_cursor(fake: FakeApi) -> None:
    def page(count: int, cursor: str) -> api.Answer:
        body = json.loads(ok([{"id": f"s{n}"} for n in range(count)]).body)
        body["result_info"] = {"cursor": cursor}
        return api.Answer(status=200, headers={}, body=json.dumps(body).encode())

    fake.answers = [page(100, "c1"), page(50, "c2")]
    words = ("--origin", "api", "--since", "2026-12-01T00:00:00Z", "--limit", "150", "--json")
    result = isoprof("sessions", "list", *words)
    assert len(json.loads(result.stdout)) == 150
    first = {"origin": "api", "since": "2026-12-01T00:00:00Z", "limit": "100"}
    assert [sent.query for sent in fake.sent] == [first, first | {"limit": "50", "cursor": "c1"}]
