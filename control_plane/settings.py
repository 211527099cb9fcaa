"""Every setting of the control plane, read from the environment once, all mistakes told at once."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

ROLES = frozenset({"api", "gateway", "dispatch", "sweep"})


class SettingsInvalid(ValueError):  # noqa: N818 - a statement about the settings
    """One line per mistake."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one replica. ``DATABASE_URL`` aside, each is read from ``ISOPROF_<NAME>``.

    Args:
        database_url: where Postgres is; None starts an embedded one under the data directory.
        data_dir: where this replica may keep files.
        blob_url: where profiles are kept: file, memory, s3, gs or az; None: a directory under
            data_dir.
        http_listen: host:port of the account API.
        grpc_listen: host:port of the gateway the agents call.
        roles: which parts this process runs.
        log_level: least severe level that is logged.
        pool_size: connections to the database.
        pool_wait_ms: how long a step waits for one of them before it answers 503.
        lease_ms: a replica's claim on a session it dispatches; longer than an order can take.
        order_timeout_ms: how long an agent may take to accept or refuse an order.
        max_attempts: captures a session may order.
        max_orders: orders one replica has under way at once.
        actor_follow_ms: how long an actor missed where it ran last may take to turn up elsewhere;
            longer than agents take from one report to the next.
        recent_ms: a version that ran no longer ago than this counts as running on a metal.
        agent_silent_ms: an agent unheard of for longer is not asked.
        capture_lease_ms: a running capture unheard of for longer is lost.
        session_slack_ms: what a session may take beyond its captures.
        finish_margin_ms: what a capture takes beyond its window at least.
        dispatch_poll_ms: how often dispatch looks without being told.
        sweep_interval_ms: how often the sweep looks.
        upload_max_bytes: size of one profile.
        upload_memory_bytes: all unfinished uploads of this replica together.
        upload_idle_ms: an unfinished upload untouched for longer is dropped.
        idempotency_kept_ms: how long a repeated Idempotency-Key leads to the session it made.
        sightings_kept_ms: a version that has not run on a metal for longer is forgotten there.
        drain_ms: how long a stopping replica lets requests finish.
    """

    database_url: str | None = None
    data_dir: Path = Path(".isoprof")
    blob_url: str | None = None
    http_listen: str = "127.0.0.1:8787"
    grpc_listen: str = "127.0.0.1:8788"
    roles: frozenset[str] = ROLES
    log_level: str = "INFO"
    pool_size: int = 16
    pool_wait_ms: int = 800
    lease_ms: int = 10_000
    order_timeout_ms: int = 2_000
    max_attempts: int = 3
    max_orders: int = 64
    actor_follow_ms: int = 7_000
    recent_ms: int = 60_000
    agent_silent_ms: int = 15_000
    capture_lease_ms: int = 20_000
    session_slack_ms: int = 15_000
    finish_margin_ms: int = 2_000
    dispatch_poll_ms: int = 1_000
    sweep_interval_ms: int = 1_000
    upload_max_bytes: int = 64 * 1024 * 1024
    upload_memory_bytes: int = 256 * 1024 * 1024
    upload_idle_ms: int = 60_000
    idempotency_kept_ms: int = 86_400_000
    sightings_kept_ms: int = 3_600_000
    drain_ms: int = 5_000

    def masked(self) -> dict[str, str]:
        """Return all settings as text, without passwords, for the log line at the start."""
        shown = {field.name: str(getattr(self, field.name)) for field in fields(self)}
        for name in ("database_url", "blob_url"):
            shown[name] = _without_password(getattr(self, name))
        shown["roles"] = ",".join(sorted(self.roles))
        return shown


def read(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings.

    Raises:
        SettingsInvalid: with every mistake in it, not just the first.
    """
    environ = os.environ if environ is None else environ
    mistakes: list[str] = []
    values: dict[str, object] = {}
    for field in fields(Settings):
        name = "DATABASE_URL" if field.name == "database_url" else f"ISOPROF_{field.name.upper()}"
        text = environ.get(name, "").strip()
        if not text:
            continue
        try:
            values[field.name] = _parse(field.name, field.default, text)
        except ValueError as mistake:
            mistakes.append(f"{name}: {mistake}")
    if mistakes:
        raise SettingsInvalid("\n".join(mistakes))
    return Settings(**values)  # type: ignore[arg-type]


def _parse(name: str, default: object, text: str) -> object:
    if isinstance(default, int):
        if not text.isascii() or not text.isdigit() or int(text) < 1:
            raise ValueError(f"must be a whole number from 1, not {text!r}")
        return int(text)
    if name == "roles":
        roles = frozenset(part.strip() for part in text.split(",") if part.strip())
        if unknown := roles - ROLES:
            raise ValueError(f"unknown {sorted(unknown)}; there are {sorted(ROLES)}")
        return roles
    if name.endswith("_listen"):
        host, _, port = text.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65_535:
            raise ValueError(f"must be host:port, not {text!r}")
    if name == "log_level" and text not in {"DEBUG", "INFO", "WARNING", "ERROR"}:
        raise ValueError(f"must be DEBUG, INFO, WARNING or ERROR, not {text!r}")
    return Path(text) if name == "data_dir" else text


def _without_password(url: str | None) -> str:
    if url is None:
        return ""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url
    user, _, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user.partition(':')[0]}:***@{host}", query="").geturl()
