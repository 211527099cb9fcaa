"""Who reads the wall clock: a machine's may be minutes off, so nothing is decided by it.

Leases, deadlines and ages are in the database's time. What agents tell are durations.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from contract import messages
from tests.repo.tree import ROOT, files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLOCKS = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today"}
# Certificates are dated, and who checks them has no other clock. A profile says when it was taken.
ALLOWED = {"control_plane/settings.py", "edge_agent/settings.py", "edge_agent/runtimes/clock.py"}


def _clocks(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            if ".".join(name.split(".")[-2:]) in CLOCKS:
                yield name
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (one.name for one in node.names if one.name in {"time", "time_ns"})


def _halves() -> dict[str, list[str]]:
    found = {}
    for path in files():
        place = path.relative_to(ROOT).as_posix()
        if path.suffix == ".py" and place.startswith(
            ("control_plane/", "edge_agent/", "contract/")
        ):
            found[place] = list(_clocks(path))
    return found


def test_only_these_read_the_clock_of_the_machine() -> None:
    assert {place for place, clocks in _halves().items() if clocks} == ALLOWED


def test_no_message_holds_a_time_of_day() -> None:
    fields = {
        f"{name}.{field}"
        for name, made in vars(messages).items()
        for field in getattr(made, "__dataclass_fields__", {})
    }
    assert fields
    assert not {name for name in fields if name.endswith(("_at", "_at_ms", "_at_ns"))}
