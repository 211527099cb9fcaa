"""What an operator says about one metal: a TOML file, read once, every mistake told at once."""

from __future__ import annotations

import ipaddress
import re
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from contract import certificates, identity, ids
from contract.addresses import is_loopback
from contract.certificates import CertificatesInvalid, Files
from contract.faults import Fault, FieldError, Reason
from edge_agent.fields import Table
from edge_agent.runtime import IsolateConfig

VERSION_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
RUNTIME_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
SERVICE = re.compile(r"[A-Za-z0-9_:.-]{1,255}")
CLASS_NAME = re.compile(r"[A-Za-z_$][\w$]{0,254}")
ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9._-]{1,253}|\[[0-9a-f:]+\]):(?P<port>[0-9]{1,5})")

# Asked for by name, so that nobody sends in the clear by forgetting something.
PLAINTEXT = "loopback"

RuntimeKind = Literal["workerd", "simulated"]
ActivitySource = Literal["tail", "heap"]


@dataclass(frozen=True, kw_only=True)
class RuntimeConfig:
    """One runtime process on this metal.

    Args:
        inspector: loopback ``IP:port``; empty for a simulated one.
        activity: where it is learned what ran: tail events, or heap numbers that change.
    """

    runtime_id: str
    kind: RuntimeKind
    inspector: str
    activity: ActivitySource
    isolates: tuple[IsolateConfig, ...]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The whole file.

    Args:
        listen: ``host:port`` of the EdgeAgent service; port 0 lets the OS choose.
        advertise: what the gateway is told; empty means the address bound.
        gateways: ``host:port`` of control plane replicas, tried in order.
        data_dir: the journal of open captures and the count of starts.
        report_interval_ms: how often sightings are reported when nothing urgent happens.
        activity_window_ms: how far back executions count for choosing an isolate.
        max_captures: profilers that may run at once on this metal.
        max_hold_ms: the longest an isolate's lock may be held at a time.
        heap_poll_interval_ms: how often heap numbers are read where no tail Worker tells what ran.
        warm_up_ms: length of the profile that an isolate gets when it begins to run; 0 for none.
        tail_listen: where tail Workers post; empty when there are none.
        tls: the certificate that names this metal; None for plain text, which was asked for by name
            and reaches nothing off this machine.
    """

    metal_id: str
    datacenter: str
    listen: str
    advertise: str
    gateways: tuple[str, ...]
    data_dir: Path
    report_interval_ms: int
    activity_window_ms: int
    max_captures: int
    max_hold_ms: int
    heap_poll_interval_ms: int
    warm_up_ms: int
    tail_listen: str
    tls: Files | None
    runtimes: tuple[RuntimeConfig, ...]


def load(path: Path) -> Settings:
    """Read the file, and the certificates it names.

    Raises:
        Fault: request_invalid, one entry per mistake; also for a file that is missing or no TOML.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _invalid([FieldError(pointer="/", message=f"can't be read: {error}")]) from None
    settings, mistakes = _parsed(text)
    if settings.tls is not None and settings.metal_id:
        name = identity.of_metal(settings.metal_id)
        try:
            certificates.read(settings.tls, name=name, at=datetime.now(UTC))
        except CertificatesInvalid as invalid:
            told = {one.pointer for one in mistakes}
            mistakes += [
                FieldError(pointer=f"/tls/{one.pointer}", message=one.message)
                for one in invalid.mistakes
                if f"/tls/{one.pointer}" not in told
            ]
    if mistakes:
        raise _invalid(mistakes)
    return settings


def parse(text: str) -> Settings:
    """The settings in a file's text; the files it names are not looked at.

    Raises:
        Fault: as ``load``.
    """
    settings, mistakes = _parsed(text)
    if mistakes:
        raise _invalid(mistakes)
    return settings


def _parsed(text: str) -> tuple[Settings, list[FieldError]]:
    mistakes: list[FieldError] = []
    try:
        root = Table("", tomllib.loads(text), mistakes)
    except tomllib.TOMLDecodeError as error:
        raise _invalid([FieldError(pointer="/", message=f"is no TOML: {error}")]) from None
    metal, tail = root.table("metal"), root.table("tail", optional=True)
    tls = root.table("tls", optional=True)
    if not tls:
        root.mistake("tls", f"is required: certificate, key, authority; or plaintext: {PLAINTEXT}")
    tail_listen = _address(tail, "listen", any_port=True) if tail else ""
    settings = Settings(
        metal_id=metal.text("id", ids.METAL_ID, "a metal's id"),
        datacenter=metal.text("datacenter", ids.METAL_ID, "a datacenter's name"),
        listen=_address(metal, "listen", any_port=True),
        advertise=_address(metal, "advertise", optional=True),
        gateways=metal.texts("gateways", ADDRESS, "host:port", least=1),
        data_dir=Path(metal.text("data_dir")),
        report_interval_ms=metal.number("report_interval_ms", 5_000, 100, 60_000),
        activity_window_ms=metal.number("activity_window_ms", 60_000, 1_000, 3_600_000),
        max_captures=metal.number("max_captures", 4, 1, 1_000),
        max_hold_ms=metal.number("max_hold_ms", 250, 10, 10_000),
        heap_poll_interval_ms=metal.number("heap_poll_interval_ms", 2_000, 100, 60_000),
        warm_up_ms=metal.number("warm_up_ms", 3_000, 0, 6_000),
        tail_listen=tail_listen,
        tls=_tls(tls) if tls else None,
        runtimes=tuple(
            _runtime(table, has_tail=bool(tail_listen)) for table in root.tables("runtime")
        ),
    )
    if tls and settings.tls is None:
        _keep_to_this_machine(metal, settings)
    for table in (metal, tail, tls, root):
        if table:
            table.nothing_else()
    _unique([one.runtime_id for one in settings.runtimes], "/runtime", mistakes)
    return settings, mistakes


def _tls(table: Table) -> Files | None:
    if table.text("plaintext", default=""):
        table.choice("plaintext", (PLAINTEXT,), PLAINTEXT)
        for name in ("certificate", "key", "authority"):
            if table.text(name, default=""):
                table.mistake(name, "can't be used in plain text: drop one of the two")
        return None
    return Files(
        certificate=Path(table.text("certificate", wanted="a PEM file, its first this metal's")),
        key=Path(table.text("key", wanted="a PEM file, the certificate's private key")),
        authority=Path(table.text("authority", wanted="a PEM file, whom to believe")),
    )


def _keep_to_this_machine(metal: Table, settings: Settings) -> None:
    said = f"must be a loopback address while tls.plaintext is {PLAINTEXT!r}"
    for name in ("listen", "advertise"):
        address = getattr(settings, name)
        if address and not is_loopback(address):
            metal.mistake(name, said)
    if not all(is_loopback(address) for address in settings.gateways):
        metal.mistake("gateways", said)


def _runtime(table: Table, *, has_tail: bool) -> RuntimeConfig:
    kind: RuntimeKind = table.choice("kind", ("workerd", "simulated"), "workerd")
    by_default: ActivitySource = "tail" if has_tail else "heap"
    activity: ActivitySource = table.choice("activity", ("tail", "heap"), by_default)
    inspector = (
        _loopback(table, "inspector") if kind == "workerd" else table.text("inspector", default="")
    )
    if activity == "tail" and not has_tail and kind == "workerd":
        table.mistake("activity", "tail needs a [tail] table that says where to listen")
    isolates = table.tables("isolate")
    config = RuntimeConfig(
        runtime_id=table.text("id", RUNTIME_ID, "lower-case letters, digits and hyphens"),
        kind=kind,
        inspector=inspector,
        activity=activity,
        isolates=tuple(_isolate(isolate) for isolate in isolates),
    )
    table.nothing_else()
    _unique([one.service for one in config.isolates], f"{table.pointer}/isolate", table.mistakes)
    return config


def _isolate(table: Table) -> IsolateConfig:
    namespaces: dict[str, str] = {}
    unique_keys: dict[str, str] = {}
    for namespace in table.tables("namespace"):
        namespace_id = namespace.text("id", ids.NAMESPACE_ID, "32 hex digits")
        namespaces[namespace_id] = namespace.text("class", CLASS_NAME, "a class name")
        wanted = "the runtime's unique key of the namespace"
        if unique_key := namespace.text("unique_key", ids.UNIQUE_KEY, wanted, default=""):
            unique_keys[namespace_id] = unique_key
        namespace.nothing_else()
    config = IsolateConfig(
        service=table.text("service", SERVICE, "a service name"),
        account_id=table.text("account_id", ids.ACCOUNT_ID, "32 hex digits"),
        worker_id=table.text("worker_id", ids.WORKER_ID, "32 hex digits"),
        worker_name=table.text("worker_name", ids.WORKER_NAME, "a worker's name"),
        version_id=table.text("version_id", VERSION_ID, "a lower-case UUID with hyphens"),
        also_accounts=table.texts("also_accounts", ids.ACCOUNT_ID, "32 hex digits"),
        namespaces=namespaces,
        unique_keys=unique_keys,
    )
    table.nothing_else()
    return config


def _address(table: Table, name: str, *, any_port: bool = False, optional: bool = False) -> str:
    address = table.text(name, ADDRESS, "host:port", default="" if optional else None)
    found = ADDRESS.fullmatch(address)
    if found and not (0 if any_port else 1) <= int(found["port"]) <= 65535:
        table.mistake(name, "has a port that does not exist")
    return address


def _loopback(table: Table, name: str) -> str:
    """An inspector can do anything to its isolates and asks nobody who they are: loopback alone."""
    address = _address(table, name)
    found = ADDRESS.fullmatch(address)
    if found:
        try:
            good = ipaddress.ip_address(found["host"].strip("[]")).is_loopback
        except ValueError:
            good = False
        if not good:
            table.mistake(name, "must be a loopback IP address and port")
    return address


def _unique(names: list[str], pointer: str, mistakes: list[FieldError]) -> None:
    twice = sorted({name for name in names if name and names.count(name) > 1})
    mistakes += [
        FieldError(pointer=pointer, message=f"{name!r} stands there twice") for name in twice
    ]


def _invalid(mistakes: list[FieldError]) -> Fault:
    told = "; ".join(f"{mistake.pointer}: {mistake.message}" for mistake in mistakes)
    return Fault(Reason.REQUEST_INVALID, f"The settings are wrong: {told}", fields=tuple(mistakes))
