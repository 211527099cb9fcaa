"""Telemetry: which version ran on which metal. Soft state, rebuilt from snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import text

from control_plane.placement import Candidate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    from sqlalchemy.ext.asyncio import AsyncConnection

    from contract.messages import Actor, ActorSighting, Report, Sighting

# Sorted by key, so that two reports never wait for each other in a circle.
_KEEP = """
    INSERT INTO sightings AS old (version_id, metal_id, account_id, worker_id, executions, ran_at,
                                  isolates, free_isolates, shared, held_until)
    SELECT version_id, metal_id, account_id, worker_id, executions,
           now() - idle_ms * interval '1 millisecond', isolates, free_isolates, shared,
           CASE WHEN held_ms > 0 THEN now() + held_ms * interval '1 millisecond' END
    FROM unnest(CAST(:version_id AS text[]), CAST(:on_metal AS text[]),
                CAST(:account_id AS text[]), CAST(:worker_id AS text[]),
                CAST(:executions AS bigint[]), CAST(:idle_ms AS bigint[]),
                CAST(:isolates AS integer[]), CAST(:free_isolates AS integer[]),
                CAST(:shared AS boolean[]), CAST(:held_ms AS integer[]))
         AS new (version_id, metal_id, account_id, worker_id, executions, idle_ms,
                 isolates, free_isolates, shared, held_ms)
    {only_if}
    ON CONFLICT (version_id, metal_id, account_id) DO UPDATE SET
        worker_id = excluded.worker_id, executions = excluded.executions,
        ran_at = greatest(old.ran_at, excluded.ran_at), isolates = excluded.isolates,
        free_isolates = excluded.free_isolates, shared = excluded.shared,
        held_until = excluded.held_until
"""
_UPSERT = text(_KEEP.format(only_if=""))
# Whole reports that bring nothing new, in one statement: most are.
_REFRESH_TEXT = """
    WITH told AS (
        SELECT * FROM unnest(CAST(:metal_id AS text[]), CAST(:epoch AS bigint[]),
                             CAST(:datacenter AS text[]), CAST(:address AS text[]),
                             CAST(:max_captures AS integer[]))
                      AS t (metal_id, epoch, datacenter, address, max_captures)
    ), known AS (
        SELECT r.metal_id, t.epoch
        FROM told AS t
        JOIN metals AS m ON m.metal_id = t.metal_id AND m.epoch = t.epoch
            AND m.datacenter = t.datacenter AND m.address = t.address
            AND m.max_captures = t.max_captures
        JOIN metal_reports AS r ON r.metal_id = t.metal_id AND r.epoch = t.epoch
        ORDER BY r.metal_id FOR UPDATE OF r
    ), heard AS (
        UPDATE metal_reports AS r SET reported_at = now()
        FROM known AS k WHERE r.metal_id = k.metal_id
        RETURNING r.metal_id, r.epoch
    ), kept AS ({kept})
    SELECT metal_id, EXISTS (SELECT 1 FROM captures AS c
                             WHERE c.metal_id = heard.metal_id AND c.ended_at IS NULL
                               AND c.epoch < heard.epoch) AS forgotten
    FROM heard
"""
_REFRESH = text(
    _REFRESH_TEXT.format(
        kept=_KEEP.format(only_if="WHERE metal_id IN (SELECT heard.metal_id FROM heard)")
    )
)
# When it ran stays true though it is loaded no more; that is what tells the two refusals apart.
_UNLOAD_ALL = text(
    """
    UPDATE sightings SET isolates = 0, free_isolates = 0, executions = 0, held_until = NULL
    WHERE metal_id = :metal_id
    """
)
_UPSERT_ACTORS = text(
    """
    INSERT INTO actor_sightings AS old (namespace_id, actor_id, account_id, worker_id, version_id,
                                        metal_id, ran_at)
    SELECT namespace_id, actor_id, account_id, worker_id, version_id, :metal_id,
           now() - idle_ms * interval '1 millisecond'
    FROM unnest(CAST(:namespace_id AS text[]), CAST(:actor_id AS text[]), CAST(:account_id AS
    text[]),
                CAST(:worker_id AS text[]), CAST(:version_id AS text[]), CAST(:idle_ms AS bigint[]))
         AS new (namespace_id, actor_id, account_id, worker_id, version_id, idle_ms)
    ON CONFLICT (namespace_id, actor_id, account_id) DO UPDATE SET
        worker_id = excluded.worker_id, version_id = excluded.version_id,
        metal_id = excluded.metal_id, ran_at = excluded.ran_at
    WHERE excluded.ran_at >= old.ran_at OR old.metal_id = excluded.metal_id
    """
)
_CANDIDATES = text(
    """
    SELECT s.metal_id, m.datacenter, m.address, m.epoch, s.executions,
           (m.draining OR d.datacenter IS NOT NULL) AS draining,
           s.isolates, s.free_isolates, s.shared, m.max_captures,
           (extract(epoch FROM now() - s.ran_at) * 1000)::bigint AS idle_ms,
           (extract(epoch FROM now() - r.reported_at) * 1000)::bigint AS silent_ms,
           coalesce(live.here, 0) AS live_here, coalesce(live.on_metal, 0) AS live_on_metal,
           (extract(epoch FROM live.end_here - now()) * 1000)::bigint AS ends_in_ms,
           (extract(epoch FROM live.end_on_metal - now()) * 1000)::bigint AS metal_ends_in_ms
    FROM sightings s
    JOIN metals m ON m.metal_id = s.metal_id
    LEFT JOIN drained_datacenters d ON d.datacenter = m.datacenter
    LEFT JOIN metal_reports r ON r.metal_id = s.metal_id
    LEFT JOIN LATERAL (
        SELECT count(*) AS on_metal, count(*) FILTER (WHERE c.version_id = s.version_id) AS here,
               min(c.frees_at) FILTER (WHERE c.version_id = s.version_id) AS end_here,
               min(c.frees_at) AS end_on_metal
        FROM (
            -- One whose agent is being told to end it holds its isolate for a moment more.
            SELECT version_id,
                   CASE WHEN stop IS NULL THEN ends_at ELSE least(ends_at, now()) END AS frees_at
            FROM captures
            WHERE metal_id = s.metal_id AND ended_at IS NULL AND freed_at IS NULL
        ) c
    ) live ON true
    WHERE s.version_id = :version_id AND s.account_id = :account_id AND s.worker_id = :worker_id
      AND (CAST(:only_metal AS text) IS NULL OR s.metal_id = :only_metal)
    """
)
_ACTOR = text(
    """
    SELECT metal_id, version_id, worker_id, ran_at,
           (extract(epoch FROM now() - ran_at) * 1000)::bigint AS idle_ms
    FROM actor_sightings
    WHERE namespace_id = :namespace_id AND actor_id = :actor_id AND account_id = :account_id
    """
)
_RUNNING = text(
    """
    SELECT s.version_id, max(s.ran_at) AS ran_at
    FROM versions v JOIN sightings s ON s.version_id = v.version_id AND s.account_id = v.account_id
    WHERE v.account_id = :account_id AND v.worker_id = :worker_id
      AND s.ran_at > now() - :recent_ms * interval '1 millisecond'
    GROUP BY s.version_id ORDER BY 2 DESC LIMIT 5
    """
)
_FORGET = (
    text(
        "DELETE FROM sightings WHERE isolates = 0 AND ran_at < now() - :kept_ms * interval '1 ms'"
    ),
    text("DELETE FROM actor_sightings WHERE ran_at < now() - :kept_ms * interval '1 ms'"),
)


@dataclass(frozen=True, kw_only=True)
class ActorSeen:
    """Where an actor ran last, as which version, when, and how long ago that is."""

    metal_id: str
    worker_id: str
    version_id: str
    ran_at: datetime
    idle_ms: int


async def keep(
    conn: AsyncConnection, metal_id: str, sightings: Sequence[Sighting], *, snapshot: bool
) -> None:
    """Write a report's sightings. A snapshot unloads on this metal whatever it does not name."""
    if snapshot:
        await conn.execute(_UNLOAD_ALL, {"metal_id": metal_id})
    if sightings:
        await conn.execute(_UPSERT, _columns([(metal_id, sightings)]))


async def refresh(conn: AsyncConnection, reports: Collection[Report]) -> dict[str, bool]:
    """Write reports that bring nothing new: no snapshots, and of registered versions alone.

    Args:
        reports: each of another metal.

    Returns:
        by metal: whether an earlier start of its agent was ordered captures that are live here. Of
            a metal that is not known as it tells of itself nothing was written, and it is not
            there.
    """
    metals = [report.metal for report in reports]
    told = {
        "metal_id": [metal.metal_id for metal in metals],
        "epoch": [metal.epoch for metal in metals],
        "datacenter": [metal.datacenter for metal in metals],
        "address": [metal.address for metal in metals],
        "max_captures": [metal.max_captures for metal in metals],
    }
    seen = _columns([(report.metal.metal_id, report.sightings) for report in reports])
    rows = await conn.execute(_REFRESH, told | seen)
    return {row.metal_id: row.forgotten for row in rows}


def _columns(of_metals: Iterable[tuple[str, Sequence[Sighting]]]) -> dict[str, list[Any]]:
    # A statement may touch a row once: of doubles the last counts.
    seen = {
        (s.version_id, metal_id, s.account_id): s
        for metal_id, sightings in of_metals
        for s in sightings
    }
    keys = sorted(seen)
    rows = [seen[key] for key in keys]
    return {
        "on_metal": [metal_id for _, metal_id, _ in keys],
        "version_id": [s.version_id for s in rows],
        "account_id": [s.account_id for s in rows],
        "worker_id": [s.worker_id for s in rows],
        "executions": [s.executions for s in rows],
        "idle_ms": [s.idle_ms for s in rows],
        "isolates": [s.isolates for s in rows],
        "free_isolates": [s.free_isolates for s in rows],
        "shared": [s.shared for s in rows],
        "held_ms": [s.held_ms for s in rows],
    }


async def keep_actors(
    conn: AsyncConnection, metal_id: str, actors: Sequence[ActorSighting]
) -> None:
    """Write which actors ran on a metal; whoever saw an actor last owns it."""
    seen = {(a.actor.namespace_id, a.actor.actor_id, a.account_id): a for a in actors}
    rows = [seen[key] for key in sorted(seen)]
    if not rows:
        return
    await conn.execute(
        _UPSERT_ACTORS,
        {
            "metal_id": metal_id,
            "namespace_id": [a.actor.namespace_id for a in rows],
            "actor_id": [a.actor.actor_id for a in rows],
            "account_id": [a.account_id for a in rows],
            "worker_id": [a.worker_id for a in rows],
            "version_id": [a.version_id for a in rows],
            "idle_ms": [a.idle_ms for a in rows],
        },
    )


async def candidates(
    conn: AsyncConnection,
    account_id: str,
    worker_id: str,
    version_id: str,
    *,
    only_metal: str | None = None,
) -> tuple[Candidate, ...]:
    """Return every metal that has sighted the version, recently or not."""
    rows = await conn.execute(
        _CANDIDATES,
        {
            "account_id": account_id,
            "worker_id": worker_id,
            "version_id": version_id,
            "only_metal": only_metal,
        },
    )
    return tuple(Candidate(**row) for row in rows.mappings())


async def actor(conn: AsyncConnection, account_id: str, of: Actor) -> ActorSeen | None:
    """Return where an actor ran last."""
    rows = await conn.execute(
        _ACTOR,
        {"account_id": account_id, "namespace_id": of.namespace_id, "actor_id": of.actor_id},
    )
    row = rows.mappings().one_or_none()
    return ActorSeen(**row) if row is not None else None


async def running_versions(
    conn: AsyncConnection, account_id: str, worker_id: str, *, recent_ms: int
) -> tuple[str, ...]:
    """Return up to 5 versions of a Worker that ran lately, the most recent first."""
    rows = await conn.execute(
        _RUNNING, {"account_id": account_id, "worker_id": worker_id, "recent_ms": recent_ms}
    )
    return tuple(row.version_id for row in rows)


async def forget(conn: AsyncConnection, *, kept_ms: int) -> None:
    """Drop what has not run for so long that nobody asks any more."""
    for statement in _FORGET:
        await conn.execute(statement, {"kept_ms": kept_ms})
