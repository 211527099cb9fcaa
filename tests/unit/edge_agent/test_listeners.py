"""Which process listens on a port, as the kernel's tables have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edge_agent.runtimes.workerd.listeners import in_tables

if TYPE_CHECKING:
    from pathlib import Path

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2455 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0
   1: 0100007F:2455 0100007F:AFF9 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0
"""


def test_number_of_the_listener_and_not_of_its_connections(tmp_path: Path) -> None:
    table = tmp_path / "tcp"
    table.write_text(TABLE)
    assert in_tables(9301, [str(tmp_path / "missing"), str(table)]) == "4711"


def test_nobody_listens(tmp_path: Path) -> None:
    table = tmp_path / "tcp"
    table.write_text(TABLE)
    assert in_tables(9302, [str(table)]) == ""
