"""What a command ends with: its exit status, and what a person reads when it fails."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

import typer

from cli import api, output, progress, settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

Result = TypeVar("Result")


class Exit(IntEnum):
    """Exit statuses scripts can rely on."""

    OK = 0
    API_ERROR = 1
    USAGE = 2
    INTERRUPTED = 130


def run(
    work: Callable[[api.Api], Awaitable[Result]],
    *,
    load: Callable[[], settings.Settings] = lambda: settings.load(),
) -> Result:
    """Run one command's requests; a failure is told and ends the command.

    Ctrl-C cancels the request and so closes its connection: that is how the server learns to stop
    a capture.

    Raises:
        typer.Exit: with the status that names what went wrong.
    """

    async def connected() -> Result:
        async with api.connect(load()) as client:
            return await work(client)

    try:
        return asyncio.run(connected())
    except settings.MissingSettings as missing:
        progress.say(str(missing))
        raise typer.Exit(Exit.USAGE) from None
    except output.NoPlace as refused:
        progress.say(str(refused))
        raise typer.Exit(Exit.USAGE) from None
    except api.ApiError as error:
        progress.say(told(error, datetime.now(UTC)))
        raise typer.Exit(Exit.API_ERROR) from None
    except KeyboardInterrupt:
        progress.say("interrupted: the request was aborted, a capture it had begun is stopped")
        raise typer.Exit(Exit.INTERRUPTED) from None


def deliver(profile: api.Profile, path: Path | None) -> None:
    """Write a profile where it was asked for and say what it is.

    Raises:
        typer.Exit: it could not be written, for want of space or because the reader left.
    """
    try:
        output.write(profile.data, path)
    except OSError as error:
        progress.say(f"the profile could not be written: {error}")
        raise typer.Exit(Exit.API_ERROR) from None
    shown = ("samples", "datacenter", "metal", "version", "session")
    about = ", ".join(f"{name} {profile.about[name]}" for name in shown if name in profile.about)
    progress.say(f"{len(profile.data)} bytes of pprof" + (f": {about}" if about else ""))


def told(error: api.ApiError, now: datetime) -> str:
    """Put a failure in lines for a person."""
    lines = []
    for problem in error.problems:
        code = f" {problem.code}" if problem.code else ""
        where = f" [{problem.pointer}]" if problem.pointer else ""
        lines.append(f"error{code}{where}: {problem.message}")
    if error.status:
        lines.append(f"HTTP {error.status}, request id {error.request_id or 'not given'}")
    if error.retry_after_s is not None:
        at = (now + timedelta(seconds=error.retry_after_s)).astimezone()
        lines.append(f"try again in {error.retry_after_s:g} s, at {at:%H:%M:%S}")
    return "\n".join(lines)
