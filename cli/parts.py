"""The isolates of a session: which were sampled, where, and what came of those that were not."""

from __future__ import annotations

from typing import Any

from cli import table

COLUMNS = ("part", "n", "datacenter", "metal", "isolate", "state", "samples", "reason")


def show(session: dict[str, Any], *, as_json: bool = False) -> None:
    """Print a session's captures, those of one part together in their order."""
    captures = sorted(session["captures"], key=lambda one: (one["part"], one["n"]))
    table.show(captures, COLUMNS, as_json=as_json)


def told(session: dict[str, Any]) -> str:
    """Say how a session stands, in one line."""
    count = session["isolates"]
    said = f"{session['state']}: {count['taken']} of {count['asked']} isolates taken"
    for name in ("live", "waiting", "lost"):
        said += f", {count[name]} {name}" if count[name] else ""
    why = ", ".join(f"{reason}: {number}" for reason, number in count["reasons"].items())
    return said + (f" ({why})" if why else "")
