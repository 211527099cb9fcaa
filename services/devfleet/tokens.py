"""The fleet's API tokens between starts: shown once by the control plane, kept here mode 0600."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from services.devfleet.fleet import Plan


def tokens_path(data_dir: Path) -> Path:
    """Name the tokens file: a JSON object, account id -> token, mode 0600."""
    return data_dir / "tokens.json"


def kept_tokens(data_dir: Path, plan: Plan) -> dict[str, str]:
    """Read the tokens of an earlier start; empty unless every account of the plan has one."""
    try:
        kept = json.loads(tokens_path(data_dir).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    wanted = [account.account_id for account in plan.accounts]
    if not isinstance(kept, dict) or not all(isinstance(kept.get(name), str) for name in wanted):
        return {}
    return {name: kept[name] for name in wanted}


def keep_tokens(data_dir: Path, tokens: dict[str, str]) -> None:
    """Write the tokens file; it never exists with a wider mode than 0600, not even for a moment."""
    path = tokens_path(data_dir)
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        json.dump(tokens, out, indent=2)
    fresh.replace(path)
