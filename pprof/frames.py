"""Frames as views show them: functions by what they are, and what kind of code they belong to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from pprof.places import TRUNCATED

if TYPE_CHECKING:
    from pprof.model import Function, Profile


class Kind(IntEnum):
    """What a frame is, in the order of ``KINDS`` in documents."""

    OWN = 0
    LIBRARY = 1
    RUNTIME = 2
    NATIVE = 3
    PROGRAM = 4
    GC = 5
    IDLE = 6
    MARK = 7


KINDS = tuple(kind.name.lower() for kind in Kind)

NO_STACK = "(no stack)"
"""Stands for what a profile gives a value but no frame."""
CUT = "(cut)"
"""Holds what did not fit below its caller."""
FILTERED = "(filtered)"
"""Holds what a filter took out, so that totals stay what they are."""

_META = {
    "(program)": Kind.PROGRAM,
    "(garbage collector)": Kind.GC,
    "(idle)": Kind.IDLE,
    "(root)": Kind.RUNTIME,
    TRUNCATED: Kind.MARK,
    NO_STACK: Kind.MARK,
    CUT: Kind.MARK,
    FILTERED: Kind.MARK,
}
_RUNTIME = re.compile(
    r"^(node|workerd|cloudflare|cloudflare-internal|internal|native|evalmachine)[:/]"
)
_LIBRARY = re.compile(
    r"(^|[/\\])(node_modules|bower_components|\.pnpm|\.yarn)[/\\]|^webpack/|^webpack:.*/webpack/"
)


@dataclass(frozen=True, slots=True)
class Frame:
    """A function as a view knows it; equal ones are one, whatever their ids.

    Args:
        file: original file, where a source map told it.
        line: where the function starts, 1-based; 0 when not known.
        generated: where the running code has it, ``url:line:column``.
    """

    name: str
    file: str
    line: int
    generated: str

    @property
    def place(self) -> str:
        """``file:line``, what is known of it."""
        return f"{self.file}:{self.line}" if self.file and self.line else self.file

    @property
    def kind(self) -> Kind:
        """What kind of code it is."""
        return kind(self)


def kind(frame: Frame) -> Kind:
    """Tell a frame of the program's own from a library's, the runtime's and what is no code."""
    if not frame.file:
        return _META.get(frame.name, Kind.NATIVE)
    if _RUNTIME.match(frame.file):
        return Kind.RUNTIME
    return Kind.LIBRARY if _LIBRARY.search(frame.file) else Kind.OWN


def frame(function: Function) -> Frame:
    """Make a view's frame of a function."""
    return Frame(function.name, function.filename, function.start_line, function.system_name)


class Frames:
    """A profile's distinct frames, numbered from 0, and those of each of its locations."""

    def __init__(self, profile: Profile) -> None:
        numbers: dict[Frame, int] = {}
        of_function = {
            function.id: numbers.setdefault(frame(function), len(numbers))
            for function in profile.functions
        }
        self.list = list(numbers)
        self._numbers = numbers
        self._at = {
            location.id: tuple(of_function[line.function_id] for line in location.lines)
            for location in profile.locations
        }
        self._lone = {id_: at[0] for id_, at in self._at.items() if len(at) == 1}

    def stack(self, location_ids: tuple[int, ...]) -> list[int]:
        """Frame numbers of a stack, leaf first; what was inlined stands for itself."""
        try:
            lone = self._lone
            found = [lone[id_] for id_ in location_ids]
        except KeyError:
            found = [number for id_ in location_ids for number in self._at[id_]]
        return found or [self._add(Frame(NO_STACK, "", 0, ""))]

    def _add(self, one: Frame) -> int:
        number = self._numbers.setdefault(one, len(self._numbers))
        if number == len(self.list):
            self.list.append(one)
        return number
