"""Scripts, functions and lines of a capture, each once: V8's 0-based frames become 1-based."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pprof.check import Bounds, ProfileInvalid
from pprof.model import Function, Line, Location, Mapping

if TYPE_CHECKING:
    from pprof.v8 import JsonObject

TRUNCATED = "(truncated)"
"""The root frame of a stack whose outer callers were cut off."""
_LAST_LINE = 2**31


class Places:
    """The tables of a profile while it is built. Ids count from 1 in the order things are met.

    A function is (script, start line, start column): the same name twice stays two functions, and
    V8 giving one function two names stays one. Only where V8 tells no place (native code,
    ``(program)``) is the name what tells functions apart.

    Args:
        build_id: of every script, the version's id.
    """

    def __init__(self, build_id: str, bounds: Bounds) -> None:
        self.repaired = 0
        self._build_id = build_id
        self._bounds = bounds
        self._ids: dict[tuple[object, ...], int] = {}
        self._placed: dict[tuple[object, object, object], int] = {}
        self._functions: list[Function] = []
        self._starts: list[tuple[int, int, int]] = []
        self._mappings: dict[str, Mapping] = {}
        self._locations: dict[tuple[int, int], Location] = {}

    def function(self, frame: JsonObject) -> int:
        """Function id of a V8 call frame.

        Raises:
            ProfileInvalid: a part is missing or of the wrong type.
        """
        try:
            # Most frames were met before, and a capture has one per node.
            known = self._placed.get((frame["url"], frame["lineNumber"], frame["columnNumber"]))
        except (KeyError, TypeError):
            known = None
        return known or self._met(frame)

    def _met(self, frame: JsonObject) -> int:
        name, url = frame.get("functionName"), frame.get("url", "")
        line, column = frame.get("lineNumber", -1), frame.get("columnNumber", -1)
        if (
            type(name) is not str
            or type(url) is not str
            or type(line) is not int
            or type(column) is not int
        ):
            raise ProfileInvalid("a call frame has a part of the wrong type")
        script = url or str(frame.get("scriptId", ""))
        key: tuple[object, ...] = (script, line, column)
        if line < 0 or url.startswith("wasm"):
            # WebAssembly may tell no offset, native code never tells a place.
            key = (*key, name)
        id_ = self._ids.get(key) or self._add(key, name, url, script, line, column)
        if url and len(key) == 3:
            self._placed[url, line, column] = id_
        return id_

    def named(self, name: str) -> int:
        """Function id of something that is no code: ``(truncated)``."""
        key = ("", -1, -1, name)
        return self._ids.get(key) or self._add(key, name, "", "", -1, -1)

    def known(self, function_id: object) -> bool:
        """Whether this is the id of a function met before."""
        return type(function_id) is int and 0 < function_id <= len(self._functions)

    def placed(self, function_id: int) -> bool:
        """Whether V8 told where the function stands."""
        return self._starts[function_id - 1][1] > 0

    def name(self, function_id: int) -> str:
        """The name as it will be shown."""
        return self._functions[function_id - 1].name

    def location(self, function_id: int, line: int = 0) -> int:
        """Location id of a line of a function; 0 is the line where it starts, with its column."""
        mapping_id, start_line, start_column = self._starts[function_id - 1]
        line = line or start_line
        known = self._locations.get((function_id, line))
        if known is None:
            known = Location(
                id=len(self._locations) + 1,
                mapping_id=mapping_id,
                lines=(
                    Line(
                        function_id=function_id,
                        line=line,
                        # A hot line comes without a column. On the starting line the function's own
                        # is the best there is: in a bundle of one line it is all that tells two
                        # functions apart.
                        column=start_column if line == start_line else 0,
                    ),
                ),
            )
            self._locations[function_id, line] = known
        return known.id

    def tables(self) -> tuple[tuple[Mapping, ...], tuple[Function, ...], tuple[Location, ...]]:
        """What was met so far and is used by a location: mappings, functions, locations."""
        used = {line.function_id for place in self._locations.values() for line in place.lines}
        scripts = {place.mapping_id for place in self._locations.values()}
        return (
            tuple(mapping for mapping in self._mappings.values() if mapping.id in scripts),
            tuple(function for function in self._functions if function.id in used),
            tuple(self._locations.values()),
        )

    def _add(
        self, key: tuple[object, ...], name: str, url: str, script: str, line: int, column: int
    ) -> int:
        if line > _LAST_LINE or column > _LAST_LINE:
            raise ProfileInvalid("a call frame stands beyond any file's last line")
        name, url = self._text(name), self._text(url)
        placed = line >= 0
        where = f"{url or f'script {script}'}:{line + 1}:{max(column, 0) + 1}" if placed else ""
        shown = name or (f"(anonymous {where})" if placed else "(anonymous)")
        id_ = len(self._functions) + 1
        self._functions.append(
            Function(
                id=id_,
                name=self._text(shown),
                system_name=self._text(where or shown),
                filename=url,
                start_line=line + 1 if placed else 0,
            )
        )
        self._starts.append(
            (self._mapping(url), line + 1 if placed else 0, max(column, 0) + 1 if placed else 0)
        )
        self._ids[key] = id_
        return id_

    def _mapping(self, url: str) -> int:
        if not url:
            return 0
        known = self._mappings.get(url)
        if known is None:
            known = Mapping(id=len(self._mappings) + 1, filename=url, build_id=self._build_id)
            self._mappings[url] = known
        return known.id

    def _text(self, text: str) -> str:
        # JavaScript strings may hold half of a surrogate pair, and names are as long as a program
        # likes.
        fits = len(text) * 4 <= self._bounds.max_string_bytes
        if text.isascii() and (fits or len(text) <= self._bounds.max_string_bytes):
            return text
        raw = text.encode("utf-8", "replace")
        cut = raw[: self._bounds.max_string_bytes].decode("utf-8", "ignore")
        if cut != text:
            self.repaired += 1
        return cut
