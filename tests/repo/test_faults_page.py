"""docs/faults.md lists every reason with the answer the table really gives."""

from __future__ import annotations

import re
from pathlib import Path

from contract.faults import Reason
from control_plane.api.problems import PROBLEMS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "faults.md"


def test_every_reason_is_listed_as_it_is_answered() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| (\d+) \|$", PAGE.read_text(), re.MULTILINE)
    listed = {name: (int(status), int(code)) for name, status, code in rows}
    assert listed == {
        reason.value: (PROBLEMS[reason].status, PROBLEMS[reason].code) for reason in Reason
    }


def test_every_test_the_page_names_is_there() -> None:
    for name in re.findall(r"`(tests/[\w/*.]+)`", PAGE.read_text()):
        assert list(ROOT.glob(name)), name
