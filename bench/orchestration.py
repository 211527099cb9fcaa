"""What orchestrating a session takes: latencies, rate and CPU, beside the bare writes it needs.

A real control plane process over a real Postgres, a thousand agents that accept and upload
(``bench/many_agents.py``), and in the same run a loop of asyncpg statements that writes for each
session the rows it can't do without: the session, its capture, the acceptance, the profile and both
ends. From the repository's root: ``python -m bench.orchestration``.

CPU is that of the control plane's and Postgres' processes; what telemetry of all agents costs by
itself is measured first and taken off. One account asks for everything, so its quotas are set far
above that; a session that is refused all the same is counted by its error code, and misses a goal.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import asyncpg

from bench import bare_writes, many_agents
from bench.many_agents import ACCOUNT, WORKER, Agent, Seen
from bench.process_cpu import cpu_ms
from services import embedded_postgres
from services.devfleet import commands
from services.devfleet.build import ROOT
from services.devfleet.ports import Ports
from services.devfleet.processes import Child

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

READY_S = 60.0
SIGHTED_S = 12.0
WITHIN_S = 30.0
DURATION_MS = 1_000
POLL_S = 0.2
IDLE_S = 10.0
CANCELS = 50
# One account asks for all, and its quotas are not what is measured: counted, as in production, but
# far above what any run asks.
AMPLE = 1_000_000
QUOTAS = {
    "ISOPROF_MAX_CONCURRENT_SESSIONS": str(AMPLE),
    "ISOPROF_MAX_SESSIONS_PER_HOUR": str(AMPLE),
    "ISOPROF_MAX_CAPTURE_SECONDS_PER_HOUR": str(AMPLE),
}
GOAL_P50_MS, GOAL_P99_MS, GOAL_CANCEL_P99_MS, GOAL_CPU_RATIO = 25.0, 250.0, 1_000.0, 3.0


@dataclass(frozen=True, kw_only=True)
class Figures:
    """One round.

    Args:
        sessions: admitted, those to cancel aside; accept_ms, rate and cpu_ms are of these alone.
        accept_ms, cancel_ms: (p50, p99) of POST -> order accepted and of DELETE -> agent stopped;
            None when every one was refused.
        rate: sessions per second from the first POST to the last order accepted.
        cpu_ms: per session, telemetry taken off, what refusals cost included; None without any.
        extra_orders: orders beyond one per session.
        refused: how many were not admitted, by error code, those to cancel included.
    """

    history_rows: int
    sessions: int
    accept_ms: tuple[float, float] | None
    cancel_ms: tuple[float, float] | None
    rate: float
    cpu_ms: float | None
    not_ready: int
    extra_orders: int
    refused: dict[str, int]


class Plane:
    """The control plane under measurement, its database and its callers.

    Attributes:
        refused: sessions not admitted since it was last cleared, by error code.
    """

    def __init__(self, url: str, http: aiohttp.ClientSession, seen: Seen, pids: list[int]) -> None:
        self.url = url
        self.http = http
        self.seen = seen
        self.pids = pids
        self.refused: Counter[str] = Counter()

    async def post(self, version_id: str) -> tuple[str, float] | None:
        """Ask for a session; its id and when it was asked, None when it is refused."""
        body = {"worker": WORKER, "version": version_id, "duration_ms": DURATION_MS}
        asked = time.monotonic()
        async with self.http.post(self.url, json=body) as answer:
            told = await answer.json()
            if answer.status != 202:
                self.refused[str(told["errors"][0]["code"])] += 1
                return None
        return told["result"]["id"], asked

    async def ready(self, session_id: str) -> bool:
        """Wait for a session's end; whether it ended well."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                async with self.http.get(f"{self.url}/{session_id}") as answer:
                    state = (await answer.json())["result"]["state"]
                if state in {"ready", "failed", "cancelled", "expired"}:
                    return bool(state == "ready")
                await asyncio.sleep(POLL_S)

    async def cancel(self, version_id: str) -> float | None:
        """Milliseconds from DELETE to the stop at the agent; None when there is none to cancel."""
        admitted = await self.post(version_id)
        if admitted is None:
            return None
        session_id, _ = admitted
        await self.seen.until(self.seen.accepted, session_id, WITHIN_S)
        await asyncio.sleep(POLL_S)
        asked = time.monotonic()
        async with self.http.delete(f"{self.url}/{session_id}") as answer:
            await answer.read()
        stopped = await self.seen.until(self.seen.stopped, session_id, WITHIN_S)
        return max(0.0, stopped - asked) * 1000


async def round_of(
    plane: Plane, known: Sequence[str], rate: float, seconds: float, idle_ms_per_s: float, rows: int
) -> Figures:
    """Post at a steady rate, wait for every profile, then cancel some one after another."""
    count = round(rate * seconds)
    plane.refused.clear()
    orders_before = plane.seen.orders
    cpu_before, began = cpu_ms(plane.pids), time.monotonic()

    async def one(number: int) -> tuple[float, str] | None:
        await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
        admitted = await plane.post(known[number % len(known)])
        if admitted is None:
            return None
        session_id, asked = admitted
        try:
            accepted = await plane.seen.until(plane.seen.accepted, session_id, WITHIN_S)
        except TimeoutError:
            async with plane.http.get(f"{plane.url}/{session_id}") as answer:
                raise SystemExit(f"never accepted: {await answer.text()}") from None
        return (accepted - asked) * 1000, session_id

    done = await asyncio.gather(*(one(number) for number in range(count)))
    accepted = [each for each in done if each is not None]
    ends = [plane.seen.accepted[session_id] for _, session_id in accepted]
    settled_s = max(ends, default=began) - began
    # Not polled while they run: reading is not what is measured.
    await asyncio.sleep(DURATION_MS / 1000 + POLL_S)
    took = time.monotonic() - began
    spent_ms = cpu_ms(plane.pids) - cpu_before - idle_ms_per_s * took
    well = [await plane.ready(session_id) for _, session_id in accepted]
    extra = plane.seen.orders - orders_before - len(accepted)
    cancels = [await plane.cancel(known[number % len(known)]) for number in range(CANCELS)]
    return Figures(
        history_rows=rows,
        sessions=len(accepted),
        accept_ms=_spread([ms for ms, _ in accepted]),
        cancel_ms=_spread([ms for ms in cancels if ms is not None]),
        rate=len(accepted) / max(settled_s, seconds),
        cpu_ms=spent_ms / len(accepted) if accepted else None,
        not_ready=well.count(False),
        extra_orders=extra,
        refused=dict(plane.refused),
    )


def _spread(values: Sequence[float]) -> tuple[float, float] | None:
    if not values:
        return None
    ordered = sorted(values)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


async def measure(asked: argparse.Namespace) -> dict[str, object]:
    """Everything, in one run."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="isoprof-bench-")))
        ports = stack.enter_context(Ports())
        postgres = await embedded_postgres.start(folder)
        stack.push_async_callback(postgres.stop)
        await _once(commands.migrate(folder, postgres.url))
        request = folder / "accounts.json"
        account = {"id": ACCOUNT, "name": "bench", "profiling_enabled": True, "token": True}
        request.write_text(json.dumps({"accounts": [account]}))
        minted = commands.provision(request, folder, postgres.url)
        await _once(minted)
        token = minted.events[0]["tokens"][ACCOUNT]
        http_at, grpc_at = ports.take(), ports.take()
        control_plane = _control_plane(folder, postgres.url, http_at, grpc_at, ports.take())
        control_plane.start()
        stack.push_async_callback(control_plane.stop, 15.0)
        await control_plane.ready(READY_S)
        http = await stack.enter_async_context(
            aiohttp.ClientSession(
                headers={"Authorization": f"Bearer {token}"},
                connector=aiohttp.TCPConnector(limit=0),
            )
        )
        seen = Seen()
        gateway = many_agents.connect(grpc_at)
        stack.push_async_callback(gateway.close)
        known = many_agents.versions(asked.agents)
        agents = [
            Agent(number, known[number % len(known)], gateway, seen)
            for number in range(asked.agents)
        ]
        for agent in agents:
            await agent.start()
            stack.push_async_callback(agent.close)
        reporting = asyncio.create_task(many_agents.keep_reporting(agents))
        stack.push_async_callback(_cancel, reporting)
        assert postgres.process is not None
        pids = [control_plane.pid, postgres.process.pid]
        base = f"http://{http_at}/client/v4/accounts/{ACCOUNT}/profile-sessions"
        plane = Plane(base, http, seen, pids)
        await asyncio.sleep(SIGHTED_S)
        before = cpu_ms(pids)
        await asyncio.sleep(IDLE_S)
        idle_ms_per_s = (cpu_ms(pids) - before) / IDLE_S
        rounds = [await round_of(plane, known, asked.rate, asked.seconds, idle_ms_per_s, 0)]
        bare = await bare_writes.run(
            postgres.url, postgres.process.pid, known[0], round(asked.rate * asked.seconds)
        )
        if asked.history_rows:
            await _grow(postgres.url, asked.history_rows, known[0])
            rounds.append(
                await round_of(
                    plane, known, asked.rate, asked.seconds, idle_ms_per_s, asked.history_rows
                )
            )
    return {
        "bench": "orchestration",
        "agents": asked.agents,
        "telemetry_cpu_ms_per_s": idle_ms_per_s,
        "rounds": [asdict(one) for one in rounds],
        "bare": asdict(bare),
        "cpu_ratio": None if rounds[0].cpu_ms is None else rounds[0].cpu_ms / bare.cpu_ms,
    }


def _control_plane(
    folder: Path, database_url: str, http_at: str, grpc_at: str, admin_at: str
) -> Child:
    return Child(
        "control-plane",
        [sys.executable, "-m", "services.control_plane"],
        log=folder / "control_plane.log",
        env={
            "PATH": "/usr/bin:/bin",
            "DATABASE_URL": database_url,
            "ISOPROF_DATA_DIR": str(folder / "control_plane"),
            "ISOPROF_HTTP_LISTEN": http_at,
            "ISOPROF_GRPC_LISTEN": grpc_at,
            "ISOPROF_ADMIN_LISTEN": admin_at,
            "ISOPROF_GRPC_PLAINTEXT": "loopback",
            **QUOTAS,
        },
        cwd=ROOT,
    )


async def _once(child: Child) -> None:
    child.start()
    await child.finished(READY_S)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def _grow(url: str, rows: int, version_id: str) -> None:
    """Ended sessions of days past, each with its capture, and ten rows of history for each."""
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    try:
        for statement in bare_writes.PAST:
            await connection.execute(statement, rows // 10, ACCOUNT, WORKER, version_id)
        await connection.execute("ANALYZE")
    finally:
        await connection.close()


def goals_of(figures: Mapping[str, Any]) -> dict[str, bool]:
    """Whether each goal is met; one whose figure is missing is not."""
    goals = {"CPU per session <= 3x the bare loop": _within(figures["cpu_ratio"], GOAL_CPU_RATIO)}
    for one in figures["rounds"]:
        at = f"with {one['history_rows']} rows of history"
        accept_p50, accept_p99 = one["accept_ms"] or (None, None)
        _, cancel_p99 = one["cancel_ms"] or (None, None)
        goals |= {
            f"accepted p50 <= 25 ms {at}": _within(accept_p50, GOAL_P50_MS),
            f"accepted p99 <= 250 ms {at}": _within(accept_p99, GOAL_P99_MS),
            f"cancel p99 <= 1 s {at}": _within(cancel_p99, GOAL_CANCEL_P99_MS),
            # What is left out must not make the rest look fast.
            f"none refused {at}": not one["refused"],
        }
    return goals


def _within(value: float | None, goal: float) -> bool:
    return value is not None and value <= goal


def main() -> int:
    """Print the figures; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.orchestration")
    parser.add_argument("--agents", type=int, default=1_000)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--history-rows", type=int, default=1_000_000)
    figures = asyncio.run(measure(parser.parse_args()))
    print(json.dumps(figures, indent=1))
    goals = goals_of(figures)
    for name, met in goals.items():
        print(f"goal {name}: {'met' if met else 'MISSED'}")
    return 0 if all(goals.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
