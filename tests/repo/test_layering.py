"""Who may import whom: `lint-imports` knows; here stands that it is asked about everything."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from tests.repo.tree import ROOT, files

NOT_LAYERED = {"tests", "bench", "migrations", "setup", "docs"}


def test_layers_are_kept() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_every_package_is_layered() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    roots = set(project["tool"]["importlinter"]["root_packages"])
    packages = {
        path.relative_to(ROOT).parts[0]
        for path in files()
        if path.suffix == ".py" and path.parent != ROOT
    }
    assert packages - NOT_LAYERED == roots
