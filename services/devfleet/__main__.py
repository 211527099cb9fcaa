"""``python -m services.devfleet``: start the development fleet and serve until told to stop."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from services.devfleet.faults import FleetFault
from services.devfleet.system import running
from services.devfleet.watch import first_end


def _say(elapsed_s: float, what: str) -> None:
    print(f"  {elapsed_s:5.1f} s  {what}", file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m services.devfleet", description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=Path(".isoprof/devfleet"))
    parser.add_argument("--http", default="127.0.0.1:0", help="where REST listens (port 0: any)")
    parser.add_argument("--once", action="store_true", help="stop as soon as everything is up")
    return parser.parse_args()


async def _serve(arguments: argparse.Namespace) -> None:
    async with running(
        arguments.data_dir,
        http=arguments.http,
        database_url=os.environ.get("DATABASE_URL"),
        say=_say,
    ) as fleet:
        ready = {
            "ready": True,
            "http": fleet.addresses.http,
            "fleet": str(fleet.data_dir / "fleet.json"),
        }
        print(json.dumps(ready), flush=True)
        if arguments.once:
            return
        await first_end(fleet.serving())


async def _until_told(arguments: argparse.Namespace) -> int:
    loop = asyncio.get_running_loop()
    serving = asyncio.create_task(_serve(arguments))

    def stop(number: signal.Signals) -> None:
        print(f"  {number.name}: stopping …", file=sys.stderr, flush=True)
        serving.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number)
    try:
        await serving
    except asyncio.CancelledError:
        print("  stopped, nothing left running", file=sys.stderr, flush=True)
    except FleetFault as fault:
        print(f"  {fault}", file=sys.stderr, flush=True)
        return 1
    return 0


def main() -> int:
    """Run until SIGINT, SIGTERM or SIGHUP; a second one kills at once. Returns the exit status."""
    return asyncio.run(_until_told(_arguments()))


if __name__ == "__main__":
    sys.exit(main())
