"""The repository's own files, as git would commit them."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def files() -> list[Path]:
    """Every file that is tracked or would be, ignored ones left out."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    paths = [ROOT / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file()]


def texts() -> list[tuple[str, str]]:
    """Files that are UTF-8 text, as (path from the root, content)."""
    found = []
    for path in files():
        data = path.read_bytes()
        if b"\0" in data[:8192]:
            continue
        found.append((str(path.relative_to(ROOT)), data.decode("utf-8")))
    return found
