"""Locks name packages, versions and hashes; never the place they came from."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.repo.tree import ROOT

if TYPE_CHECKING:
    from pathlib import Path

LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
NPM = [ROOT / "package-lock.json", ROOT / "dashboard" / "package-lock.json"]
PLATFORMS = ("linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64")


def pins(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    return dict(re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)", text, re.MULTILINE))


@pytest.mark.parametrize("path", [*LOCKS, *NPM], ids=lambda path: str(path.relative_to(ROOT)))
def test_no_lock_names_a_host(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"\w+://(?!(?:github\.com|opencollective\.com|tidelift\.com)/)", text)
    assert not re.search(
        r"--(index-url|extra-index-url|find-links|trusted-host)|\"resolved\"", text
    )


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_pin_has_a_hash(path: Path) -> None:
    entries = re.split(r"\n(?=\S)", path.read_text())
    pinned = [entry for entry in entries if "==" in entry.partition("\n")[0]]
    assert pinned
    assert [entry for entry in pinned if "--hash=sha256:" not in entry] == []


def test_what_runs_is_what_is_tested() -> None:
    run, dev = pins("run"), pins("dev")
    assert {name: dev.get(name) for name in run} == run


@pytest.mark.parametrize("name", ["run", "dev", "node"])
def test_every_requirement_is_locked(name: str) -> None:
    lines = (ROOT / "requirements" / f"{name}.in").read_text().splitlines()
    wanted = [re.split(r"[\[<>=~; ]", line)[0] for line in lines if line and line[0] not in "#-"]
    locked = {found.lower().replace("_", "-") for found in pins(name)}
    assert [one for one in wanted if one.lower().replace("_", "-") not in locked] == []


@pytest.mark.parametrize(
    ("path", "native"), list(zip(NPM, ("workerd-", "rolldown/binding-"), strict=True))
)
def test_npm_lock_holds_every_platform_and_fits_its_package(path: Path, native: str) -> None:
    lock = json.loads(path.read_text())
    package = json.loads((path.parent / "package.json").read_text())
    assert lock["packages"][""].get("devDependencies") == package.get("devDependencies")
    assert lock["packages"][""].get("dependencies") == package.get("dependencies")
    for name, entry in lock["packages"].items():
        assert not name or entry.get("integrity"), name
    built = {
        (system, machine)
        for name, entry in lock["packages"].items()
        if native in name
        for system in entry.get("os", ())
        for machine in entry.get("cpu", ())
    }
    wanted = {tuple(platform.split("-")) for platform in PLATFORMS}
    assert wanted <= built
