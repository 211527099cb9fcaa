"""Requests that may be repeated, actors by name, isolates that are free before the end."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"

UP = (
    "ALTER TABLE namespaces ADD COLUMN unique_key TEXT DEFAULT '' NOT NULL",
    "ALTER TABLE sessions ADD COLUMN actor_name TEXT",
    "ALTER TABLE captures ADD COLUMN freed_at TIMESTAMP WITH TIME ZONE",
    """
    CREATE INDEX sessions_newest_of_worker
        ON sessions (account_id, worker_id, created_at DESC, session_id DESC)
    """,
    "DROP INDEX captures_one_live_per_isolate",
    """
    CREATE UNIQUE INDEX captures_one_live_per_isolate ON captures (metal_id, isolate_id)
        WHERE ended_at IS NULL AND freed_at IS NULL AND isolate_id IS NOT NULL
    """,
    """
    CREATE TABLE idempotency_keys (
        account_id TEXT NOT NULL,
        key TEXT NOT NULL,
        body BYTEA NOT NULL,
        session_id TEXT NOT NULL,
        expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
        CONSTRAINT idempotency_keys_pkey PRIMARY KEY (account_id, key),
        CONSTRAINT idempotency_keys_session_fkey FOREIGN KEY(account_id, session_id)
            REFERENCES sessions (account_id, session_id) ON DELETE CASCADE
            DEFERRABLE INITIALLY DEFERRED
    )
    """,
    "CREATE INDEX idempotency_keys_by_session ON idempotency_keys (account_id, session_id)",
    "CREATE INDEX idempotency_keys_expire ON idempotency_keys (expires_at)",
)

DOWN = (
    "DROP TABLE idempotency_keys",
    "DROP INDEX captures_one_live_per_isolate",
    """
    CREATE UNIQUE INDEX captures_one_live_per_isolate ON captures (metal_id, isolate_id)
        WHERE ended_at IS NULL AND isolate_id IS NOT NULL
    """,
    "DROP INDEX sessions_newest_of_worker",
    "ALTER TABLE captures DROP COLUMN freed_at",
    "ALTER TABLE sessions DROP COLUMN actor_name",
    "ALTER TABLE namespaces DROP COLUMN unique_key",
)


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWN:
        op.execute(statement)
