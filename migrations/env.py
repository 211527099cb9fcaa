"""Runs migrations on the connection that the caller hands over in the configuration."""

from __future__ import annotations

from alembic import context

from control_plane.store.operator_tables import audit


def run() -> None:
    connection = context.config.attributes["connection"]
    context.configure(
        connection=connection, target_metadata=audit.metadata, compare_server_default=True
    )
    with context.begin_transaction():
        context.run_migrations()


run()
