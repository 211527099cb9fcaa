"""Reads typed values out of nested tables and collects every mistake, each naming its field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from contract.faults import FieldError

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping, Sequence

Choice = TypeVar("Choice", bound=str)


class Table:
    """One table of a file. A wrong field reads as a harmless value and is noted.

    Args:
        pointer: where it stands, ``/runtime/0``; empty for the whole file.
        mistakes: shared by all tables of a file.
    """

    def __init__(self, pointer: str, values: Mapping[str, Any], mistakes: list[FieldError]) -> None:
        self.pointer = pointer
        self.mistakes = mistakes
        self._values = values
        self._read: set[str] = set()

    def mistake(self, name: str, message: str) -> None:
        """Note what is wrong with a field."""
        self.mistakes.append(FieldError(pointer=f"{self.pointer}/{name}", message=message))

    def text(
        self,
        name: str,
        shape: re.Pattern[str] | None = None,
        wanted: str = "a text",
        *,
        default: str | None = None,
    ) -> str:
        """A text of a shape. Without a default it must be there; an empty one is its default."""
        value = self._take(name)
        if value in (None, ""):
            if default is None:
                self.mistake(name, f"is required: {wanted}")
            return default or ""
        if not isinstance(value, str) or (shape and not shape.fullmatch(value)):
            self.mistake(name, f"must be {wanted}")
            return ""
        return value

    def texts(
        self, name: str, shape: re.Pattern[str], wanted: str, *, least: int = 0
    ) -> tuple[str, ...]:
        """A list of texts of a shape."""
        value = self._take(name)
        if value is None and not least:
            return ()
        if not isinstance(value, list) or len(value) < least:
            self.mistake(name, f"must be a list of {least} or more: {wanted}")
            return ()
        good = [item for item in value if isinstance(item, str) and shape.fullmatch(item)]
        if len(good) < len(value):
            self.mistake(name, f"must hold only: {wanted}")
        return tuple(good)

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """An integer within bounds."""
        value = self._take(name)
        if value is None:
            return default
        if type(value) is not int or not least <= value <= most:
            self.mistake(name, f"must be an integer from {least} to {most}")
            return default
        return value

    def choice(self, name: str, choices: Sequence[Choice], default: Choice) -> Choice:
        """One of a few texts."""
        value = self._take(name)
        if value is None:
            return default
        for choice in choices:
            if value == choice:
                return choice
        self.mistake(name, f"must be one of {', '.join(choices)}")
        return default

    def table(self, name: str, *, optional: bool = False) -> Table:
        """A table within; an empty one where it may be absent and is."""
        value = self._take(name)
        if value is None and optional:
            value = {}
        elif not isinstance(value, dict):
            self.mistake(name, "must be a table")
            return Table(f"{self.pointer}/{name}", {}, [])
        return Table(f"{self.pointer}/{name}", value, self.mistakes)

    def tables(self, name: str) -> tuple[Table, ...]:
        """A list of tables; empty when there is none."""
        value = self._take(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.mistake(name, "must be a list of tables")
            return ()
        return tuple(
            Table(f"{self.pointer}/{name}/{index}", item, self.mistakes)
            for index, item in enumerate(value)
        )

    def nothing_else(self) -> None:
        """Note every field nobody asked for: a misspelt setting must not pass for its default."""
        for name in self._values:
            if name not in self._read:
                self.mistake(name, "is not known")

    def __bool__(self) -> bool:
        return bool(self._values)

    def _take(self, name: str) -> Any:
        self._read.add(name)
        return self._values.get(name)
