"""What operators may send: unknown fields refused, one error per field."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from contract import ids
from contract.faults import Fault, Reason
from control_plane.api import schema
from control_plane.api.session_list import Cursor
from control_plane.session import SessionState
from control_plane.store.accounts import Permission
from control_plane.store.audit import Outcome

if TYPE_CHECKING:
    from aiohttp import web

MAX_LIMIT = 1_000_000_000
MAX_LIFETIME_S = 10 * 365 * 86_400
MAX_DRAIN_S = 7 * 86_400

AccountId = Annotated[str, Field(pattern=ids.ACCOUNT_ID.pattern)]
Name = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$")]
Text = Annotated[str, Field(max_length=255, pattern=r"^[^\x00-\x1f\x7f]*$")]
Count = Annotated[int, Field(ge=0, le=MAX_LIMIT)] | None
LifetimeS = Annotated[int, Field(ge=1, le=MAX_LIFETIME_S)] | None

_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)
_QUERY = ConfigDict(extra="forbid", frozen=True)

Found = TypeVar("Found")


class DrainBody(BaseModel):
    """How long captures that run may still run; null: to their end."""

    model_config = _STRICT

    within_s: Annotated[int, Field(ge=0, le=MAX_DRAIN_S)] | None = None

    @property
    def within(self) -> timedelta | None:
        """The same, as a span."""
        return None if self.within_s is None else timedelta(seconds=self.within_s)


class LimitsBody(BaseModel):
    """Limits of an account; null: the default of the settings."""

    model_config = _STRICT

    max_concurrent_sessions: Count = None
    max_sessions_per_hour: Count = None
    max_capture_seconds_per_hour: Count = None
    retention_days: Annotated[int, Field(ge=1, le=36_500)] | None = None
    weight: Annotated[int, Field(ge=1, le=100)] = 1


class AccountBody(BaseModel):
    """A new account; without an id one is made."""

    model_config = _STRICT

    id: AccountId | None = None
    name: Name
    profiling_enabled: bool = True
    limits: LimitsBody = LimitsBody()


class AccountChanges(BaseModel):
    """What is to change; what is not named stays."""

    model_config = _STRICT

    name: Name = "-"
    profiling_enabled: bool = True
    limits: LimitsBody = LimitsBody()

    def columns(self) -> dict[str, object]:
        """Return what was named, by field of the account or its limits."""
        changes: dict[str, object] = self.model_dump(exclude_unset=True)
        limits = changes.pop("limits", {})
        return changes | limits if isinstance(limits, dict) else changes


class TokenBody(BaseModel):
    """A new token of an account."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name
    permissions: Annotated[list[Permission], Field(min_length=1, max_length=len(Permission))] = [
        Permission.WORKERS_SCRIPTS_READ
    ]
    expires_in_s: Annotated[int, Field(ge=1, le=MAX_LIFETIME_S, strict=True)] | None = None

    @property
    def lifetime(self) -> timedelta | None:
        """Until it expires; None: never."""
        return None if self.expires_in_s is None else timedelta(seconds=self.expires_in_s)


class OperatorTokenBody(BaseModel):
    """A new token of an operator."""

    model_config = _STRICT

    name: Name
    expires_in_s: LifetimeS = None

    @property
    def lifetime(self) -> timedelta | None:
        """Until it expires; None: never."""
        return None if self.expires_in_s is None else timedelta(seconds=self.expires_in_s)


class SwitchBody(BaseModel):
    """How a switch is to stand, and why."""

    model_config = _STRICT

    turned_on: bool
    reason: Text = ""


class ListQuery(BaseModel):
    """A stretch of a list kept in the order of its names; ``cursor`` is the last one before."""

    model_config = _QUERY

    limit: Annotated[int, Field(ge=1, le=schema.MAX_LIST)] = 20
    cursor: Annotated[str, Field(max_length=255, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""


class AgentsQuery(ListQuery):
    """Agents, of one datacenter or of all."""

    datacenter: Annotated[str, Field(max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$")] | None = None


class SessionsQuery(BaseModel):
    """Sessions across accounts."""

    model_config = _QUERY

    account: AccountId | None = None
    state: SessionState | None = None
    limit: Annotated[int, Field(ge=1, le=schema.MAX_LIST)] = 20
    cursor: Cursor | None = None


class AuditQuery(BaseModel):
    """Entries of the audit log; all filters are exact."""

    model_config = _QUERY

    actor: Annotated[str, Field(max_length=255)] | None = None
    action: Annotated[str, Field(max_length=255)] | None = None
    target: Annotated[str, Field(max_length=255)] | None = None
    outcome: Outcome | None = None
    limit: Annotated[int, Field(ge=1, le=schema.MAX_LIST)] = 20
    cursor: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None


class ExplainQuery(BaseModel):
    """Whose version, to be captured where."""

    model_config = _QUERY

    account: AccountId
    worker: Annotated[str, Field(min_length=1, max_length=255)]
    version: Annotated[str, Field(min_length=1, max_length=36)] = ids.LATEST


def path_name(request: web.Request, key: str) -> str:
    """Return a name of the path; what can't be one is as unknown as one that never was."""
    text = request.match_info[key]
    if not text or len(text) > 255 or not text.isprintable():
        raise unknown(key.removesuffix("_id"), text)
    return text


def known(found: Found | None, what: str, name: str) -> Found:
    """Return what was found.

    Raises:
        Fault: record_unknown.
    """
    if found is None:
        raise unknown(what, name)
    return found


def unknown(what: str, name: str) -> Fault:
    """Say that there is none of this name."""
    shown = name[:64] if name.isprintable() else "of this name"
    return Fault(Reason.RECORD_UNKNOWN, f"There is no {what} {shown}.")
