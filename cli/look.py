"""``isoprof peek`` and ``isoprof list``: one function of a profile, its neighbours, its lines."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from cli import options, profile_file, sources
from cli.table import console
from pprof.check import ProfileInvalid
from pprof.lines import Listing, listings
from pprof.peek import Neighbour, Peek
from pprof.peek import peek as peeked
from pprof.top import shown

Function = Annotated[
    str,
    typer.Argument(metavar="FUNCTION", help="Regular expression over 'name file:line'."),
]


def peek(
    file: options.ProfileFile,
    function: Function,
    sample_type: options.SampleType = "",
    as_json: options.AsJson = False,
) -> None:
    """Show who called a function and what it called, with what that cost."""
    profile = profile_file.read(file)
    try:
        found = peeked(profile, profile_file.meant(function), sample_type)
    except ProfileInvalid as error:
        profile_file.refuse(f"{file}: {error}")
    if not found.functions:
        profile_file.refuse(f"no function in {file} matches {function}")
    if as_json:
        print(json.dumps(asdict(found), indent=2))
        return
    out = console()
    for one in found.functions:
        out.print(_neighbours(one, found.measure.unit, found.total))


def list_(
    file: options.ProfileFile,
    function: Function,
    source: Annotated[
        Path | None,
        typer.Option("--source", metavar="DIR", help="Where the sources are, for their text."),
    ] = None,
    maps: Annotated[
        list[Path] | None,
        typer.Option("--map", metavar="MAP", help="A source map that carries its sources' text."),
    ] = None,
    sample_type: options.SampleType = "",
    as_json: options.AsJson = False,
) -> None:
    """Show the lines of a function and what each cost."""
    profile = profile_file.read(file)
    try:
        found = listings(
            profile, profile_file.meant(function), sources.texts(source, maps or ()), sample_type
        )
    except ProfileInvalid as error:
        profile_file.refuse(f"{file}: {error}")
    if not found.functions:
        profile_file.refuse(f"no function in {file} matches {function}")
    if as_json:
        print(json.dumps(asdict(found), indent=2))
        return
    out = console()
    for one in found.functions:
        out.print(_lines(one, found.measure.unit, found.total))


def _neighbours(one: Peek, unit: str, total: int) -> Table:
    drawing = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("self", "total", "total %"):
        drawing.add_column(name, justify="right", no_wrap=True)
    drawing.add_column("function", overflow="fold")
    drawing.add_column("source", overflow="fold")

    def add(neighbours: Sequence[Neighbour], mark: str) -> None:
        for near in neighbours:
            name = near.frame.name if near.frame is not None else "(nothing: it is the root)"
            drawing.add_row(
                "",
                shown(near.value, unit),
                _percent(near.value, total),
                Text(f"  {mark} {name}"),
                Text(near.frame.place if near.frame is not None else ""),
            )

    add(one.callers, "called by")
    drawing.add_row(
        shown(one.self_value, unit),
        shown(one.total_value, unit),
        _percent(one.total_value, total),
        Text(one.frame.name, style="bold"),
        Text(one.frame.place or "-"),
    )
    add(one.callees, "calls")
    return drawing


def _lines(one: Listing, unit: str, total: int) -> Table:
    drawing = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        title=Text(f"{one.frame.name}  {one.frame.place}  {_percent(one.total_value, total)} %"),
        title_justify="left",
    )
    for name in ("self", "total", "line"):
        drawing.add_column(name, justify="right", no_wrap=True)
    drawing.add_column("source", overflow="fold")
    for line in one.lines:
        drawing.add_row(
            shown(line.self_value, unit) if line.self_value else "",
            shown(line.total_value, unit) if line.total_value else "",
            str(line.line) if line.line else "?",
            Text((line.text or "").expandtabs(4)),
        )
    return drawing


def _percent(value: int, total: int) -> str:
    return f"{100 * value / total:.1f}" if total else "0.0"
