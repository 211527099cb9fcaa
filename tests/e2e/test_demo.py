"""What ``make demo ONCE=1`` runs: it ends by itself, well, and nothing of it is left."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import psutil

from pprof import codec
from pprof.top import top

ROOT = Path(__file__).resolve().parents[2]


async def test_once_shows_two_profiles_and_leaves_nothing(tmp_path: Path) -> None:
    demo = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.demo", "--once"),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await demo.communicate()
    shown = output.decode()
    assert demo.returncode == 0, shown
    cpu, heap = (
        top(codec.decode((tmp_path / f"worker-{name}.pprof").read_bytes()))
        for name in ("cpu", "heap")
    )
    assert (cpu.sample_type, heap.sample_type) == ("cpu", "alloc_space")
    for table in (cpu, heap):
        assert table.rows[0].name in shown
        assert table.rows[0].place in shown
    assert re.search(r"^  curl .*/workers/workers/replacer/versions/", shown, re.MULTILINE)
    token = (tmp_path / ".isoprof" / "demo" / "token").read_text()
    assert token not in shown
    assert left_in(tmp_path) == []


def left_in(folder: Path) -> list[list[str]]:
    """Command lines of processes that still know of the folder."""
    found = []
    for process in psutil.process_iter():
        try:
            command, cwd = process.cmdline(), process.cwd()
        except psutil.Error:
            continue
        if cwd.startswith(str(folder)) or any(str(folder) in word for word in command):
            found.append(command)
    return found
