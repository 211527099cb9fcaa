"""The text of sources for ``isoprof list``: from a folder, or from what source maps carry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NoReturn

import typer

from cli import progress
from cli.outcome import Exit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

MOST_BYTES = 32 * 1024 * 1024


def texts(folder: Path | None, maps: Sequence[Path]) -> Callable[[str], Sequence[str] | None]:
    """The lines of a profile's files, each looked up once; None for a file nobody has.

    Args:
        folder: searched first, for the whole name and for what is left without its first folders.
        maps: source maps with ``sourcesContent``.

    Raises:
        typer.Exit: a map is none, told on standard error.
    """
    carried = {name: text for path in maps for name, text in _carried(path).items()}
    known: dict[str, Sequence[str] | None] = {}

    def lines(name: str) -> Sequence[str] | None:
        if name not in known:
            found = _in_folder(folder, name) if folder is not None else None
            known[name] = found if found is not None else _in_maps(carried, name)
        return known[name]

    return lines


def _in_folder(folder: Path, name: str) -> Sequence[str] | None:
    # A profile comes from outside: no name of it leads out of the folder.
    parts = _parts(name)
    root = folder.resolve()
    for start in range(len(parts)):
        path = root.joinpath(*parts[start:])
        try:
            if (
                path.resolve().is_relative_to(root)
                and path.is_file()
                and path.stat().st_size <= MOST_BYTES
            ):
                return path.read_text("utf-8", "replace").split("\n")
        except (OSError, ValueError):
            continue
    return None


def _in_maps(carried: dict[str, str], name: str) -> Sequence[str] | None:
    """The text of a source of this name; where maps and profile differ in folders, of its end."""
    wanted = _parts(name)
    named = [
        text
        for source, text in carried.items()
        if (parts := _parts(source)) and wanted[-len(parts) :] == parts
    ]
    if carried.get(name) is not None:
        return carried[name].split("\n")
    # Of two that end alike neither is surely the one.
    return named[0].split("\n") if len(named) == 1 else None


def _parts(name: str) -> list[str]:
    path = name.partition("://")[2] if "://" in name else name
    return [part for part in path.split("/") if part not in {"", ".", ".."}]


def _carried(path: Path) -> dict[str, str]:
    """The texts a source map carries, by the name of their source."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            _refuse(path, f"more than {MOST_BYTES} bytes")
        told = json.loads(data)
    except OSError as error:
        progress.say(f"{path} could not be read: {error.strerror}")
        raise typer.Exit(Exit.USAGE) from None
    except (ValueError, RecursionError):
        _refuse(path, "not readable JSON")
    sources = told.get("sources") if isinstance(told, dict) else None
    content = told.get("sourcesContent") if isinstance(told, dict) else None
    if not isinstance(sources, list) or not isinstance(content, list):
        _refuse(path, "no sources, or no sourcesContent")
    return {
        source: text
        for source, text in zip(sources, content, strict=False)
        if isinstance(source, str) and isinstance(text, str)
    }


def _refuse(path: Path, why: str) -> NoReturn:
    progress.say(f"{path} is no source map that carries sources: {why}")
    raise typer.Exit(Exit.USAGE)
