"""What an operator does on the machine itself, with no listener: ``python -m services.operators``.

python -m services.operators mint NAME [--expires-in-days N]   the first operator token
python -m services.operators rekey                             tokens stored before there was a key
"""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import sys
from datetime import timedelta

from contract.faults import Fault
from control_plane import access, credentials, settings
from control_plane.store import audit, tokens
from control_plane.store.audit import Deed
from control_plane.store.database import Connection, Database
from services import embedded_postgres, logs, token_key

_AT_ONCE = 500


async def mint(
    db: Database, key: bytes, name: str, lifetime: timedelta | None, *, by: str
) -> dict[str, str]:
    """Make an operator's token.

    Returns:
        its id and, here and never again, its text.
    """
    async with db.begin() as conn:
        made = await access.mint_for_operator(conn, key, name=name, lifetime=lifetime)
        await _record(conn, "operator-tokens.create", name, by)
    return {"id": made.stored.token_id, "token": made.text}


async def rekey(db: Database, key: bytes, *, by: str) -> int:
    """Hash tokens of before there was a key anew; they stay the same for who holds them.

    To be done once no replica runs that knows of no key.

    Returns:
        how many.
    """
    done = 0
    while True:
        async with db.begin() as conn:
            found = await tokens.unkeyed(conn, limit=_AT_ONCE)
            for account_id, token_id, plain in found:
                await tokens.rekey(conn, account_id, token_id, credentials.keyed(key, plain))
            if found:
                await _record(conn, "tokens.rekey", f"{len(found)} tokens", by)
        done += len(found)
        if len(found) < _AT_ONCE:
            return done


async def _record(conn: Connection, action: str, target: str, by: str) -> None:
    deed = Deed(actor=f"local:{by}", address="", request_id="", action=action, target=target)
    await audit.record(conn, deed)


async def _main(given: argparse.Namespace) -> dict[str, object]:
    configured = settings.read()
    key = token_key.read(configured)
    by = getpass.getuser()
    async with (
        embedded_postgres.database_url(configured) as url,
        Database.open(url, pool_size=1) as db,
    ):
        await access.settle_key(db, key)
        if given.does == "rekey":
            return {"rekeyed": await rekey(db, key, by=by)}
        days = given.expires_in_days
        lifetime = timedelta(days=days) if days is not None else None
        return dict(await mint(db, key, given.name, lifetime, by=by))


def main() -> int:
    """Do what the command line says, and print what came of it as JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m services.operators",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parts = parser.add_subparsers(dest="does", required=True)
    minting = parts.add_parser("mint")
    minting.add_argument("name")
    minting.add_argument("--expires-in-days", type=int)
    parts.add_parser("rekey")
    given = parser.parse_args()
    logs.configure("operators")
    try:
        print(json.dumps(asyncio.run(_main(given))))
    except (
        Fault,
        token_key.KeyFileWrong,
        access.TokenKeyWrong,
        settings.SettingsInvalid,
        embedded_postgres.PostgresFailed,
    ) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
