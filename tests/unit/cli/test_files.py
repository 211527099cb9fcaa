"""Commands over profile files: what they print, write, and say of a bad file."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from cli.main import app
from pprof import codec
from pprof.model import total
from tests.unit.pprof.made import called, cpu, frame, node, stacks

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.pprof"
    path.write_bytes(codec.encode(called()))
    return path


@pytest.fixture
def other(tmp_path: Path) -> Path:
    path = tmp_path / "b.pprof"
    profile = called()
    renamed = tuple(
        replace(one, name="trim") if one.name == "pad" else one for one in profile.functions
    )
    path.write_bytes(codec.encode(replace(profile, functions=renamed)))
    return path


def isoprof(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def lines(result: Result) -> list[str]:
    assert result.exit_code == 0, result.stderr
    return [re.sub(r"\s+", " ", line).strip() for line in result.stdout.splitlines()]


def test_peek_shows_callers_above_and_callees_below(file: Path) -> None:
    shown = lines(isoprof("peek", file, "^walk "))
    rows = [line for line in shown if "ms" in line]
    assert rows == [
        "4.00ms 50.0 called by main main.js:1",
        "2.00ms 25.0 called by walk main.js:10",
        "4.00ms 4.00ms 50.0 walk main.js:10",
        "2.00ms 25.0 calls walk main.js:10",
    ]
    told = json.loads(isoprof("peek", file, "^main ", "--json", "--sample-type", "samples").stdout)
    assert told["functions"][0]["callers"] == [{"frame": None, "value": 7}]


def test_list_shows_lines_with_their_source(file: Path, tmp_path: Path) -> None:
    sources = tmp_path / "src" / "deep"
    sources.mkdir(parents=True)
    (sources / "main.js").write_text("\n".join(f"text {number}" for number in range(1, 15)))
    shown = lines(isoprof("list", file, "walk", "--source", sources))
    assert "3.00ms 3.00ms 12 text 12" in shown
    assert "1.00ms 1.00ms 14 text 14" in shown
    assert "13 text 13" in shown
    bare = lines(isoprof("list", file, "walk"))
    assert "3.00ms 3.00ms 12" in bare


def test_list_takes_the_text_a_source_map_carries(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "main.js.map"
    text = "\n".join(f"original {number}" for number in range(1, 15))
    told = {"version": 3, "sources": ["other.js", "./main.js"], "sourcesContent": [None, text]}
    path.write_text(json.dumps(told | {"mappings": ""}))
    shown = lines(isoprof("list", file, "walk", "--map", path))
    assert "3.00ms 3.00ms 12 original 12" in shown
    for data in (b"", b"[]", b"[" * 100_000, b'{"sources": []}'):
        path.write_bytes(data)
        result = isoprof("list", file, "walk", "--map", path)
        assert result.exit_code == 2
        assert "is no source map that carries sources" in result.stderr


def test_no_name_in_a_profile_leads_out_of_the_source_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.js").write_text("secret\n" * 20)
    inside = tmp_path / "src"
    inside.mkdir()
    (inside / "link.js").symlink_to(tmp_path / "secret.js")
    for name in (
        "../secret.js",
        str(tmp_path / "secret.js"),
        "file:///../secret.js",
        "link.js",
        "\0",
    ):
        profile = called()
        moved = tuple(replace(one, filename=name) for one in profile.functions)
        path = tmp_path / "moved.pprof"
        path.write_bytes(codec.encode(replace(profile, functions=moved)))
        result = isoprof("list", path, "walk", "--source", inside)
        assert result.exit_code == 0
        assert "secret\n" not in result.stdout
        assert not re.search(r"1\d +secret *$", result.stdout, re.MULTILINE)


def test_diff_tells_what_is_new_and_gone(file: Path, other: Path) -> None:
    told = isoprof("diff", file, other).stdout
    assert told.startswith("# b.pprof, compared with a.pprof\n")
    assert "1 gone, 1 new, 3 same" in told
    as_json = json.loads(isoprof("diff", file, other, "--format", "json").stdout)
    assert {row["name"]: row["status"] for row in as_json["rows"]}["trim"] == "new"
    drawn = json.loads(isoprof("diff", file, other, "--format", "flamegraph").stdout)
    assert drawn["base_total"] == drawn["total"] == 8_000_000


def test_merge_adds_up(file: Path, other: Path, tmp_path: Path) -> None:
    into = tmp_path / "sum.pprof"
    result = isoprof("merge", file, other, file, "--output", into)
    assert "3 profiles merged" in result.stderr
    whole = codec.decode(into.read_bytes())
    assert total(whole, 1) == 3 * total(called(), 1)
    assert stacks(whole)["trim:2", "main:1"][0] == 2


def test_convert_both_ways(file: Path, tmp_path: Path) -> None:
    made = tmp_path / "a.cpuprofile"
    assert isoprof("convert", file, "--to", "cpuprofile", "-o", made).exit_code == 0
    back = tmp_path / "back.pprof"
    assert isoprof("convert", made, "--to", "pprof", "-o", back).exit_code == 0
    assert total(codec.decode(back.read_bytes()), 1) == 8_000_000
    assert "walk" in isoprof("top", made).stdout
    folded = isoprof("convert", file, "--to", "folded", "--sample-type", "samples").stdout
    assert folded.splitlines()[0] == "(garbage collector) 1"


def test_a_foreign_cpuprofile_is_read(tmp_path: Path) -> None:
    path = tmp_path / "chrome.cpuprofile"
    nodes = [node(1, frame("(root)"), [2]), node(2, frame("f", 0, 0, "a.js"), [], [(3, 1)])]
    path.write_bytes(b"\xef\xbb\xbf" + cpu(nodes, [2, 2, 2], [9_000_000, 1000, -500]))
    assert "f" in isoprof("top", path).stdout


def test_filters_narrow_without_moving_the_total(file: Path) -> None:
    told = json.loads(isoprof("top", file, "--focus", "walk", "--json").stdout)
    assert told["total"] == 8_000_000
    assert {row["name"]: row["self_value"] for row in told["rows"]} == {
        "(filtered)": 4_000_000,
        "walk": 4_000_000,
        "main": 0,
    }
    assert "filtered: prune_runtime" in " ".join(lines(isoprof("top", file, "--prune-runtime")))


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("peek", "{file}", "nobody"), 1, "matches nobody"),
        (("list", "{file}", "nobody"), 1, "matches nobody"),
        (("peek", "{file}", "("), 2, "FUNCTION is no regular expression"),
        (("top", "{file}", "--focus", "["), 2, "--focus is no regular expression"),
        (("top", "{file}", "--sample-type", "wall"), 1, "no wall, only samples, cpu"),
        (("convert", "{file}", "--to", "exe"), 2, "exe"),
        (("merge", "{file}", "{bad}", "-o", "{out}"), 1, "bad.pprof is no profile"),
        (("diff", "{file}", "{bad}"), 1, "bad.pprof is no profile that can be read: "),
        (("merge", "{file}", "{missing}", "-o", "{out}"), 2, "could not be read: No such file"),
        (("convert", "{file}", "--to", "pprof", "-o", "{missing}/x"), 2, "cannot be written"),
        (("top", "{empty}"), 1, "the profile is empty"),
        (("top", "{json}"), 1, "needs nodes, samples and timeDeltas"),
    ],
)
def test_what_is_wrong_is_said(
    file: Path, tmp_path: Path, words: tuple[str, ...], status: int, told: str
) -> None:
    names = {
        name: tmp_path / f"{name}.pprof" for name in ("bad", "empty", "json", "missing", "out")
    }
    names["bad"].write_bytes(b"\x1f\x8bnothing")
    names["empty"].write_bytes(b"")
    names["json"].write_bytes(b'{"a": 1}')
    result = isoprof(*(word.format(file=file, **names) for word in words))
    assert result.exit_code == status
    assert told in re.sub(r"\s+", " ", result.stderr)
    assert not names["out"].exists()
