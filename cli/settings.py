"""Where the API is and who is asking, from the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Ours first; the second name of each is what tools for Workers read already.
BASE_URL = ("ISOPROF_API_BASE_URL", "CLOUDFLARE_API_BASE_URL")
TOKEN = ("ISOPROF_API_TOKEN", "CLOUDFLARE_API_TOKEN")
# Of the operators' listener, which is another with other tokens.
ADMIN_URL = ("ISOPROF_ADMIN_URL",)
OPERATOR_TOKEN = ("ISOPROF_OPERATOR_TOKEN",)
ACCOUNT_ID = ("ISOPROF_ACCOUNT_ID", "CLOUDFLARE_ACCOUNT_ID")

_MEANING = {
    BASE_URL: "where the API is, for example http://127.0.0.1:8787/client/v4",
    TOKEN: "an API token of the account",
    ACCOUNT_ID: "the account's id, 32 hex digits",
}


class MissingSettings(Exception):  # noqa: N818 - told to a person, who then sets them
    """One or more variables are not set; the message names each with what it holds."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What every request needs.

    Args:
        base_url: without a slash at the end; ends in ``/client/v4`` on every known server.
        token: sent as a bearer token; never printed.
        account_id: whose Workers are meant; empty for an operator, who means everybody's.
    """

    base_url: str
    token: str = field(repr=False)
    account_id: str


def load(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the environment.

    Raises:
        MissingSettings: names everything that is missing at once.
    """
    values = os.environ if environment is None else environment
    found = {names: _first(values, names) for names in _MEANING}
    missing = [names for names, value in found.items() if not value]
    if missing:
        raise MissingSettings(
            "\n".join(
                f"{ours} is not set: {_MEANING[(ours, theirs)]} (or set {theirs})"
                for ours, theirs in missing
            )
        )
    return Settings(
        base_url=found[BASE_URL].rstrip("/"), token=found[TOKEN], account_id=found[ACCOUNT_ID]
    )


def load_operator(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the environment of a command for operators.

    Raises:
        MissingSettings: names everything that is missing at once.
    """
    values = os.environ if environment is None else environment
    meaning = {
        ADMIN_URL: "where the operators' API is, for example http://127.0.0.1:8789/admin/v1",
        OPERATOR_TOKEN: "an operator's token; python -m services.operators mint makes the first",
    }
    found = {names: _first(values, names) for names in meaning}
    missing = [f"{names[0]} is not set: {meaning[names]}" for names in meaning if not found[names]]
    if missing:
        raise MissingSettings("\n".join(missing))
    return Settings(
        base_url=found[ADMIN_URL].rstrip("/"), token=found[OPERATOR_TOKEN], account_id=""
    )


def _first(values: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((text for name in names if (text := values.get(name, "").strip())), "")
