"""What is known of stored profiles; the bytes are in ``blobs``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from contract.messages import CaptureState, SliceHolds
from control_plane.store.tables import captures, merged_profiles, profiles

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from sqlalchemy.ext.asyncio import AsyncConnection

    from contract.messages import UploadManifest
    from control_plane.store.captures import Capture


@dataclass(frozen=True, kw_only=True)
class StoredProfile:
    """One capture's profile and where it was taken.

    Args:
        blob: its key in the blob store.
        sha256: of the stored bytes, hex.
        truncated: what was left out and why; empty when nothing was.
        late: it came after its capture was given up, and counts for nothing.
    """

    account_id: str
    session_id: str
    capture: int
    blob: str
    sha256: str
    size_bytes: int
    samples: int
    window_ms: int
    slices: tuple[SliceHolds, ...]
    truncated: str
    created_at: datetime
    datacenter: str
    metal_id: str
    isolate_id: str
    version_id: str
    late: bool

    @property
    def lock_held_us(self) -> int:
        """All the time the isolate's lock was held for the profiler."""
        return sum(s.start_hold_us + s.stop_hold_us for s in self.slices)


async def add(conn: AsyncConnection, capture: Capture, manifest: UploadManifest, blob: str) -> None:
    """Insert a capture's profile; one that is there already stays as it is."""
    await conn.execute(
        insert(profiles)
        .values(
            account_id=capture.account_id,
            session_id=capture.session_id,
            capture=capture.capture,
            isolate_id=manifest.isolate_id,
            blob=blob,
            sha256=manifest.sha256,
            size_bytes=manifest.size_bytes,
            samples=manifest.samples,
            window_ms=manifest.window_ms,
            slices=[asdict(s) for s in manifest.slices],
            truncated=manifest.truncated,
        )
        .on_conflict_do_nothing(index_elements=["account_id", "session_id", "capture"])
    )


async def of_session(
    conn: AsyncConnection, account_id: str, session_id: str
) -> tuple[StoredProfile, ...]:
    """Read a session's profiles, those of its ended-well captures first, each group in order."""
    return (await of_sessions(conn, account_id, (session_id,))).get(session_id, ())


async def of_sessions(
    conn: AsyncConnection, account_id: str, session_ids: Collection[str]
) -> dict[str, tuple[StoredProfile, ...]]:
    """Read the profiles of several sessions, in the order of ``of_session``; none has no entry."""
    joined = profiles.join(
        captures,
        (captures.c.account_id == profiles.c.account_id)
        & (captures.c.session_id == profiles.c.session_id)
        & (captures.c.capture == profiles.c.capture),
    )
    rows = await conn.execute(
        select(
            profiles.c.account_id,
            profiles.c.session_id,
            profiles.c.capture,
            profiles.c.blob,
            profiles.c.sha256,
            profiles.c.size_bytes,
            profiles.c.samples,
            profiles.c.window_ms,
            profiles.c.slices,
            profiles.c.truncated,
            profiles.c.created_at,
            captures.c.datacenter,
            captures.c.metal_id,
            profiles.c.isolate_id,
            captures.c.version_id,
            (captures.c.state != CaptureState.UPLOADED).label("late"),
        )
        .select_from(joined)
        .where(profiles.c.account_id == account_id, profiles.c.session_id.in_(session_ids))
        # A late upload of a capture given up is attached; it is not the session's profile.
        .order_by(
            profiles.c.session_id, captures.c.state != CaptureState.UPLOADED, profiles.c.capture
        )
    )
    found = []
    for row in rows.mappings():
        values = dict(row)
        values["slices"] = tuple(SliceHolds(**s) for s in values["slices"])
        found.append(StoredProfile(**values))
    return {session: tuple(own) for session, own in groupby(found, lambda p: p.session_id)}


async def of_capture(
    conn: AsyncConnection, account_id: str, session_id: str, capture: int
) -> StoredProfile | None:
    """Read one capture's profile."""
    stored = await of_session(conn, account_id, session_id)
    return next((p for p in stored if p.capture == capture), None)


@dataclass(frozen=True, kw_only=True)
class MergedProfile:
    """What a session of several isolates came to.

    Args:
        captures: whose profiles it is the sum of.
        truncated: as of ``StoredProfile``; ``labels_dropped`` are named in the profile.
    """

    account_id: str
    session_id: str
    blob: str
    sha256: str
    size_bytes: int
    samples: int
    window_ms: int
    truncated: str
    captures: tuple[int, ...]


async def add_merged(conn: AsyncConnection, merged: MergedProfile) -> None:
    """Insert what a session came to, once."""
    await conn.execute(
        insert(merged_profiles).values(**asdict(merged) | {"captures": list(merged.captures)})
    )


async def merged_of(
    conn: AsyncConnection, account_id: str, session_ids: Collection[str]
) -> dict[str, MergedProfile]:
    """Read what several sessions came to; those of one isolate have no entry."""
    if not session_ids:
        return {}
    columns = (merged_profiles.c[name] for name in MergedProfile.__dataclass_fields__)
    rows = await conn.execute(
        select(*columns).where(
            merged_profiles.c.account_id == account_id,
            merged_profiles.c.session_id.in_(session_ids),
        )
    )
    found = (MergedProfile(**dict(r) | {"captures": tuple(r["captures"])}) for r in rows.mappings())
    return {merged.session_id: merged for merged in found}
