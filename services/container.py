"""What stands in a container of its own in ``docker-compose.yml``: accounts, one metal, traffic.

The development fleet's plan, laid over hosts instead of ports: each metal is a host of its own
name, and the same ports are free on every host.

    python -m services.container provision DIRECTORY
    python -m services.container metal METAL --gateway HOST:PORT --certificates DIRECTORY
    python -m services.container traffic METAL...
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from services import certificates
from services.devfleet import commands
from services.devfleet.faults import FleetFault
from services.devfleet.fleet import PLAN, Metal
from services.devfleet.ports import Addresses, MetalAddresses, ProcessAddresses
from services.devfleet.traffic import Traffic
from services.devfleet.watch import first_end

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from contract.certificates import Files

AGENT_PORT, TAIL_PORT, INSPECTOR_PORT, WORKER_PORT = 7101, 7201, 9301, 8101
DATA_DIR = Path(os.environ.get("ISOPROF_DATA_DIR", ".isoprof"))
READY = DATA_DIR / "ready"
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 6.0


def main() -> int:
    """Do what the command line says; 0 when it is done or was told to stop."""
    parser = argparse.ArgumentParser(prog="python -m services.container", description=__doc__)
    parts = parser.add_subparsers(required=True)
    part = parts.add_parser("provision")
    part.add_argument("directory", type=Path)
    part.set_defaults(work=lambda given: provision(given.directory))
    part = parts.add_parser("metal")
    part.add_argument("metal")
    part.add_argument("--gateway", required=True)
    part.add_argument("--certificates", required=True, type=Path)
    part.set_defaults(
        work=lambda given: until_told(
            serve(metals([given.metal])[0], given.gateway, certificates.files(given.certificates))
        )
    )
    part = parts.add_parser("traffic")
    part.add_argument("metals", nargs="+")
    part.set_defaults(work=lambda given: until_told(traffic(metals(given.metals))))
    given = parser.parse_args()
    try:
        return int(given.work(given))
    except FleetFault as fault:
        print(fault, file=sys.stderr)
        return 1


def provision(directory: Path) -> int:
    """Make the plan's accounts; each one's token goes to a file named like the account."""
    accounts = [
        {"id": one.account_id, "name": one.name, "profiling_enabled": True, "token": True}
        for one in PLAN.accounts
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as request:
        json.dump({"accounts": accounts}, request)
        request.flush()
        command = [sys.executable, "-m", "services.provision", request.name]
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode != 0:
        return run.returncode
    tokens = json.loads(run.stdout.splitlines()[-1])["tokens"]
    for account in PLAN.accounts:
        (directory / account.name).write_text(tokens[account.account_id])
    return 0


async def serve(metal: Metal, gateway: str, tls: Files) -> None:
    """Run a metal's runtimes and its agent until cancelled, or until one of them ends.

    Raises:
        ChildFailed: one did not come up, or ended.
    """
    addresses = Addresses(http="", grpc=gateway, admin="", metals={metal.metal_id: inside(metal)})
    runtimes = [commands.workerd(metal, one, addresses, DATA_DIR) for one in metal.processes]
    agent = commands.agent(metal, addresses, DATA_DIR, tls)
    try:
        for children in (runtimes, [agent]):
            for child in children:
                child.start()
            await asyncio.gather(*(child.ready(READY_TIMEOUT_S) for child in children))
        ready()
        await first_end([*runtimes, agent])
    finally:
        # The agent first: workerd aborts when a session is open as it ends.
        await agent.stop(STOP_TIMEOUT_S)
        await asyncio.gather(*(child.stop(STOP_TIMEOUT_S) for child in runtimes))


async def traffic(several: Sequence[Metal]) -> None:
    """Send bounded traffic to metals until cancelled."""
    addresses = {one.metal_id: outside(one) for one in several}
    plan = replace(PLAN, metals=tuple(several))
    sender = Traffic(plan, Addresses(http="", grpc="", admin="", metals=addresses))
    sender.start()
    try:
        ready()
        await asyncio.Event().wait()
    finally:
        await sender.stop()


def inside(metal: Metal) -> MetalAddresses:
    """Where things listen in a metal's own container. The inspector stays on loopback, always."""
    return laid_out(metal, "*")


def outside(metal: Metal) -> MetalAddresses:
    """Where others reach a metal's Workers."""
    return laid_out(metal, metal.metal_id)


def laid_out(metal: Metal, host: str) -> MetalAddresses:
    """Give every listener of a metal a port of its own, the Workers' on ``host``."""
    ports = iter(range(WORKER_PORT, WORKER_PORT + 100))
    return MetalAddresses(
        # By name, so that what the agent advertises is what the control plane can reach.
        agent=f"{metal.metal_id}:{AGENT_PORT}",
        tail=f"127.0.0.1:{TAIL_PORT}",
        processes={
            process.runtime_id: ProcessAddresses(
                inspector=f"127.0.0.1:{INSPECTOR_PORT + number}",
                workers={place.service: f"{host}:{next(ports)}" for place in process.places},
            )
            for number, process in enumerate(metal.processes)
        },
    )


def metals(names: Sequence[str]) -> list[Metal]:
    """Find metals of the plan.

    Raises:
        FleetFault: there is none of that name.
    """
    known = {one.metal_id: one for one in PLAN.metals}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise FleetFault(f"no metal {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in names]


def ready() -> None:
    """Say on standard output, and by a file for the health check, that all is up."""
    READY.touch()
    print(json.dumps({"ready": True}), flush=True)


def until_told(work: Coroutine[Any, Any, None]) -> int:
    """Run until done or told to stop by a signal; 0 unless it failed."""
    READY.unlink(missing_ok=True)

    async def told() -> None:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(told())
    return 0


if __name__ == "__main__":
    sys.exit(main())
