"""Tables of the operator's side: their tokens, switches, drains, and what was done by whom."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Identity,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from control_plane.store.tables import metadata

operator_tokens = Table(
    "operator_tokens",
    metadata,
    Column("token_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("expires_at", DateTime(timezone=True)),
    Column("revoked_at", DateTime(timezone=True)),
    Column("used_at", DateTime(timezone=True)),
    PrimaryKeyConstraint("token_id", name="operator_tokens_pkey"),
    UniqueConstraint("hash", name="operator_tokens_hash_key"),
)

# Which key the stored hashes were made with: a replica with another one would refuse everybody.
token_keys = Table(
    "token_keys",
    metadata,
    Column("fingerprint", Text, nullable=False),
    Column("only_one", Boolean, nullable=False, server_default=text("true")),
    PrimaryKeyConstraint("fingerprint", name="token_keys_pkey"),
    UniqueConstraint("only_one", name="token_keys_only_one"),
)

# No row: on.
switches = Table(
    "switches",
    metadata,
    Column("name", Text, nullable=False),
    Column("turned_on", Boolean, nullable=False),
    Column("reason", Text, nullable=False, server_default=text("''")),
    Column("changed_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    PrimaryKeyConstraint("name", name="switches_pkey"),
)

drained_datacenters = Table(
    "drained_datacenters",
    metadata,
    Column("datacenter", Text, nullable=False),
    Column("drain_until", DateTime(timezone=True)),
    PrimaryKeyConstraint("datacenter", name="drained_datacenters_pkey"),
)

audit = Table(
    "audit",
    metadata,
    Column("entry", BigInteger, Identity(always=True), nullable=False),
    Column("at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("actor", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("request_id", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    # Refusals that are alike are counted, not repeated.
    Column("times", Integer, nullable=False, server_default=text("1")),
    Column("details", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    PrimaryKeyConstraint("entry", name="audit_pkey"),
    CheckConstraint("outcome IN ('done', 'refused')", name="audit_outcome"),
    Index("audit_at", "at"),
)
