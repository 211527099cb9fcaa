"""``isoprof top``: the functions of a profile by what they cost, under how it was taken."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from cli import options, profile_file
from cli.table import console
from pprof import comments
from pprof.check import ProfileInvalid
from pprof.model import Profile
from pprof.top import Row, Top, shown
from pprof.top import top as table_of


class Sort(StrEnum):
    """What the rows are ordered by."""

    SELF = "self"
    TOTAL = "total"


def top(
    file: options.ProfileFile,
    limit: Annotated[int, typer.Option(min=1, help="How many functions.")] = 20,
    sort: Annotated[
        Sort, typer.Option(help="By what a function costs itself, or with what it calls.")
    ] = Sort.SELF,
    sample_type: options.SampleType = "",
    focus: options.Focus = None,
    ignore: options.Ignore = None,
    hide: options.Hide = None,
    prune_runtime: options.PruneRuntime = False,
    as_json: options.AsJson = False,
) -> None:
    """Show the functions of a profile that cost most, and how it was taken."""
    profile = profile_file.narrowed(
        profile_file.read(file), focus, ignore, hide, prune=prune_runtime
    )
    try:
        table = table_of(profile, sample_type)
    except ProfileInvalid as error:
        profile_file.refuse(f"{file}: {error}")
    rows = ordered(table, sort)[:limit]
    if as_json:
        print(json.dumps(described(profile, table, rows), indent=2))
        return
    out = console()
    for name, text in header(profile, table):
        out.print(Text(f"{name + ':':<11}{text}"), soft_wrap=True)
    out.print(drawn(table, rows))
    left_out = len(table.rows) - len(rows)
    if left_out:
        out.print(Text(f"{left_out} more functions; --limit shows more of them"))


def ordered(table: Top, sort: Sort) -> list[Row]:
    """Put rows in order; ties stay in the order of the other column."""
    rows = list(table.rows)
    if sort is Sort.TOTAL:
        rows.sort(key=lambda row: -row.total_value)
    return rows


def header(profile: Profile, table: Top) -> list[tuple[str, str]]:
    """Put in lines what the profile says of itself; what it does not say is left out."""
    said = {key: ", ".join(values) for key, values in comments.read(profile.comments).items()}
    began = datetime.fromtimestamp(profile.time_ns / 1e9, UTC)
    window = f"{shown(profile.duration_ns, 'nanoseconds')} from {began:%Y-%m-%d %H:%M:%S} UTC"
    lines = [
        ("profile", f"{table.sample_type}, {shown(table.total, table.unit)} in all"),
        ("window", window if profile.time_ns else shown(profile.duration_ns, "nanoseconds")),
        ("samples", _samples(said)),
        ("worker", _joined(said, "{worker}, version {version}")),
        ("taken on", _joined(said, "metal {metal} in {datacenter}, isolate {isolate}")),
        ("lock held", _locks(said)),
        ("idle", _time(said.get("idle_ns", ""))),
        ("gaps", _time(said.get("gaps_ns", ""))),
        ("cut off", said.get("truncated", "")),
        ("filtered", said.get("filtered", "")),
        ("note", said.get("note", "")),
        ("session", said.get("session", "")),
    ]
    return [(name, text) for name, text in lines if text]


def drawn(table: Top, rows: list[Row]) -> Table:
    """Draw the table. Names are text: whatever markup they hold stays as it is."""
    drawing = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("self", "self %", "total", "total %", "samples"):
        drawing.add_column(name, justify="right", no_wrap=True)
    drawing.add_column("function", overflow="fold")
    drawing.add_column("source", overflow="fold")
    for row in rows:
        drawing.add_row(
            shown(row.self_value, table.unit),
            f"{row.self_percent:.1f}",
            shown(row.total_value, table.unit),
            f"{row.total_percent:.1f}",
            str(row.samples),
            Text(row.name),
            Text(row.place or "-"),
        )
    return drawing


def described(profile: Profile, table: Top, rows: list[Row]) -> dict[str, object]:
    """Say the same as JSON, numbers unrounded."""
    return {
        "sample_type": table.sample_type,
        "unit": table.unit,
        "total": table.total,
        "time_ns": profile.time_ns,
        "duration_ns": profile.duration_ns,
        "comments": {key: list(all_) for key, all_ in comments.read(profile.comments).items()},
        "functions": len(table.rows),
        "rows": [asdict(row) for row in rows],
    }


def _samples(said: dict[str, str]) -> str:
    if "error_percent" not in said:
        return said.get("samples", "")
    told = f"{said.get('samples', '?')}, so times are right to about {said['error_percent']} %"
    return f"{told}: {said['confidence']}" if "confidence" in said else told


def _locks(said: dict[str, str]) -> str:
    held = {
        name: _time(said.get(key, ""))
        for name, key in (("start", "lock_start_ns"), ("stop", "lock_stop_ns"))
    }
    return ", ".join(f"{time} at most to {name}" for name, time in held.items() if time)


def _time(text: str) -> str:
    """Show nanoseconds; a merged profile has several values, which are shown side by side."""
    several = [one for one in text.split(", ") if one.isdecimal() and int(one)]
    return ", ".join(shown(int(one), "nanoseconds") for one in several)


def _joined(said: dict[str, str], form: str) -> str:
    try:
        return form.format_map(said)
    except KeyError:
        return ""
