"""How a wait is shown: a bar on a terminal, plain lines elsewhere. Always on standard error."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

STEP_S = 0.1


def say(text: str) -> None:
    """Tell a person one line."""
    print(text, file=sys.stderr, flush=True)


@asynccontextmanager
async def sampling(what: str, *, duration_ms: int) -> AsyncIterator[None]:
    """Show a capture's progress while the block waits for it.

    The server says nothing until it has the profile, so the bar follows the clock, and stands full
    while the profile is handed over.
    """
    if not sys.stderr.isatty():
        say(f"{what}, {duration_ms / 1000:g} s")
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        mover = asyncio.create_task(_move(bar, what, duration_ms / 1000))
        try:
            yield
        finally:
            mover.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await mover


class Shown:
    """Where a capture's progress goes: lines, and a bar where there is a terminal."""

    def __init__(self, bar: Progress | None, what: str) -> None:
        self._bar = bar
        self._task = bar.add_task(what, total=None) if bar is not None else None

    def tell(self, line: str) -> None:
        """Show a line; an empty one is none."""
        if line and self._bar is not None:
            self._bar.console.print(Text(line))
        elif line:
            say(line)

    def at(self, done_ms: int, total_ms: int) -> None:
        """Move the bar."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done_ms, total=total_ms)


@contextlib.contextmanager
def bar(what: str) -> Iterator[Shown]:
    """Show progress that is told from outside for as long as the block lasts."""
    if not sys.stderr.isatty():
        yield Shown(None, what)
        return
    # What is printed meanwhile must go where it was meant to.
    together = sys.stdout.isatty()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=together) as made:
        yield Shown(made, what)


async def _move(bar: Progress, what: str, duration_s: float) -> None:
    shown = bar.add_task(what, total=max(duration_s, STEP_S))
    loop = asyncio.get_running_loop()
    started = loop.time()
    while (taken_s := loop.time() - started) < duration_s:
        bar.update(shown, completed=taken_s)
        await asyncio.sleep(STEP_S)
    bar.update(shown, completed=duration_s, description=f"{what}: waiting for the profile")
