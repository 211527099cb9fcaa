"""A Ctrl-C, at whatever moment of the fleet's life, leaves no process behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
import pytest_asyncio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROOT = Path(__file__).parents[2]
MARK = "ISOPROF_TEST_MARK"
STEP_S = 60.0
GONE_S = 20.0

pytestmark = pytest.mark.slow


class Started:
    """``python -m services.devfleet`` in a process group of its own, as a shell would run it."""

    def __init__(self, process: asyncio.subprocess.Process, mark: str, data_dir: Path) -> None:
        self.process = process
        self._mark = mark
        self._data_dir = str(data_dir)

    async def until(self, words: str) -> None:
        """Read its progress until a line holds these words."""
        assert self.process.stderr is not None
        async with asyncio.timeout(STEP_S):
            while line := await self.process.stderr.readline():
                if words in line.decode():
                    return
        raise AssertionError(f"ended before it said {words!r}")

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> None:
        """What a terminal does on Ctrl-C: the signal to the whole foreground group."""
        os.killpg(self.process.pid, number)

    async def over(self) -> int:
        """Its exit status; what it still says is read and dropped."""
        async with asyncio.timeout(STEP_S):
            await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode

    def left(self) -> list[str]:
        """Command lines of living processes that it or its children started."""
        found = []
        places = [self._data_dir, *self._cluster()]
        for one in psutil.process_iter():
            try:
                ours = (
                    any(place in word for word in one.cmdline() for place in places)
                    or one.environ().get(MARK) == self._mark
                )
                if ours and one.status() != psutil.STATUS_ZOMBIE:
                    found.append(" ".join(one.cmdline()))
            except psutil.Error:
                continue
        return found

    def _cluster(self) -> list[str]:
        # Started by root, the database's files stand where an unprivileged account can enter.
        pointer = Path(self._data_dir, "postgres", "cluster-path")
        return [pointer.read_text().strip()] if pointer.exists() else []

    async def nothing_left(self) -> None:
        """Return once none of its processes lives; the end of a process is not instant."""
        try:
            async with asyncio.timeout(GONE_S):
                while self.left():  # noqa: ASYNC110 - others end by themselves
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"left behind: {self.left()}") from None


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("interrupted")


@pytest_asyncio.fixture(loop_scope="session")
async def started(data_dir: Path) -> AsyncIterator[Started]:
    mark = uuid.uuid4().hex
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "services.devfleet",
        "--data-dir",
        str(data_dir),
        cwd=ROOT,
        env={**os.environ, MARK: mark},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        process_group=0,
    )
    yield Started(process, mark, data_dir)
    if process.returncode is None:
        process.kill()
        await process.wait()


@pytest.mark.parametrize(
    "moment",
    ["starting", "workerd processes are up", "Postgres is up", "schema is current", "sighted"],
)
async def test_interrupt_leaves_nothing(started: Started, moment: str) -> None:
    await started.until(moment)
    started.interrupt()
    assert await started.over() == 0
    await started.nothing_left()


async def test_impatient_second_interrupt_leaves_nothing(started: Started) -> None:
    await started.until("agents are up")
    started.interrupt()
    await started.until("stopping")
    started.interrupt()
    assert await started.over() == 0
    await started.nothing_left()


async def test_killed_outright_leaves_nothing(started: Started) -> None:
    await started.until("sighted")
    started.interrupt(signal.SIGKILL)
    await started.over()
    await started.nothing_left()
