"""The name a function has in its source, told from where it starts."""

from __future__ import annotations

import pytest

from pprof.naming import written


def name(text: str) -> str | None:
    """``«`` marks where the function starts."""
    before, _, after = text.partition("«")
    lines = (before + after).split("\n")
    line = before.count("\n")
    column = len(before) - (before.rfind("\n") + 1)
    return written(lambda at: lines[at] if at < len(lines) else None, line, column)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("function plain«(n: number): number {", "plain"),
        ("export function «plain(n) {", "plain"),
        ("«async function plain(n) {", "plain"),
        ("const scale = «(n: number): number => {", "scale"),
        ("const scale = (« n) => {", "scale"),
        ("const scale = («n) => {", "scale"),
        ("export const scale = async «(n) => n", "scale"),
        ("const f: (n: number) => number = «(n) => n", "f"),
        ("let a = 1, f = «(n) => n", "f"),
        ("const f =\n  «(n) => n", "f"),
        ("this.handler = «() => 1", "handler"),
        ("  onDone = «(x: number) => x + 1;", "onDone"),
        ("  #secret = «() => 1;", "#secret"),
        ("  private readonly at: Clock = «() => 1;", "at"),
        ("  second: «(n: number) => n * 2,", "second"),
        ('  "third part": «function (n) {', "third part"),
        ("  third: function «(n) {", "third"),
        ("  «run(n: number): number {", "run"),
        ("  run«(n: number): number {", None),
        ("  static «of(n) {", "of"),
        ("  async «fetch(): Promise<Response> {", "fetch"),
        ("  «swap<T>(left: T, right: T) {", "swap"),
        ("  «long(\n    first: string,\n    second: string,\n  ) {", "long"),
        ("export default «function (n) {", "default"),
        ("export default «() => 1", "default"),
        ("  .map(«(n) => n + 1)", ""),
        ("  .map((«n) => n + 1)", ""),
        ("  .map(«n => n + 1)", ""),
        ("items = list.map(«n => n + 1)", ""),
        ("register(async «() => 1)", ""),
        ("list.sort(«function (a, b) {", ""),
        ("const sum = «total + 1;", None),
        ("  «call(n);", None),
        ("  if «(x) {", None),
        ("  «if (x) {", None),
        ("class Box {\n  size = 1;\n  «constructor(n) {", "Box"),
        ("«", None),
    ],
)
def test_name_is_what_the_source_says(text: str, expected: str | None) -> None:
    assert name(text) == expected


def test_columns_are_utf16_units() -> None:
    text = "const 🙂 = 1, wave = (n) => n"
    column = len(text[: text.index("(n)")].encode("utf-16-le")) // 2
    assert written(lambda line: text if line == 0 else None, 0, column) == "wave"


def test_place_beyond_the_text_tells_nothing() -> None:
    assert written(lambda line: "short" if line == 0 else None, 0, 99) is None
    assert written(lambda line: None, 7, 0) is None


@pytest.mark.parametrize("text", ["(" * 50_000, "const " * 20_000, "a:" * 50_000, " " * 100_000])
def test_hostile_text_is_read_in_part(text: str) -> None:
    assert written(lambda line: text, 5, len(text) // 2) in (None, "", "const", "a")
