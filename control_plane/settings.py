"""Every setting of the control plane, read from the environment once, all mistakes told at once."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from contract import certificates, identity
from contract.addresses import is_loopback
from contract.certificates import CertificatesInvalid, Files

if TYPE_CHECKING:
    from collections.abc import Mapping

# Asked for by name, so that nobody sends in the clear by forgetting something.
PLAINTEXT = "loopback"
# Parts that speak with agents.
_SPEAKING = frozenset({"gateway", "dispatch"})
ROLES = frozenset({"admin", "api", "gateway", "dispatch", "sweep"})


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
        dashboard_dir: where the built dashboard is; None: dashboard/dist beside the code.
        http_listen: host:port of the account API and the dashboard.
        admin_listen: host:port of the operators' API, health and metrics; keep it off public
            networks.
        token_key_file: 32 bytes that tokens are stored with, the same for every replica; None: a
            file under data_dir, made at the first start.
        grpc_listen: host:port of the gateway the agents call.
        grpc_tls_certificate: PEM file, the control plane's certificate first; with no grpc_tls
            setting at all, development certificates are made under data_dir.
        grpc_tls_key: PEM file, the certificate's private key.
        grpc_tls_authority: PEM file, every authority whose agents are believed.
        grpc_plaintext: loopback, to speak with agents of this machine alone, without TLS.
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
        merge_grace_ms: what a session of several isolates may take beyond its deadline to merge the
            profiles it has.
        dispatch_poll_ms: how often dispatch looks without being told.
        sweep_interval_ms: how often the sweep looks.
        upload_max_bytes: size of one profile.
        upload_memory_bytes: all unfinished uploads of this replica together.
        upload_idle_ms: an unfinished upload untouched for longer is dropped.
        idempotency_kept_ms: how long a repeated Idempotency-Key leads to the session it made.
        sightings_kept_ms: a version that has not run on a metal for longer is forgotten there.
        event_streams: event streams this replica serves at once.
        event_streams_per_account: of those, to one account.
        events_poll_ms: how often a stream looks without being told, and how fresh progress is.
        events_heartbeat_ms: a stream with nothing to tell says so this often.
        max_concurrent_sessions: live sessions of an account, unless an operator said otherwise.
        max_sessions_per_hour: sessions an account may begin in any hour, likewise.
        max_capture_seconds_per_hour: seconds of sampling in any hour, all isolates together.
        breaker_failures: so many of a version's latest captures must have failed, and half of them,
            before it is left alone.
        breaker_window_ms: how far back those captures are looked at.
        breaker_pause_ms: from the last failure until one capture is tried again.
        audit_kept_days: how long it is known who did what.
        drain_ms: how long a stopping replica lets requests finish.
    """

    database_url: str | None = None
    data_dir: Path = Path(".isoprof")
    blob_url: str | None = None
    dashboard_dir: Path | None = None
    http_listen: str = "127.0.0.1:8787"
    admin_listen: str = "127.0.0.1:8789"
    token_key_file: Path | None = None
    grpc_listen: str = "127.0.0.1:8788"
    grpc_tls_certificate: Path | None = None
    grpc_tls_key: Path | None = None
    grpc_tls_authority: Path | None = None
    grpc_plaintext: str | None = None
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
    merge_grace_ms: int = 120_000
    dispatch_poll_ms: int = 1_000
    sweep_interval_ms: int = 1_000
    upload_max_bytes: int = 64 * 1024 * 1024
    upload_memory_bytes: int = 256 * 1024 * 1024
    upload_idle_ms: int = 60_000
    idempotency_kept_ms: int = 86_400_000
    sightings_kept_ms: int = 3_600_000
    event_streams: int = 500
    event_streams_per_account: int = 50
    events_poll_ms: int = 1_000
    events_heartbeat_ms: int = 15_000
    max_concurrent_sessions: int = 100
    max_sessions_per_hour: int = 2_000
    max_capture_seconds_per_hour: int = 36_000
    breaker_failures: int = 5
    breaker_window_ms: int = 600_000
    breaker_pause_ms: int = 60_000
    audit_kept_days: int = 400
    drain_ms: int = 5_000

    @property
    def speaks_with_agents(self) -> bool:
        """Whether a part runs that needs certificates, or plain text."""
        return bool(self.roles & _SPEAKING)

    @property
    def tls(self) -> Files | None:
        """The files named; None when none are."""
        certificate, key = self.grpc_tls_certificate, self.grpc_tls_key
        authority = self.grpc_tls_authority
        if certificate is None or key is None or authority is None:
            return None
        return Files(certificate=certificate, key=key, authority=authority)

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
    settings = Settings(**values)  # type: ignore[arg-type]
    mistakes += _tls_mistakes(settings)
    if mistakes:
        raise SettingsInvalid("\n".join(mistakes))
    return settings


def _tls_mistakes(settings: Settings) -> list[str]:
    names = {one: f"ISOPROF_GRPC_TLS_{one.upper()}" for one in ("certificate", "key", "authority")}
    given = [name for name in names if getattr(settings, f"grpc_tls_{name}") is not None]
    if settings.grpc_plaintext is not None:
        told = [
            f"{names[name]}: can't be used in plain text: drop one of the two" for name in given
        ]
        if settings.speaks_with_agents and not is_loopback(settings.grpc_listen):
            told.append(
                "ISOPROF_GRPC_LISTEN: must be a loopback address while ISOPROF_GRPC_PLAINTEXT is"
                f" {PLAINTEXT}"
            )
        return told
    files = settings.tls
    if files is None:
        missing = [name for name in names if name not in given] if given else []
        return [f"{names[name]}: is required beside the others" for name in missing]
    if not settings.speaks_with_agents:
        return []
    try:
        certificates.read(files, name=identity.CONTROL_PLANE, at=datetime.now(UTC))
    except CertificatesInvalid as invalid:
        return [f"{names[one.pointer]}: {one.message}" for one in invalid.mistakes]
    return []


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
    if name == "grpc_plaintext" and text != PLAINTEXT:
        raise ValueError(f"must be {PLAINTEXT}, or not set at all, not {text!r}")
    is_path = name.endswith(("_dir", "_file")) or name.startswith("grpc_tls_")
    return Path(text) if is_path else text


def _without_password(url: str | None) -> str:
    if url is None:
        return ""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url
    user, _, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user.partition(':')[0]}:***@{host}", query="").geturl()
