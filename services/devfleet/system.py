"""Starts the whole system in order, keeps it, and takes it down again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from services import certificates, embedded_postgres
from services.devfleet import commands
from services.devfleet.describe import write_description
from services.devfleet.faults import FleetFault, TokenRefused
from services.devfleet.fleet import PLAN, Plan
from services.devfleet.ports import Addresses, Ports, assign
from services.devfleet.sighted import all_sighted
from services.devfleet.tokens import keep_tokens, kept_tokens
from services.devfleet.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable
    from pathlib import Path

    from services.devfleet.fleet import Account
    from services.devfleet.processes import Child

READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 6.0
SIGHTED_TIMEOUT_S = 60.0


class Fleet:
    """The running system. Tests kill and restart its processes; everybody else only reads.

    Args:
        say: told each step as it is done, with the seconds since the start.
    """

    control_plane: Child

    def __init__(
        self, plan: Plan, addresses: Addresses, data_dir: Path, say: Callable[[float, str], None]
    ) -> None:
        self.plan = plan
        self.addresses = addresses
        self.data_dir = data_dir
        self.tokens: dict[str, str] = {}
        self.traffic = Traffic(plan, addresses)
        self.agents: dict[str, Child] = {}
        self.workerds: dict[tuple[str, str], Child] = {}
        self._steps: list[Child] = []
        self._postgres: embedded_postgres.Postgres | None = None
        self._say = say
        self._began_s = time.monotonic()

    @property
    def api_url(self) -> str:
        """Base of the REST contract."""
        return f"http://{self.addresses.http}/client/v4"

    @property
    def certificates(self) -> Path:
        """Where the fleet's authority and certificates are, made at its first start."""
        return self.data_dir / "certificates"

    def token(self, account: Account) -> str:
        """Return the account's API token."""
        return self.tokens[account.account_id]

    def children(self) -> tuple[Child, ...]:
        """List every process started so far, runtimes and agents included."""
        return (*self.agents.values(), *self.workerds.values(), *self._steps)

    def serving(self) -> tuple[Child, ...]:
        """List the processes that should live as long as the fleet does."""
        return (*self.agents.values(), *self.workerds.values(), self.control_plane)

    async def restart(self, child: Child) -> None:
        """Start a process again that was killed, and wait until it is ready."""
        await child.ended()
        child.start()
        await child.ready(READY_TIMEOUT_S)

    async def start(self, database_url: str | None) -> None:
        """Start everything and return once every Worker with traffic is sighted."""
        metals = [metal.metal_id for metal in self.plan.metals]
        try:
            certificates.make(self.certificates, metals, now=datetime.now(UTC))
        except certificates.CertificatesFailed as failed:
            raise FleetFault(f"{self.certificates}: {failed}") from failed
        await _together(self._start_control_plane(database_url), self._start_metals())
        try:
            await self._sighted()
        except TokenRefused:
            # Kept tokens of a database that is no more.
            await self._provision(mint=True)
            await self._sighted()
        write_description(self)

    async def _sighted(self) -> None:
        await all_sighted(
            self.api_url,
            self._database_url,
            self.plan,
            self.tokens,
            since_s=self.traffic.began_s,
            within_s=SIGHTED_TIMEOUT_S,
        )
        self._tell("every Worker with traffic is sighted")

    async def _start_control_plane(self, database_url: str | None) -> None:
        if database_url is None:
            try:
                self._postgres = await embedded_postgres.start(self.data_dir / "postgres")
            except embedded_postgres.PostgresFailed as failed:
                raise FleetFault(str(failed)) from failed
            database_url = self._postgres.url
            self._tell("Postgres is up")
        self._database_url = database_url
        await self._run(commands.migrate(self.data_dir, database_url))
        self._tell("schema is current")
        self.tokens = kept_tokens(self.data_dir, self.plan)
        self.control_plane = commands.control_plane(
            self.addresses,
            self.data_dir,
            database_url,
            certificates.of_control_plane(self.certificates),
        )
        self._begin(self.control_plane)
        await _together(
            self._provision(mint=not self.tokens), self.control_plane.ready(READY_TIMEOUT_S)
        )
        self._tell(f"control plane answers on {self.addresses.http}")

    async def _provision(self, *, mint: bool) -> None:
        request = self.data_dir / "accounts.json"
        accounts = [
            {"id": a.account_id, "name": a.name, "profiling_enabled": True, "token": mint}
            for a in self.plan.accounts
        ]
        request.write_text(json.dumps({"accounts": accounts}), encoding="utf-8")
        step = commands.provision(request, self.data_dir, self._database_url)
        await self._run(step)
        if mint:
            self.tokens = dict(step.events[-1]["tokens"])
            keep_tokens(self.data_dir, self.tokens)

    async def _start_metals(self) -> None:
        self.workerds.update(
            {
                (metal.metal_id, process.runtime_id): commands.workerd(
                    metal, process, self.addresses, self.data_dir
                )
                for metal in self.plan.metals
                for process in metal.processes
            }
        )
        await _start_all(self.workerds.values())
        self._tell(f"{len(self.workerds)} workerd processes are up")
        # First executions before first reports: an agent's first words already say what runs.
        self.traffic.start()
        self.agents.update(
            {
                metal.metal_id: commands.agent(
                    metal,
                    self.addresses,
                    self.data_dir,
                    certificates.of_metal(self.certificates, metal.metal_id),
                )
                for metal in self.plan.metals
            }
        )
        await _start_all(self.agents.values())
        self._tell(f"{len(self.agents)} agents are up")

    def _begin(self, child: Child) -> None:
        self._steps.append(child)
        child.start()

    async def _run(self, child: Child) -> None:
        self._begin(child)
        await child.finished(READY_TIMEOUT_S)

    def _tell(self, what: str) -> None:
        self._say(time.monotonic() - self._began_s, what)

    async def stop(self) -> None:
        """Take everything down. Agents first: workerd aborts when a session is open as it ends."""
        await self.traffic.stop()
        await _stop_all(self.agents.values())
        await _stop_all(self.workerds.values())
        await _stop_all(self._steps)
        if self._postgres is not None:
            await self._postgres.stop()

    def kill(self) -> None:
        """End every process at once; for somebody who does not want to wait for ``stop``."""
        for child in self.children():
            child.kill()


async def _together(*steps: Coroutine[Any, Any, None]) -> None:
    """Run steps at once; the first failure ends the others and is raised as itself."""
    try:
        async with asyncio.TaskGroup() as group:
            for step in steps:
                group.create_task(step)
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None


async def _start_all(children: Collection[Child]) -> None:
    for child in children:
        child.start()
    await _together(*(child.ready(READY_TIMEOUT_S) for child in children))


async def _stop_all(children: Iterable[Child]) -> None:
    await asyncio.gather(*(child.stop(STOP_TIMEOUT_S) for child in children))


async def _see_through(stopping: asyncio.Task[None], hurry: Callable[[], None]) -> None:
    """Wait for the end of ``stopping``; a cancellation meanwhile only makes it hurry."""
    cancelled = False
    while not stopping.done():
        try:
            await asyncio.wait({stopping})
        except asyncio.CancelledError:
            cancelled = True
            hurry()
    stopping.result()
    if cancelled:
        raise asyncio.CancelledError


def _made(data_dir: Path) -> Path:
    data_dir.mkdir(parents=True, exist_ok=True)
    return data_dir.resolve()


def _silent(_elapsed_s: float, _what: str) -> None:
    return None


@contextlib.asynccontextmanager
async def running(
    data_dir: Path,
    *,
    http: str = "127.0.0.1:0",
    database_url: str | None = None,
    plan: Plan = PLAN,
    say: Callable[[float, str], None] = _silent,
) -> AsyncIterator[Fleet]:
    """Run the whole system for as long as the block lasts; nothing of it is left after.

    Args:
        data_dir: database, bundles, configurations, logs, tokens; a second start on it is quicker.
        http: where REST listens; port 0 is chosen by the system.
        database_url: a Postgres of one's own instead of the embedded one.
        plan: what stands where.
        say: told each step as it is done.

    Raises:
        ChildFailed: a process did not come up; the message ends with the end of its log.
        ToolMissing: npm packages are not installed.
    """
    data_dir = _made(data_dir)
    with Ports() as ports:
        fleet = Fleet(plan, assign(plan, ports, http), data_dir, say)
        say(0.0, f"starting in {data_dir}")
        try:
            await fleet.start(database_url)
            yield fleet
        finally:
            await _see_through(asyncio.create_task(fleet.stop()), fleet.kill)
