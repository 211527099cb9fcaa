"""Every table as the code sees it; ``migrations`` makes them, and a test compares the two.

Account-owned tables carry ``account_id`` first in their primary key, so that they can be spread by
it. Sightings are soft state: unlogged, updated in place (no index on what changes), rebuilt from
snapshots after a crash.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Float,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from contract.messages import LIVE_CAPTURE_STATES, CaptureState, ProfileType
from control_plane.session import LIVE_STATES, MAX_ISOLATES, SessionState

metadata = MetaData()


def _one_of(column: str, values: type[SessionState | CaptureState | ProfileType]) -> str:
    return f"{column} IN ({', '.join(repr(v.value) for v in values)})"


def _live(states: frozenset[SessionState] | frozenset[CaptureState]) -> str:
    return f"state IN ({', '.join(repr(s.value) for s in sorted(states))})"


def _at(name: str, *, nullable: bool = False, now: bool = False) -> Column[object]:
    default = func.now() if now else None
    return Column(name, DateTime(timezone=True), nullable=nullable, server_default=default)


accounts = Table(
    "accounts",
    metadata,
    Column("account_id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("profiling_enabled", Boolean, nullable=False),
    _at("created_at", now=True),
    # Empty: the default of the settings.
    Column("max_concurrent_sessions", Integer),
    Column("max_sessions_per_hour", Integer),
    Column("max_capture_seconds_per_hour", Integer),
    Column("retention_days", Integer),
    # Of dispatch's turns, when several accounts have something due.
    Column("weight", Integer, nullable=False, server_default=text("1")),
    CheckConstraint("weight BETWEEN 1 AND 100", name="accounts_weight"),
    CheckConstraint("account_id ~ '^[0-9a-f]{32}$'", name="accounts_id_shape"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("account_id", Text, nullable=False),
    Column("token_id", Text, nullable=False),
    # Keyed: HMAC with the server's key of the token's SHA-256; else of before there was a key, the
    # SHA-256 alone. The token itself is shown once and kept nowhere.
    Column("hash", LargeBinary, nullable=False),
    Column("permissions", ARRAY(Text), nullable=False),
    _at("created_at", now=True),
    _at("expires_at", nullable=True),
    _at("revoked_at", nullable=True),
    Column("name", Text, nullable=False, server_default=text("''")),
    Column("keyed", Boolean, nullable=False, server_default=text("false")),
    _at("used_at", nullable=True),
    PrimaryKeyConstraint("account_id", "token_id", name="tokens_pkey"),
    ForeignKeyConstraint(["account_id"], ["accounts.account_id"], name="tokens_account_fkey"),
    UniqueConstraint("hash", name="tokens_hash_key"),
)

workers = Table(
    "workers",
    metadata,
    Column("account_id", Text, nullable=False),
    Column("worker_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    _at("created_at", now=True),
    _at("updated_at", now=True),
    PrimaryKeyConstraint("account_id", "worker_id", name="workers_pkey"),
    ForeignKeyConstraint(["account_id"], ["accounts.account_id"], name="workers_account_fkey"),
    UniqueConstraint("account_id", "name", name="workers_name_key"),
    CheckConstraint("worker_id ~ '^[0-9a-f]{32}$'", name="workers_id_shape"),
)

versions = Table(
    "versions",
    metadata,
    Column("account_id", Text, nullable=False),
    Column("version_id", Text, nullable=False),
    Column("worker_id", Text, nullable=False),
    Column("number", Integer, nullable=False),
    _at("created_at", now=True),
    PrimaryKeyConstraint("account_id", "version_id", name="versions_pkey"),
    ForeignKeyConstraint(
        ["account_id", "worker_id"],
        ["workers.account_id", "workers.worker_id"],
        name="versions_worker_fkey",
    ),
    UniqueConstraint("account_id", "worker_id", "number", name="versions_number_key"),
)

# Which versions get a Worker's traffic, as somebody has told; the newest counts.
deployments = Table(
    "deployments",
    metadata,
    Column("account_id", Text, nullable=False),
    Column("deployment_id", Text, nullable=False),
    Column("worker_id", Text, nullable=False),
    _at("created_at", now=True),
    Column("message", Text, nullable=False, server_default=text("''")),
    # [{"version_id": ..., "percentage": ...}], of 100 together.
    Column("versions", JSONB, nullable=False),
    PrimaryKeyConstraint("account_id", "deployment_id", name="deployments_pkey"),
    ForeignKeyConstraint(
        ["account_id", "worker_id"],
        ["workers.account_id", "workers.worker_id"],
        name="deployments_worker_fkey",
    ),
    Index("deployments_newest", "account_id", "worker_id", text("created_at DESC")),
)

namespaces = Table(
    "namespaces",
    metadata,
    Column("account_id", Text, nullable=False),
    Column("namespace_id", Text, nullable=False),
    Column("worker_id", Text, nullable=False),
    Column("class_name", Text, nullable=False),
    _at("created_at", now=True),
    # What the runtime knows it by; empty until an agent tells.
    Column("unique_key", Text, nullable=False, server_default=text("''")),
    PrimaryKeyConstraint("account_id", "namespace_id", name="namespaces_pkey"),
    ForeignKeyConstraint(
        ["account_id", "worker_id"],
        ["workers.account_id", "workers.worker_id"],
        name="namespaces_worker_fkey",
    ),
)

sessions = Table(
    "sessions",
    metadata,
    Column("account_id", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("worker_id", Text, nullable=False),
    Column("worker_name", Text, nullable=False),
    Column("version_id", Text, nullable=False),
    Column("profile_type", Text, nullable=False),
    Column("duration_ms", Integer, nullable=False),
    Column("sampling_interval_us", Integer, nullable=False),
    Column("namespace_id", Text),
    Column("actor_id", Text),
    Column("isolates", Integer, nullable=False, server_default=text("1")),
    Column("labels", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    # How it ended, when it did not end well.
    Column("reason", Text),
    Column("message", Text, nullable=False, server_default=text("''")),
    Column("retry_after_s", Float),
    # Captures ordered so far.
    Column("captures", Integer, nullable=False, server_default=text("0")),
    _at("created_at", now=True),
    _at("deadline_at"),
    _at("ended_at", nullable=True),
    # Set while a capture is to be ordered; the replica that holds the lease does it.
    _at("order_due_at", nullable=True),
    Column("lease_owner", Text),
    _at("lease_until", nullable=True),
    # As its caller named it; the id was derived from it.
    Column("actor_name", Text),
    # The only ones its captures may be in; empty for any.
    Column("datacenters", ARRAY(Text), nullable=False, server_default=text("'{}'::text[]")),
    # When its owner wanted no more sampling, and what there is kept.
    _at("stopped_at", nullable=True),
    # Why fewer isolates were ordered than it asked for, when there were fewer.
    Column("fewer_reason", Text),
    Column("fewer_message", Text, nullable=False, server_default=text("''")),
    # Its place among all that are due: dispatch takes the lowest (``store.turns``).
    Column("turn", Float, nullable=False, server_default=text("0")),
    PrimaryKeyConstraint("account_id", "session_id", name="sessions_pkey"),
    ForeignKeyConstraint(["account_id"], ["accounts.account_id"], name="sessions_account_fkey"),
    CheckConstraint(_one_of("state", SessionState), name="sessions_state"),
    CheckConstraint(_one_of("profile_type", ProfileType), name="sessions_profile_type"),
    CheckConstraint("origin IN ('sync', 'api')", name="sessions_origin"),
    CheckConstraint(
        f"({_live(LIVE_STATES)}) = (ended_at IS NULL)", name="sessions_ended_when_ended"
    ),
    CheckConstraint(
        "(state IN ('failed', 'cancelled', 'expired')) = (reason IS NOT NULL)",
        name="sessions_reason_when_not_ready",
    ),
    CheckConstraint("order_due_at IS NULL OR ended_at IS NULL", name="sessions_due_only_live"),
    CheckConstraint(f"isolates BETWEEN 1 AND {MAX_ISOLATES}", name="sessions_isolates"),
    CheckConstraint("namespace_id IS NULL OR isolates = 1", name="sessions_actor_is_one"),
    Index("sessions_by_id", "session_id"),
    Index(
        "sessions_newest",
        "account_id",
        text("created_at DESC"),
        text("session_id DESC"),
    ),
    Index(
        "sessions_newest_of_worker",
        "account_id",
        "worker_id",
        text("created_at DESC"),
        text("session_id DESC"),
    ),
    Index(
        "sessions_newest_of_all",
        text("created_at DESC"),
        text("session_id DESC"),
    ),
    Index(
        "sessions_turn",
        "turn",
        "order_due_at",
        postgresql_where=text("order_due_at IS NOT NULL"),
    ),
    Index(
        "sessions_turn_of_account",
        "account_id",
        "turn",
        postgresql_where=text("order_due_at IS NOT NULL"),
    ),
    Index("sessions_due", "order_due_at", postgresql_where=text("order_due_at IS NOT NULL")),
    Index("sessions_live", "deadline_at", postgresql_where=text("ended_at IS NULL")),
)

captures = Table(
    "captures",
    metadata,
    Column("account_id", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("capture", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("version_id", Text, nullable=False),
    Column("metal_id", Text, nullable=False),
    Column("datacenter", Text, nullable=False),
    Column("address", Text, nullable=False),
    # The agent's, when it was ordered: a later one has forgotten this capture.
    Column("epoch", BigInteger, nullable=False),
    Column("isolate_id", Text),
    Column("sampled_ms", Integer, nullable=False, server_default=text("0")),
    Column("reason", Text),
    Column("message", Text, nullable=False, server_default=text("''")),
    Column("retry_after_s", Float),
    _at("ordered_at", now=True),
    _at("accepted_at", nullable=True),
    # When its window is over, as far as is known.
    _at("ends_at"),
    _at("heard_at", now=True),
    _at("ended_at", nullable=True),
    # What is to be told to the agent: end it and keep, or end it and drop.
    Column("stop", Text),
    _at("stop_due_at", nullable=True),
    # Its isolate is free again, though its profile may still be on its way.
    _at("freed_at", nullable=True),
    # Which of the isolates its session asked for it stands for, from 1.
    Column("part", Integer, nullable=False, server_default=text("1")),
    PrimaryKeyConstraint("account_id", "session_id", "capture", name="captures_pkey"),
    ForeignKeyConstraint(
        ["account_id", "session_id"],
        ["sessions.account_id", "sessions.session_id"],
        name="captures_session_fkey",
    ),
    CheckConstraint(_one_of("state", CaptureState), name="captures_state"),
    CheckConstraint(
        f"({_live(LIVE_CAPTURE_STATES)}) = (ended_at IS NULL)", name="captures_ended_when_ended"
    ),
    CheckConstraint("stop IN ('keep', 'discard')", name="captures_stop"),
    CheckConstraint(f"part BETWEEN 1 AND {MAX_ISOLATES}", name="captures_part"),
    Index(
        "captures_one_live_per_isolate",
        "metal_id",
        "isolate_id",
        unique=True,
        postgresql_where=text("ended_at IS NULL AND freed_at IS NULL AND isolate_id IS NOT NULL"),
    ),
    # Another follows only one that came to nothing.
    Index(
        "captures_one_per_part",
        "account_id",
        "session_id",
        "part",
        unique=True,
        postgresql_where=text("state IN ('ordered', 'sampling', 'uploaded')"),
    ),
    Index(
        "captures_ended_of_version",
        "version_id",
        "ended_at",
        postgresql_where=text("ended_at IS NOT NULL"),
    ),
    Index("captures_live_of_version", "version_id", postgresql_where=text("ended_at IS NULL")),
    Index("captures_live", "metal_id", postgresql_where=text("ended_at IS NULL")),
    Index("captures_to_stop", "stop_due_at", postgresql_where=text("stop_due_at IS NOT NULL")),
)

# One row per key for as long as it is remembered: what was asked with it, and what came of it.
idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("account_id", Text, nullable=False),
    Column("key", Text, nullable=False),
    # SHA-256 of the body, however it was spaced and ordered.
    Column("body", LargeBinary, nullable=False),
    Column("session_id", Text, nullable=False),
    _at("expires_at"),
    PrimaryKeyConstraint("account_id", "key", name="idempotency_keys_pkey"),
    # The key is taken before its session is made, so that only one of two callers makes one.
    ForeignKeyConstraint(
        ["account_id", "session_id"],
        ["sessions.account_id", "sessions.session_id"],
        name="idempotency_keys_session_fkey",
        ondelete="CASCADE",
        deferrable=True,
        initially="DEFERRED",
    ),
    Index("idempotency_keys_by_session", "account_id", "session_id"),
    Index("idempotency_keys_expire", "expires_at"),
)

history = Table(
    "history",
    metadata,
    Column("account_id", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("entry", BigInteger, Identity(always=True), nullable=False),
    Column("capture", Integer),
    Column("event", Text, nullable=False),
    Column("state_before", Text),
    Column("state_after", Text, nullable=False),
    Column("reason", Text),
    Column("message", Text, nullable=False, server_default=text("''")),
    _at("at", now=True),
    PrimaryKeyConstraint("account_id", "session_id", "entry", name="history_pkey"),
    ForeignKeyConstraint(
        ["account_id", "session_id"],
        ["sessions.account_id", "sessions.session_id"],
        name="history_session_fkey",
    ),
)

profiles = Table(
    "profiles",
    metadata,
    Column("account_id", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("capture", Integer, nullable=False),
    Column("isolate_id", Text, nullable=False),
    Column("blob", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("samples", BigInteger, nullable=False),
    Column("window_ms", Integer, nullable=False),
    Column("slices", JSONB, nullable=False),
    Column("truncated", Text, nullable=False, server_default=text("''")),
    _at("created_at", now=True),
    PrimaryKeyConstraint("account_id", "session_id", "capture", name="profiles_pkey"),
    ForeignKeyConstraint(
        ["account_id", "session_id", "capture"],
        ["captures.account_id", "captures.session_id", "captures.capture"],
        name="profiles_capture_fkey",
    ),
)

# What a session of several isolates came to: the sum of the profiles of its captures.
merged_profiles = Table(
    "merged_profiles",
    metadata,
    Column("account_id", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("blob", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("samples", BigInteger, nullable=False),
    Column("window_ms", Integer, nullable=False),
    Column("truncated", Text, nullable=False, server_default=text("''")),
    Column("captures", ARRAY(Integer), nullable=False),
    _at("created_at", now=True),
    PrimaryKeyConstraint("account_id", "session_id", name="merged_profiles_pkey"),
    ForeignKeyConstraint(
        ["account_id", "session_id"],
        ["sessions.account_id", "sessions.session_id"],
        name="merged_profiles_session_fkey",
    ),
)

metals = Table(
    "metals",
    metadata,
    Column("metal_id", Text, primary_key=True),
    Column("datacenter", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("max_captures", Integer, nullable=False),
    Column("draining", Boolean, nullable=False, server_default=text("false")),
    _at("registered_at", now=True),
    # When what still runs there is stopped, its profile kept.
    _at("drain_until", nullable=True),
)

_IN_PLACE: dict[str, Any] = {"postgresql_with": {"fillfactor": "50"}, "prefixes": ["UNLOGGED"]}

# A row here says that a whole picture of this epoch came in; a crash empties it together with the
# sightings.
metal_reports = Table(
    "metal_reports",
    metadata,
    Column("metal_id", Text, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    _at("reported_at"),
    **_IN_PLACE,
)

sightings = Table(
    "sightings",
    metadata,
    Column("version_id", Text, nullable=False),
    Column("metal_id", Text, nullable=False),
    Column("account_id", Text, nullable=False),
    Column("worker_id", Text, nullable=False),
    Column("executions", BigInteger, nullable=False),
    _at("ran_at", nullable=True),
    Column("isolates", Integer, nullable=False),
    Column("free_isolates", Integer, nullable=False),
    Column("shared", Boolean, nullable=False),
    _at("held_until", nullable=True),
    PrimaryKeyConstraint("version_id", "metal_id", "account_id", name="sightings_pkey"),
    Index("sightings_on_metal", "metal_id"),
    **_IN_PLACE,
)

actor_sightings = Table(
    "actor_sightings",
    metadata,
    Column("namespace_id", Text, nullable=False),
    Column("actor_id", Text, nullable=False),
    Column("account_id", Text, nullable=False),
    Column("worker_id", Text, nullable=False),
    Column("version_id", Text, nullable=False),
    Column("metal_id", Text, nullable=False),
    _at("ran_at"),
    PrimaryKeyConstraint("namespace_id", "actor_id", "account_id", name="actor_sightings_pkey"),
    **_IN_PLACE,
)
