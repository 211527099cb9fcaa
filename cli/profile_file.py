"""Profile files as the command line reads them: pprof or .cpuprofile, and why one can't be."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, NoReturn

import typer

from cli import progress
from cli.outcome import Exit
from pprof import codec, cpuprofile
from pprof.check import DEFAULT_BOUNDS, ProfileInvalid, within
from pprof.filter import Filter, filtered

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pprof.frames import Frame
    from pprof.model import Profile

STANDARD = "-"


def read(path: Path) -> Profile:
    """Read a profile from a file, or from standard input for ``-``.

    Raises:
        typer.Exit: it can't be read, or is no profile; told on standard error.
    """
    try:
        data = _bytes(path)
        return cpuprofile.read(data) if is_json(data) else codec.decode(data)
    except OSError as error:
        progress.say(f"{path} could not be read: {error.strerror}")
        raise typer.Exit(Exit.USAGE) from None
    except ProfileInvalid as error:
        refuse(f"{path} is no profile that can be read: {error}")


def is_json(data: bytes) -> bool:
    """Whether these bytes are text of JSON, which no pprof begins like."""
    return data[:64].lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"["))


def narrowed(
    profile: Profile, focus: str | None, ignore: str | None, hide: str | None, *, prune: bool
) -> Profile:
    """Apply the filters a person gave.

    Raises:
        typer.Exit: a pattern is no regular expression.
    """
    wanted = Filter(
        focus=_pattern("--focus", focus),
        ignore=_pattern("--ignore", ignore),
        hide=_pattern("--hide", hide),
        prune_runtime=prune,
    )
    return filtered(profile, wanted)


def meant(pattern: str) -> Callable[[Frame], bool]:
    """Which functions a person means by a pattern, searched for in ``name file:line``."""
    found = _pattern("FUNCTION", pattern)
    return lambda frame: found is not None and bool(found.search(f"{frame.name} {frame.place}"))


def refuse(why: str) -> NoReturn:
    """Tell a person that this profile won't do, and end."""
    progress.say(why)
    raise typer.Exit(Exit.API_ERROR)


def _pattern(option: str, text: str | None) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        progress.say(f"{option} is no regular expression: {error}")
        raise typer.Exit(Exit.USAGE) from None


def _bytes(path: Path) -> bytes:
    # One byte more than is allowed tells that there are more, without taking them all in.
    most = DEFAULT_BOUNDS.max_bytes + 1
    if str(path) == STANDARD:
        data = sys.stdin.buffer.read(most)
    else:
        with path.open("rb") as file:
            data = file.read(most)
    within(len(data), "max_bytes", DEFAULT_BOUNDS.max_bytes)
    return data
