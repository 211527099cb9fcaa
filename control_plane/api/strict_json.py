"""JSON from strangers: exactly what RFC 8259 says, bounded, and nothing Postgres could not keep."""

from __future__ import annotations

import json
import math
from typing import Any

from contract.faults import Fault, FieldError, Reason

MAX_DEPTH = 16


def parse(body: bytes) -> Any:
    """Read one JSON document.

    Refused beside broken syntax: NaN and infinities (spelled or by overflow), a key twice in one
    object, nesting beyond ``MAX_DEPTH``, NUL and lone surrogates in strings, any encoding but
    UTF-8.

    Raises:
        Fault: request_invalid, pointing at the whole document.
    """
    try:
        value = json.loads(
            body.decode("utf-8"),
            parse_constant=_refuse_constant,
            parse_float=_finite,
            object_pairs_hook=_without_twins,
        )
    except _RefusedError as error:
        raise _invalid(str(error)) from None
    except UnicodeDecodeError:
        raise _invalid("The body must be JSON in UTF-8.") from None
    except RecursionError:
        raise _invalid(f"The body must not nest deeper than {MAX_DEPTH} levels.") from None
    except ValueError:
        raise _invalid("The body must be one JSON object.") from None
    _check(value)
    return value


class _RefusedError(ValueError):
    """Well-formed to the parser, refused by us."""


def _refuse_constant(name: str) -> Any:
    raise _RefusedError(f"{name} is not JSON.")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _RefusedError("A number in the body is too large.")
    return number


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise _RefusedError("A key stands twice in one object of the body.")
    return made


def _check(document: Any) -> None:
    # Walked with a list, not by recursion: the depth is what is in question.
    todo: list[tuple[Any, int]] = [(document, 1)]
    while todo:
        value, depth = todo.pop()
        if depth > MAX_DEPTH:
            raise _invalid(f"The body must not nest deeper than {MAX_DEPTH} levels.")
        if isinstance(value, str):
            if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
                raise _invalid("Strings in the body must be Unicode text without NUL.")
        elif isinstance(value, dict):
            todo.extend((part, depth + 1) for pair in value.items() for part in pair)
        elif isinstance(value, list):
            todo.extend((part, depth + 1) for part in value)


def _invalid(message: str) -> Fault:
    return Fault(Reason.REQUEST_INVALID, message, fields=(FieldError(pointer="", message=message),))
