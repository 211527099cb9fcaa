from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from cli import output

if TYPE_CHECKING:
    from pathlib import Path


def test_a_named_file_appears_whole_with_the_usual_mode(tmp_path: Path) -> None:
    path = tmp_path / "a.pprof"
    path.write_bytes(b"old and longer")
    output.write(b"new", path)
    assert path.read_bytes() == b"new"
    assert [one.name for one in tmp_path.iterdir()] == ["a.pprof"]


def test_a_failed_write_leaves_the_old_file_and_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.pprof"
    path.write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cli.output.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        output.write(b"new", path)
    assert [one.read_bytes() for one in tmp_path.iterdir()] == [b"old"]


def test_a_terminal_gets_no_binary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with pytest.raises(output.NoPlace, match="--output"):
        output.check(None)


def test_a_folder_that_is_not_there_is_found_before_anything_is_captured(tmp_path: Path) -> None:
    with pytest.raises(output.NoPlace):
        output.check(tmp_path / "none" / "a.pprof")
    with pytest.raises(output.NoPlace):
        output.check(tmp_path)
    output.check(tmp_path / "a.pprof")
