"""Commands over profile files that are not tables of functions: merge, convert, diff."""

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cli import options, output, profile_file, progress
from cli.outcome import Exit
from pprof import codec, formats
from pprof.check import ProfileInvalid
from pprof.diff import Normalize
from pprof.merge import merge as merged

Form = StrEnum("Form", {name: name for name in ("pprof", *formats.FORMATS)})  # type: ignore[misc]


class DiffForm(StrEnum):
    """How a comparison is shown."""

    MARKDOWN = "markdown"
    JSON = "json"
    FLAMEGRAPH = "flamegraph"


def merge(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Profiles of one kind.")],
    file: options.Output = None,
) -> None:
    """Add profiles up: values per stack, over the window from the first start to the last end."""
    _checked(file)
    try:
        data = codec.encode(merged(profile_file.read(path) for path in files))
    except ProfileInvalid as error:
        profile_file.refuse(f"these can't be merged: {error}")
    _write(data, file)
    progress.say(f"{len(data)} bytes of pprof: {len(files)} profiles merged")


def convert(
    file: options.ProfileFile,
    to: Annotated[Form, typer.Option("--to", help="The form wanted.")],
    sample_type: options.SampleType = "",
    into: options.Output = None,
    focus: options.Focus = None,
    ignore: options.Ignore = None,
    hide: options.Hide = None,
    prune_runtime: options.PruneRuntime = False,
) -> None:
    """Write a profile in another form. A .cpuprofile is read too: --to pprof makes it a pprof."""
    if to.value == "pprof":
        _checked(into)
    profile = profile_file.narrowed(
        profile_file.read(file), focus, ignore, hide, prune=prune_runtime
    )
    try:
        if to.value == "pprof":
            data = codec.encode(profile)
        else:
            chosen = formats.Options(sample_type=sample_type, title=file.name)
            data = formats.render(profile, to.value, chosen)
    except ProfileInvalid as error:
        profile_file.refuse(f"{file} can't be written as {to.value}: {error}")
    _write(data, into)


def diff(
    base: Annotated[Path, typer.Argument(metavar="BASE", help="The profile before.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The profile after.")],
    normalize: Annotated[
        Normalize,
        typer.Option(help="Compare at equal total, per second of window, or as measured."),
    ] = Normalize.TOTAL,
    form: Annotated[DiffForm, typer.Option("--format", help="How to show it.")] = DiffForm.MARKDOWN,
    sample_type: options.SampleType = "",
    into: options.Output = None,
) -> None:
    """Tell what is new, gone and changed from BASE to FILE, and what sampling alone explains."""
    before, after = profile_file.read(base), profile_file.read(file)
    chosen = formats.Options(
        sample_type=sample_type,
        normalize=normalize,
        title=f"{file.name}, compared with {base.name}",
    )
    try:
        name = "top" if form is DiffForm.JSON else form.value
        data = formats.compare(before, after, name, chosen)
    except ProfileInvalid as error:
        profile_file.refuse(f"these can't be compared: {error}")
    if form is DiffForm.JSON:
        data = json.dumps(json.loads(data)["result"], indent=2).encode() + b"\n"
    _write(data, into)


def _checked(path: Path | None) -> None:
    try:
        output.check(path)
    except output.NoPlace as refused:
        progress.say(str(refused))
        raise typer.Exit(Exit.USAGE) from None


def _write(data: bytes, path: Path | None) -> None:
    try:
        output.write(data, path)
    except OSError as error:
        progress.say(f"{path or sys.stdout.name} could not be written: {error.strerror}")
        raise typer.Exit(Exit.API_ERROR) from None
