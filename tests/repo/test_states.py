"""docs/states.md shows the tables that the code follows, line for line."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from control_plane.session import CAPTURE_TABLE, SESSION_TABLE
from tests.repo.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

State = TypeVar("State", bound=str)
Event = TypeVar("Event", bound=str)


def lines(table: Mapping[State, Mapping[Event, State]]) -> list[str]:
    return [
        f"| {state} | {event} | {after} |"
        for state, events in table.items()
        for event, after in events.items()
    ]


def test_the_page_is_the_table() -> None:
    page = (ROOT / "docs" / "states.md").read_text().splitlines()
    rows = [row for row in page if row.startswith("| ") and not row.startswith("| state")]
    assert rows == [*lines(SESSION_TABLE), *lines(CAPTURE_TABLE)]
