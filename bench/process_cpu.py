"""CPU time of processes and all they started, ended children included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterable


def cpu_ms(pids: Iterable[int]) -> float:
    """User and system milliseconds of each process, its descendants and its reaped children."""
    total = 0.0
    for pid in pids:
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            try:
                times = one.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system
        mine = process.cpu_times()
        total += mine.children_user + mine.children_system
    return total * 1000
