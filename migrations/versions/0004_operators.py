"""Operators: their tokens, what they did, what they switched off, drained and limited."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"

UP = (
    """
    ALTER TABLE accounts
        ADD COLUMN max_concurrent_sessions INTEGER,
        ADD COLUMN max_sessions_per_hour INTEGER,
        ADD COLUMN max_capture_seconds_per_hour INTEGER,
        ADD COLUMN retention_days INTEGER,
        ADD COLUMN weight INTEGER DEFAULT 1 NOT NULL,
        ADD CONSTRAINT accounts_weight CHECK (weight BETWEEN 1 AND 100)
    """,
    """
    ALTER TABLE tokens
        ADD COLUMN name TEXT DEFAULT '' NOT NULL,
        ADD COLUMN keyed BOOLEAN DEFAULT false NOT NULL,
        ADD COLUMN used_at TIMESTAMP WITH TIME ZONE
    """,
    "ALTER TABLE sessions ADD COLUMN turn FLOAT DEFAULT 0 NOT NULL",
    """
    CREATE INDEX sessions_turn ON sessions (turn, order_due_at) WHERE order_due_at IS NOT NULL
    """,
    """
    CREATE INDEX sessions_turn_of_account ON sessions (account_id, turn)
        WHERE order_due_at IS NOT NULL
    """,
    "CREATE INDEX sessions_newest_of_all ON sessions (created_at DESC, session_id DESC)",
    "ALTER TABLE metals ADD COLUMN drain_until TIMESTAMP WITH TIME ZONE",
    """
    CREATE TABLE drained_datacenters (
        datacenter TEXT NOT NULL,
        drain_until TIMESTAMP WITH TIME ZONE,
        CONSTRAINT drained_datacenters_pkey PRIMARY KEY (datacenter)
    )
    """,
    """
    CREATE TABLE operator_tokens (
        token_id TEXT NOT NULL,
        name TEXT NOT NULL,
        hash BYTEA NOT NULL,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        expires_at TIMESTAMP WITH TIME ZONE,
        revoked_at TIMESTAMP WITH TIME ZONE,
        used_at TIMESTAMP WITH TIME ZONE,
        CONSTRAINT operator_tokens_pkey PRIMARY KEY (token_id),
        CONSTRAINT operator_tokens_hash_key UNIQUE (hash)
    )
    """,
    """
    CREATE TABLE token_keys (
        fingerprint TEXT NOT NULL,
        only_one BOOLEAN DEFAULT true NOT NULL,
        CONSTRAINT token_keys_pkey PRIMARY KEY (fingerprint),
        CONSTRAINT token_keys_only_one UNIQUE (only_one)
    )
    """,
    """
    CREATE TABLE switches (
        name TEXT NOT NULL,
        turned_on BOOLEAN NOT NULL,
        reason TEXT DEFAULT '' NOT NULL,
        changed_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        CONSTRAINT switches_pkey PRIMARY KEY (name)
    )
    """,
    """
    CREATE TABLE audit (
        entry BIGINT GENERATED ALWAYS AS IDENTITY,
        at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        actor TEXT NOT NULL,
        address TEXT NOT NULL,
        request_id TEXT NOT NULL,
        action TEXT NOT NULL,
        target TEXT NOT NULL,
        outcome TEXT NOT NULL,
        times INTEGER DEFAULT 1 NOT NULL,
        details JSONB DEFAULT '{}'::jsonb NOT NULL,
        CONSTRAINT audit_pkey PRIMARY KEY (entry),
        CONSTRAINT audit_outcome CHECK (outcome IN ('done', 'refused'))
    )
    """,
    "CREATE INDEX audit_at ON audit (at)",
)

DOWN = (
    "DROP TABLE audit",
    "DROP TABLE switches",
    "DROP TABLE token_keys",
    "DROP TABLE operator_tokens",
    "DROP TABLE drained_datacenters",
    "ALTER TABLE metals DROP COLUMN drain_until",
    "DROP INDEX sessions_newest_of_all",
    "DROP INDEX sessions_turn_of_account",
    "DROP INDEX sessions_turn",
    "ALTER TABLE sessions DROP COLUMN turn",
    "ALTER TABLE tokens DROP COLUMN used_at, DROP COLUMN keyed, DROP COLUMN name",
    "ALTER TABLE accounts DROP CONSTRAINT accounts_weight",
    """
    ALTER TABLE accounts
        DROP COLUMN weight,
        DROP COLUMN retention_days,
        DROP COLUMN max_capture_seconds_per_hour,
        DROP COLUMN max_sessions_per_hour,
        DROP COLUMN max_concurrent_sessions
    """,
)


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWN:
        op.execute(statement)
