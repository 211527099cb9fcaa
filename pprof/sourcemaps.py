"""A source map read by ``symbolic``: which original place a generated one came from.

``symbolic`` answers with the nearest token before a position, even of a line above. Here a line
answers for itself: a position in its indentation is its first token.
"""

from __future__ import annotations

import base64
import binascii
import urllib.parse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from symbolic.exceptions import SymbolicError
from symbolic.sourcemap import SourceMapView

if TYPE_CHECKING:
    from symbolic.sourcemap import SourceMapTokenMatch

MAX_MAP_BYTES = 32 * 1024 * 1024
"""Read natively it takes up to nine times its size (measured on one of nothing but tokens)."""
MAX_TEXT = 4_096
"""Characters of a file's or a variable's name that are kept; a hostile map may have more."""
_LAST = 2**31 - 1
_MOST_TOKENS = 64
_INDENTATION = 32
_MOST_SOURCES_KEPT = 256
_INLINE = "data:"


class MapInvalid(ValueError):  # noqa: N818 - a statement about the map
    """The bytes are no source map, or too many; the message is safe to show."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """One original place. Lines and columns count from 0, columns in UTF-16 units.

    Args:
        name: what stands at the generated place is called that in the source; empty when the map
            does not say.
        column: where the generated token begins, in its line.
    """

    source_id: int
    source: str
    source_line: int
    source_column: int
    name: str
    column: int


class SourceMap:
    """One map, parsed. Pure and CPU-bound: for hostile maps run it in a process with bounds.

    Raises:
        MapInvalid: no source map, one without positions, or more than ``max_bytes``.
    """

    def __init__(self, data: bytes, max_bytes: int = MAX_MAP_BYTES) -> None:
        if len(data) > max_bytes:
            raise MapInvalid(f"the map has more than {max_bytes} bytes")
        try:
            self._view = SourceMapView.from_json_bytes(data)
        except SymbolicError as error:
            raise MapInvalid(_shown(f"not a source map: {error}")[:200]) from None
        if len(self._view) == 0:
            raise MapInvalid("the map maps nothing")
        self._texts: dict[int, list[str] | None] = {}

    def at(self, line: int, column: int) -> Token | None:
        """The place of a generated position; None where the map says nothing.

        Args:
            line, column: from 0.
        """
        found = self._lookup(line, column)
        if found is None:
            first = self._first(line)
            # Further away it is no indentation: a bundler's own helper stands before its input.
            if first is not None and first.dst_col - column <= _INDENTATION:
                found = first
        return _token(found)

    def of_line(self, line: int, source_id: int, not_before: int) -> Token | None:
        """The first place on a generated line that is of that source and not before that line."""
        found = self._first(line)
        for _ in range(_MOST_TOKENS):
            token = _token(found)
            if token and token.source_id == source_id and token.source_line >= not_before:
                return token
            if found is None:
                return None
            found = self._after(line, found.dst_col)
        return None

    def line_of(self, source_id: int, line: int) -> str | None:
        """A line of the original text; None when the map does not carry it.

        Raises:
            MapInvalid: the text is not readable.
        """
        if source_id not in self._texts:
            if len(self._texts) >= _MOST_SOURCES_KEPT:
                self._texts.clear()
            try:
                text = self._view.get_source_contents(source_id)
            except (SymbolicError, UnicodeDecodeError) as error:
                raise MapInvalid(f"a source is not readable: {type(error).__name__}") from None
            self._texts[source_id] = text.splitlines() if text else None
        lines = self._texts[source_id]
        return lines[line] if lines is not None and 0 <= line < len(lines) else None

    def _lookup(self, line: int, column: int) -> SourceMapTokenMatch | None:
        if not (0 <= line <= _LAST and column >= 0):
            return None
        found = self._view.lookup(line, min(column, _LAST))
        return found if found is not None and found.dst_line == line else None

    def _first(self, line: int) -> SourceMapTokenMatch | None:
        """A line's first token: columns are tried further and further, then the gap is halved."""
        if self._lookup(line, _LAST) is None:
            return None
        return self._between(line, -1)

    def _after(self, line: int, column: int) -> SourceMapTokenMatch | None:
        """The next token of a line, beyond the one that begins at a column."""
        last = self._lookup(line, _LAST)
        if last is None or last.dst_col <= column:
            return None
        return self._between(line, column)

    def _between(self, line: int, low: int) -> SourceMapTokenMatch | None:
        step = 1
        while True:
            found = self._lookup(line, low + step)
            if found is not None and found.dst_col > low:
                break
            low, step = low + step, step * 2
        # Whatever begins after ``low`` and first begins at ``found`` or before it.
        while found.dst_col - low > 1:
            middle = (low + found.dst_col) // 2
            earlier = self._lookup(line, middle)
            if earlier is not None and earlier.dst_col > low:
                found = earlier
            else:
                low = middle
        return found


def inline(url: str, max_bytes: int = MAX_MAP_BYTES) -> bytes | None:
    """The map inside a ``data:`` URL; None when the URL names a file.

    Raises:
        MapInvalid: not decodable, or larger than ``max_bytes``.
    """
    if url[: len(_INLINE)].lower() != _INLINE:
        return None
    head, comma, body = url[len(_INLINE) :].partition(",")
    if not comma:
        raise MapInvalid("the data: URL has no data")
    if len(body) > max_bytes * 2:
        raise MapInvalid(f"the map has more than {max_bytes} bytes")
    try:
        raw = urllib.parse.unquote_to_bytes(body)
        if head.rpartition(";")[2].strip().lower() == "base64":
            raw = base64.b64decode(raw, validate=True)
    except (binascii.Error, ValueError):
        raise MapInvalid("the data: URL is not decodable") from None
    if len(raw) > max_bytes:
        raise MapInvalid(f"the map has more than {max_bytes} bytes")
    return raw


def named_url(module: bytes) -> str | None:
    """What the last ``sourceMappingURL`` comment of a module names; None when it has none."""
    at = max(module.rfind(b"//# sourceMappingURL="), module.rfind(b"//@ sourceMappingURL="))
    if at < 0:
        return None
    line = module[at + len(b"//# sourceMappingURL=") :].split(b"\n", 1)[0].strip()
    return line.decode("utf-8", "replace") or None


def _token(found: SourceMapTokenMatch | None) -> Token | None:
    if found is None or found.src is None or found.src_id is None:
        return None
    return Token(
        source_id=found.src_id,
        source=_shown(found.src),
        source_line=found.src_line,
        source_column=found.src_col,
        name=_shown(found.name or ""),
        column=found.dst_col,
    )


def _shown(text: str) -> str:
    if len(text) <= MAX_TEXT and text.isprintable():
        return text
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:MAX_TEXT])
