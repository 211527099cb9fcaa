"""Makes accounts and tokens: ``python -m services.provision FILE.json`` (``-``: stdin)."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import structlog

from contract.ids import ACCOUNT_ID
from control_plane import access, settings
from control_plane.store import accounts
from control_plane.store.database import Database
from services import embedded_postgres, logs, token_key

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One account of the file; ``token``: mint one for it."""

    account: accounts.Account
    token: bool


def parse(text: str) -> tuple[Wanted, ...]:
    """Read ``{"accounts": [{"id", "name", "profiling_enabled", "token"}]}``.

    Raises:
        ValueError: naming the entry that is wrong.
    """
    document = json.loads(text)
    if not isinstance(document, dict) or not isinstance(document.get("accounts"), list):
        raise ValueError('there must be a list "accounts"')  # noqa: TRY004 - about the file
    return tuple(_wanted(number, entry) for number, entry in enumerate(document["accounts"]))


def _wanted(number: int, entry: object) -> Wanted:
    if not isinstance(entry, dict):
        raise ValueError(f"accounts[{number}] must be an object")  # noqa: TRY004
    account_id, name = entry.get("id"), entry.get("name")
    enabled, token = entry.get("profiling_enabled", True), entry.get("token", False)
    if not isinstance(account_id, str) or not ACCOUNT_ID.match(account_id):
        raise ValueError(f"accounts[{number}].id must be 32 hex digits")
    if not isinstance(name, str) or not name:
        raise ValueError(f"accounts[{number}].name must be a text")
    if {type(enabled), type(token)} != {bool}:
        raise ValueError(f"accounts[{number}]: profiling_enabled and token must be true or false")
    account = accounts.Account(account_id=account_id, name=name, profiling_enabled=enabled)
    return Wanted(account=account, token=token)


async def provision(db: Database, key: bytes, wanted: tuple[Wanted, ...]) -> dict[str, str]:
    """Bring the accounts up to date and mint the tokens asked for.

    Returns:
        account id -> token text, shown here and never again.
    """
    tokens = {}
    for one in wanted:
        async with db.begin() as conn:
            await accounts.keep(conn, one.account)
            if one.token:
                made = await access.mint_for_account(
                    conn, key, one.account.account_id, permissions=frozenset(accounts.Permission)
                )
                tokens[one.account.account_id] = made.text
    return tokens


async def _main(text: str) -> dict[str, str]:
    wanted = parse(text)
    configured = settings.read()
    key = token_key.read(configured)
    async with (
        embedded_postgres.database_url(configured) as url,
        Database.open(url, pool_size=1) as db,
    ):
        await access.settle_key(db, key)
        return await provision(db, key, wanted)


if __name__ == "__main__":
    logs.configure("provision")
    if len(sys.argv) != 2:
        sys.exit("usage: python -m services.provision FILE.json")
    named = sys.argv[1]
    text = sys.stdin.read() if named == "-" else Path(named).read_text(encoding="utf-8")
    print(json.dumps({"tokens": asyncio.run(_main(text))}))
