"""Sessions of several isolates on the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cli import api
from tests.unit.cli.test_commands import ROOT, fake, isoprof, ok, pprof, refused

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.fake_api import FakeApi

__all__ = ["fake"]

CREATE = ("sessions", "create", "--worker-id", "w", "--duration-ms", "2000")


def capture(part: int, **changes: Any) -> dict[str, Any]:
    made = {
        "part": part,
        "n": part,
        "datacenter": "ams1",
        "metal": f"ams1-m{part}",
        "isolate": "wd1/w",
        "state": "uploaded",
        "samples": 41,
        "reason": None,
    }
    return made | changes


def session(state: str, **counts: Any) -> dict[str, Any]:
    isolates = {"asked": 3, "taken": 0, "live": 0, "waiting": 0, "lost": 0, "reasons": {}}
    lost = capture(2, state="refused", reason="not_loaded", isolate=None, samples=None)
    return {
        "id": "s-1",
        "state": state,
        "ended_at": "2026-12-01T06:00:00Z" if state in {"ready", "failed"} else None,
        "isolates": isolates | counts,
        "captures": [capture(1), lost, capture(3, n=4), capture(2, n=3, state="sampling")],
    }


def followed(state: str) -> api.Answer:
    """Make the events of a session, of which the last one counts."""
    told = f'event: session\ndata: {{"at": "08:30", "state": "{state}"}}\n\n'
    return api.Answer(status=200, headers={}, body=told.encode())


READY = session("ready", taken=2, lost=1, reasons={"not_loaded": 1})


def test_asked_for_and_not_waited_for(fake: FakeApi) -> None:
    fake.answers = [ok(session("queued"))]
    result = isoprof(*CREATE, "--isolates", "3", "--datacenter", "ams1", "--datacenter", "iad1")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["id"] == "s-1"
    assert fake.sent[0].url == f"{ROOT}/profile-sessions"
    assert fake.sent[0].body == {
        "worker": "w",
        "version": "latest",
        "duration_ms": 2000,
        "profile_type": "cpu",
        "isolates": 3,
        "datacenters": ["ams1", "iad1"],
    }


def test_waited_for_its_isolates_are_shown(fake: FakeApi, tmp_path: Path) -> None:
    fake.answers = [ok(session("queued")), followed("ready"), ok(READY), pprof(b"\x0a\x00")]
    file = tmp_path / "w.pprof"
    result = isoprof(*CREATE, "--wait", "--output", str(file))
    assert result.exit_code == 0, result.stderr
    assert file.read_bytes() == b"\x0a\x00"
    assert "ready: 2 of 3 isolates taken, 1 lost (not_loaded: 1)" in result.stderr
    assert [line.split()[:2] for line in result.stdout.splitlines() if "ams1-m" in line] == [
        ["1", "1"],
        ["2", "2"],
        ["2", "3"],
        ["3", "4"],
    ]


def test_one_that_failed_is_told_and_fails(fake: FakeApi, tmp_path: Path) -> None:
    failed = session("failed", lost=3, reasons={"internal": 3})
    fake.answers = [ok(session("queued")), followed("failed"), ok(failed)]
    result = isoprof(*CREATE, "--output", str(tmp_path / "w.pprof"))
    assert result.exit_code == 1
    assert "failed: 0 of 3 isolates taken, 3 lost (internal: 3)" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_field_is_told(fake: FakeApi) -> None:
    fake.answers = [refused(400, 10021, "There is no datacenter x.")]
    result = isoprof(*CREATE, "--datacenter", "x")
    assert (result.exit_code, "There is no datacenter x." in result.stderr) == (1, True)


def test_the_parts_of_a_session(fake: FakeApi) -> None:
    fake.answers = [ok(READY)]
    result = isoprof("sessions", "parts", "s-1", "--json")
    assert result.exit_code == 0, result.stderr
    assert [one["part"] for one in json.loads(result.stdout)] == [1, 2, 2, 3]
    assert "1 lost" in result.stderr


def test_one_isolates_profile(fake: FakeApi, tmp_path: Path) -> None:
    fake.answers = [pprof(b"\x0a\x00")]
    file = tmp_path / "one.pprof"
    result = isoprof("sessions", "profile", "s-1", "--capture", "4", "-o", str(file))
    assert result.exit_code == 0, result.stderr
    assert fake.sent[0].url == f"{ROOT}/profile-sessions/s-1/captures/4/profile"
