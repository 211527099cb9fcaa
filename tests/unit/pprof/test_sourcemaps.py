"""Maps: the nearest token of the line itself, and nothing hostile gets past."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pprof.sourcemaps import MapInvalid, SourceMap, inline, named_url
from tests.unit.pprof.written_maps import Segment, source_map

LINES: list[list[Segment]] = [[(0, 0, 0, 0)], [(4, 0, 5, 2), (9, 0, 6, 1, 0)], [], [(2, 1, 8, 0)]]


def made() -> SourceMap:
    return SourceMap(source_map(LINES, sources=("a.ts", "b.ts"), names=("total",)))


@pytest.mark.parametrize(
    ("line", "column", "expected"),
    [
        (0, 0, (0, 0, 0)),
        (0, 99, (0, 0, 0)),
        (1, 0, (0, 5, 2)),
        (1, 3, (0, 5, 2)),
        (1, 8, (0, 5, 2)),
        (1, 9, (0, 6, 1)),
        (1, 2**40, (0, 6, 1)),
        (2, 0, None),
        (3, 0, (1, 8, 0)),
        (4, 0, None),
        (2**40, 0, None),
        (-1, 0, None),
    ],
)
def test_position_maps_to_the_nearest_token_of_its_own_line(
    line: int, column: int, expected: tuple[int, int, int] | None
) -> None:
    token = made().at(line, column)
    found = token and (token.source_id, token.source_line, token.source_column)
    assert found == expected


def test_code_a_bundler_put_before_its_input_is_not_the_input_s() -> None:
    one = SourceMap(source_map([[(90, 0, 0, 0)]]))
    assert one.at(0, 20) is None
    assert one.at(0, 89) is not None


def test_line_maps_to_its_first_place_in_the_function_s_own_file() -> None:
    segments = [(5, 1, 3, 0), (7, 0, 2, 0), (40, 0, 9, 4), (41, 0, 10, 0)]
    one = SourceMap(source_map([[], segments], sources=("a.ts", "b.ts")))
    token = one.of_line(1, source_id=0, not_before=5)
    assert token is not None
    assert (token.source, token.source_line, token.source_column) == ("a.ts", 9, 4)
    assert one.of_line(1, source_id=0, not_before=11) is None
    assert one.of_line(0, source_id=0, not_before=0) is None


@given(
    columns=st.lists(st.integers(0, 2**20), min_size=1, max_size=12, unique=True),
    asked=st.integers(0, 2**20),
)
def test_nearest_token_is_that_of_a_plain_search(columns: list[int], asked: int) -> None:
    columns.sort()
    one = SourceMap(source_map([[(0, 0, 0, 0)], [(at, 0, at, 0) for at in columns]]))
    token = one.at(1, asked)
    indented = columns[0] if columns[0] - asked <= 32 else None
    expected = max((at for at in columns if at <= asked), default=indented)
    assert (token and token.column) == expected
    for at in columns:
        found = one.of_line(1, source_id=0, not_before=at)
        assert found is not None
        assert found.source_line == at


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"[" * 100_000,
        b"\xff\xfe",
        source_map([]),
        b'{"version":3,"sources":["a"],"names":[],"mappings":"!!!"}',
        b'{"version":3,"sources":["a"],"names":[],"mappings":"ACAA"}',
        b'{"version":3,"sources":["a"],"names":[],"mappings":"AAgggggggggggggE"}',
        b'{"version":3,"sources":["\\ud800"],"names":[],"mappings":"AAAA"}',
    ],
)
def test_what_is_no_map_is_refused(data: bytes) -> None:
    with pytest.raises(MapInvalid):
        SourceMap(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for raw in (data, b'{"version":3,"sources":["a"],"names":[],"mappings":"' + data + b'"}'):
        try:
            one = SourceMap(raw)
        except MapInvalid:
            continue
        one.at(0, 0)
        one.of_line(0, 0, 0)


def test_size_is_bounded() -> None:
    with pytest.raises(MapInvalid, match="more than 10 bytes"):
        SourceMap(source_map(LINES), max_bytes=10)


def test_hostile_texts_are_cut_and_cleaned() -> None:
    one = SourceMap(
        source_map([[(0, 0, 0, 0, 0)]], sources=("a\n" + "b" * 100_000,), names=("n\x00m",))
    )
    token = one.at(0, 0)
    assert token is not None
    assert token.source.startswith("a\N{REPLACEMENT CHARACTER}b")
    assert len(token.source) == 4096
    assert token.name == "n\N{REPLACEMENT CHARACTER}m"


def test_segments_without_a_source_map_to_nothing() -> None:
    one = SourceMap(source_map([[(0, 0, 0, 0)]], sources=(None,)))
    assert one.at(0, 0) is None


def test_sections_are_one_map() -> None:
    part = b'{"version":3,"sources":["%s"],"names":[],"mappings":"AAAA"}'
    one = SourceMap(
        b'{"version":3,"sections":[{"offset":{"line":0,"column":0},"map":'
        + part % b"x"
        + b'},{"offset":{"line":5,"column":2},"map":'
        + part % b"y"
        + b"}]}"
    )
    first, second = one.at(0, 0), one.at(5, 3)
    assert first is not None
    assert second is not None
    assert (first.source, second.source) == ("x", "y")


def test_inline_maps() -> None:
    data = source_map(LINES)
    packed = base64.b64encode(data).decode()
    assert inline("data:application/json;base64," + packed) == data
    assert inline("data:application/json;charset=utf-8;base64," + packed) == data
    assert inline("data:application/json,%7B%7D") == b"{}"
    assert inline("worker.js.map") is None
    for url in ("data:application/json;base64", "data:;base64,*", "data:;base64,A"):
        with pytest.raises(MapInvalid):
            inline(url)
    with pytest.raises(MapInvalid, match="more than 9 bytes"):
        inline("data:," + "x" * 10, max_bytes=9)


def test_last_comment_names_the_map() -> None:
    text = b"let a;\n//# sourceMappingURL=old.map\nlet b;\n//# sourceMappingURL=new.js.map \n"
    assert named_url(text) == "new.js.map"
    assert named_url(b"let a;") is None
