"""Lists as tables, on a terminal and off it alike."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

# Off a terminal nothing is cut to a width nobody has.
PIPE_COLUMNS = 220


def console() -> Console:
    """Make the console of standard output."""
    return Console(width=None if sys.stdout.isatty() else PIPE_COLUMNS)


def show(rows: Sequence[dict[str, Any]], columns: Sequence[str], *, as_json: bool) -> None:
    """Print rows of an API list; every text stays text, whatever markup it may hold."""
    if as_json:
        print(json.dumps(list(rows), indent=2))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(row.get(column))) for column in columns))
    console().print(table)


def cell(value: Any) -> str:
    """Put one value in few characters."""
    if value is None:
        return "-"
    if isinstance(value, dict) and "name" in value:
        value = value["name"]
    return value if isinstance(value, str) else json.dumps(value)
