"""What the command makes of answers, the API's own and others'."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from cli import api
from cli.outcome import told

NOW = datetime(2026, 12, 1, 12, 0, 0, tzinfo=UTC)


def answer(status: int, body: Any, **headers: str) -> api.Answer:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return api.Answer(status=status, headers=named, body=data)


def failure(*errors: dict[str, Any]) -> dict[str, Any]:
    return {"success": False, "errors": list(errors), "messages": [], "result": None}


def test_a_refusal_keeps_code_message_pointer_and_request_id() -> None:
    body = failure(
        {"code": 10021, "message": "Required.", "source": {"pointer": "/duration_ms"}},
        {"code": 10021, "message": "Unknown field.", "source": {"pointer": "/x"}},
    )
    error = api.refusal(answer(400, body, x_request_id="r1"))
    assert told(error, NOW).splitlines() == [
        "error 10021 [/duration_ms]: Required.",
        "error 10021 [/x]: Unknown field.",
        "HTTP 400, request id r1",
    ]


def test_busy_says_when_to_try_again() -> None:
    body = failure({"code": 10398, "message": "Every isolate is being captured."})
    lines = told(api.refusal(answer(429, body, retry_after="7")), NOW).splitlines()
    at = NOW.replace(second=7).astimezone()
    assert lines[-1] == f"try again in 7 s, at {at:%H:%M:%S}"


@pytest.mark.parametrize(
    "body",
    [b"<html>bad gateway</html>", b"", b"[]", {"errors": []}, {"errors": [{"code": "?"}]}, b"\xff"],
)
def test_what_is_no_answer_of_the_api_is_said_to_be_none(body: Any) -> None:
    error = api.refusal(answer(502, body, content_type="text/html"))
    assert told(error, NOW).splitlines()[0] == (
        "error: HTTP 502 with text/html, which is no answer of this API"
    )


def test_retry_after_as_a_date_is_let_be() -> None:
    error = api.refusal(answer(503, b"", retry_after="Tue, 01 Dec 2026 12:00:00 GMT"))
    assert error.retry_after_s is None


def test_a_profile_comes_with_what_its_headers_say() -> None:
    taken = api.pprof(
        answer(200, b"\x0a\x00", content_type=f"{api.PPROF_TYPE}; x=y", x_isoprof_metal="ams1-m1")
    )
    assert taken == api.Profile(data=b"\x0a\x00", about={"metal": "ams1-m1"})


@pytest.mark.parametrize(
    ("status", "content_type", "body"),
    [
        (200, "application/json", b'{"success": false}'),
        (200, "text/html", b"<html>"),
        (200, api.PPROF_TYPE, b""),
        (202, api.PPROF_TYPE, b"x"),
        (404, "application/json", b"{}"),
    ],
)
def test_only_a_pprof_is_taken_for_one(status: int, content_type: str, body: bytes) -> None:
    with pytest.raises(api.ApiError):
        api.pprof(answer(status, body, content_type=content_type))


def test_a_success_that_says_it_is_none_is_none() -> None:
    with pytest.raises(api.ApiError, match="went wrong"):
        api.envelope(answer(200, failure({"code": 1001, "message": "went wrong"})))
    with pytest.raises(api.ApiError):
        api.envelope(answer(200, b"not JSON"))
    assert api.envelope(answer(200, {"success": True, "result": 1}))["result"] == 1


def test_the_wait_is_longer_than_the_longest_capture() -> None:
    assert api.profile_timeout_s(1_000) == api.TIMEOUT_S
    assert api.profile_timeout_s(50_000) >= 50 + api.MARGIN_S
