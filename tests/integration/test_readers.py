"""What others read in our files: ``go tool pprof``, without flags that would help it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from pprof import codec
from pprof import filter as filters
from pprof.build_cpu import profile as build
from pprof.build_heap import profile as build_heap
from pprof.merge import merge
from pprof.top import top
from tests.unit.pprof.made import CONTEXT, called, golden

if TYPE_CHECKING:
    from pathlib import Path

    from pprof.model import Profile

GO = shutil.which("go")
pytestmark = pytest.mark.skipif(
    GO is None, reason="go is not here, so go tool pprof can't be asked"
)

CPU = build([golden("cpu_runs")], CONTEXT, 10**18, 10**9, 1000).profile
HEAP = build_heap(golden("heap_objects"), CONTEXT, 10**18, 10**9, 524_288, None).profile
PROFILES = {
    "cpu": CPU,
    "heap": HEAP,
    "merged": merge([CPU, called()]),
    "filtered": filters.filtered(CPU, filters.Filter(prune_runtime=True)),
    "nothing": build([golden("cpu_none")], CONTEXT, 10**18, 10**9, 1000).profile,
}


def asked(file: Path, *flags: str) -> str:
    done = subprocess.run(
        [str(GO), "tool", "pprof", *flags, str(file)], capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize("name", PROFILES)
def test_go_reads_the_same_functions_and_values(name: str, tmp_path: Path) -> None:
    profile: Profile = PROFILES[name]
    file = tmp_path / "a.pprof"
    file.write_bytes(codec.encode(profile))
    table = top(profile)
    told = asked(file, "-top", "-nodecount=10000", "-nodefraction=0", f"-unit={table.unit}")
    # The type first shown is the one meant: cpu for time, alloc_space for a heap.
    assert f"Type: {table.sample_type}" in told
    flat: Counter[str] = Counter()
    cumulated: Counter[str] = Counter()
    row = r"^ *(\d+)(?:ns|B)? +\S+% +\S+% +(\d+)(?:ns|B)? +\S+%  (.*)$"
    for own, total, function in re.findall(row, told, re.MULTILINE):
        flat[function] += int(own)
        cumulated[function] += int(total)
    ours: Counter[str] = Counter()
    for one in table.rows:
        ours[one.name] += one.self_value
    assert {key: value for key, value in flat.items() if value} == {
        key: value for key, value in ours.items() if value
    }
    assert sum(flat.values()) == table.total


def test_go_shows_hot_lines_and_callers(tmp_path: Path) -> None:
    file = tmp_path / "a.pprof"
    file.write_bytes(codec.encode(called()))
    lines = asked(file, "-top", "-lines", "-nodefraction=0")
    assert "walk main.js:12" in lines
    assert "walk main.js:14" in lines
    peeked = asked(file, "-peek", "^pad$", "-nodefraction=0")
    assert re.search(r"2ms +100% \|   main$", peeked, re.MULTILINE)


def test_go_merges_to_what_we_merge(tmp_path: Path) -> None:
    files = []
    for number, profile in enumerate((CPU, called(), CPU)):
        files.append(tmp_path / f"{number}.pprof")
        files[-1].write_bytes(codec.encode(profile))
    into = tmp_path / "go.pprof"
    subprocess.run(
        [str(GO), "tool", "pprof", "-proto", f"-output={into}", *map(str, files)],
        capture_output=True,
        check=True,
    )
    theirs, ours = codec.decode(into.read_bytes()), merge([CPU, called(), CPU])
    assert {(row.name, row.file): row.self_value for row in top(theirs).rows} == {
        (row.name, row.file): row.self_value for row in top(ours).rows
    }
