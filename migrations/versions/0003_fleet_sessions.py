"""Sessions of several isolates: captures by part, and what they come to together."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"

UP = (
    """
    ALTER TABLE sessions
        ADD COLUMN datacenters TEXT[] DEFAULT '{}'::text[] NOT NULL,
        ADD COLUMN stopped_at TIMESTAMP WITH TIME ZONE,
        ADD COLUMN fewer_reason TEXT,
        ADD COLUMN fewer_message TEXT DEFAULT '' NOT NULL,
        ADD CONSTRAINT sessions_isolates CHECK (isolates BETWEEN 1 AND 64),
        ADD CONSTRAINT sessions_actor_is_one CHECK (namespace_id IS NULL OR isolates = 1)
    """,
    """
    ALTER TABLE captures
        ADD COLUMN part INTEGER DEFAULT 1 NOT NULL,
        ADD CONSTRAINT captures_part CHECK (part BETWEEN 1 AND 64)
    """,
    """
    CREATE UNIQUE INDEX captures_one_per_part ON captures (account_id, session_id, part)
        WHERE state IN ('ordered', 'sampling', 'uploaded')
    """,
    """
    CREATE TABLE merged_profiles (
        account_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        blob TEXT NOT NULL,
        sha256 TEXT NOT NULL,
        size_bytes BIGINT NOT NULL,
        samples BIGINT NOT NULL,
        window_ms INTEGER NOT NULL,
        truncated TEXT DEFAULT '' NOT NULL,
        captures INTEGER[] NOT NULL,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        CONSTRAINT merged_profiles_pkey PRIMARY KEY (account_id, session_id),
        CONSTRAINT merged_profiles_session_fkey FOREIGN KEY(account_id, session_id)
            REFERENCES sessions (account_id, session_id)
    )
    """,
)

DOWN = (
    "DROP TABLE merged_profiles",
    "DROP INDEX captures_one_per_part",
    "ALTER TABLE captures DROP COLUMN part",
    "ALTER TABLE sessions DROP CONSTRAINT sessions_actor_is_one, DROP CONSTRAINT sessions_isolates",
    """
    ALTER TABLE sessions
        DROP COLUMN fewer_message,
        DROP COLUMN fewer_reason,
        DROP COLUMN stopped_at,
        DROP COLUMN datacenters
    """,
)


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWN:
        op.execute(statement)
