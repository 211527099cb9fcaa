"""Accounts and tokens from a file, and the schema, as a person runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from control_plane import access
from control_plane.api.auth import READS
from control_plane.store import accounts
from control_plane.store.database import Database
from services import provision
from tests import postgres
from tests.integration.planes import ACCOUNT

ROOT = Path(__file__).resolve().parents[2]


def run(module: str, *arguments: str, url: str, data_dir: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url, "ISOPROF_DATA_DIR": str(data_dir)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


async def test_an_empty_database_becomes_one_with_accounts(
    postgres_url: str, tmp_path: Path
) -> None:
    asked = {"accounts": [{"id": ACCOUNT, "name": "a", "token": True}]}
    (tmp_path / "accounts.json").write_text(json.dumps(asked))
    async with postgres.empty_database(postgres_url) as url:
        migrated = run("services.migrate", url=url, data_dir=tmp_path)
        assert (migrated.returncode, json.loads(migrated.stdout)) == (0, {"migrated": "head"})
        made = run(
            "services.provision", str(tmp_path / "accounts.json"), url=url, data_dir=tmp_path
        )
        assert made.returncode == 0, made.stderr
        token = json.loads(made.stdout)["tokens"][ACCOUNT]
        key = (tmp_path / "token.key").read_bytes()
        async with Database.open(url) as db:
            caller = await access.authenticate(db, key, token, ACCOUNT, READS)
            asked["accounts"][0] |= {"name": "b", "profiling_enabled": False, "token": False}
            assert await provision.provision(db, key, provision.parse(json.dumps(asked))) == {}
            async with db.read() as conn:
                kept = await accounts.read(conn, ACCOUNT)
        assert caller.account_id == ACCOUNT
        assert kept == accounts.Account(account_id=ACCOUNT, name="b", profiling_enabled=False)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"accounts": [1]}',
        '{"accounts": [{"id": "A", "name": "a"}]}',
        '{"accounts": [{"id": "' + ACCOUNT + '"}]}',
        '{"accounts": [{"id": "' + ACCOUNT + '", "name": "a", "token": "yes"}]}',
    ],
)
def test_what_is_wrong_with_the_file_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="accounts"):
        provision.parse(text)
