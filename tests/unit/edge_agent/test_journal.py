"""Open captures are on disk until their end was told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contract.messages import CaptureKey
from edge_agent.journal import Entry, Journal

if TYPE_CHECKING:
    from pathlib import Path

KEY = CaptureKey(session_id="0b9d7f6e-1d2c-4a3b-9c4d-5e6f70819203", capture=3)
ENTRY = Entry(key=KEY, isolate_id="wd1/checkout", accepted_at_ns=17)


def test_what_is_open_is_read_by_the_next_run(tmp_path: Path) -> None:
    Journal(tmp_path / "deep" / "er").open(ENTRY)
    assert Journal(tmp_path / "deep" / "er").read() == (ENTRY,)


def test_what_is_closed_is_gone_and_may_be_closed_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.open(ENTRY)
    journal.close(KEY)
    journal.close(KEY)
    assert journal.read() == ()


def test_a_half_written_file_is_set_aside_and_hides_no_other(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    (tmp_path / "broken-1.capture").write_text('{"session_id": "x"')
    journal.open(ENTRY)
    assert journal.read() == (ENTRY,)
    assert (tmp_path / "broken-1.unreadable").exists()


def test_epochs_grow_even_when_the_clock_goes_back(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    first = journal.next_epoch(1_000_000)
    assert journal.next_epoch(5) > first
    assert Journal(tmp_path).next_epoch(2_000_000) == 2_000_000
