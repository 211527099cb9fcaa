"""The first schema."""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None

# Written out: a migration says what was made then, whatever the tables look like in the code of
# today.
CREATE = (
    """
    CREATE TABLE accounts (
        account_id TEXT NOT NULL,
        name TEXT NOT NULL,
        profiling_enabled BOOLEAN NOT NULL,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        PRIMARY KEY (account_id),
        CONSTRAINT accounts_id_shape CHECK (account_id ~ '^[0-9a-f]{32}$')
    )
    """,
    """
    CREATE UNLOGGED TABLE actor_sightings (
        namespace_id TEXT NOT NULL,
        actor_id TEXT NOT NULL,
        account_id TEXT NOT NULL,
        worker_id TEXT NOT NULL,
        version_id TEXT NOT NULL,
        metal_id TEXT NOT NULL,
        ran_at TIMESTAMP WITH TIME ZONE NOT NULL,
        CONSTRAINT actor_sightings_pkey PRIMARY KEY (namespace_id, actor_id, account_id)
    )
     WITH (fillfactor = 50)
    """,
    """
    CREATE UNLOGGED TABLE metal_reports (
        metal_id TEXT NOT NULL,
        epoch BIGINT NOT NULL,
        reported_at TIMESTAMP WITH TIME ZONE NOT NULL,
        PRIMARY KEY (metal_id)
    )
     WITH (fillfactor = 50)
    """,
    """
    CREATE TABLE metals (
        metal_id TEXT NOT NULL,
        datacenter TEXT NOT NULL,
        address TEXT NOT NULL,
        epoch BIGINT NOT NULL,
        max_captures INTEGER NOT NULL,
        draining BOOLEAN DEFAULT false NOT NULL,
        registered_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        PRIMARY KEY (metal_id)
    )
    """,
    """
    CREATE UNLOGGED TABLE sightings (
        version_id TEXT NOT NULL,
        metal_id TEXT NOT NULL,
        account_id TEXT NOT NULL,
        worker_id TEXT NOT NULL,
        executions BIGINT NOT NULL,
        ran_at TIMESTAMP WITH TIME ZONE,
        isolates INTEGER NOT NULL,
        free_isolates INTEGER NOT NULL,
        shared BOOLEAN NOT NULL,
        held_until TIMESTAMP WITH TIME ZONE,
        CONSTRAINT sightings_pkey PRIMARY KEY (version_id, metal_id, account_id)
    )
     WITH (fillfactor = 50)
    """,
    """
    CREATE INDEX sightings_on_metal ON sightings (metal_id)
    """,
    """
    CREATE TABLE sessions (
        account_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        state TEXT NOT NULL,
        origin TEXT NOT NULL,
        worker_id TEXT NOT NULL,
        worker_name TEXT NOT NULL,
        version_id TEXT NOT NULL,
        profile_type TEXT NOT NULL,
        duration_ms INTEGER NOT NULL,
        sampling_interval_us INTEGER NOT NULL,
        namespace_id TEXT,
        actor_id TEXT,
        isolates INTEGER DEFAULT 1 NOT NULL,
        labels JSONB DEFAULT '{}'::jsonb NOT NULL,
        reason TEXT,
        message TEXT DEFAULT '' NOT NULL,
        retry_after_s FLOAT,
        captures INTEGER DEFAULT 0 NOT NULL,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        deadline_at TIMESTAMP WITH TIME ZONE NOT NULL,
        ended_at TIMESTAMP WITH TIME ZONE,
        order_due_at TIMESTAMP WITH TIME ZONE,
        lease_owner TEXT,
        lease_until TIMESTAMP WITH TIME ZONE,
        CONSTRAINT sessions_pkey PRIMARY KEY (account_id, session_id),
        CONSTRAINT sessions_account_fkey FOREIGN KEY(account_id) REFERENCES accounts (account_id),
        CONSTRAINT sessions_state CHECK (state IN ('queued', 'capturing', 'finishing', 'ready',
        'failed', 'cancelled', 'expired')), CONSTRAINT sessions_profile_type CHECK (profile_type IN
        ('cpu', 'heap')), CONSTRAINT sessions_origin CHECK (origin IN ('sync', 'api')),
        CONSTRAINT sessions_ended_when_ended CHECK ((state IN ('capturing', 'finishing', 'queued'))
        = (ended_at IS NULL)), CONSTRAINT sessions_reason_when_not_ready CHECK ((state IN ('failed',
        'cancelled', 'expired')) = (reason IS NOT NULL)), CONSTRAINT sessions_due_only_live CHECK
        (order_due_at IS NULL OR ended_at IS NULL)
    )
    """,
    """
    CREATE INDEX sessions_by_id ON sessions (session_id)
    """,
    """
    CREATE INDEX sessions_due ON sessions (order_due_at) WHERE order_due_at IS NOT NULL
    """,
    """
    CREATE INDEX sessions_live ON sessions (deadline_at) WHERE ended_at IS NULL
    """,
    """
    CREATE INDEX sessions_newest ON sessions (account_id, created_at DESC, session_id DESC)
    """,
    """
    CREATE TABLE tokens (
        account_id TEXT NOT NULL,
        token_id TEXT NOT NULL,
        hash BYTEA NOT NULL,
        permissions TEXT[] NOT NULL,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        expires_at TIMESTAMP WITH TIME ZONE,
        revoked_at TIMESTAMP WITH TIME ZONE,
        CONSTRAINT tokens_pkey PRIMARY KEY (account_id, token_id),
        CONSTRAINT tokens_account_fkey FOREIGN KEY(account_id) REFERENCES accounts (account_id),
        CONSTRAINT tokens_hash_key UNIQUE (hash)
    )
    """,
    """
    CREATE TABLE workers (
        account_id TEXT NOT NULL,
        worker_id TEXT NOT NULL,
        name TEXT NOT NULL,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        CONSTRAINT workers_pkey PRIMARY KEY (account_id, worker_id),
        CONSTRAINT workers_account_fkey FOREIGN KEY(account_id) REFERENCES accounts (account_id),
        CONSTRAINT workers_name_key UNIQUE (account_id, name),
        CONSTRAINT workers_id_shape CHECK (worker_id ~ '^[0-9a-f]{32}$')
    )
    """,
    """
    CREATE TABLE captures (
        account_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        capture INTEGER NOT NULL,
        state TEXT NOT NULL,
        version_id TEXT NOT NULL,
        metal_id TEXT NOT NULL,
        datacenter TEXT NOT NULL,
        address TEXT NOT NULL,
        epoch BIGINT NOT NULL,
        isolate_id TEXT,
        sampled_ms INTEGER DEFAULT 0 NOT NULL,
        reason TEXT,
        message TEXT DEFAULT '' NOT NULL,
        retry_after_s FLOAT,
        ordered_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        accepted_at TIMESTAMP WITH TIME ZONE,
        ends_at TIMESTAMP WITH TIME ZONE NOT NULL,
        heard_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        ended_at TIMESTAMP WITH TIME ZONE,
        stop TEXT,
        stop_due_at TIMESTAMP WITH TIME ZONE,
        CONSTRAINT captures_pkey PRIMARY KEY (account_id, session_id, capture),
        CONSTRAINT captures_session_fkey FOREIGN KEY(account_id, session_id) REFERENCES sessions
        (account_id, session_id), CONSTRAINT captures_state CHECK (state IN ('ordered', 'sampling',
        'uploaded', 'refused', 'failed', 'lost', 'stopped')), CONSTRAINT captures_ended_when_ended
        CHECK ((state IN ('ordered', 'sampling')) = (ended_at IS NULL)), CONSTRAINT captures_stop
        CHECK (stop IN ('keep', 'discard'))
    )
    """,
    """
    CREATE INDEX captures_live ON captures (metal_id) WHERE ended_at IS NULL
    """,
    """
    CREATE UNIQUE INDEX captures_one_live_per_isolate ON captures (metal_id, isolate_id) WHERE
    ended_at IS NULL AND isolate_id IS NOT NULL
    """,
    """
    CREATE INDEX captures_to_stop ON captures (stop_due_at) WHERE stop_due_at IS NOT NULL
    """,
    """
    CREATE TABLE history (
        account_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        entry BIGINT GENERATED ALWAYS AS IDENTITY,
        capture INTEGER,
        event TEXT NOT NULL,
        state_before TEXT,
        state_after TEXT NOT NULL,
        reason TEXT,
        message TEXT DEFAULT '' NOT NULL,
        at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        CONSTRAINT history_pkey PRIMARY KEY (account_id, session_id, entry),
        CONSTRAINT history_session_fkey FOREIGN KEY(account_id, session_id) REFERENCES sessions
        (account_id, session_id)
    )
    """,
    """
    CREATE TABLE namespaces (
        account_id TEXT NOT NULL,
        namespace_id TEXT NOT NULL,
        worker_id TEXT NOT NULL,
        class_name TEXT NOT NULL,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        CONSTRAINT namespaces_pkey PRIMARY KEY (account_id, namespace_id),
        CONSTRAINT namespaces_worker_fkey FOREIGN KEY(account_id, worker_id) REFERENCES workers
        (account_id, worker_id)
    )
    """,
    """
    CREATE TABLE versions (
        account_id TEXT NOT NULL,
        version_id TEXT NOT NULL,
        worker_id TEXT NOT NULL,
        number INTEGER NOT NULL,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        CONSTRAINT versions_pkey PRIMARY KEY (account_id, version_id),
        CONSTRAINT versions_worker_fkey FOREIGN KEY(account_id, worker_id) REFERENCES workers
        (account_id, worker_id), CONSTRAINT versions_number_key UNIQUE (account_id, worker_id,
        number)
    )
    """,
    """
    CREATE TABLE profiles (
        account_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        capture INTEGER NOT NULL,
        isolate_id TEXT NOT NULL,
        blob TEXT NOT NULL,
        sha256 TEXT NOT NULL,
        size_bytes BIGINT NOT NULL,
        samples BIGINT NOT NULL,
        window_ms INTEGER NOT NULL,
        slices JSONB NOT NULL,
        truncated TEXT DEFAULT '' NOT NULL,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        CONSTRAINT profiles_pkey PRIMARY KEY (account_id, session_id, capture),
        CONSTRAINT profiles_capture_fkey FOREIGN KEY(account_id, session_id, capture) REFERENCES
        captures (account_id, session_id, capture)
    )
    """,
)

# Children before what they refer to.
DROP = (
    "profiles",
    "versions",
    "namespaces",
    "history",
    "captures",
    "workers",
    "tokens",
    "sessions",
    "sightings",
    "metals",
    "metal_reports",
    "actor_sightings",
    "accounts",
)


def upgrade() -> None:
    for statement in CREATE:
        op.execute(statement)


def downgrade() -> None:
    for table in DROP:
        op.execute(f"DROP TABLE {table}")
