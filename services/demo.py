"""``make demo``: the development fleet, a CPU and a heap profile of it, then serving.

The profiles are taken as a person would: the command runs as a process of its own, configured by
its environment, and what it wrote is read back by ``isoprof top``.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from services.devfleet.build import ROOT
from services.devfleet.faults import FleetFault
from services.devfleet.fleet import METRICS, REPLACER, Version, Worker
from services.devfleet.system import running
from services.devfleet.watch import first_end

if TYPE_CHECKING:
    from services.devfleet.system import Fleet

DATA_DIR = Path(".isoprof/demo")
HTTP = ("127.0.0.1", 8787)
TOP_ROWS = "12"


class CommandError(RuntimeError):
    """The command line ended with another status than 0; it has said why itself."""


@dataclass(frozen=True, kw_only=True)
class Show:
    """One profile the demo takes."""

    what: str
    worker: Worker
    version: Version
    profile_type: str
    duration_ms: int
    file: Path


SHOWS = (
    Show(
        what="CPU: a JSON replacer that walks the tree it is already being called on",
        worker=REPLACER,
        version=REPLACER.version("before"),
        profile_type="cpu",
        duration_ms=5_000,
        file=Path("worker-cpu.pprof"),
    ),
    Show(
        what='Heap: a "disabled" metrics library that still allocates',
        worker=METRICS,
        version=METRICS.version("before"),
        profile_type="heap",
        duration_ms=5_000,
        file=Path("worker-heap.pprof"),
    ),
)


def main() -> int:
    """Run the demo; 0 when it ended as asked, also by Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m services.demo", description=__doc__)
    parser.add_argument("--once", action="store_true", help="stop after the two profiles")
    return asyncio.run(until_told(once=parser.parse_args().once))


async def until_told(*, once: bool) -> int:
    """Run the demo until it is done or a signal ends it; what was started is stopped either way."""
    demo = asyncio.create_task(run(once=once))

    def stop(number: signal.Signals) -> None:
        say(f"\n{number.name}: stopping everything")
        demo.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number)
    try:
        await demo
    except asyncio.CancelledError:
        say("Stopped; nothing was left running.")
        # Ended before it showed what it is for: a script that asked for that must not think it did.
        return 130 if once else 0
    except (FleetFault, CommandError) as failed:
        say(f"\nThe demo failed: {failed}")
        return 1
    return 0


async def run(*, once: bool) -> None:
    """Start the fleet, take the profiles, and serve."""
    say("Starting Postgres, the control plane, and two datacenters of two metals each:")
    async with running(DATA_DIR, http=listen(), say=step) as fleet:
        account = REPLACER.account
        token = keep_token(fleet.token(account))
        env = {
            **os.environ,
            "ISOPROF_API_BASE_URL": fleet.api_url,
            "ISOPROF_API_TOKEN": fleet.token(account),
            "ISOPROF_ACCOUNT_ID": account.account_id,
        }
        for show in SHOWS:
            await take(show, env)
        say(f"\nWritten: {', '.join(str(show.file) for show in SHOWS)}")
        say(by_hand(fleet, token))
        if once:
            say("Stopping everything.")
            return
        say(f"Serving on {fleet.api_url}; Ctrl-C ends it and all it started.")
        await first_end(fleet.serving())


async def take(show: Show, env: dict[str, str]) -> None:
    """Take one profile by the command line and print its top functions."""
    say(f"\n{show.what}")
    options = {
        "--worker-id": show.worker.name,
        "--duration-ms": str(show.duration_ms),
        "--profile-type": show.profile_type,
        "--output": str(show.file),
    }
    given = [word for pair in options.items() for word in pair]
    await isoprof("workers", "versions", "profile", show.version.version_id, *given, env=env)
    await isoprof("top", str(show.file), "--limit", TOP_ROWS, env=env)


async def isoprof(*words: str, env: dict[str, str]) -> None:
    """Run the command line; it speaks to the terminal itself.

    Raises:
        CommandError: it ended with another status than 0.
    """
    path = os.pathsep.join([str(ROOT), env.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cli"),
        *words,
        env={**env, "PYTHONPATH": path},
        stdin=asyncio.subprocess.DEVNULL,
    )
    try:
        status = await process.wait()
    except asyncio.CancelledError:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
            await process.wait()
        raise
    if status != 0:
        raise CommandError(f"isoprof {' '.join(words)} ended with status {status}")


def by_hand(fleet: Fleet, token: Path) -> str:
    """Lines that take the CPU profile again, without the command and with it."""
    show = SHOWS[0]
    account = show.worker.account.account_id
    route = f"workers/workers/{show.worker.name}/versions/{show.version.version_id}/profile"
    bearer = f"$(cat {token})"
    body = f'{{"duration_ms": {show.duration_ms}, "profile_type": "{show.profile_type}"}}'
    return f"""
The dashboard: {fleet.api_url.removesuffix("/client/v4")}/{account}/workers
  (account {account}; its token is in {token})

The same by hand, while this serves:

  curl --fail-with-body -sS '{fleet.api_url}/accounts/{account}/{route}' \\
    -H "Authorization: Bearer {bearer}" -H 'Content-Type: application/json' \\
    -d '{body}' -o {show.file}

  export ISOPROF_API_BASE_URL={fleet.api_url} ISOPROF_ACCOUNT_ID={account}
  export ISOPROF_API_TOKEN={bearer}
  .venv/bin/isoprof workers versions list --worker-id {show.worker.name}
  .venv/bin/isoprof top {show.file}
"""


def keep_token(token: str) -> Path:
    """Write the token to a file of its own, which the printed lines read; only its owner may."""
    path = DATA_DIR / "token"
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(token)
    return path


def listen() -> str:
    """Choose where REST listens: the usual port, or any when somebody has it."""
    host, port = HTTP
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(HTTP)
        except OSError:
            port = 0
    return f"{host}:{port}"


def step(elapsed_s: float, what: str) -> None:
    """Tell a step of the start."""
    say(f"  {elapsed_s:5.1f} s  {what}")


def say(text: str) -> None:
    """Tell a person."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
