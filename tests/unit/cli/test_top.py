"""The table of a profile file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from cli.main import app
from pprof import codec
from pprof.model import (
    CPU_PERIOD,
    CPU_TYPES,
    Function,
    Line,
    Location,
    Mapping,
    Profile,
    Sample,
)

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

MS = 1_000_000
COMMENTS = (
    "isoprof 0.1.0",
    "session=s1",
    "worker=replacer",
    "version=v1",
    "datacenter=ams1",
    "metal=ams1-m1",
    "isolate=wd1/replacer",
    "lock_start_ns=4000000",
    "lock_stop_ns=2500000",
    "samples=90",
    "idle_ns=1000000000",
    "error_percent=22",
    "confidence=inconclusive",
)


def function(number: int, name: str, line: int) -> tuple[Function, Location]:
    made = Function(id=number, name=name, system_name=name, filename="worker.js", start_line=line)
    where = Line(function_id=number, line=line + 1)
    return made, Location(id=number, mapping_id=1, lines=(where,))


def profile() -> Profile:
    outer, inner, other = (
        function(1, "fetch", 10),
        function(2, "[red]replace[/red]", 20),
        function(3, "render", 30),
    )
    return Profile(
        sample_types=CPU_TYPES,
        samples=(
            Sample(location_ids=(2, 1), values=(60, 60 * MS)),
            Sample(location_ids=(3, 1), values=(20, 25 * MS)),
            Sample(location_ids=(1,), values=(10, 10 * MS)),
        ),
        locations=(outer[1], inner[1], other[1]),
        functions=(outer[0], inner[0], other[0]),
        mappings=(Mapping(id=1, filename="worker.js"),),
        time_ns=1_796_083_200_000_000_000,
        duration_ns=5_000 * MS,
        period_type=CPU_PERIOD,
        period=MS,
        comments=COMMENTS,
        default_sample_type="cpu",
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cpu.pprof"
    path.write_bytes(codec.encode(profile()))
    return path


def top(*words: str, given: bytes | None = None) -> Result:
    return CliRunner().invoke(app, ("top", *words), input=given)


def test_the_header_says_how_it_was_taken(file: Path) -> None:
    result = top(str(file))
    assert result.exit_code == 0, result.stderr
    lines = dict(line.split(":", 1) for line in result.stdout.splitlines() if ":" in line[:11])
    assert {name: text.strip() for name, text in lines.items()} == {
        "profile": "cpu, 95.00ms in all",
        "window": "5.00s from 2026-12-01 00:00:00 UTC",
        "samples": "90, so times are right to about 22 %: inconclusive",
        "worker": "replacer, version v1",
        "taken on": "metal ams1-m1 in ams1, isolate wd1/replacer",
        "lock held": "4.00ms at most to start, 2.50ms at most to stop",
        "idle": "1.00s",
        "session": "s1",
    }


def test_rows_are_by_self_and_names_are_text(file: Path) -> None:
    rows = [line.split() for line in top(str(file)).stdout.splitlines() if "worker.js:" in line]
    assert rows == [
        ["60.00ms", "63.2", "60.00ms", "63.2", "60", "[red]replace[/red]", "worker.js:21"],
        ["25.00ms", "26.3", "25.00ms", "26.3", "20", "render", "worker.js:31"],
        ["10.00ms", "10.5", "95.00ms", "100.0", "10", "fetch", "worker.js:11"],
    ]


def test_sorted_by_total_and_cut(file: Path) -> None:
    shown = top(str(file), "--sort", "total", "--limit", "1").stdout
    [row] = [line for line in shown.splitlines() if "worker.js:" in line]
    assert "fetch" in row
    assert "2 more functions" in shown


def test_json_has_the_same_numbers_unrounded(file: Path) -> None:
    told = json.loads(top(str(file), "--json", "--limit", "2").stdout)
    assert (told["sample_type"], told["unit"], told["total"]) == ("cpu", "nanoseconds", 95 * MS)
    assert told["functions"] == 3
    assert [row["self_value"] for row in told["rows"]] == [60 * MS, 25 * MS]
    assert told["comments"]["metal"] == ["ams1-m1"]


def test_standard_input_is_read() -> None:
    result = top("-", given=codec.encode(profile(), compress=False))
    assert result.exit_code == 0
    assert "render" in result.stdout


@pytest.mark.parametrize("data", [b"", b"not a profile", b'{"success": false}', b"\x1f\x8b\x08"])
def test_what_is_no_profile_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.pprof"
    path.write_bytes(data)
    result = top(str(path))
    assert result.exit_code == 1
    assert "is no profile" in result.stderr
    assert result.stdout == ""


def test_a_file_that_is_not_there_is_told() -> None:
    result = top("/nonexistent.pprof")
    assert result.exit_code == 2
    assert "No such file" in result.stderr
