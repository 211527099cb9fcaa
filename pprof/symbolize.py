"""Give a profile the files, lines and names of the sources its scripts were built from.

Nothing is lost: ``system_name`` keeps where the running code has a function, values and stacks stay
as they are, and a frame no map knows stays whole and is counted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pprof import naming
from pprof.model import Function, Line, Location, Profile
from pprof.sourcemaps import MapInvalid, SourceMap, Token

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_GENERATED = re.compile(r"(?P<script>.*):(?P<line>\d{1,10}):(?P<column>\d{1,10})", re.DOTALL)
_GUESS_BEFORE = (" = ", "=", ": ", ":")


@dataclass(frozen=True, kw_only=True)
class Symbolized:
    """What came out.

    Args:
        mapped: functions that have their original place now.
        unmapped: functions with a place in a script that no map knew.
    """

    profile: Profile
    mapped: int
    unmapped: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Start:
    map: SourceMap
    token: Token
    line: int


def symbolize(
    profile: Profile, maps: Mapping[str, SourceMap], problems: Iterable[str] = ()
) -> Symbolized:
    """Apply source maps to a profile as it came from a builder. Pure and CPU-bound.

    Args:
        maps: by script, as ``Function.filename`` has it; or by the file name of its path.
        problems: what kept other maps from being used, one line each; told in comments.
    """
    found = _Scripts(maps)
    starts: dict[int, _Start] = {}
    functions: list[Function] = []
    unmapped = 0
    for function in profile.functions:
        where = generated_place(function)
        if where is None:
            functions.append(function)
            continue
        source_map = found.of(function.filename)
        try:
            token = source_map.at(where[0] - 1, where[1] - 1) if source_map else None
            if source_map is None or token is None:
                unmapped += 1
                functions.append(function)
                continue
            functions.append(_original(function, source_map, token, where))
        except MapInvalid:
            unmapped += 1
            functions.append(function)
            continue
        starts[function.id] = _Start(map=source_map, token=token, line=where[0])
    told = (
        f"mapped_frames={len(starts)}",
        f"unmapped_frames={unmapped}",
        *(f"map_problem={_one_line(problem)}" for problem in problems),
    )
    return Symbolized(
        profile=replace(
            profile,
            functions=tuple(functions),
            locations=tuple(_located(one, starts) for one in profile.locations),
            comments=(*profile.comments, *told),
        ),
        mapped=len(starts),
        unmapped=unmapped,
    )


def generated_place(function: Function) -> tuple[int, int] | None:
    """Line and column (from 1) where the running code has a function; None for native code."""
    found = _GENERATED.fullmatch(function.system_name)
    if found is None or not function.start_line or found["script"] != function.filename:
        return None
    return int(found["line"]), int(found["column"])


class _Scripts:
    """Maps by script. A path that only ends alike is taken where one map alone fits."""

    def __init__(self, maps: Mapping[str, SourceMap]) -> None:
        self._maps = dict(maps)
        self._by_name: dict[str, list[SourceMap]] = {}
        for script, one in maps.items():
            self._by_name.setdefault(_file_name(script), []).append(one)

    def of(self, script: str) -> SourceMap | None:
        known = self._maps.get(script)
        if known is None and script:
            alike = self._by_name.get(_file_name(script), [])
            known = alike[0] if len(alike) == 1 else None
        return known


def _file_name(script: str) -> str:
    try:
        path = urlsplit(script).path
    except ValueError:
        path = script
    return path.rpartition("/")[2]


def _original(
    function: Function, source_map: SourceMap, token: Token, where: tuple[int, int]
) -> Function:
    unnamed = function.name == f"(anonymous {function.system_name})"
    known = "" if unnamed else function.name
    name = _name(known, source_map, token, where)
    if not name:
        name = f"(anonymous {token.source}:{token.source_line + 1}:{token.source_column + 1})"
    return replace(function, name=name, filename=token.source, start_line=token.source_line + 1)


def _name(known: str, source_map: SourceMap, token: Token, where: tuple[int, int]) -> str:
    """Its name in the source; else the map's word for the one it has; else that one."""
    if known.startswith("<"):
        # What the engine makes of a class's fields has no name in the source.
        return known
    name = naming.written(
        lambda line: source_map.line_of(token.source_id, line),
        token.source_line,
        token.source_column,
    )
    if name is None:
        name = _renamed(known, source_map, token, where)
    # An accessor's name comes with ``get`` or ``set`` before it, which is worth keeping.
    return known if name and known.endswith(f" {name}") else name


def _renamed(known: str, source_map: SourceMap, token: Token, where: tuple[int, int]) -> str:
    """The name the map has for the identifier that stands right before the function's start."""
    line, column = where[0] - 1, where[1] - 1
    if not known:
        return ""
    if token.column == column - len(known):
        return token.name or known
    # An arrow function starts at its parameters: what it was put into stands before them.
    for between in _GUESS_BEFORE if token.column == column else ():
        at = column - len(between) - len(known)
        before = source_map.at(line, at) if at >= 0 else None
        if before is not None and before.column == at and before.name:
            return before.name
    return known


def _located(location: Location, starts: Mapping[int, _Start]) -> Location:
    lines = tuple(_line(line, starts.get(line.function_id)) for line in location.lines)
    return replace(location, lines=lines) if lines != location.lines else location


def _line(line: Line, start: _Start | None) -> Line:
    if start is None:
        return line
    first = Line(
        function_id=line.function_id,
        line=start.token.source_line + 1,
        column=start.token.source_column + 1,
    )
    if line.line in (0, start.line):
        # Where it starts; of a bundle in one line nothing nearer is known.
        return first
    hot = start.map.of_line(line.line - 1, start.token.source_id, start.token.source_line)
    if hot is None:
        return replace(first, column=0)
    return replace(first, line=hot.source_line + 1, column=hot.source_column + 1)


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)[:400]
