"""Commands from their words to their exit status, without a network."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import ClientConnectionError
from typer.testing import CliRunner

from cli import api
from cli.main import app
from tests.unit.cli.fake_api import FakeApi

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

BASE = "http://api.test/client/v4"
ACCOUNT = "a" * 32
ROOT = f"{BASE}/accounts/{ACCOUNT}"
PROFILE = ("workers", "versions", "profile", "latest", "--worker-id", "w", "--duration-ms", "2000")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    for name, value in {"BASE_URL": BASE, "TOKEN": "t"}.items():
        monkeypatch.setenv(f"ISOPROF_API_{name}", value)
    monkeypatch.setenv("ISOPROF_ACCOUNT_ID", ACCOUNT)
    made = FakeApi()
    monkeypatch.setattr("cli.api.connect", made.connect)
    return made


def isoprof(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def ok(result: Any) -> api.Answer:
    body = {"success": True, "errors": [], "messages": [], "result": result}
    return api.Answer(status=200, headers={}, body=json.dumps(body).encode())


def refused(status: int, code: int, message: str, **headers: str) -> api.Answer:
    body = {"success": False, "errors": [{"code": code, "message": message}], "result": None}
    return api.Answer(status=status, headers=headers, body=json.dumps(body).encode())


def pprof(data: bytes) -> api.Answer:
    headers = {"content-type": api.PPROF_TYPE, "x-isoprof-samples": "41"}
    return api.Answer(status=200, headers=headers, body=data)


def test_a_profile_goes_to_standard_output_alone(fake: FakeApi) -> None:
    fake.answers = [pprof(b"\x0a\x02\xff\x00")]
    result = isoprof(*PROFILE, "--profile-type", "heap")
    assert result.exit_code == 0, result.stderr
    assert result.stdout_bytes == b"\x0a\x02\xff\x00"
    assert result.stderr.splitlines() == [
        "sampling w, version latest: heap, 2 s",
        "4 bytes of pprof: samples 41",
    ]
    [sent] = fake.sent
    assert (sent.method, sent.url) == ("POST", f"{ROOT}/workers/workers/w/versions/latest/profile")
    assert sent.body == {"duration_ms": 2000, "profile_type": "heap"}
    assert sent.timeout_s == api.TIMEOUT_S


def test_an_actor_is_asked_for_with_the_keys_in_order(fake: FakeApi) -> None:
    fake.answers = [pprof(b"x")]
    isoprof(*PROFILE, "--namespace-id", "n", "--actor-id", "o")
    assert list((fake.sent[0].body or {}).items()) == [
        ("actor_id", "o"),
        ("duration_ms", 2000),
        ("namespace_id", "n"),
        ("profile_type", "cpu"),
    ]


def test_names_can_not_leave_their_place_in_the_path(fake: FakeApi) -> None:
    fake.answers = [refused(404, 10007, "This Worker does not exist on your account.")]
    isoprof("workers", "versions", "profile", "../x", "--worker-id", "a/b?c", "--duration-ms", "1")
    assert fake.sent[0].url == f"{ROOT}/workers/workers/a%2Fb%3Fc/versions/..%2Fx/profile"


def test_a_refusal_ends_with_1_and_writes_nothing(fake: FakeApi, tmp_path: Path) -> None:
    fake.answers = [refused(404, 10393, "No recent executions.", **{"x-request-id": "r9"})]
    file = tmp_path / "out.pprof"
    result = isoprof(*PROFILE, "--output", str(file))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert not file.exists()
    assert "error 10393: No recent executions." in result.stderr
    assert "request id r9" in result.stderr


def test_no_post_is_ever_tried_again(fake: FakeApi) -> None:
    fake.answers = [refused(429, 10398, "Busy.", **{"retry-after": "3"}), pprof(b"x")]
    result = isoprof(*PROFILE)
    assert result.exit_code == 1
    assert len(fake.sent) == 1
    assert "try again in 3 s" in result.stderr


@pytest.mark.parametrize(
    "failure", [ClientConnectionError("refused"), TimeoutError(), ConnectionResetError("reset")]
)
def test_no_answer_is_told_with_the_address(fake: FakeApi, failure: Exception) -> None:
    fake.answers = [failure]
    result = isoprof(*PROFILE)
    assert result.exit_code == 1
    assert BASE in result.stderr
    assert result.stdout == ""


def test_an_interrupt_ends_with_130(fake: FakeApi) -> None:
    fake.answers = [KeyboardInterrupt()]
    result = isoprof(*PROFILE)
    assert result.exit_code == 130
    assert result.stdout == ""


def test_a_named_file_gets_the_bytes(fake: FakeApi, tmp_path: Path) -> None:
    fake.answers = [pprof(b"bytes")]
    file = tmp_path / "out.pprof"
    assert isoprof(*PROFILE, "-o", str(file)).exit_code == 0
    assert file.read_bytes() == b"bytes"


@pytest.mark.parametrize(
    "words",
    [
        PROFILE[:-2],
        (*PROFILE, "--profile-type", "memory"),
        (*PROFILE[:-1], "abc"),
        (*PROFILE, "--frobnicate"),
        (*PROFILE, "--output", "/nonexistent/x"),
        ("workers", "frobnicate"),
    ],
)
def test_what_cannot_be_meant_ends_with_2_and_asks_nothing(
    fake: FakeApi, words: tuple[str, ...]
) -> None:
    assert isoprof(*words).exit_code == 2
    assert fake.sent == []


def test_missing_settings_are_named(fake: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ISOPROF_API_TOKEN", "CLOUDFLARE_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    result = isoprof(*PROFILE)
    assert result.exit_code == 2
    assert "ISOPROF_API_TOKEN is not set" in result.stderr
    assert fake.sent == []


def test_lists_are_read_to_their_end(fake: FakeApi) -> None:
    fake.answers = [ok([{"id": str(n), "name": "w"} for n in range(100)]), ok([{"id": "last"}])]
    result = isoprof("workers", "list", "--json")
    assert len(json.loads(result.stdout)) == 101
    assert [sent.query for sent in fake.sent] == [
        {"page": "1", "per_page": "100"},
        {"page": "2", "per_page": "100"},
    ]


def test_a_table_shows_markup_as_it_is(fake: FakeApi) -> None:
    fake.answers = [ok([{"id": "i", "number": 3, "created_on": "[bold]x[/bold]"}])]
    result = isoprof("workers", "versions", "list", "--worker-id", "w")
    assert result.exit_code == 0, result.stderr
    assert "[bold]x[/bold]" in result.stdout
    assert fake.sent[0].url == f"{ROOT}/workers/workers/w/versions"


@pytest.mark.parametrize(
    ("words", "method", "path"),
    [
        (("show", "s1"), "GET", "/s1"),
        (("stop", "s1"), "POST", "/s1/stop"),
        (("cancel", "s1"), "DELETE", "/s1"),
    ],
)
def test_sessions_are_reached_by_their_id(
    fake: FakeApi, words: tuple[str, ...], method: str, path: str
) -> None:
    fake.answers = [ok({"id": "s1", "state": "ready"})]
    result = isoprof("sessions", *words)
    assert json.loads(result.stdout) == {"id": "s1", "state": "ready"}
    assert (fake.sent[0].method, fake.sent[0].url) == (method, f"{ROOT}/profile-sessions{path}")


def test_a_session_s_profile_is_fetched(fake: FakeApi) -> None:
    fake.answers = [pprof(b"kept")]
    result = isoprof("sessions", "profile", "s1")
    assert result.stdout_bytes == b"kept"
    assert fake.sent[0].url == f"{ROOT}/profile-sessions/s1/profile"


def test_sessions_list_sends_what_was_asked_for(fake: FakeApi) -> None:
    fake.answers = [ok([{"id": "s1", "state": "ready", "worker": {"id": "w1", "name": "shop"}}])]
    result = isoprof("sessions", "list", "--state", "ready")
    last = result.stdout.strip().splitlines()[-1]
    assert last.split() == ["s1", "ready", "shop", "-", "-", "-", "-"]
    assert fake.sent[0].query == {"state": "ready", "limit": "20"}
