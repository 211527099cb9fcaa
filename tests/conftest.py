"""Fixtures every kind of test may ask for; what is not asked for costs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import postgres

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture(scope="session")
def postgres_url(testrun_uid: str) -> Iterator[str]:
    """Address of the run's Postgres."""
    with postgres.server(testrun_uid) as url:
        yield url


@pytest.fixture
async def database_url(postgres_url: str) -> AsyncIterator[str]:
    """Address of a database with the current schema, for one test alone."""
    async with postgres.database(postgres_url) as url:
        yield url
