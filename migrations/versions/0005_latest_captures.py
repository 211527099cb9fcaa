"""A version's latest captures, by which dispatch decides whether to leave it alone."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the indexes they are found by."""
    op.execute(
        """
        CREATE INDEX captures_ended_of_version ON captures (version_id, ended_at)
            WHERE ended_at IS NOT NULL
        """
    )
    op.execute(
        "CREATE INDEX captures_live_of_version ON captures (version_id) WHERE ended_at IS NULL"
    )


def downgrade() -> None:
    """Drop them."""
    op.execute("DROP INDEX captures_live_of_version")
    op.execute("DROP INDEX captures_ended_of_version")
