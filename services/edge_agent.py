"""The edge agent process: ``python -m services.edge_agent --config metal.toml``. It only composes.

At its end captures are stopped and their inspector sessions closed before anything else: a session
that is open when the runtime is told to end makes it crash.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sys
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
import uvloop

from contract import identity
from contract.certificates import Certificates, CertificatesInvalid
from contract.faults import Fault
from contract.messages import Isolate, Metal
from edge_agent import settings
from edge_agent.activity import Activity
from edge_agent.builder import builder
from edge_agent.capture import Captures
from edge_agent.hold import Holds
from edge_agent.journal import Journal
from edge_agent.loaded import Loaded
from edge_agent.recovery import Recovery
from edge_agent.rpc import servicer
from edge_agent.rpc.gateway import Gateway
from edge_agent.runtimes.clock import SystemClock
from edge_agent.runtimes.simulated import SimulatedRuntime
from edge_agent.runtimes.workerd.runtime import WorkerdRuntime
from edge_agent.runtimes.workerd.tails import Tails
from edge_agent.sampler import Limits
from edge_agent.sightings import Sightings
from edge_agent.taken import Site
from edge_agent.warm_up import WarmUps
from services import logs
from services.steps import StepEnded, step, until

if TYPE_CHECKING:
    from edge_agent.runtime import Runtime
    from edge_agent.settings import RuntimeConfig, Settings

PRODUCT = "0.1.0"
GRACE_S = 1.0

log = structlog.get_logger(__name__)


async def serve(configured: Settings, stop: asyncio.Event) -> None:
    """Run the agent until told to stop.

    Raises:
        StepEnded: a part crashed; better started anew than limping.
        OSError: a listener could not be bound, or the journal not be written.
    """
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        journal = Journal(configured.data_dir)
        left_open = journal.read()
        tails: Tails | None = None
        tail_bound = ""
        if configured.tail_listen:
            tails = Tails(configured.tail_listen)
            stack.push_async_callback(tails.close)
        runtimes = tuple(_runtime(one, configured, tails, clock) for one in configured.runtimes)
        for runtime in runtimes:
            if isinstance(runtime, WorkerdRuntime):
                stack.push_async_callback(runtime.close)
        if tails is not None:
            tail_bound = await tails.start()
        shown = _certificates(configured)
        rng = random.SystemRandom()
        gateway = Gateway(configured.gateways, clock, shown, rng=rng)
        stack.push_async_callback(gateway.close)
        listener = await servicer.bind(configured.listen, shown)
        bound = f"{configured.listen.rpartition(':')[0]}:{listener.port}"

        activity = Activity(configured.activity_window_ms)
        loaded = Loaded(runtimes, activity)
        holds = Holds(configured.max_captures)
        metal = Metal(
            metal_id=configured.metal_id,
            datacenter=configured.datacenter,
            address=configured.advertise or bound,
            epoch=journal.next_epoch(clock.time_ns() // 1_000_000),
            max_captures=configured.max_captures,
        )
        warm_ups = WarmUps(
            loaded=loaded,
            activity=activity,
            holds=holds,
            clock=clock,
            length_ms=configured.warm_up_ms,
        )
        captures = Captures(
            Site(
                metal_id=metal.metal_id,
                datacenter=metal.datacenter,
                product=PRODUCT,
                max_captures=metal.max_captures,
            ),
            loaded=loaded,
            activity=activity,
            holds=holds,
            journal=journal,
            uplink=gateway,
            builder=builder,
            clock=clock,
            limits=Limits(max_hold_ms=configured.max_hold_ms),
            changed=lambda: sightings.changed(),
            make_way=warm_ups.make_way,
        )
        sightings = Sightings(
            metal,
            loaded=loaded,
            activity=activity,
            holds=holds,
            uplink=gateway,
            clock=clock,
            interval_ms=configured.report_interval_ms,
            captures=captures.keys,
            stop=lambda key: captures.stop(key, discard=True),
            rng=rng,
        )
        recovery = Recovery(
            (
                f"{runtime.runtime_id}/{isolate.service}"
                for runtime in configured.runtimes
                for isolate in runtime.isolates
            ),
            loaded=loaded,
            holds=holds,
            clock=clock,
        )
        # Before anybody is told of an end, and before the first order: whatever an earlier run left
        # in an isolate is out of it.
        await recovery.first()
        for entry in left_open:
            captures.lost(entry)

        def isolates() -> tuple[Isolate, ...]:
            return _isolates(loaded, activity, holds, clock.monotonic_ns() // 1_000_000)

        parts = [
            await stack.enter_async_context(step("sightings", sightings.run())),
            *[
                await stack.enter_async_context(step("activity", sightings.watch(runtime)))
                for runtime in runtimes
            ],
        ]
        if configured.warm_up_ms:
            parts.append(await stack.enter_async_context(step("warm_up", warm_ups.run())))
        if shown is not None:
            parts.append(await stack.enter_async_context(step("certificates", shown.watch())))
        _rest = await stack.enter_async_context(step("recovery", recovery.rest()))
        stack.push_async_callback(captures.close)
        await servicer.serve(listener, servicer.EdgeAgent(captures, isolates))
        stack.push_async_callback(listener.stop, GRACE_S)
        ready: dict[str, object] = {"ready": True, "grpc": bound}
        if tail_bound:
            ready["tail"] = tail_bound
        print(json.dumps(ready), flush=True)
        log.info("ready", metal=metal.metal_id, epoch=metal.epoch, address=metal.address)
        await until(stop, parts)
        log.info("stopping", metal=metal.metal_id)
    log.info("stopped", metal=configured.metal_id)


def _certificates(configured: Settings) -> Certificates | None:
    if configured.tls is None:
        return None
    name = identity.of_metal(configured.metal_id)
    return Certificates(configured.tls, name=name, now=partial(datetime.now, UTC))


def _runtime(
    one: RuntimeConfig, configured: Settings, tails: Tails | None, clock: SystemClock
) -> Runtime:
    if one.kind == "simulated":
        return SimulatedRuntime(one.runtime_id, one.isolates, clock)
    return WorkerdRuntime(
        one.runtime_id,
        one.inspector,
        one.isolates,
        one.activity,
        tails,
        clock,
        heap_poll_interval_ms=configured.heap_poll_interval_ms,
    )


def _isolates(loaded: Loaded, activity: Activity, holds: Holds, now_ms: int) -> tuple[Isolate, ...]:
    return tuple(
        Isolate(
            isolate_id=target.isolate_id,
            account_id=target.accounts[0],
            worker_id=target.worker_id,
            worker_name=target.worker_name,
            version_id=target.version_id,
            executions=activity.executions(target.isolate_id, now_ms),
            idle_ms=activity.idle_ms(target.isolate_id, now_ms),
            shared=len(target.accounts) > 1,
            held_ms=holds.held_ms(target.isolate_id, now_ms),
            namespaces=tuple(target.namespaces),
        )
        for target in loaded.targets
    )


async def _main(configured: Settings) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await serve(configured, stop)
    except StepEnded as ended:
        log.error("step_ended", step=str(ended), exc_info=ended.__cause__ or ended)  # noqa: TRY400
        return 1
    except (OSError, CertificatesInvalid) as error:
        log.error("not_started", error=str(error), exc_info=error)  # noqa: TRY400
        return 1
    return 0


def main() -> int:
    """Run until told to stop; 0 after a clean stop, 1 after a crash, 2 for a wrong file."""
    parser = argparse.ArgumentParser(prog="python -m services.edge_agent")
    parser.add_argument("--config", type=Path, required=True, help="TOML file of this metal")
    logs.configure("edge_agent")
    try:
        configured = settings.load(parser.parse_args().config)
    except (Fault, OSError) as error:
        mistakes = [f"{one.pointer}: {one.message}" for one in getattr(error, "fields", ())]
        log.error("settings_invalid", mistakes=mistakes or [str(error)])  # noqa: TRY400
        return 2
    log.info("starting", metal=configured.metal_id, gateways=configured.gateways)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_main(configured))


if __name__ == "__main__":
    sys.exit(main())
