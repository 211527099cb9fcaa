"""Child processes: started, ready by what they print, stopped or killed, never left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

from services.deaths import end_with_parent
from services.devfleet.faults import ChildFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

LOG_TAIL_LINES = 12


class Child:
    """One process, in a session of its own: a Ctrl-C in the terminal reaches only its parent.

    ``start`` never awaits: between the fork and the moment the child is known there is no point
    where a cancellation could lose it. If the parent is killed, the kernel kills the child.

    Args:
        ready_lines: JSON objects on its stdout that together mean it is ready; 0: it runs and ends.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str],
        cwd: Path,
        ready_lines: int = 1,
    ) -> None:
        self.name = name
        self.argv = tuple(argv)
        self.log = log
        self.events: list[dict[str, Any]] = []
        self._env = dict(env)
        self._cwd = cwd
        self._ready_lines = ready_lines
        self._process: subprocess.Popen[bytes] | None = None
        self._pidfd = -1
        self._buffer = b""
        self._ended = asyncio.Event()
        self._changed = asyncio.Event()

    @property
    def pid(self) -> int:
        """Its process id; 0 when it never started."""
        return self._process.pid if self._process else 0

    @property
    def running(self) -> bool:
        """True from start until its end was seen."""
        return self._process is not None and not self._ended.is_set()

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""
        return self._process.returncode if self._process else None

    def start(self) -> None:
        """Start it, or start it again after it ended. Must be called in a running event loop."""
        if self.running:
            raise ChildFailed(f"{self.name} is running already")
        loop = asyncio.get_running_loop()
        self.events, self._buffer = [], b""
        self._ended, self._changed = asyncio.Event(), asyncio.Event()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self._env,
                cwd=self._cwd,
                start_new_session=True,
                preexec_fn=end_with_parent(signal.SIGKILL),
            )
        self._pidfd = os.pidfd_open(self._process.pid)
        loop.add_reader(self._pidfd, self._reap)
        assert self._process.stdout is not None  # noqa: S101 - asked for above
        os.set_blocking(self._process.stdout.fileno(), False)
        loop.add_reader(self._process.stdout.fileno(), self._read)

    async def ready(self, timeout_s: float) -> None:
        """Return when it has said that it is ready.

        Raises:
            ChildFailed: it ended first or said nothing in time; with the end of its log.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while len(self.events) < self._ready_lines:
                    if self._ended.is_set():
                        raise ChildFailed(self._story(f"ended with status {self.returncode}"))
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise ChildFailed(self._story(f"was not ready after {timeout_s:.0f} s")) from None

    async def finished(self, timeout_s: float) -> None:
        """Return when it has ended well.

        Raises:
            ChildFailed: it ended with another status than 0, or not in time.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._ended.wait()
        except TimeoutError:
            raise ChildFailed(self._story(f"was not done after {timeout_s:.0f} s")) from None
        if self.returncode != 0:
            raise ChildFailed(self._story(f"ended with status {self.returncode}"))

    async def ended(self) -> None:
        """Return when the process is gone, however it went."""
        if self._process is not None:
            await self._ended.wait()

    async def stop(self, timeout_s: float) -> None:
        """Ask it to end, and kill it when it has not after ``timeout_s``."""
        if not self.running:
            return
        self.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(timeout_s):
                await self._ended.wait()
        except TimeoutError:
            self.kill()
            await self._ended.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process alone."""
        if self._process is not None and self.running:
            signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        """SIGKILL to the process and whatever it started in its own group."""
        if self._process is not None and self.running:
            os.killpg(self._process.pid, signal.SIGKILL)

    def _reap(self) -> None:
        process = self._process
        if process is None or process.poll() is None:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        if process.stdout is not None and not process.stdout.closed:
            self._read()
            loop.remove_reader(process.stdout.fileno())
            process.stdout.close()
        self._ended.set()
        self._changed.set()

    def _read(self) -> None:
        process = self._process
        if process is None or process.stdout is None or process.stdout.closed:
            return
        while True:
            try:
                data = os.read(process.stdout.fileno(), 65536)
            except BlockingIOError:
                return
            if not data:
                asyncio.get_running_loop().remove_reader(process.stdout.fileno())
                return
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            for line in lines:
                self._note(line)

    def _note(self, line: bytes) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            return
        if isinstance(event, dict):
            self.events.append(event)
            self._changed.set()

    def _story(self, what: str) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join([f"{self.name} {what}; the end of {self.log}:", *lines[-LOG_TAIL_LINES:]])
