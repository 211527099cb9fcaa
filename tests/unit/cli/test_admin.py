"""The operators' commands: every one asks a route that is there, with the operator's own token."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from cli import api
from cli.main import app
from tests.unit.cli.fake_api import FakeApi

if TYPE_CHECKING:
    from typer.testing import Result

BASE = "http://ops.test/admin/v1"
ACCOUNT = "a" * 32
ROWS: list[tuple[str, str, str, object]] = [
    ("health", "GET", "health", None),
    (
        "explain --account a --worker-id w",
        "GET",
        "placement/explain",
        {"account": "a", "worker": "w", "version": "latest"},
    ),
    ("audit --outcome refused", "GET", "audit", {"outcome": "refused", "limit": "20"}),
    ("agents list --datacenter dc1", "GET", "agents", {"datacenter": "dc1", "limit": "100"}),
    ("agents show m1", "GET", "agents/m1", None),
    ("agents drain m1 --within-s 60", "POST", "agents/m1/drain", {"within_s": 60}),
    ("agents undrain m1", "POST", "agents/m1/undrain", None),
    ("datacenters list", "GET", "datacenters", {"limit": "100"}),
    ("datacenters drain dc1", "POST", "datacenters/dc1/drain", {"within_s": None}),
    ("datacenters undrain dc1", "POST", "datacenters/dc1/undrain", None),
    ("sessions list --state ready", "GET", "sessions", {"state": "ready", "limit": "20"}),
    ("sessions show s", "GET", "sessions/s", None),
    ("sessions cancel s", "POST", "sessions/s/cancel", None),
    ("accounts list", "GET", "accounts", {"limit": "100"}),
    ("accounts show a", "GET", "accounts/a", None),
    ("accounts create new", "POST", "accounts", {"name": "new"}),
    (
        "accounts change a --no-profiling --limit weight=3 --limit retention_days=default",
        "PATCH",
        "accounts/a",
        {"profiling_enabled": False, "limits": {"weight": 3, "retention_days": None}},
    ),
    ("tokens list a", "GET", "accounts/a/tokens", {"limit": "100"}),
    (
        "tokens create a ci --permission Profiling --expires-in-s 60",
        "POST",
        "accounts/a/tokens",
        {"name": "ci", "permissions": ["Profiling"], "expires_in_s": 60},
    ),
    ("tokens revoke a t", "DELETE", "accounts/a/tokens/t", None),
    ("operator-tokens list", "GET", "operator-tokens", {"limit": "100"}),
    ("operator-tokens create n", "POST", "operator-tokens", {"name": "n", "expires_in_s": None}),
    ("operator-tokens revoke t", "DELETE", "operator-tokens/t", None),
    ("dispatch show", "GET", "dispatch", None),
    ("dispatch on", "PUT", "dispatch", {"turned_on": True}),
    ("dispatch off --reason x", "PUT", "dispatch", {"turned_on": False, "reason": "x"}),
]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    monkeypatch.setenv("ISOPROF_ADMIN_URL", BASE)
    monkeypatch.setenv("ISOPROF_OPERATOR_TOKEN", "t")
    made = FakeApi()
    monkeypatch.setattr("cli.api.connect", made.connect)
    return made


def isoprof(words: str) -> Result:
    return CliRunner().invoke(app, ["admin", *words.split()])


def ok(result: object) -> api.Answer:
    body = {"success": True, "errors": [], "messages": [], "result": result}
    return api.Answer(status=200, headers={}, body=json.dumps(body).encode())


@pytest.mark.parametrize(("words", "method", "path", "sent"), ROWS)
def test_each_command_asks_its_route(
    fake: FakeApi, words: str, method: str, path: str, sent: object
) -> None:
    fake.answers = [ok([] if " list" in words or words.startswith("audit") else {"id": "x"})]
    done = isoprof(words)
    assert done.exit_code == 0, done.output
    (asked,) = fake.sent
    assert (asked.method, asked.url) == (method, f"{BASE}/{path}")
    assert (asked.query if method == "GET" else asked.body) == sent


def test_every_route_of_the_operators_has_a_command() -> None:
    shapes = {
        (method, re.sub(r"/(m1|dc1|s|a|t)(?=/|$)", "/{}", path)) for _, method, path, _ in ROWS
    }
    assert len(shapes) == 25


def test_a_limit_that_is_none_is_told(fake: FakeApi) -> None:
    assert isoprof("accounts change a --limit weight=x").exit_code == 2
    assert fake.sent == []


def test_what_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ISOPROF_ADMIN_URL", "ISOPROF_OPERATOR_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    done = isoprof("health")
    assert done.exit_code == 2
    assert "ISOPROF_ADMIN_URL" in done.output
    assert "ISOPROF_OPERATOR_TOKEN" in done.output
