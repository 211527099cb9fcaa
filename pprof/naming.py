"""What a function is called in its own source: read off the text around where it starts.

Maps name what was renamed, and often nothing else; engines guess names, at times from a variable
inside. The text says what a person would look for: ``function NAME``, ``NAME(…) {``, ``NAME = (…)
=>``, ``NAME: function``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_NAME = r"[A-Za-z_$#\u0080-\uffff][\w$\u0080-\uffff]*"
_DECLARED = re.compile(rf"(?:async\s+)?function\b\s*\*?\s*(?P<name>{_NAME})?")
_METHOD = re.compile(rf"(?:async\s+|get\s+|set\s+|static\s+|\*\s*)*(?P<name>{_NAME})\s*(?=[(<])")
_FUNCTION_BEFORE = re.compile(r"\bfunction\s*\*?\s*$")
_NAMED_BEFORE = re.compile(rf"\bfunction\s*\*?\s*(?P<name>{_NAME})\s*$")
# The parenthesis, type parameters and keywords between a name and where the engine says it starts.
_LEAD = re.compile(r"(?:\basync\b|\bfunction\b\s*\*?|\()\s*$")
_TYPED = re.compile(
    r"\b(?:const|let|var|readonly|public|private|protected|static|declare|override)\s+"
    rf"(?P<name>{_NAME})\s*[!?]?\s*:(?!.*\b(?:const|let|var)\b).*=\s*$",
    re.DOTALL,
)
_ASSIGNED = re.compile(rf"(?P<name>{_NAME})\s*(?:\?\?|\|\||&&)?=\s*$")
_PROPERTY = re.compile(
    rf"(?:(?P<name>{_NAME})|\"(?P<quoted>[^\"\\]+)\"|'(?P<single>[^'\\]+)')\s*:\s*$"
)
_CLASS = re.compile(rf"\bclass\s+({_NAME})")
_DEFAULT = re.compile(r"\bexport\s+default\s*$")
_WORDS = frozenset(
    {
        "if",
        "for",
        "while",
        "switch",
        "catch",
        "return",
        "typeof",
        "new",
        "delete",
        "void",
        "in",
        "do",
        "else",
        "await",
        "yield",
        "throw",
        "case",
        "function",
        "with",
        "super",
        "this",
        "import",
    }
)
_BEFORE_LINES = 2
_AFTER_LINES = 40
_CLASS_LINES = 200
_MOST_BEFORE = 400
_MOST_TEXT = 2_000


def written(line_of: Callable[[int], str | None], line: int, column: int) -> str | None:
    """The name a function has in the text, "" when it has none there, None when that can't be told.

    Args:
        line_of: a line of the text, from 0; None beyond its end.
        line, column: of where the function starts, or of its name; columns in UTF-16 units.
    """
    here = line_of(line)
    if here is None:
        return None
    at = _index(here, column)
    if at > len(here):
        return None
    before = _before(line_of, line, here[:at])
    after = _after(line_of, line, here[at : at + _MOST_TEXT])
    name = _read(before, after)
    return _class_above(line_of, line, before) if name == "constructor" else name


def _read(before: str, after: str) -> str | None:
    declared = _DECLARED.match(after)
    if declared is not None:
        return declared["name"] or _given(before)
    if _FUNCTION_BEFORE.search(before):
        # It starts at its name, or at its parenthesis when it has none.
        named = re.match(_NAME, after)
        return named[0] if named else _given(_FUNCTION_BEFORE.sub("", before))
    method = _METHOD.match(after)
    if method is not None and method["name"] not in _WORDS and _defines(after[method.end() :]):
        return method["name"]
    named = _NAMED_BEFORE.search(before)
    if named is not None:
        return named["name"]
    if _is_arrow(before, after):
        return _given(before)
    return None


def _class_above(line_of: Callable[[int], str | None], line: int, text: str) -> str | None:
    """The class a constructor is of."""
    for above in range(line, max(-1, line - _CLASS_LINES), -1):
        found = _CLASS.findall(text if above == line else (line_of(above) or "")[:_MOST_TEXT])
        if found:
            return str(found[-1])
    return None


def _given(before: str) -> str:
    """The variable or property a function without a name is put into; "" for a callback."""
    while (lead := _LEAD.search(before)) is not None and not _called(before[: lead.end()]):
        before = before[: lead.start()].rstrip() + " "
    typed = _TYPED.search(before)
    if typed is not None and ";" not in typed[0]:
        return typed["name"]
    found = _ASSIGNED.search(before) or _PROPERTY.search(before)
    if found is not None:
        groups = found.groupdict()
        name = groups["name"] or groups.get("quoted") or groups.get("single") or ""
        return "" if name in _WORDS else name
    return "default" if _DEFAULT.search(before) else ""


def _called(text: str) -> bool:
    """Whether the parenthesis at the end is a call's, so that what follows is an argument."""
    return re.search(r"[\w$\])]\s*\($", text.rstrip()) is not None and not re.search(
        r"\basync\s*\($", text.rstrip()
    )


def _is_arrow(before: str, after: str) -> bool:
    text = after.lstrip()
    if text.startswith("async"):
        text = text[5:].lstrip()
    if text.startswith(("(", "<")):
        rest = _beyond_brackets(text)
        return rest is not None and re.match(r"\s*(?::[^{}]*?)?=>", rest) is not None
    # A map of minified code points at the first parameter, behind the parenthesis.
    if re.match(rf"{_NAME}\s*=>", text):
        return True
    if before.rstrip().endswith("(") and not text.startswith("("):
        rest = _beyond_brackets("(" + text)
        return rest is not None and re.match(r"\s*(?::[^{}]*?)?=>", rest) is not None
    return False


def _defines(text: str) -> bool:
    """Whether parameters are followed by a body or a type, not by the rest of an expression."""
    if text.startswith("<"):
        text = _beyond_brackets(text) or ""
    rest = _beyond_brackets(text)
    return rest is not None and rest.lstrip().startswith(("{", ":"))


def _beyond_brackets(text: str) -> str | None:
    """What follows the bracket that the text begins with; None when it is not closed in reach."""
    opening = text[:1]
    closing = {"(": ")", "<": ">"}.get(opening)
    if closing is None:
        return None
    depth = 0
    for index, character in enumerate(text):
        if character == opening:
            depth += 1
        elif character == closing and text[index - 1] != "=":
            depth -= 1
            if depth == 0:
                return text[index + 1 :]
    return None


def _before(line_of: Callable[[int], str | None], line: int, text: str) -> str:
    above = line
    # Only where the line itself says nothing: ``const name =`` may stand on the line above.
    while line - above < _BEFORE_LINES and not text.strip(" \t(") and above > 0:
        above -= 1
        text = (line_of(above) or "") + "\n" + text
    return text[-_MOST_BEFORE:]


def _after(line_of: Callable[[int], str | None], line: int, text: str) -> str:
    parts, size = [text], len(text)
    for below in range(line + 1, line + _AFTER_LINES):
        # Parameters over many lines are closed by then.
        if "{" in parts[-1] or "=>" in parts[-1] or size >= _MOST_TEXT:
            break
        more = line_of(below)
        if more is None:
            break
        parts.append(more[:_MOST_TEXT])
        size += len(parts[-1])
    return "\n".join(parts)[:_MOST_TEXT]


def _index(text: str, column: int) -> int:
    """Where a column in UTF-16 units is in a string."""
    if text.isascii():
        return column
    return len(
        text.encode("utf-16-le", "surrogatepass")[: 2 * column].decode("utf-16-le", "ignore")
    )
