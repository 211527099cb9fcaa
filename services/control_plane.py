"""The control plane process: ``python -m services.control_plane``. It composes and decides nothing.

What it starts it ends in the opposite order: callers first, while the parts they wait for still
run; then the steps; then the gateway; then the stores. What is unfinished by then is in Postgres.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import secrets
import signal
import socket
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import structlog
import uvloop
from aiohttp import web

from contract import identity
from contract.certificates import Certificates, CertificatesInvalid
from contract.faults import Fault
from control_plane import access, settings
from control_plane.access import Refusals
from control_plane.admin import app as admin
from control_plane.api import app as api
from control_plane.api import edge
from control_plane.api.parts import Parts
from control_plane.blobs import Blobs
from control_plane.dispatch import Dispatch
from control_plane.intake import Intake
from control_plane.metrics import Metrics
from control_plane.rpc import gateway
from control_plane.rpc.agents import GrpcAgents
from control_plane.store.database import Database
from control_plane.store.notices import Notices
from control_plane.sweep import Sweep
from services import certificates, embedded_postgres, logs, migrate, token_key
from services.steps import StepEnded, step, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from control_plane.settings import Settings
    from services.embedded_postgres import Postgres

BACKLOG = 1024
POSTGRES_LOOK_S = 1.0

log = structlog.get_logger(__name__)


async def serve(configured: Settings, stop: asyncio.Event) -> None:
    """Run the parts this process has a role for until told to stop.

    Raises:
        StepEnded: a part crashed; a process that limps is worse than one that is started anew.
        Fault: store_unavailable, while migrating.
    """
    async with AsyncExitStack() as stack:
        steps: list[asyncio.Task[None]] = []
        url = configured.database_url
        if url is None:
            postgres = await embedded_postgres.start(configured.data_dir / "postgres")
            stack.push_async_callback(postgres.stop)
            steps.append(await stack.enter_async_context(step("postgres", _watch(postgres))))
            url = postgres.url
        if configured.database_url is None or os.environ.get("ISOPROF_MIGRATE") == "1":
            await migrate.upgrade(url)
        db = await stack.enter_async_context(
            Database.open(url, pool_size=configured.pool_size, pool_wait_ms=configured.pool_wait_ms)
        )
        metrics = Metrics()
        key = token_key.read(configured)
        await access.settle_key(db, key)
        notices = await stack.enter_async_context(Notices.open(db))
        blobs = _blobs(configured)
        ready: dict[str, object] = {"ready": True}
        shown = _certificates(configured)
        if shown is not None:
            steps.append(await stack.enter_async_context(step("certificates", shown.watch())))
        if "gateway" in configured.roles:
            intake = Intake(db, blobs, configured, metrics)
            listener = await gateway.listen(intake, configured.grpc_listen, shown)
            stack.push_async_callback(listener.stop, configured.drain_ms / 1000)
            ready["grpc"] = _bound(configured.grpc_listen, listener.port)
        if "dispatch" in configured.roles:
            agents = GrpcAgents(shown, deadline_s=configured.order_timeout_ms / 1000)
            stack.push_async_callback(agents.close)
            rng = random.SystemRandom()
            dispatch = Dispatch(
                db, notices, agents, blobs, configured, replica=_replica(), rng=rng, metrics=metrics
            )
            steps.append(await stack.enter_async_context(step("dispatch", dispatch.run())))
        if "sweep" in configured.roles:
            sweep = Sweep(db, configured)
            steps.append(await stack.enter_async_context(step("sweep", sweep.run())))
        refusals = Refusals(db)
        steps.append(await stack.enter_async_context(step("refusals", refusals.run())))
        parts = Parts(
            db=db,
            notices=notices,
            blobs=blobs,
            settings=configured,
            token_key=key,
            refusals=refusals,
            metrics=metrics,
        )
        drain_s = configured.drain_ms / 1000
        if "api" in configured.roles:
            app = api.make_app(parts, drain_s=drain_s)
            port = await stack.enter_async_context(_listening(app, configured.http_listen, drain_s))
            ready["http"] = _bound(configured.http_listen, port)
        if "admin" in configured.roles:
            app, listen = admin.make_app(parts), configured.admin_listen
            port = await stack.enter_async_context(_listening(app, listen, drain_s))
            ready["admin"] = _bound(listen, port)
        print(json.dumps(ready), flush=True)
        log.info("ready", **ready)
        await until(stop, steps)
        log.info("draining", drain_ms=configured.drain_ms)
    log.info("stopped")


@asynccontextmanager
async def _listening(app: web.Application, listen: str, drain_s: float) -> AsyncIterator[int]:
    runner = edge.make_runner(app, drain_s=drain_s)
    await runner.setup()
    try:
        host, _, port = listen.rpartition(":")
        await web.TCPSite(runner, host.strip("[]"), int(port), backlog=BACKLOG).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def _watch(postgres: Postgres) -> None:
    # One this process did not start is another's to watch.
    while postgres.process is None or postgres.process.poll() is None:  # noqa: ASYNC110
        await asyncio.sleep(POSTGRES_LOOK_S)


def _blobs(configured: Settings) -> Blobs:
    if configured.blob_url is not None:
        return Blobs.at_url(configured.blob_url)
    return Blobs.in_directory(configured.data_dir.absolute() / "blobs")


def _certificates(configured: Settings) -> Certificates | None:
    """Open the files named, or make some for development; None for plain text."""
    if not configured.speaks_with_agents or configured.grpc_plaintext is not None:
        return None
    now = partial(datetime.now, UTC)
    files = configured.tls
    if files is None:
        directory = configured.data_dir / "certificates"
        certificates.make(directory, (), now=now())
        files = certificates.of_control_plane(directory)
        log.warning("development_certificates", directory=str(directory))
    return Certificates(files, name=identity.CONTROL_PLANE, now=now)


def _replica() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


def _bound(listen: str, port: int) -> str:
    return f"{listen.rpartition(':')[0]}:{port}"


async def _main(configured: Settings) -> int:
    stop = asyncio.Event()
    serving = asyncio.create_task(serve(configured, stop))

    def told() -> None:
        # Asked twice: no more waiting for anybody.
        serving.cancel() if stop.is_set() else stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told)
    try:
        await serving
    except asyncio.CancelledError:
        log.warning("stopped_at_once")
    except StepEnded as ended:
        log.error("step_ended", step=str(ended), exc_info=ended.__cause__ or ended)  # noqa: TRY400
        return 1
    except (
        Fault,
        OSError,
        embedded_postgres.PostgresFailed,
        certificates.CertificatesFailed,
        CertificatesInvalid,
        token_key.KeyFileWrong,
        access.TokenKeyWrong,
    ) as error:
        log.error("not_started", error=str(error))  # noqa: TRY400
        return 1
    except Exception:
        log.exception("failed")
        return 1
    return 0


def main() -> int:
    """Run until told to stop; 0 after a clean stop, 1 after a crash, 2 for wrong settings."""
    try:
        configured = settings.read()
    except settings.SettingsInvalid as invalid:
        logs.configure("control_plane")
        log.error("settings_invalid", mistakes=str(invalid).splitlines())  # noqa: TRY400
        return 2
    logs.configure("control_plane", configured.log_level)
    log.info("starting", **configured.masked())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_main(configured))


if __name__ == "__main__":
    sys.exit(main())
