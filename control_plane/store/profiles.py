"""What is known of stored profiles; the bytes are in ``blobs``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from sqlalchemy import ARRAY, Text, bindparam, func, select
from sqlalchemy.dialects.postgresql import insert

from contract.messages import CaptureState, SliceHolds
from control_plane.store.tables import captures, merged_profiles, profiles

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from sqlalchemy.engine import RowMapping
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
        _ADD,
        {
            "new_account_id": capture.account_id,
            "new_session_id": capture.session_id,
            "new_capture": capture.capture,
            "new_isolate_id": manifest.isolate_id,
            "new_blob": blob,
            "new_sha256": manifest.sha256,
            "new_size_bytes": manifest.size_bytes,
            "new_samples": manifest.samples,
            "new_window_ms": manifest.window_ms,
            "new_slices": [asdict(s) for s in manifest.slices],
            "new_truncated": manifest.truncated,
        },
    )


_GIVEN = (
    "account_id",
    "session_id",
    "capture",
    "isolate_id",
    "blob",
    "sha256",
    "size_bytes",
    "samples",
    "window_ms",
    "slices",
    "truncated",
)
_ADD = (
    insert(profiles)
    .values({name: bindparam(f"new_{name}") for name in _GIVEN})
    .on_conflict_do_nothing(index_elements=["account_id", "session_id", "capture"])
)
_STORED = select(
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
).select_from(
    profiles.join(
        captures,
        (captures.c.account_id == profiles.c.account_id)
        & (captures.c.session_id == profiles.c.session_id)
        & (captures.c.capture == profiles.c.capture),
    )
)
_OF_CAPTURE = _STORED.where(
    profiles.c.account_id == bindparam("of_account"),
    profiles.c.session_id == bindparam("of_session"),
    profiles.c.capture == bindparam("of_capture"),
)
_OF_SESSIONS = _STORED.where(
    profiles.c.account_id == bindparam("of_account"),
    profiles.c.session_id == func.any(bindparam("of_sessions", type_=ARRAY(Text))),
    # A late upload of a capture given up is attached; it is not the session's profile.
).order_by(profiles.c.session_id, captures.c.state != CaptureState.UPLOADED, profiles.c.capture)


def _stored(row: RowMapping) -> StoredProfile:
    values = dict(row)
    values["slices"] = tuple(SliceHolds(**s) for s in values["slices"])
    return StoredProfile(**values)


async def of_session(
    conn: AsyncConnection, account_id: str, session_id: str
) -> tuple[StoredProfile, ...]:
    """Read a session's profiles, those of its ended-well captures first, each group in order."""
    return (await of_sessions(conn, account_id, (session_id,))).get(session_id, ())


async def of_sessions(
    conn: AsyncConnection, account_id: str, session_ids: Collection[str]
) -> dict[str, tuple[StoredProfile, ...]]:
    """Read the profiles of several sessions, in the order of ``of_session``; none has no entry."""
    rows = await conn.execute(
        _OF_SESSIONS, {"of_account": account_id, "of_sessions": list(session_ids)}
    )
    found = map(_stored, rows.mappings())
    return {session: tuple(own) for session, own in groupby(found, lambda p: p.session_id)}


async def of_capture(
    conn: AsyncConnection, account_id: str, session_id: str, capture: int
) -> StoredProfile | None:
    """Read one capture's profile."""
    rows = await conn.execute(
        _OF_CAPTURE,
        {"of_account": account_id, "of_session": session_id, "of_capture": capture},
    )
    row = rows.mappings().one_or_none()
    return _stored(row) if row is not None else None


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
