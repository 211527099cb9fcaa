"""The commands the documents name exist, and the help names every command."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.repo.tree import ROOT

TEXT = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):", TEXT, re.MULTILINE))


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_is_the_default_and_lists_every_public_target() -> None:
    shown = set(re.findall(r"^  make ([a-z-]+)", make().stdout, re.MULTILINE))
    documented = set(re.findall(r"^([a-z-]+):.*##", TEXT, re.MULTILINE))
    assert shown == documented
    assert {"demo", "test", "check", "gen", "lock", "clean", "help"} <= shown


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_documents_name_only_targets_that_exist(document: str) -> None:
    path = ROOT / document
    named = set(re.findall(r"`?\bmake ([a-z]+)\b", path.read_text())) if path.exists() else set()
    commands = {name for name in named if re.search(rf"(?m)(^|`)make {name}\b", path.read_text())}
    assert commands <= TARGETS


@pytest.mark.parametrize("target", sorted(TARGETS - {"clean"}))
def test_every_target_expands(target: str) -> None:
    run = make("--dry-run", target)
    assert run.returncode == 0, run.stderr


def test_once_is_passed_on() -> None:
    assert "services.demo --once" in make("--dry-run", "demo", "ONCE=1").stdout
    for words in (["demo"], ["demo", "ONCE=0"]):
        assert "--once" not in make("--dry-run", *words).stdout


def test_a_missing_python_is_told_plainly() -> None:
    run = make("PYTHON=", "setup-run")
    assert run.returncode != 0
    assert "Python 3.11 or newer is needed" in run.stderr


def test_ci_runs_what_people_run() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert "set -euo pipefail" in lines
    assert [line for line in lines if line.startswith("make")] == ["make check", "make test"]
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
