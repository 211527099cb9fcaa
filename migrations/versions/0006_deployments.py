"""Deployments: which versions get a Worker's traffic, as somebody has told."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make their table."""
    op.execute(
        """
        CREATE TABLE deployments (
            account_id TEXT NOT NULL,
            deployment_id TEXT NOT NULL,
            worker_id TEXT NOT NULL,
            created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
            message TEXT DEFAULT '' NOT NULL,
            versions JSONB NOT NULL,
            CONSTRAINT deployments_pkey PRIMARY KEY (account_id, deployment_id),
            CONSTRAINT deployments_worker_fkey FOREIGN KEY (account_id, worker_id)
                REFERENCES workers (account_id, worker_id)
        )
        """
    )
    op.execute(
        """
        CREATE INDEX deployments_newest
            ON deployments (account_id, worker_id, created_at DESC)
        """
    )


def downgrade() -> None:
    """Drop it."""
    op.execute("DROP TABLE deployments")
