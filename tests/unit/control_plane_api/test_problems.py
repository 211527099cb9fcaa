"""The table of problems is total, and tells no more than it may."""

from __future__ import annotations

import json
from typing import Any

import pytest

from contract.faults import KIND_OF, Fault, FieldError, Kind, Reason
from control_plane.api import problems


def told(fault: Fault) -> tuple[dict[str, Any], Any]:
    response = problems.answer(fault)
    assert response.content_type == "application/json"
    assert isinstance(response.body, bytes)
    return json.loads(response.body), response


def test_every_reason_has_a_problem() -> None:
    assert set(problems.PROBLEMS) == set(Reason)


def test_codes_are_unique_and_never_a_success() -> None:
    codes = [problem.code for problem in problems.PROBLEMS.values()]
    assert len(set(codes)) == len(codes)
    assert min(codes) >= 1000
    assert all(400 <= problem.status < 600 for problem in problems.PROBLEMS.values())
    assert all(problem.documentation for problem in problems.PROBLEMS.values())


STATUSES_OF_KIND = {
    Kind.INVALID: {400, 405, 500},
    Kind.UNAUTHENTICATED: {401},
    Kind.FORBIDDEN: {403},
    Kind.NOT_FOUND: {404},
    Kind.CONFLICT: {409},
    Kind.TOO_LARGE: {413, 500},
    Kind.OVER_QUOTA: {429},
    Kind.BUSY: {429},
    Kind.UNAVAILABLE: {503},
    Kind.TIMED_OUT: {504},
    Kind.INTERNAL: {500},
}


@pytest.mark.parametrize("reason", list(Reason))
def test_status_follows_kind_and_the_envelope_is_whole(reason: Reason) -> None:
    body, response = told(Fault(reason, "words"))
    assert response.status in STATUSES_OF_KIND[KIND_OF[reason]]
    assert set(body) == {"success", "errors", "messages", "result"}
    assert body["success"] is False
    assert body["result"] is None
    assert body["errors"][0]["documentation_url"] == f"/problems/{reason.value}"
    if response.status in {429, 503}:
        assert int(response.headers["Retry-After"]) >= 1


@pytest.mark.parametrize(
    ("reason", "status", "code", "text"),
    [
        (Reason.UNAUTHENTICATED, 401, 10000, "Authentication error"),
        (Reason.WORKER_UNKNOWN, 404, 10007, "This Worker does not exist on your account."),
        (
            Reason.NOT_LOADED,
            404,
            10394,
            "The Worker has no loaded isolate in its recent execution locations.",
        ),
        (
            Reason.RUNTIME_UNSUPPORTED,
            400,
            10395,
            "This Worker does not support runtime profiling.",
        ),
        (
            Reason.RUNTIME_START_FAILED,
            500,
            10396,
            "The Worker runtime could not start profiling. Please try again.",
        ),
        (
            Reason.DISPATCH_OFF,
            503,
            10397,
            "Worker profiling is unavailable in this environment.",
        ),
        (Reason.INTERNAL, 500, 10501, "Internal error"),
    ],
)
def test_published_texts_hide_what_happened_inside(
    reason: Reason, status: int, code: int, text: str
) -> None:
    body, response = told(Fault(reason, "isolate shared with account 99, at /srv/x.py line 3"))
    assert (response.status, body["errors"][0]["code"]) == (status, code)
    assert body["errors"][0]["message"] == text


def test_no_recent_execution_may_go_on_to_name_versions() -> None:
    text = "No recent executions were found for this Worker."
    for given, expected in [
        ("", text),
        (text, text),
        ("Version a is not deployed; b is.", f"{text} Version a is not deployed; b is."),
        (f"{text} More.", f"{text} More."),
    ]:
        body, _ = told(Fault(Reason.NO_RECENT_EXECUTION, given))
        assert body["errors"][0]["message"] == expected


def test_one_error_per_field_each_with_its_pointer() -> None:
    fields = (
        FieldError(pointer="/duration_ms", message="Required."),
        FieldError(pointer="path/version", message="Wrong."),
    )
    body, _ = told(Fault(Reason.REQUEST_INVALID, "both", fields=fields))
    assert [(one["source"]["pointer"], one["message"]) for one in body["errors"]] == [
        ("/duration_ms", "Required."),
        ("path/version", "Wrong."),
    ]
    assert {one["code"] for one in body["errors"]} == {10021}


@pytest.mark.parametrize(
    ("fault", "retry_after", "stop"),
    [
        (Fault(Reason.ISOLATES_BUSY, "held", retry_after_s=2.1), "3", None),
        (Fault(Reason.ISOLATES_BUSY, "held", retry_after_s=61), "61", "false"),
        (Fault(Reason.STORE_UNAVAILABLE, "away"), "1", None),
        (Fault(Reason.SESSION_CANCELLED, "gone"), None, "false"),
        (Fault(Reason.SESSION_NOT_READY, "wait"), "1", None),
        (Fault(Reason.INTERNAL, "bug"), None, "false"),
    ],
)
def test_retry_headers(fault: Fault, retry_after: str | None, stop: str | None) -> None:
    _, response = told(fault)
    assert response.headers.get("Retry-After") == retry_after
    assert response.headers.get("x-should-retry") == stop
