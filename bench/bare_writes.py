"""The anchor: the rows a session can't do without, written by a bare asyncpg loop."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from dataclasses import dataclass

import asyncpg

from bench.many_agents import ACCOUNT, PROFILE, SHA256, WORKER
from bench.process_cpu import cpu_ms

CONNECTIONS = 16

# Due later: the control plane beside it, which claims what is due, must not take these for its own.
ADMIT = """
INSERT INTO sessions (account_id, session_id, state, origin, worker_id, worker_name, version_id,
  profile_type, duration_ms, sampling_interval_us, deadline_at, order_due_at)
VALUES ($1, $2, 'queued', 'api', $3, 'bench', $4, 'cpu', 1000, 1000, now() + interval '20 s',
  now() + interval '1 hour')
"""
ORDER = """
WITH claimed AS (
  UPDATE sessions SET lease_owner = 'bare', lease_until = now() + interval '10 s', captures = 1
  WHERE account_id = $1 AND session_id = $2 RETURNING account_id, session_id, version_id
)
INSERT INTO captures (account_id, session_id, capture, state, version_id, metal_id, datacenter,
  address, epoch, ends_at)
SELECT account_id, session_id, 1, 'ordered', version_id, 'm0000', 'dc00', '-', 1,
  now() + interval '1 s' FROM claimed
"""
ACCEPT = """
WITH accepted AS (
  UPDATE captures SET state = 'sampling', isolate_id = 'sim/' || $2, accepted_at = now(),
    heard_at = now() WHERE account_id = $1 AND session_id = $2 AND capture = 1
)
UPDATE sessions SET state = 'capturing', order_due_at = NULL, lease_owner = NULL, lease_until = NULL
WHERE account_id = $1 AND session_id = $2
"""
STORE = """
WITH stored AS (
  INSERT INTO profiles (account_id, session_id, capture, isolate_id, blob, sha256, size_bytes,
    samples, window_ms, slices) VALUES ($1, $2, 1, 'sim/' || $2, $2, $3, $4, 3, 1000, '[]')
), uploaded AS (
  UPDATE captures SET state = 'uploaded', ended_at = now()
  WHERE account_id = $1 AND session_id = $2 AND capture = 1
)
UPDATE sessions SET state = 'ready', ended_at = now() WHERE account_id = $1 AND session_id = $2
"""

# Sessions long over, with history: $1 sessions, $2 account, $3 worker, $4 version.
PAST = (
    """
INSERT INTO sessions (account_id, session_id, state, origin, worker_id, worker_name, version_id,
  profile_type, duration_ms, sampling_interval_us, captures, created_at, deadline_at, ended_at)
SELECT $2, gen_random_uuid()::text, 'ready', 'api', $3, 'bench', $4, 'cpu', 1000, 1000, 1,
  now() - interval '3 days' - n * interval '1 s', now() - interval '2 days', now() - interval '2 days'
FROM generate_series(1, $1::int) AS n
""",
    """
INSERT INTO captures (account_id, session_id, capture, state, version_id, metal_id, datacenter,
  address, epoch, isolate_id, ordered_at, ends_at, ended_at)
SELECT account_id, session_id, 1, 'uploaded', $4, 'm0000', 'dc00', '-', 1, 'sim/0', created_at,
  created_at, created_at
FROM sessions WHERE account_id = $2 AND worker_id = $3 AND created_at < now() - interval '1 day'
LIMIT $1::int
""",
    """
INSERT INTO history (account_id, session_id, event, state_after, at)
SELECT account_id, session_id, 'past', 'ready', created_at
FROM sessions, generate_series(1, 10)
WHERE account_id = $2 AND worker_id = $3 AND version_id = $4 AND created_at < now() - interval '1 day'
LIMIT $1::int * 10
""",
)


@dataclass(frozen=True, kw_only=True)
class Bare:
    """CPU per session of this process and Postgres, and how many a second it wrote."""

    sessions: int
    cpu_ms: float
    rate: float


async def run(database_url: str, postgres_pid: int, version_id: str, count: int) -> Bare:
    """Write so many sessions from start to end, several side by side."""
    pool = await asyncpg.create_pool(
        database_url.replace("+asyncpg", ""), min_size=CONNECTIONS, max_size=CONNECTIONS
    )
    pids = [os.getpid(), postgres_pid]
    numbers = iter(range(count))

    async def writer() -> None:
        for _ in numbers:
            session_id = str(uuid.uuid4())
            for statement, values in (
                (ADMIT, (ACCOUNT, session_id, WORKER, version_id)),
                (ORDER, (ACCOUNT, session_id)),
                (ACCEPT, (ACCOUNT, session_id)),
                (STORE, (ACCOUNT, session_id, SHA256, len(PROFILE))),
            ):
                async with pool.acquire() as connection:
                    await connection.execute(statement, *values)

    try:
        before, began = cpu_ms(pids), time.monotonic()
        await asyncio.gather(*(writer() for _ in range(CONNECTIONS)))
        took = time.monotonic() - began
        spent = cpu_ms(pids) - before
    finally:
        await pool.close()
    return Bare(sessions=count, cpu_ms=spent / count, rate=count / took)
